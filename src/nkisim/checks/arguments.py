"""Checks of a kernel's arguments: the types that the front end accepts from Python."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from nkisim.diagnostics import Place, declare, flag
from nkisim.dtypes import DType
from nkisim.memory import MemoryRegion
from nkisim.objects import NKIObject
from nkisim.spec import Op, as_op
from nkisim.versions import is_traced
from nkisim.versions.rules import held, is_off

ARGUMENT_TYPE = declare(
    "L057",
    "argument-type",
    "A kernel argument is of a type that the front end does not accept: a type or a scalar of "
    "NumPy or torch, a generator, a slice, a function, an object that is not an NKIObject.",
    "the argument cannot be imported into the compiler",
    detector="arguments",
)

INHERITED = declare(
    "L069",
    "inherited-argument",
    "A kernel argument is an object of a class that does not derive from NKIObject directly.",
    "the compiler imports classes without other bases, and copies no inherited state",
    severity="warning",
    detector="arguments",
)

_PLAIN = (bool, int, float, str, type(None), Enum, Op, DType, MemoryRegion, NKIObject, np.ndarray)
_CODE = (ModuleType, FunctionType, MethodType, BuiltinFunctionType)


def check_arguments(given: Mapping[str, Any], place: Place) -> None:
    """Flag arguments that the front end does not accept; ``place`` is the kernel's definition."""
    for name, value in given.items():
        _check(name, value, place)


def _check(name: str, value: Any, place: Place) -> None:
    if isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            _check(f"{name}[{i}]", part, place)
    elif isinstance(value, dict):
        for key, part in value.items():
            _check(f"{name}[{key!r}]", part, place)
    else:
        if isinstance(value, NKIObject) and not is_off("L069"):
            _check_class(name, type(value), place)
        fix = _unkeyed(value) if is_traced() else _refused(value)
        if fix:
            kind = type(value)
            flag(
                ARGUMENT_TYPE,
                f"argument {name} is of type {kind.__module__}.{kind.__qualname__}",
                operand=name,
                seen=repr(value)[:80],
                allowed="tensors, nl dtypes, int, float, bool, str, None, tuples, NKIObject",
                fix=fix,
                place=place,
                severity=held("L057").level,
            )


def _unkeyed(value: Any) -> str:
    """Return the fix for an object that cannot be a key of the compilation cache."""
    if not _refused(value) or isinstance(value, (np.generic, np.dtype, slice, range, type, *_CODE)):
        return ""
    hashes: Any = type(value).__hash__
    if hashes in (None, object.__hash__) and not hasattr(value, "__array__"):
        return "give its class __eq__ and __hash__, such as @dataclass(frozen=True)"
    return ""


def _check_class(name: str, kind: type, place: Place) -> None:
    """Flag an object of a class that has other bases than NKIObject alone."""
    if kind.__bases__ == (NKIObject,) or kind.__module__.partition(".")[0] == "nkisim":
        return
    bases = ", ".join(base.__name__ for base in kind.__bases__)
    flag(
        INHERITED,
        f"argument {name} is of class {kind.__name__}, which has base {bases}",
        operand=name,
        seen=f"class {kind.__name__}({bases})",
        allowed="a class whose only base is nl.NKIObject",
        fix=f"derive {kind.__name__} from nl.NKIObject, with all fields in it",
        place=place,
    )


def _refused(value: Any) -> str:
    """Return the fix for a value that the front end does not accept, empty for an accepted one."""
    torch, random = (sys.modules.get(name) for name in ("torch", "numpy.random"))
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return "pass a type of nl, such as nl.float32"
    if torch is not None and isinstance(value, torch.dtype):
        return "pass a type of nl, such as nl.float32"
    if isinstance(value, _PLAIN) or as_op(value) is not None:
        return ""
    if isinstance(value, np.generic):
        return "convert it with int(...) or float(...)"
    if isinstance(value, (slice, range)):
        return "pass start and stop as integers"
    if random is not None and isinstance(value, (random.Generator, random.RandomState)):
        return "draw on the host and pass the array"
    if isinstance(value, _CODE):
        own = (getattr(value, "__module__", None) or "").partition(".")[0] == "nkisim"
        return "" if own else "pass a name or a flag, and choose the function inside the kernel"
    if isinstance(value, type) or hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return ""
    return "derive its class from nl.NKIObject, or pass its fields"
