"""Values of a program as JSON: numbers, texts, and lists that begin with the kind of a value.

    128                                  a number, a text, None
    ["d", "bfloat16"]                    a dtype; "D" and "N" are NumPy's forms of it
    ["e", "engine", "vector"]            a member of an enum
    ["r", 7]                             the object with number 7 of the tape
    ["x", 3, 0, 128]                     0 + 128 * (index of loop 3)
    ["s", ["r", 7], None, None]          a slice

Only what a kernel can pass to NKI has a form. Decoding makes values of these kinds and nothing
else, whatever the data is.
"""

from __future__ import annotations

import base64
import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any

import numpy as np

from nkisim.collectives.groups import ReplicaGroup, rg_partition_op
from nkisim.dtypes import DTYPES, DType, as_dtype
from nkisim.memory import DynSlice, MemoryRegion
from nkisim.spec import enums
from nkisim.spec.ops import OPS, Op
from nkisim.typing import TensorSpec


class ProgramError(ValueError):
    """A kernel that no program can hold, data that is no program, or a call of another kind."""


@contextlib.contextmanager
def malformed() -> Iterator[None]:
    """Raise ProgramError for the errors of data that describes nothing."""
    try:
        yield
    except ProgramError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ProgramError(f"no program: {type(error).__name__}: {error}") from error


_PLAIN = (int, float, str, bool, type(None))
_ENUMS: dict[str, type[Enum]] = {
    kind.__name__: kind
    for kind in (*vars(enums).values(), MemoryRegion, rg_partition_op)
    if isinstance(kind, type) and issubclass(kind, Enum)
}
_NONFINITE = ("nan", "inf", "-inf")
_ARRAYS = "biuf"

AFFINE, REFERENCE = "x", "r"
"""Kinds of the integers that follow a loop's index, and of an object of the tape."""


def encoded(value: Any, number_of: Callable[[Any], int | None]) -> Any:
    """Return a value as JSON.

    Args:
        value: The value.
        number_of: Returns the number of an object of the tape, None for all other values.

    Raises:
        ProgramError: The value has no form, or ``number_of`` raised it.
    """
    kind = type(value)
    if kind in _PLAIN:
        return ["f", str(value)] if kind is float and not math.isfinite(value) else value
    number = number_of(value)
    if number is not None:
        return [REFERENCE, number]

    def inner(part: Any) -> Any:
        return encoded(part, number_of)

    if kind is tuple or kind is list:
        return ["t" if kind is tuple else "l", *map(inner, value)]
    if kind is slice or kind is range:
        bounds = (value.start, value.stop, value.step)
        return ["s" if kind is slice else "range", *map(inner, bounds)]
    if kind is DynSlice:
        return ["ds", inner(value.start), inner(value.size)]
    if kind is dict:
        return ["m", *(["t", inner(key), inner(part)] for key, part in value.items())]
    if kind is ReplicaGroup:
        return ["R", inner(value.groups)]
    if kind is TensorSpec:
        return ["T", inner(value.extents), inner(value.dtype)]
    if kind is Op:
        return ["o", value.name]
    if value is Ellipsis:
        return ["..."]
    if _ENUMS.get(kind.__name__) is kind:
        return ["e", kind.__name__, value.name]
    if isinstance(value, (np.ndarray, np.generic)):
        return _array(value)
    if kind is np.ufunc and getattr(np, name := str(value.__name__), None) is value:
        return ["u", name]
    if isinstance(value, (DType, type, np.dtype)) and (dtype := as_dtype(value)) is not None:
        return ["d" if kind is DType else "D" if isinstance(value, type) else "N", str(dtype)]
    for plain in (bool, int, float, str):  # a member of an enum of the kernel's own, say
        if isinstance(value, plain):
            return inner(plain(value))
    if isinstance(value, (tuple, list)):
        return ["t" if isinstance(value, tuple) else "l", *map(inner, value)]
    raise ProgramError(f"a value of type {kind.__name__} is not one of NKI's")


def _array(value: np.ndarray | np.generic) -> Any:
    of_numpy, dtype = value.dtype.isbuiltin != 2, as_dtype(value.dtype)
    if value.dtype.kind not in _ARRAYS if of_numpy else dtype is None:
        raise ProgramError(f"an array of {value.dtype} is not one of NKI's")
    text = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
    name = value.dtype.str if of_numpy else str(dtype)
    return ["a", name, ["l", *value.shape], text, isinstance(value, np.generic)]


def decoded(data: Any, objects: Mapping[int, Any], indices: Mapping[int, int]) -> Any:
    """Return the value of JSON data.

    Args:
        data: The data.
        objects: The objects of the tape by number.
        indices: The present index of each loop by number.

    Raises:
        ProgramError: The data describes no value.
    """
    if type(data) is not list:
        if type(data) not in _PLAIN:
            raise ProgramError(f"a value of type {type(data).__name__}")
        return data
    kind = data[0]
    if kind == REFERENCE:
        return objects[data[1]]
    if kind == AFFINE:
        _, loop, first, step = data
        return (
            _whole(decoded(first, objects, indices))
            + _whole(decoded(step, objects, indices)) * indices[loop]
        )
    make = _MAKERS.get(kind)
    if make is None:
        raise ProgramError(f"no value is of kind {str(kind)[:20]!r}")
    return make([decoded(part, objects, indices) for part in data[1:]])


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ProgramError("only integers follow the index of a loop")
    return value


def _text(value: Any, accepted: Any) -> str:
    if type(value) is not str or value not in accepted:
        raise ProgramError(f"{str(value)[:40]!r} is no name that a program can hold")
    return value


def _dtype(parts: list[Any]) -> DType:
    return DTYPES[_text(parts[0], DTYPES)]


def _member(parts: list[Any]) -> Enum:
    kind = _ENUMS[_text(parts[0], _ENUMS)]
    return kind[_text(parts[1], kind.__members__)]


def _ufunc(parts: list[Any]) -> Any:
    found = getattr(np, _text(parts[0], dir(np)))
    if not isinstance(found, np.ufunc):
        raise ProgramError(f"{parts[0]!r} is no operator")
    return found


def _elements(parts: list[Any]) -> Any:
    name, shape, text, scalar = parts
    if type(name) is not str or type(text) is not str or type(shape) is not list:
        raise ProgramError("an array without its dtype, shape or elements")
    dtype = np.dtype(DTYPES[name].numpy if name in DTYPES else name)
    if name not in DTYPES and dtype.kind not in _ARRAYS:
        raise ProgramError(f"an array of {dtype}")
    found = np.frombuffer(base64.b64decode(text, validate=True), dtype).reshape(shape).copy()
    return found[()] if scalar else found


_MAKERS: Mapping[str, Callable[[list[Any]], Any]] = {
    "f": lambda parts: float(_text(parts[0], _NONFINITE)),
    "t": tuple,
    "l": list,
    "s": lambda parts: slice(*parts),
    "range": lambda parts: range(*parts),
    "ds": lambda parts: DynSlice(*parts),
    "m": dict,
    "R": lambda parts: ReplicaGroup(*parts),
    "T": lambda parts: TensorSpec(*parts),
    "o": lambda parts: OPS[_text(parts[0], OPS)],
    "...": lambda parts: Ellipsis,
    "e": _member,
    "d": _dtype,
    "D": lambda parts: np.dtype(_dtype(parts).numpy).type,
    "N": lambda parts: np.dtype(_dtype(parts).numpy),
    "u": _ufunc,
    "a": _elements,
}
