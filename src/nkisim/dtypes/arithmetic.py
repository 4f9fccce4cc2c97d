"""Arithmetic on stored bfloat16 arrays, where that gives the bits of the way over float32.

numba and torch, when the process has one of them loaded anyway, compute such operations in float32
and round once, which is what the engines do, in a single pass over the memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from nkisim.dtypes.convert import TORCH_SERIAL_ELEMENTS, suits_numba, suits_torch
from nkisim.dtypes.formats import bfloat16

__all__ = ["BFLOAT16_OPERATIONS", "bfloat16_arithmetic"]

BFLOAT16_OPERATIONS = ("add", "subtract", "multiply", "maximum", "minimum")
"""Operations that have such a kernel."""

_BITS = np.dtype(np.uint16)

Compute = Callable[[str, np.ndarray, np.ndarray, np.ndarray], None]

_NAN_ABOVE = {"int16": 0x7F80, "uint16": 0xFF80}
"""Bit patterns above these, read as the integer type, are NaN of one sign."""


def bfloat16_arithmetic(name: str, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    """Write ``a <name> b`` of stored bfloat16 arrays to ``out``; False where it cannot be done so.

    That is for small arrays, for arrays with strided rows, without numba and torch, and where they
    differ from NumPy. torch also refuses rows that are apart, and results with NaN, whose sign and
    payload it treats in its own way; ``out`` is then undefined. Runs of kernels have NumPy's
    floating-point warnings off, which this relies on.
    """
    if suits_numba(out):
        compiled = _compiled(name)
        if compiled is not None and _dense(a) and _dense(b) and _dense(out):
            compiled(a.view(_BITS), b.view(_BITS), out=out.view(_BITS))
            return True
    if not (suits_torch(a) and suits_torch(b) and suits_torch(out)):
        return False
    if not _agrees(_compute_with_torch, name):
        return False
    _compute_with_torch(name, a, b, out)
    return not any(out.view(kind).max() > limit for kind, limit in _NAN_ABOVE.items())


def _dense(array: np.ndarray) -> bool:
    # A compiled ufunc takes its result for dense wherever its inputs are.
    return array.ndim == 2 and array.strides[1] == array.itemsize <= array.strides[0]


@cache
def _compiled(name: str) -> np.ufunc | None:
    """Return the ufunc of an operation, None where it differs from NumPy."""
    from nkisim.dtypes import compiled

    operation = compiled.operation(name)

    def compute(name: str, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        operation(a.view(_BITS), b.view(_BITS), out=out.view(_BITS))

    return operation if _agrees(compute, name) else None


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
def _agrees(compute: Compute, name: str) -> bool:
    """Tell whether ``compute`` gives the bits here that float32 and one rounding give.

    Both pick their instructions by processor, and some flush subnormals or exchange zeros.
    """
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 65536, (2, 1 << 17), dtype=np.uint16)
    # Subnormals, ties and cancellations are rare among random patterns: let some pairs be close.
    bits[1, ::3] = bits[0, ::3] ^ rng.integers(0, 64, bits[0, ::3].shape, dtype=np.uint16)
    bits[:, ::5] &= 0x80FF
    a, b = bits.view(bfloat16.numpy)[:, None]
    function = getattr(np, name)
    with np.errstate(all="ignore"):
        wide = function(a.astype(np.float32), b.astype(np.float32))
        expected = wide.astype(bfloat16.numpy)
    number = ~np.isnan(wide)
    out = np.empty_like(a)
    with np.errstate(all="ignore"):
        compute(name, a, b, out)
    return np.array_equal(out.view(np.uint16)[number], expected.view(np.uint16)[number])
