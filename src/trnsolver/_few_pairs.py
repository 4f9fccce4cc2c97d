"""A few eigenpairs of one matrix on a CPU.

LAPACK computes a few of many for less than all, which torch does not offer. SciPy has it; its
routine is called as it is, since SciPy's function around it takes a twentieth of the time that
matrices of order 256 do.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from trnsci.core.arrays import array_of

__all__ = ["few_pairs"]

_ROUTINES = {
    torch.float32: "ssyevr",
    torch.float64: "dsyevr",
    torch.complex64: "cheevr",
    torch.complex128: "zheevr",
}
# Numbers to work on for each row: columns of the blocks that reflections are gathered in, and one.
_ROOM = 33


def few_pairs(a: Tensor, first: int, last: int) -> tuple[Tensor, Tensor] | None:
    """Return the pairs from one place to another, or None if they were not found.

    Args:
        a: One matrix of finite numbers, of which the lower triangle is read.
        first: Place of the first of the ascending values, counted from zero.
        last: Place of the last one.
    """
    routine = _routine(a.dtype)
    if routine is None:
        return None
    matrix, lower = array_of(a), 1
    if not a.is_complex() and matrix.flags.c_contiguous:
        # LAPACK has matrices by columns, where the lower triangle of ours is the upper one; what
        # it destroys is then copied as it is.
        matrix, lower = matrix.T, 0
    count, room = last - first + 1, _ROOM * len(matrix)
    # By place: vectors too, places, the triangle, no interval, from 1, no other precision.
    w, v, found, _, failed = routine(
        matrix, 1, "I", lower, 0.0, 1.0, first + 1, last + 1, 0.0, room
    )
    if failed or found != count:
        return None
    return torch.from_numpy(w[:count]), torch.from_numpy(v)


@cache
def _routine(dtype: torch.dtype) -> Any:
    try:
        from scipy.linalg import lapack
    except ImportError:
        return None
    return getattr(lapack, _ROUTINES[dtype])
