"""Geometry of the stacked transform: its factors, and the layout of its constants.

A transform of n = a b d points multiplies by DFT matrices of a, b and, if d is not 1, d points. All
constants are one float32 vector, so that a kernel has one operand for them; ``rows`` is P = b s:

    first      (2 a, 2 a)       of both parts, stacked: (part, j1) to (part, k1)
    second     (P, 3, P)        the matrix of b for s columns: -sin, cos and sin parts
    inner      (2, P, a)        twiddles after the first product
    outer      (2, P, d / s, a) twiddles after the second, if d > 1
    last       (2 d, 2 d)       of both parts, if d > 1

If ``many`` is set, two matrices for many rows at once follow. A group of the first step has some
``columns`` j2, a group of the second step some ``bins`` k1. K is 2 a columns in the first step and
2 b bins in the second:

    columns    (K, K)           of both parts: (part, j1, j2) to (part, k1, j2)
    bins       (K, groups, K)   with twiddles: (part, k1, j2) to (part, k2, k1)

``RowsGeometry`` describes these matrices for a real operand or a real result.
"""

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.tiling import row_tiles

_LEAST = 4
"""Least factor; smaller ones leave most of the array empty."""

_PASS_CYCLES = 32_000
"""Tensor engine cycles that an image by factors loses.

The image goes through HBM once more, and the products of its first and last columns wait. The value
is fitted to times of ``nkisim profile``, within 5 us.
"""


