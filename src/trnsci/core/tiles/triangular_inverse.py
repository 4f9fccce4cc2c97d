"""Inverses of unit triangular tiles, by doubling: products only, and no loop over rows.

X_s is block diagonal: the inverses of the diagonal blocks of T of order s. T_s contains the blocks
of T of order s between the first and the second diagonal block, the third and the fourth, and so
on; its other entries are zero. Then

    X_2s = X_s - X_s T_s X_s

doubles s, in seven steps from X_1, the identity, to X_128. This is block inversion: the new blocks
are products of an inverse, a block of T and an inverse, as accurate as substitution by blocks. Both
X_s and its transpose are stored, so no step transposes.

With Q = I - T_s X_s, X_2s is X_s Q. A step changes half of the columns of X, and the other half of
the columns of its transpose. Only these columns are computed. The kernel multiplies T, not T_s, by
X_s. Then it multiplies the entries by a table: -1 where T_s has its blocks, 1 on the diagonal, else
0. The diagonal of T X_s is ones, so the result is Q.

Layout   tiles side by side, columns padded to a power of two: (rows, tiles, columns); at most 128
         rows
Limits   float32
Cost     19 products of 128 x 128 x 64 for each tile; four tiles are copied by one instruction
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile, select

LEVELS = 7
"""Doublings from 1 to 128."""
GROUP, GROUPS = 4, 4
"""Maximum of tiles that one instruction copies; number of groups of few tiles."""


class Doubling(NamedTuple):
    """Tables for triangular tiles of one order.

    Attributes:
        lower: Whether the tiles are lower triangular.
        eye: Their ``padded_identity``.
        signs: For each doubling, the changed columns of I - E; E has ones in the blocks of T_s.
    """

    lower: bool
    eye: Tile
    signs: Tile


def padded_identity(size: int) -> Tile:
    """Return the identity of ``size`` rows; columns of zeros fill it up to a power of two."""
    width = 4
    while width < size:
        width = 2 * width
    ones = nl.ndarray((size, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    return select(ones, [[1, width]], -1, 0, nl.equal)


def doubling(eye: Tile, lower: bool) -> Doubling:
    """Return the tables for tiles of the size of a ``padded_identity``.

    With s = 2^level and 0 <= r < s, column 2 s g + r of a lower T_s has a block in the rows p with
    s <= p - 2 s g < 2 s. Column 2 s g + s + r of an upper T_s has it where 0 <= p - 2 s g < s.
    """
    size, half = eye.shape[0], eye.shape[1] // 2
    signs = nl.ndarray((size, LEVELS, half), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=signs, value=-1.0)
    for level in range(LEVELS):
        s = 2**level
        if s < size:
            sign, low = signs[0:size, level, 0:half], s if lower else 0
            rows, diagonal = [[-2 * s, half // s], [0, s]], [[-2 * s, half // s], [-1, s]]
            select(sign, rows, 1, -low, nl.greater_equal, dst=sign)
            select(sign, rows, 1, -low - s, nl.less, dst=sign)
            select(sign, diagonal, 1, low - s, nl.not_equal, 1.0, dst=sign)
    return Doubling(lower, eye, signs)


def new_inverses(count: int, eye: Tile) -> Tile:
    """Return an unwritten tile for ``count`` inverses, or their transposes."""
    return nl.ndarray((eye.shape[0], count, eye.shape[1]), dtype=nl.float32, buffer=nl.sbuf)


def invert_triangles(inverses_t: Tile, first: int, units_t: Tile, table: Doubling) -> None:
    """Invert triangular tiles in groups, in lock-step: a group's copies overlap others' products.

    Args:
        inverses_t: Receives the transposes of the inverses, from number ``first`` on.
        first: Number of the first inverse in ``inverses_t``.
        units_t: The transposes of the tiles, (rows, tiles, rows), with ones on their diagonals.
        table: ``doubling`` of the tiles.
    """
    size, total = units_t.shape[0], units_t.shape[1]
    group = min(GROUP, (total + GROUPS - 1) // GROUPS)
    inverses = []
    for f in range(0, total, group):
        count = min(group, total - f)
        inverse = new_inverses(count, table.eye)
        width = table.eye.shape[1]
        eye = table.eye.ap(pattern=[[width, size], [0, count], [1, width]], offset=0)
        nisa.tensor_copy(dst=inverse, src=eye)
        nisa.tensor_copy(dst=inverses_t[0:size, first + f : first + f + count, 0:width], src=eye)
        inverses.append(inverse)
    for level in range(LEVELS):
        if 2**level < size:
            factors = []
            for g in range(len(inverses)):
                units = units_t[0:size, g * group : g * group + inverses[g].shape[1], 0:size]
                factors.append(doubling_factors(inverses[g], units, level, table))
            for g in range(len(inverses)):
                start = first + g * group
                double_inverses(inverses[g], inverses_t, start, factors[g], level, table)


def doubling_factors(inverses: Tile, units_t: Tile, level: int, table: Doubling) -> Tile:
    """Return the columns of the factors Q of a group that differ from those of the identity.

    At level 0, X_1 is the identity and X_2 is Q: the columns are written to ``inverses``. The last
    doubling (see ``joins``) returns only the rows of -T_s X_s.

    Args:
        inverses: The inverses X_s.
        units_t: The transposes of their tiles.
        level: The doubling, of s = 2^level.
        table: ``doubling`` of the tiles.
    """
    size, count, half = inverses.shape[0], inverses.shape[1], table.signs.shape[2]
    s = 2**level
    near = halves(inverses, s, table.lower)
    if joins(level, size):
        k, m = parts(s, size, table.lower)
        change = products(units_t[k[0] : k[1], 0:count, m[0] : m[1]], near[k[0] : k[1]], False)
        factors = nl.ndarray((size, count, 1, s), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=factors[m[0] : m[1]], data=change, op0=nl.multiply, operand0=-1.0)
        return factors
    signs = table.signs.ap(
        pattern=[[LEVELS * half, size], [0, count], [s, half // s], [1, s]], offset=level * half
    )
    factors = near
    if level > 0:
        factors = nl.ndarray(near.shape, dtype=nl.float32, buffer=nl.sbuf)
    change = products(units_t, near, level == 0)
    nisa.tensor_tensor(dst=factors, data1=change, data2=signs, op=nl.multiply)
    return factors


def double_inverses(
    inverses: Tile, inverses_t: Tile, first: int, factors: Tile, level: int, table: Doubling
) -> None:
    """Replace X_s and its transpose by X_2s = X_s Q and its transpose, in the changed columns.

    The last doubling (see ``joins``) computes only the transposes, from the rows that are not zero.
    """
    size, count, width = inverses.shape
    s = 2**level
    old_t = inverses_t[0:size, first : first + count, 0:size]
    far = halves(inverses_t, s, not table.lower)[0:size, first : first + count]
    if joins(level, size):
        k, m = parts(s, size, table.lower)
        left = factors[m[0] : m[1], 0:count, 0, 0 : k[1] - k[0]]
        turned, far = products(left, far[m[0] : m[1]], False), far[k[0] : k[1]]
    else:
        if level > 0:
            near = halves(inverses, s, table.lower)
            nisa.tensor_copy(dst=near, src=products(old_t, factors, False))
        eyes = table.eye.ap(
            pattern=[[width, size], [0, count], [2 * s, width // (2 * s)], [1, s]],
            offset=s if table.lower else 0,
        )
        turned = products(inverses[0:size, 0:count, 0:size], eyes, True)
    nisa.activation(dst=far, op=nl.copy, data=turned)


def joins(level: int, size: int) -> bool:
    """Return whether a doubling is the last, with halves from partition 0 and from s = 32 or 64."""
    return 2**level >= 32 and 2 ** (level + 1) >= size


def parts(s: int, size: int, lower: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the bounds of the columns, and of the rows, of T_s in the last doubling."""
    return ((0, s), (s, size)) if lower else ((s, size), (0, s))


