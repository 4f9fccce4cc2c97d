"""Conversion of dense matrices to entries or blocks with their patterns."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from trnsci.core.arguments import floating, matrix, tensor
from trnsci.core.errors import FlagError
from trnsci.core.numbers.conversions import array_of
from trnsparse._patterns.index import expanded, on_host
from trnsparse._patterns.pattern import Pattern


def check_threshold(function: str, threshold: float) -> None:
    """Raise for a threshold that is negative or NaN."""
    if not threshold >= 0:
        raise FlagError(f"{function}: threshold must be at least 0, got {threshold}")


def nonzero_entries(function: str, dense: Tensor, threshold: float) -> tuple[Tensor, Pattern]:
    """Return the entries of a matrix with a magnitude above a threshold, and their pattern."""
    _check(function, dense, threshold)
    rows, columns = dense.shape
    flat = _places(_kept(dense.detach(), threshold))
    starts = torch.arange(rows + 1, dtype=torch.int64, device=dense.device) * columns
    pointers = torch.searchsorted(flat, starts)
    indices = flat - starts[:-1][expanded(pointers, flat.shape[0])]
    pattern = Pattern(pointers, indices, (rows, columns))
    pattern.known_canonical = True
    return dense.reshape(-1).index_select(0, flat), pattern


def nonzero_blocks(
    function: str, dense: Tensor, size: int, threshold: float
) -> tuple[Tensor, Pattern]:
    """Return the blocks of a matrix with an entry above a threshold, and their pattern."""
    _check(function, dense, threshold)
    grid = (-(-dense.shape[0] // size), -(-dense.shape[1] // size))
    padded = torch.nn.functional.pad(
        dense, (0, grid[1] * size - dense.shape[1], 0, grid[0] * size - dense.shape[0])
    )
    tiles = padded.reshape(grid[0], size, grid[1], size)
    kept = _kept(tiles.detach(), threshold).any(3).any(1)
    rows, columns = kept.nonzero(as_tuple=True)
    pointers = torch.zeros(grid[0] + 1, dtype=torch.int64, device=dense.device)
    torch.cumsum(kept.sum(1), 0, out=pointers[1:])
    return tiles.transpose(1, 2)[rows, columns], Pattern(pointers, columns, grid)


def no_zeros(values: Tensor) -> bool:
    """Return whether no entry is zero."""
    if on_host(values):
        return bool((array_of(values.detach()) != 0).all())
    return bool(values.detach().ne(0).all())


def above(magnitudes: Tensor, threshold: float) -> Tensor:
    """Return a mask of the magnitudes above a threshold; NaN counts as above."""
    return (magnitudes <= threshold).logical_not()


def _kept(dense: Tensor, threshold: float) -> Tensor:
    return dense.ne(0) if threshold == 0 else above(dense.abs(), threshold)


def _check(function: str, dense: Tensor, threshold: float) -> None:
    tensor(function, "the matrix", dense)
    matrix(function, "the matrix", dense, batches=False)
    floating(function, "the matrix", dense)
    check_threshold(function, threshold)


def _places(mask: Tensor) -> Tensor:
    """Return the flat indices of true elements; NumPy is faster than torch."""
    if on_host(mask):
        return torch.from_numpy(np.flatnonzero(array_of(mask)))
    return mask.reshape(-1).nonzero().squeeze(-1)
