"""Arithmetic on stored bfloat16 arrays, where that gives the bits of the way over float32.

torch, when the process has it loaded anyway, computes such operations in float32 and rounds once,
which is what the engines do, in a single pass over the memory.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np

from nkisim.compiled.codes import OPERATIONS
from nkisim.dtypes.convert import TORCH_SERIAL_ELEMENTS, suits_torch
from nkisim.dtypes.formats import bfloat16

__all__ = ["BFLOAT16_OPERATIONS", "bfloat16_arithmetic"]

BFLOAT16_OPERATIONS = OPERATIONS
"""Operations that have such a kernel."""

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
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 65536, (2, 1 << 17), dtype=np.uint16)
    # Subnormals, ties and cancellations are rare among random patterns: let some pairs be close.
    bits[1, ::3] = bits[0, ::3] ^ rng.integers(0, 64, bits[0, ::3].shape, dtype=np.uint16)
    bits[:, ::5] &= 0x80FF
    a, b = bits.view(bfloat16.numpy)
    function = getattr(np, name)
    with np.errstate(all="ignore"):
        wide = function(a.astype(np.float32), b.astype(np.float32))
        expected = wide.astype(bfloat16.numpy)
    number = ~np.isnan(wide)
    out = np.empty_like(a)
    _compute_with_torch(name, a, b, out)
    return np.array_equal(out.view(np.uint16)[number], expected.view(np.uint16)[number])
