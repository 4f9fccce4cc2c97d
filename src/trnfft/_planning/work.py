"""Cost model of transforms on a NeuronCore: operations, HBM bytes and expected error.

A :class:`Problem` describes the operand; there is one function per algorithm.

Errors are relative to the result, in the L2 norm. A sequential float32 sum of t terms with
independent roundings of root mean square u / sqrt(3), u = 2^-24, has an error of u sqrt(t / 6). A
product with a table rounds its entries, two products and a sum. Errors of the steps of a transform
add in quadrature, since every step preserves the norm up to a factor. The Tensor engine adds 128
terms in its own, more accurate order. The estimate is therefore an upper bound for operands without
structure, but not for every operand.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from trnfft._kernels.four_step_geometry import Geometry, chirp_lengths, segments
from trnfft._kernels.stacked_geometry import ImageGeometry, RowsGeometry, StackedGeometry, offsets

_ROUNDOFF = 2.0**-24
_TABLE = 2.0
"""Squared error of a product with a table, in units of squared roundoff: at most six roundings of
mean square 1/3 each per result."""


class Problem(NamedTuple):
    """The size of a transform and its operand.

    Attributes:
        batch: Number of transforms.
        length: Number of points of a row before it is truncated or padded.
        n: Number of points of the transform.
        kind: ``"full"``, ``"half"`` (real to a half spectrum) or ``"hermitian"`` (the inverse).
        itemsize: Bytes per element of a part of the operand.
    """

    batch: int
    length: int
    n: int
    kind: str
    itemsize: int

    @property
    def parts(self) -> tuple[int, int]:
        """Number of parts of the operand and of the result."""
        return 1 if self.kind == "half" else 2, 1 if self.kind == "hermitian" else 2

    @property
    def points(self) -> tuple[int, int]:
        """Number of points read and written per transform."""
        taken, given = chirp_lengths(self.n, self.kind)
        return min(taken, self.length), given

    @property
    def operand_bytes(self) -> int:
        """Bytes of the operand and of the result together."""
        (taken, given), (read, written) = self.points, self.parts
        return self.batch * (taken * read * self.itemsize + given * written * 4)


class Work(NamedTuple):
    """Cost and error of one execution.

    Attributes:
        flops: Floating-point operations.
        hbm_bytes: Bytes read from and written to HBM.
        error: Expected relative L2 error.
    """

    flops: int
    hbm_bytes: int
    error: float


def dft_work(p: Problem) -> Work:
    """Return the work of one product with the DFT matrix."""
    (read, written), (_, given) = p.parts, p.points
    rows = (p.n + 1) // 2 if p.kind == "hermitian" else p.n
    flops = 2 * p.batch * rows * read * written * given
    constants = 2 * rows * given * p.itemsize
    return Work(flops, p.operand_bytes + constants, _error(read * rows / 6 + 1))


def four_step_work(p: Problem, g: Geometry) -> Work:
    """Return the work of a transform by factors."""
    constants = segments(g)
    size = constants.end if p.kind == "hermitian" else constants.weights
    return Work(
        p.batch * _factor_flops(g, p.parts, p.points),
        p.operand_bytes + 4 * size + p.batch * _between_bytes(g),
        _error(_factor_error(g)),
    )


def stacked_work(p: Problem, g: StackedGeometry, read: int = 2, given: int | None = None) -> Work:
    """Return the work of a transform by stacked factors; the operand is padded to its length.

    ``read`` is the number of parts of the operand; ``given`` is the number of points of the result
    that are stored, by default all.
    """
    n, factors = p.n, [f for f in g[:3] if f > 1]
    flops = n * (8 * sum(factors) - 4 * (2 - read) * g.a + 6 * (len(factors) - 1))
    squared = sum(2 * f / 6 + 1 for f in factors) + _TABLE * (len(factors) - 1)
    moved = n * (read * p.itemsize + (16 if g.d > 1 else 0)) + 8 * (given or n)
    return Work(p.batch * flops, p.batch * moved + 4 * offsets(g).many, _error(squared))


def many_rows_work(p: Problem, g: RowsGeometry) -> Work:
    """Return the work of a transform of many rows at once; twiddles are in the second matrices."""
    n, a, b = p.n, g.a, g.b
    flops = 2 * n * a + 16 * b * g.mirrored * g.extent if g.real else 8 * n * (a + b)
    squared = sum(2 * f / 6 + 1 for f in (a, b))
    moved = p._replace(length=n).operand_bytes
    return Work(p.batch * flops, moved + 4 * g.size, _error(squared))


def stacked_image_work(p: Problem, g: ImageGeometry) -> Work:
    """Return the work of ``p.batch`` images by stacked factors, padded to their lengths.

    Columns that do not fill a group are transformed with others a second time.
    """
    height, width = g.rows.length, g.columns.length
    columns, rows = -(-width // g.rows.s) * g.rows.s, -(-height // g.columns.s) * g.columns.s
    first = p._replace(n=height, batch=p.batch * columns)
    second = p._replace(n=width, batch=p.batch * rows, itemsize=4)
    one = stacked_work(first, g.rows, p.parts[0])
    return added(one, stacked_work(second, g.columns, given=p.points[1]))


def bluestein_work(p: Problem, g: Geometry) -> Work:
    """Return the work of two transforms by factors and three products with tables."""
    taken, given = chirp_lengths(p.n, p.kind)
    points = g.length
    flops = _factor_flops(g, (2, 2), (taken, points)) + _factor_flops(g, (2, 2), (points, given))
    constants = 2 * segments(g).weights + 2 * (taken + points + given)
    between = 2 * _between_bytes(g) + 16 * points
    # Half of the points of the convolution, and of its squared norm, are discarded.
    squared = 2 * (2 * _factor_error(g) + 3 * _TABLE)
    return Work(
        p.batch * (flops + 6 * (taken + points + given)),
        p.operand_bytes + 4 * constants + p.batch * between,
        _error(squared),
    )


def two_d_work(p: Problem, height: int, columns: int, read: int | None = None) -> Work:
    """Return the work of two chained products for ``p.batch`` images.

    ``p`` is the problem of the second dimension and ``columns`` the number of columns of the
    operand. ``read`` is the number of parts of the operand if it differs from ``p``.
    """
    (parts, written), (_, given) = p.parts, p.points
    read = parts if read is None else read
    rows = chirp_lengths(p.n, p.kind)[0]
    first = 4 * height * height * read * columns
    second = 4 * height * rows * written * given
    panels = -(-height // 256)
    passes = panels * p.batch if given > 256 else 1
    constants = 12 * (height * height + passes * rows * given)
    data = p.batch * height * (panels * columns * read * p.itemsize + given * written * 4)
    squared = (read * height + 2 * rows) / 6 + 2
    return Work(p.batch * (first + second), data + constants, _error(squared))


def n_d_work(p: Problem, sizes: tuple[int, ...], columns: int) -> Work:
    """Return the work of one product per dimension; ``p`` is the last of ``sizes``.

    ``columns`` is the operand's extent along it, and ``p.batch`` the number of N-D transforms.
    """
    leading, height = sizes[:-2], sizes[-2]
    read, itemsize, count = p.parts[0], p.itemsize, p.batch
    found = Work(0, 0, 0.0)
    for place, n in enumerate(leading):
        rest = math.prod(sizes[place + 1 : -1]) * columns
        points = count * n * rest
        moved = points * (-(-n // 256) * read * itemsize + 8)
        stage = Work(4 * read * n * points, moved + 12 * n * n, _error(read * n / 6 + 1))
        found = added(found, stage)
        read, itemsize, count = 2, 4, count * n
    images = p._replace(batch=count, itemsize=itemsize)
    return added(found, two_d_work(images, height, columns, read))


def added(first: Work, second: Work) -> Work:
    """Return the work of two steps; their errors add in quadrature."""
    return Work(
        first.flops + second.flops,
        first.hbm_bytes + second.hbm_bytes,
        math.hypot(first.error, second.error),
    )


def _factor_flops(g: Geometry, parts: tuple[int, int], points: tuple[int, int]) -> int:
    """Return the operations of one transform by factors; empty rows are not multiplied."""
    n, factors = g.length, [f for f in g if f > 1]
    used = -(-points[0] // (n // factors[0]))
    rows = -(-points[1] // (n // factors[-1]))
    flops = 4 * parts[0] * used * n + 4 * parts[1] * rows * n
    flops += sum(8 * n * factor for factor in factors[1:-1])
    return flops + 6 * n * (len(factors) - 1)


def _between_bytes(g: Geometry) -> int:
    """Return the bytes that one transform writes to and reads from HBM between its stages."""
    return 16 * g.length if g.d > 1 else 0


def _factor_error(g: Geometry) -> float:
    factors = [f for f in g if f > 1]
    return sum(2 * f / 6 + 1 for f in factors) + _TABLE * (len(factors) - 1)


def _error(squared: float) -> float:
    return _ROUNDOFF * math.sqrt(squared)