class RowsGeometry(NamedTuple):
    """The factors of a transform of many rows at once.

    For real points, the a results of the first step are stored as a real entries: the real parts
    of bins k1 from 0 to a // 2, then the imaginary parts that are not 0. From bin k1, the second
    step computes the points k1 + a m and the mirrored points a - k1 + a m of the spectrum, with
    0 <= m < ``mirrored``. Mirrored points are conjugates of the other results of the bin. A real
    result takes the opposite steps in the opposite order:

        columns    (a columns, a columns)                (j1, j2) to (entry, j2), or transposed
        bins       (2 b bins, groups, 4 mirrored bins)   (part, k1, j2) to (part, which, m, k1), or
                                                         the transposed matrices of the groups

    Attributes:
        a: Factor of the first step, at most 32, so that a group has two columns or more; at most
            128 if ``real``.
        b: Factor of the second, at most 64.
        real: Whether the operand or the result is real.
    """

    a: int
    b: int
    real: bool = False

    @property
    def columns(self) -> int:
        """Columns of a group of the first step."""
        return min(TILE // (self.a if self.real else 2 * self.a), self.b)

    @property
    def extent(self) -> int:
        """Number of bins."""
        return self.a // 2 + 1 if self.real else self.a

    @property
    def mirrored(self) -> int:
        """Points of a bin of a real transform in the lower half of the spectrum."""
        return (self.b + 1) // 2

    @property
    def bins(self) -> int:
        """Bins of a group of the second step; a real transform has at least three groups."""
        if self.real:
            return min(TILE // (4 * self.mirrored), (self.extent - 1) // 2)
        return min(TILE // (2 * self.b), self.a)

    @property
    def groups(self) -> tuple[int, int]:
        """Groups of both steps."""
        return -(-self.b // self.columns), -(-self.extent // self.bins)

    @property
    def shapes(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Depth, number and columns of both steps' matrices; a real result transposes them."""
        first = (self.a if self.real else 2 * self.a) * self.columns
        points = 4 * self.mirrored if self.real else 2 * self.b
        return (first, 1, first), (2 * self.b * self.bins, self.groups[1], points * self.bins)

    @property
    def size(self) -> int:
        """Number of elements of the matrices."""
        (depth, _, width), (last, count, points) = self.shapes
        return depth * width + last * count * points


class StackedGeometry(NamedTuple):
    """The factors of a transform.

    Attributes:
        a: Factor of the first product, at most 64.
        b: Factor of the second, at most 128.
        d: Factor of the last, at most 64; 1 if a transform is on chip from its load to its store.
        s: Columns on partitions next to b; it divides d if that is not 1.
        many: The factors for many rows at once, or None.
    """

    a: int
    b: int
    d: int
    s: int
    many: RowsGeometry | None = None

    @property
    def length(self) -> int:
        """Number of points of the transform."""
        return self.a * self.b * self.d

    @property
    def rows(self) -> int:
        """Partitions of the second product."""
        return self.b * self.s


class ImageGeometry(NamedTuple):
    """The factors of both dimensions of an image; ``d`` of each is 1.

    Attributes:
        rows: Factors of the first dimension, whose transforms are along columns.
        columns: Factors of the second.
    """

    rows: StackedGeometry
    columns: StackedGeometry


class Offsets(NamedTuple):
    """Offsets of the constants in their vector, and its length."""

    first: int
    second: int
    inner: int
    outer: int
    last: int
    many: int
    end: int


def offsets(g: StackedGeometry) -> Offsets:
    """Return the offsets of the constants of a transform."""
    second = 4 * g.a * g.a
    inner = second + 3 * g.rows * g.rows
    outer = inner + 2 * g.rows * g.a
    last, many = outer, outer
    if g.d > 1:
        last = outer + 2 * g.length
        many = last + 4 * g.d * g.d
    end = many + (0 if g.many is None else g.many.size)
    return Offsets(0, second, inner, outer, last, many, end)


def many_rows(g: RowsGeometry | None, batch: int) -> bool:
    """Return whether rows are transformed 128 at once instead of one by one.

    One group of 128 rows takes about as long as one row in the other form. By ``nkisim profile``
    for gen3 and gen4, the form that is chosen takes at most 10 % longer than the other form; for
    real transforms at most 1 %.
    """
    if g is None:
        return False
    groups = g.groups[0] + g.groups[1]
    if g.real:
        return 4 * batch >= 5 * groups * row_tiles(batch)
    return batch >= groups


def stacked_geometry(n: int) -> StackedGeometry | None:
    """Return the factors with the fewest cycles of the Tensor engine, or None without any.

    Three factors, with a pass over HBM, are for lengths that do not have two.
    """
    found = []
    for a in range(_LEAST, TILE // 2 + 1):
        for b in range(_LEAST, TILE + 1):
            d, rest = divmod(n, a * b)
            if rest == 0 and (d == 1 or _LEAST <= d <= TILE // 2):
                s = max(k for k in range(1, TILE // b + 1) if d % k == 0)
                found.append(StackedGeometry(a, b, d, s))
    best = min(found, key=lambda g: (g.d > 1, _cycles(g), g), default=None)
    return None if best is None else best._replace(many=rows_geometry(n, False))


def rows_geometry(n: int, real: bool) -> RowsGeometry | None:
    """Return the factors with the fewest groups, or None without any.

    For a real transform, factors with two or more columns and bins per group are preferred.
    """
    found = []
    for a in range(_LEAST, (TILE if real else TILE // 4) + 1):
        b, rest = divmod(n, a)
        if rest == 0 and _LEAST <= b <= TILE // 2:
            found.append(RowsGeometry(a, b, real))
    if real:
        return min(found, key=lambda g: (min(g.columns, g.bins) == 1, sum(g.groups)), default=None)
    return min(found, key=lambda g: (sum(g.groups), -g.a), default=None)


def image_geometry(height: int, width: int, half: bool = False) -> ImageGeometry | None:
    """Return the factors of an image, or None if products with whole matrices are faster.

    ``half`` means a real operand and half of its spectrum: products with whole matrices take half
    of the time then.
    """
    rows, columns = _column_geometry(height, width), _column_geometry(width, height)
    if rows is None or columns is None:
        return None
    # Each tile of an image: four passes per product, and four products of real and imaginary parts.
    whole = 16 * row_tiles(height) * row_tiles(width) * (height + width)
    factored = height * width * (_cycles(rows) + _cycles(columns)) + _PASS_CYCLES
    return ImageGeometry(rows, columns) if factored < (whole / 2 if half else whole) else None


def _column_geometry(n: int, columns: int) -> StackedGeometry | None:
    """Return two factors of the columns of a matrix, or None without any."""
    found = []
    for a in range(_LEAST, TILE // 2 + 1):
        b, rest = divmod(n, a)
        if rest == 0 and _LEAST <= b <= TILE:
            found.append(StackedGeometry(a, b, 1, min(TILE // b, columns)))
    return min(found, key=lambda g: (_cycles(g), g), default=None)


def _cycles(g: StackedGeometry) -> float:
    """Return the cycles of one point: four passes of every moving column."""
    first = (4 * max(2 * g.a, g.rows) + 16) / (g.a * g.rows)
    last = 4 / g.d if g.d > 1 else 0.0
    return first + 16 / g.rows + last