def halves(x: Tile, s: int, first: bool) -> Tile:
    """Return the first or second half of every 2 s columns, (rows, tiles, runs, s)."""
    size, count, width = x.shape
    runs, half = width // (2 * s), 0 if first else 1
    return x.reshape((size, count, runs, 2, s))[0:size, 0:count, 0:runs, half, 0:s]


def products(left_t: Tile, right: Tile, one_zero: bool) -> Tile:
    """Return left @ right of each tile; with ``one_zero``, ``right`` has only zeros and ones."""
    depth, count, rows = left_t.shape
    total = nl.ndarray(
        (rows, count, right.shape[2], right.shape[3]), dtype=nl.float32, buffer=nl.psum
    )
    for i in range(count):
        nisa.nc_matmul(
            dst=total[0:rows, i],
            stationary=left_t[0:depth, i, 0:rows],
            moving=right[0:depth, i],
            is_moving_onezero=one_zero,
        )
    return total


def reciprocal_diagonals(columns: Tile, blocks: Tile) -> None:
    """Write the reciprocal diagonal of each block, (rows, blocks, rows), to one of ``columns``."""
    size, count = columns.shape
    diagonals = select(blocks, [[0, count], [1, size]], -1, 0, nl.equal)
    nisa.tensor_reduce(dst=columns, op=nl.add, data=diagonals, axis=2)
    nisa.reciprocal(dst=columns, data=columns)
