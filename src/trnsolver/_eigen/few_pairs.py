"""Subsets of eigenpairs: their indices in the ascending values, and LAPACK's routine."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.arguments import whole
from trnsci.core.errors import FlagError
from trnsci.core.numbers.conversions import array_of


def few_pairs(a: Tensor, first: int, last: int) -> tuple[Tensor, Tensor] | None:
    """Return the pairs in a range of indices, or None without convergence.

    torch has no routine for a subset of the pairs.

    Args:
        a: One finite matrix on a CPU, of which the lower triangle is read.
        first: Index of the first of the ascending values, from zero.
        last: Index of the last one, included.
    """
    from scipy.linalg import LinAlgError, eigh

    try:
        w, v = eigh(array_of(a), subset_by_index=(first, last), driver="evr", check_finite=False)
    except LinAlgError:
        return None
    return torch.from_numpy(w), torch.from_numpy(v)


def places_of(
    function: str, n: int, k: int | None, which: str, subset: tuple[int, int] | None
) -> tuple[int, int]:
    """Return the first and the last index of the requested values."""
    if subset is not None:
        if k is not None:
            raise FlagError(f"{function}: k must be None if subset is given")
        if not isinstance(subset, (tuple, list)) or len(subset) != 2:
            raise FlagError(f"{function}: subset must be two indices, got {subset!r}")
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
