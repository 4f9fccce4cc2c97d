"""A few of many eigenpairs: which ones are meant, and how they are found on a CPU.

LAPACK computes a few for less than all, which torch does not offer. SciPy has it; its routine is
called as it is, since SciPy's function around it takes a twentieth of the time that matrices of
order 256 do.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from trnsci.core.arguments import whole
from trnsci.core.arrays import array_of
from trnsci.core.errors import FlagError

__all__ = ["few_pairs", "largest_magnitude", "places_of"]

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


def places_of(
    function: str, n: int, k: int | None, which: str, subset: tuple[int, int] | None
) -> tuple[int, int]:
    """Return the first and the last place of the values that are wanted."""
    if subset is not None:
        if k is not None:
            raise FlagError(f"{function}: k must be None where subset is given")
        if not isinstance(subset, (tuple, list)) or len(subset) != 2:
            raise FlagError(f"{function}: subset must be two places, got {subset!r}")
        first, last = (whole(function, "subset", place, 0, n - 1, FlagError) for place in subset)
        if last < first:
            raise FlagError(f"{function}: subset must ascend, got {tuple(subset)}")
        return first, last
    count = whole(function, "k", k, 1, n, FlagError)
    return (0, count - 1) if which == "smallest" else (n - count, n - 1)


def largest_magnitude(w: Tensor, v: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return k pairs of largest magnitude, values ascending."""
    places = w.abs().argsort(dim=-1, descending=True)[..., :k].sort(-1).values
    columns = places.unsqueeze(-2).expand(*v.shape[:-1], k)
    return w.gather(-1, places), v.gather(-1, columns)


@cache
def _routine(dtype: torch.dtype) -> Any:
    try:
        from scipy.linalg import lapack
    except ImportError:
        return None
    return getattr(lapack, _ROUTINES[dtype])
