"""Geometry of the four-step transform: its factors, and the layout of its constants.

A transform of n = a b c d points is at most two *stages* with a pass over HBM between them: the
first transforms the columns of an (a b, c d) matrix, the second the columns of a (c d, a b) matrix.
A stage has one or two *factors*, each at most 128, and each is one product with its DFT matrix.

All constants of a transform are one float32 vector, so that a kernel has one operand for them:

    matrix of each factor f above 1     (f, 3, f)   -sin, cos and sin parts
    inner twiddles of a stage (a, b)    (2, b, a)   exp(-2 pi i j k / (a b)), where a > 1
    outer twiddles                      (2, b, c d, a)   between the stages, where there are two
    weights                             (a,)        of column 0 of a half spectrum
"""

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.tiles.hardware import BANK

NOWHERE = -1
"""Offset of a table that does not exist in a stage."""

PSUM_COLUMNS = 2 * BANK
"""Float32 columns of each part of a result in PSUM: two banks. Both parts take half of PSUM, and
the first products of the next group take the other half."""

_CHUNK = 4096
"""Elements per partition and part that a stage loads at once: 32 KiB. Four such buffers (data and a
table, both double-buffered) fit in the 176 KiB of the smallest SBUF."""


class Geometry(NamedTuple):
    """The factors of a transform; ``c`` and ``d`` are 1 if there is only one stage.

    Attributes:
        a, b: Factors of the first stage, both above 1; ``a`` is even if the length is.
        c, d: Factors of the second stage; ``c`` is 1 if it has one factor.
    """

    a: int
    b: int
    c: int = 1
    d: int = 1

    @property
    def length(self) -> int:
        """Number of points of the transform."""
        return self.a * self.b * self.c * self.d


class Segments(NamedTuple):
    """Offsets of the constants in their vector, and its length.

    Attributes:
        matrices: Offsets of the matrices of the factors a, b, c and d.
        inner: Offsets of the twiddles inside each stage.
        outer: Offset of the twiddles between the stages.
        weights: Offset of the weights.
        end: Length of the vector.
    """

    matrices: tuple[int, int, int, int]
    inner: tuple[int, int]
    outer: int
    weights: int
    end: int


def segments(g: Geometry) -> Segments:
    """Return the offsets of the constants of a transform."""
    end = 0
    matrices = []
    for factor in (g.a, g.b, g.c, g.d):
        matrices.append(end if factor > 1 else NOWHERE)
        end += 3 * factor * factor if factor > 1 else 0
    inner = []
    for pair in ((g.a, g.b), (g.c, g.d)):
        inner.append(end if pair[0] > 1 else NOWHERE)
        end += 2 * pair[0] * pair[1] if pair[0] > 1 else 0
    outer = end if g.d > 1 else NOWHERE
    end += 2 * g.length if g.d > 1 else 0
    return Segments(
        (matrices[0], matrices[1], matrices[2], matrices[3]),
        (inner[0], inner[1]),
        outer,
        end,
        end + g.a,
    )


def chirp_lengths(n: int, kind: str) -> tuple[int, int]:
    """Return the numbers of points of the first and the last chirp of a transform."""
    half = n // 2 + 1
    return half if kind == "hermitian" else n, half if kind == "half" else n


def even_step(total: int, most: int) -> int:
    """Return the step that splits ``total`` into nearly equal runs of at most ``most``."""
    runs = (total + most - 1) // most
    return (total + runs - 1) // runs


def chunk_columns(first: int, second: int, columns: int) -> int:
    """Return the number of columns that a stage loads at once."""
    if first == 1:
        return even_step(columns, PSUM_COLUMNS)
    return even_step(columns, max(1, _CHUNK // max(first, second)))


def group_columns(first: int, columns: int) -> int:
    """Return the number of loaded columns that are multiplied at once.

    The first products of a group, two parts of ``first`` points for each column, fill four banks;
    its result fills two for each part. A column does not cross a bank.
    """
    if first == 1:
        return columns
    per_bank = BANK // (2 * first)
    return min(columns, 4 * per_bank)
