"""The four-step FFT over ranks: choice of the factors, parts of ranks, exchanges between them.

A vector of ``rows * columns`` points is read as a matrix in row-major order. Each rank holds either
consecutive points of the vector, as ``torch.chunk`` splits it, or consecutive columns of the
matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnfft._kernels.angles import roots
from trnsci.core.distributed.collectives import all_to_all
from trnsci.core.distributed.groups import Ranks
from trnsci.core.distributed.layout import even_offsets, even_sizes
from trnsci.core.distributed.predictions import messages_between

_offsets = lru_cache(even_offsets)
_BLOCK = 2**16  # twiddle factors at a time, in float64


@dataclass(frozen=True)
class Matrix:
    """A vector as a matrix, on a number of ranks."""

    rows: int
    columns: int
    ranks: int

    def points_of(self, rank: int) -> range:
        """Return the points of a rank that holds part of the vector."""
        return _part(self.rows * self.columns, self.ranks, rank)

    def columns_of(self, rank: int) -> range:
        """Return the columns of a rank that holds part of the matrix."""
        return _part(self.columns, self.ranks, rank)

    def shared(self, holder: int, rank: int) -> int:
        """Return the number of points of ``holder`` in the columns of ``rank``."""
        points, columns = self.points_of(holder), self.columns_of(rank)

        def before(point: int) -> int:
            row, column = divmod(point, self.columns)
            within = min(max(column - columns.start, 0), len(columns))
            return row * len(columns) + within

        return before(points.stop) - before(points.start)

    @property
    def messages(self) -> tuple[int, int]:
        """Largest number of messages of a rank: points to columns, and columns to points."""
        points, columns = (
            np.array(_offsets(size, self.ranks))
            for size in (self.rows * self.columns, self.columns)
        )
        row, column = np.divmod(points[:, None], self.columns)
        width = np.diff(columns)
        before = row * width + np.clip(column - columns[:-1], 0, width)
        shared = np.diff(before, axis=0) > 0  # [holder of points, rank of columns]
        np.fill_diagonal(shared, False)
        return int(shared.sum(0).max()), int(shared.sum(1).max())

    @property
    def exchanges(self) -> tuple[int, int]:
        """Largest number of messages of a rank: columns to rows, and rows to columns."""
        filled = [sum(map(bool, even_sizes(n, self.ranks))) for n in (self.columns, self.rows)]
        return messages_between(*filled), messages_between(*filled[::-1])

    def pieces(self, x: Tensor, holder: int, rank: int) -> list[Tensor]:
        """Return the points of ``holder`` in the columns of ``rank``, in order, as views.

        One view is in the first row, one in all rows that ``holder`` has whole, one in the last
        row.
        """
        points, columns, width = self.points_of(holder), self.columns_of(rank), self.columns
        first, last = points.start // width, points.stop // width

        def within(row: int) -> Tensor:
            low = max(points.start, row * width + columns.start)
            high = min(points.stop, row * width + columns.stop)
            return x[low - points.start : max(low, high) - points.start]

        if first == last:
            return [within(first)]
        inner = x[(first + 1) * width - points.start : last * width - points.start]
        inner = inner.view(last - first - 1, width, *x.shape[1:])
        return [within(first), inner[:, columns.start : columns.stop], within(last)]


def factors(points: int, ranks: int) -> tuple[int, int]:
    """Return the rows and columns that minimise the largest part of a rank, nearly square."""

    def largest(rows: int) -> tuple[int, int]:
        columns = points // rows
        return -(-rows // ranks) * columns + -(-columns // ranks) * rows, columns - rows

    rows = min((n for n in range(1, isqrt(points) + 1) if points % n == 0), key=largest)
    return rows, points // rows


def to_columns(x: Tensor, matrix: Matrix, ranks: Ranks) -> Tensor:
    """Return this rank's columns, from its points along dimension 0; others are a batch."""
    found: Tensor = _Exchanged.apply(x, matrix, ranks, True)  # type: ignore[no-untyped-call]
    return found


def to_vector(x: Tensor, matrix: Matrix, ranks: Ranks) -> Tensor:
    """Return this rank's points, from its columns along dimensions 0 and 1."""
    found: Tensor = _Exchanged.apply(x, matrix, ranks, False)  # type: ignore[no-untyped-call]
    return found


def twiddled(x: Tensor, points: int, columns: range, inverse: bool) -> Tensor:
    """Return columns of a matrix times ``exp(-2 pi i row column / points)``, or the conjugate."""
    found: Tensor = _Twiddled.apply(x, points, columns, inverse)  # type: ignore[no-untyped-call]
    return found


class _Exchanged(torch.autograd.Function):
    """Exchange of points for columns or back: permutations that are each other's transpose."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Matrix, ranks: Ranks, forth: bool) -> Tensor:
        """Return the columns or the points of this rank."""
        ctx.given = matrix, ranks, forth
        own, every = ranks.rank, range(ranks.size)
        given = [matrix.shared(own, rank) for rank in every]
        taken = [matrix.shared(rank, own) for rank in every]
        if forth:
            sent = x.new_empty(x.shape)
            _copy(matrix, sent, x, own, given, unpack=False)
            found = all_to_all(sent, ranks, given, taken)
            return found.view(matrix.rows, len(matrix.columns_of(own)), *x.shape[1:])
        found = all_to_all(x.flatten(0, 1).contiguous(), ranks, taken, given)
        vector = x.new_empty(len(matrix.points_of(own)), *x.shape[2:])
        _copy(matrix, found, vector, own, given, unpack=True)
        return vector

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient, exchanged in the other direction."""
        matrix, ranks, forth = ctx.given
        back = to_vector if forth else to_columns
        return back(grads[0], matrix, ranks), None, None, None


def _copy(
    matrix: Matrix, packed: Tensor, x: Tensor, own: int, counts: Sequence[int], *, unpack: bool
) -> None:
    """Copy the points of a vector, by the rank of their columns, to a buffer or from it."""
    for rank, part in enumerate(torch.split(packed, list(counts))):
        at = 0
        for piece in matrix.pieces(x, own, rank):
            count = piece.shape[: piece.ndim - packed.ndim + 1].numel()
            place = part[at : at + count].view(piece.shape)
            at += count
            if unpack:
                piece.copy_(place)
            else:
                place.copy_(piece)


class _Twiddled(torch.autograd.Function):
    """The product with twiddle factors; its gradient is the product with their conjugates."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, points: int, columns: range, inverse: bool) -> Tensor:
        """Return the product."""
        ctx.given = points, columns, inverse
        found = torch.empty_like(x)
        step = max(1, _BLOCK // max(1, len(columns)))  # rows at a time
        across = np.arange(columns.start, columns.stop, dtype=np.int64)
        batch = [1] * (x.ndim - 2)
        for start in range(0, x.shape[0], step):
            stop = min(start + step, x.shape[0])
            down = np.arange(start, stop, dtype=np.int64)
            re, im = roots(points, np.multiply.outer(-down if inverse else down, across))
            factor = torch.complex(torch.from_numpy(re), torch.from_numpy(im)).to(x)
            torch.mul(x[start:stop], factor.view(*factor.shape, *batch), out=found[start:stop])
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the product with the conjugates."""
        points, columns, inverse = ctx.given
        return twiddled(grads[0], points, columns, not inverse), None, None, None


def _part(size: int, ranks: int, rank: int) -> range:
    offsets = _offsets(size, ranks)
    return range(offsets[rank], offsets[rank + 1])
