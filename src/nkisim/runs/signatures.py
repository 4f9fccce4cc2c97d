"""Signatures of calls: arguments by shapes, dtypes and constants, without their values."""

from __future__ import annotations

from enum import Enum
from types import FunctionType
from typing import Any

import numpy as np

from nkisim.dtypes import as_dtype
from nkisim.memory import require_dtype
from nkisim.objects import parts_of

_CONSTANTS = (int, float, str, type(None), type, Enum, np.generic, np.dtype, FunctionType)
"""Types of arguments that are part of a call's key by type and value."""


def array_form(value: Any) -> tuple[tuple[int, ...], str] | None:
    """Return shape and name of the dtype of an array or a spec; None for anything else."""
    if isinstance(value, _CONSTANTS):
        return None
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None:
        return None
    return tuple(map(int, shape)), str(as_dtype(dtype) or dtype).removeprefix("torch.")


def without_values(name: str, value: Any) -> Any:
    """Return an array without memory of its own in place of an array, and any other value as is."""
    found = array_form(value)
    if found is None:
        return value
    shape, dtype = found
    kind = require_dtype(dtype, f"argument {name}")
    return np.broadcast_to(np.zeros((), np.dtype(str(kind))), shape)


def key_of(value: Any) -> Any:
    """Return a hashable value that is equal for arguments with equal outlines.

    Raises:
        TypeError: The value is neither an array nor a constant.
    """
    found = array_form(value)
    if found is not None:
        return found
    parts = parts_of(value)
    if parts or isinstance(value, (tuple, list, dict)):
        return type(value), tuple((way, key_of(part)) for way, part in parts)
    if not isinstance(value, _CONSTANTS):
        raise TypeError(f"an argument of type {type(value).__name__} is no key")
    return type(value), repr(value) if isinstance(value, float) else value
