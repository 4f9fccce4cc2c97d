"""Validation of requested shapes, dtypes and buffers."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from nkisim.diagnostics import flag
from nkisim.dtypes import DType, as_dtype, float8_e8m0fnu, int64
from nkisim.memory import rules
from nkisim.memory.region import MemoryRegion
from nkisim.versions import has, in_force

_LATER = (float8_e8m0fnu, int64)
"""Formats that the first version does not have."""


def require_region(region: Any, where: str) -> MemoryRegion:
    """Return ``region`` if it is a buffer object, or raise A014."""
    if type(region) is MemoryRegion:
        return region
    flag(
        rules.BUFFER_STRING,
        f"{where}: buffer must be a buffer object, got {region!r}",
        instruction=where,
        seen=repr(region),
        allowed="nl.sbuf, nl.psum, nl.shared_hbm, nl.private_hbm",
        fix=f"buffer=nl.{region}"
        if isinstance(region, str)
        else "pass nl.sbuf, nl.psum or an nl HBM buffer",
    )
    raise AssertionError("unreachable: A014 always raises")


def require_dtype(dtype: Any, where: str) -> DType:
    """Return the supported dtype that ``dtype`` names, or raise D001; foreign dtypes are D045."""
    if type(dtype) is DType and dtype not in _LATER:
        return dtype
    found = as_dtype(dtype)
    if found in _LATER and not has(in_force(), "nki.language", found):
        found = None
    if found is None:
        flag(
            rules.UNSUPPORTED_DTYPE,
            f"{where}: dtype {dtype} is not supported by NKI {in_force()}",
            seen=dtype,
            allowed="8-, 16- and 32-bit integers, bool, float8, float16, bfloat16, tfloat32, "
            "float32 and x4 packs",
            fix="cast on the host to a supported type, such as float32 or int32",
        )
        raise AssertionError("unreachable: D001 always raises")
    if not isinstance(dtype, str):
        flag(
            rules.FOREIGN_DTYPE,
            f"{where}: dtype is {dtype!r}, not a dtype of nki.language",
            seen=repr(dtype),
            fix=f"pass nl.{found}",
        )
    return found


def is_tuple_of_ints(shape: Any) -> TypeGuard[tuple[int, ...]]:
    """Return whether something is a tuple of integers; 8.0 and True are not integers."""
    if type(shape) is not tuple:
        return False
    for extent in shape:  # noqa: SIM110, for all() costs twice as much
        if type(extent) is not int:
            return False
    return True


def whole_shape(shape: Any, where: str) -> tuple[int, ...]:
    """Return a shape as a tuple of integers; whole floats are accepted with a finding."""
    if is_tuple_of_ints(shape) and len(shape) <= 5 and min(shape, default=1) > 0:
        return shape
    entries = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    extents: list[int] = []
    for entry in entries:
        if isinstance(entry, (float, np.floating)):
            flag(
                rules.FRACTIONAL_EXTENT,
                f"{where}: shape entry {entry} is a float",
                instruction=where,
                seen=entry,
                allowed="an integer",
                fix="use // after asserting divisibility",
            )
            if not entry.is_integer():
                raise TypeError(f"{where}: shape entry {entry} is not an integer")
        elif not isinstance(entry, (int, np.integer)) and hasattr(entry, "__index__"):
            flag(
                rules.REGISTER_EXTENT,
                f"{where}: shape entry {len(extents)} is a {type(entry).__name__}",
                instruction=where,
                seen=repr(entry),
                allowed="an integer known at compile time",
                fix="allocate the largest tile, and use a register only as an offset or a bound",
            )
        extents.append(int(entry))
    result = tuple(extents)
    if any(extent < 0 for extent in result):
        raise ValueError(f"{where}: negative extent in shape {result}")
    if 0 in result:
        flag(
            rules.EMPTY_DIMENSION,
            f"{where}: shape {result} has an empty dimension",
            instruction=where,
            seen=result,
            fix="skip the iteration when the tile is empty",
        )
    if len(result) > 5:
        flag(
            rules.RANK_LIMIT,
            f"{where}: shape {result} has {len(result)} dimensions",
            instruction=where,
            seen=len(result),
            allowed="at most 5",
            fix="merge contiguous dimensions",
            cause=result,
        )
    return result
