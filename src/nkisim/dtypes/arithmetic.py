"""Arithmetic on stored bfloat16 arrays, where that gives the bits of the way over float32.

Operations are computed in float32 and rounded once, which is what the engines do, in a single pass
over the memory: on large arrays by torch, when the process has it loaded anyway, on small ones by
the loops that ml_dtypes adds to NumPy's ufuncs, for these cost one call instead of four.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np

from nkisim.compiled.codes import OPERATIONS
from nkisim.dtypes.convert import TORCH_SERIAL_ELEMENTS, suits_torch
from nkisim.dtypes.formats import bfloat16

__all__ = ["BFLOAT16_OPERATIONS", "BFLOAT16_SMALL", "bfloat16_arithmetic", "takes_bfloat16"]

BFLOAT16_OPERATIONS = OPERATIONS
"""Operations that have such a kernel."""

BFLOAT16_SMALL = 4096
"""Elements from which on NumPy is as fast in float32, conversions included."""

_NAN_ABOVE = {"int16": 0x7F80, "uint16": 0xFF80}
"""Bit patterns above these, read as the integer type, are NaN of one sign."""


def bfloat16_arithmetic(name: str, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    """Write ``a <name> b`` of stored bfloat16 arrays to ``out``; False where it cannot be done so.

    That is for small arrays, for rows that are apart, without torch and where it differs from
    NumPy; and for results with NaN, whose sign and payload torch treats in its own way. ``out`` is
    then undefined. Runs of kernels have NumPy's floating-point warnings off, which this relies on.
    """
    if not (suits_torch(a) and suits_torch(b) and suits_torch(out)):
        return False
    if not _torch_agrees(name):
        return False
    _compute_with_torch(name, a, b, out)
    return not any(out.view(kind).max() > limit for kind, limit in _NAN_ABOVE.items())


def _compute_with_torch(name: str, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    torch: Any = sys.modules["torch"]
    function = getattr(torch, name)
    left, right, target = (
        torch.from_numpy(x.view(np.int16).reshape(-1)).view(torch.bfloat16) for x in (a, b, out)
    )
    pieces = (x.split(TORCH_SERIAL_ELEMENTS) for x in (left, right, target))
    for a_piece, b_piece, out_piece in zip(*pieces, strict=True):
        function(a_piece, b_piece, out=out_piece)


@cache
def _torch_agrees(name: str) -> bool:
    """Tell whether torch gives the bits here that float32 and one rounding give.

    It picks its instructions by processor, and some flush subnormals or exchange zeros.
    """
    a, b, expected = _trial(getattr(np, name), 1 << 17)
    out = np.empty_like(a)
    _compute_with_torch(name, a, b, out)
    number = ~np.isnan(expected)
    return out[number].tobytes() == expected[number].tobytes()


@cache
def takes_bfloat16(ufunc: Any) -> bool:
    """Tell whether a ufunc gives, for bfloat16, the bits that float32 and one rounding give.

    For two NaNs it may give another one of them, as it may in float32.
    """
    if ufunc not in (np.add, np.subtract, np.multiply):
        return False
    a, b, expected = _trial(ufunc, 1 << 14)  # a kernel may be shorter than a longer trial
    with np.errstate(all="ignore"):
        found = ufunc(a, b)
        certain = ~(np.isnan(a) & np.isnan(b))
    same: bool = found[certain].tobytes() == expected[certain].tobytes()
    return found.dtype == bfloat16.numpy and same


def _trial(ufunc: Any, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two arrays of bfloat16 for a trial of an operation, and what it should give."""
    # As good as random, without the time that NumPy takes to load its generators.
    mixed = np.arange(3 * count, dtype=np.uint32)
    for factor in (0x9E37_79B1, 0x85EB_CA6B):
        mixed *= np.uint32(factor)
        mixed ^= mixed >> np.uint32(15)
    patterns = (mixed >> np.uint32(8)).astype(np.uint16).reshape(3, count)
    bits, close = patterns[:2], patterns[2]
    # Subnormals, ties and cancellations are rare among random patterns: let some pairs be close.
    bits[1, ::3] = bits[0, ::3] ^ close[::3] & 63
    bits[:, ::5] &= 0x80FF
    a, b = bits.view(bfloat16.numpy)
    with np.errstate(all="ignore"):
        wide = ufunc(a.astype(np.float32), b.astype(np.float32))
        return a, b, wide.astype(bfloat16.numpy)
