"""Whether the functions that compute and check a kernel are still those that were loaded."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

_CODE = (FunctionType, BuiltinFunctionType, np.ufunc, type, property, staticmethod, classmethod)
_OTHERS = ("numpy", "hashlib", "inspect", "math", "builtins")


class Seal:
    """The functions and classes of nkisim, NumPy and Python as they are now."""

    def __init__(self) -> None:
        self._names = list(_names())
        self._codes = list({id(f): (f, _parts(f)) for *_, f in self._names if _is_code(f)}.values())

    def broken(self) -> str:
        """Return the name of something that is not what it was; empty if all is."""
        for owner, names, key, was in self._names:
            if names.get(key) is not was:
                return f"{owner}.{key}"
        for function, was in self._codes:
            if any(a is not b for a, b in zip(_parts(function), was, strict=True)):
                return f"{function.__module__}.{function.__qualname__}"
        return ""


def _is_code(value: Any) -> bool:
    return isinstance(value, FunctionType)


def _names() -> Iterator[tuple[str, Mapping[str, Any], str, Any]]:
    """Yield the name of each module and class, its names, and each function or class in them."""
    seen: set[type] = set()
    for name, module in [*sys.modules.items(), ("builtins", builtins)]:
        root = name.partition(".")[0]
        if root not in ("nkisim", "nki") and name not in _OTHERS:
            continue
        for key, value in list(vars(module).items()):
            if not isinstance(value, _CODE):
                continue
            yield name, vars(module), key, value
            if isinstance(value, type) and value.__module__.startswith("nkisim"):
                if value not in seen:
                    members = vars(value)
                    parts = [(k, v) for k, v in members.items() if isinstance(v, _CODE)]
                    yield from ((value.__qualname__, members, k, v) for k, v in parts)
                seen.add(value)


def _parts(function: FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__
