"""Inverses of unit triangular tiles, by doubling: products only, and no loop over rows.

X_s has the inverses of the diagonal blocks of T of order s. T_s has the blocks of T of order s that
join the first diagonal block with the second, the third with the fourth, and so on. Then

    X_2s = X_s - X_s T_s X_s

doubles s, from X_1, the identity, to X_128 in seven steps. This is block inversion: each new entry
is one product of two inverses and a block of T, as accurate as substitution by blocks. Both X_s
and its transpose are stored, so no step transposes.

With Q = I - T_s X_s, X_2s is X_s Q. A step changes half of the columns of X, and the other half of
those of its transpose, and only these are multiplied. T_s X_s is part of T X_s, and the rest of
these columns of T X_s, with ones on its diagonal, is left out by the product with a table.

Layout   tiles side by side, columns padded to a power of two: (rows, tiles, columns); at most 128
         rows
Limits   float32
Cost     20 products of 128 x 128 x 64 for each tile; four tiles are copied by one instruction
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from typing import Any, NamedTuple

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile

LEVELS = 7
"""Doublings from 1 to 128."""
QUADRANT = 32
"""Instructions begin at partitions 0, 32, 64 or 96."""
GROUPS = 4
"""Groups whose instructions take turns."""
GROUP = 4
"""Tiles that one instruction copies: half of their columns fill half of a PSUM bank."""


class Doubling(NamedTuple):
    """Tables for triangular tiles of one order.

    Attributes:
        lower: Whether the tiles are lower triangular.
        levels: Number of doublings.
        eye: The identity, with columns of zeros up to a power of two.
        signs: For each doubling, columns of I - E, where E has ones in the blocks of T_s.
    """

    lower: bool
    levels: int
    eye: Tile
    signs: Tile


def padded_identity(size: int) -> Tile:
    """Return the identity of ``size`` rows, with columns of zeros up to a power of two."""
    width = 4
    for level in range(LEVELS):
        if 2**level < size:
            width = max(4, 2 ** (level + 1))
    ones = nl.ndarray((size, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    eye = nl.ndarray((size, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.affine_select(
        dst=eye,
        pattern=[[1, width]],
        channel_multiplier=-1,
        on_true_tile=ones,
        on_false_value=0.0,
        cmp_op=nl.equal,
    )
    return eye


def doubling(eye: Tile, lower: bool) -> Doubling:
    """Return the tables for tiles of the size of a ``padded_identity``.

    With s = 2^level, column 2 s g + r of a 2s-block, 0 <= r < s, has the rows p of a lower T_s with
    s <= p - 2 s g < 2 s. Column 2 s g + s + r has those of an upper one, 0 <= p - 2 s g < s.
    """
    size, width = eye.shape
    signs = nl.ndarray((size, LEVELS, width // 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=signs, value=-1.0)
    levels = 0
    for level in range(LEVELS):
        s = 2**level
        if s < size:
            levels = level + 1
            sign = signs[0:size, level, 0 : width // 2]
            low, column = (s, 0) if lower else (0, s)
            keep_where(sign, s, 0, -low, nl.greater_equal, 0.0)
            keep_where(sign, s, 0, -low - s, nl.less, 0.0)
            keep_where(sign, s, -1, -column, nl.not_equal, 1.0)
    return Doubling(lower, levels, eye, signs)


def keep_where(tile: Tile, s: int, step: int, offset: int, compare: Any, other: float) -> None:
    """Write ``other`` where ``p - 2 s g + step r + offset`` does not compare with 0 as stated."""
    nisa.affine_select(
        dst=tile,
        pattern=[[-2 * s, tile.shape[1] // s], [step, s]],
        channel_multiplier=1,
        offset=offset,
        on_true_tile=tile,
        on_false_value=other,
        cmp_op=compare,
    )


def new_inverses(count: int, eye: Tile) -> Tile:
    """Return an unwritten tile for inverses, or their transposes."""
    size, width = eye.shape
    return nl.ndarray((size, count, width), dtype=nl.float32, buffer=nl.sbuf)


def invert_triangles(inverses_t: Tile, first: int, units_t: Tile, table: Doubling) -> None:
    """Invert triangular tiles in lock-step: some wait for a product while others are multiplied.

    Args:
        inverses_t: Receives the transposes of the inverses, from number ``first`` on.
        first: See above.
        units_t: The transposes of the tiles, (rows, tiles, rows), with ones on their diagonals.
        table: ``doubling`` of the tiles.
    """
    size, width = table.eye.shape
    inverses = []
    total = units_t.shape[1]
    group = min(GROUP, (total + GROUPS - 1) // GROUPS)
    for f in range(0, total, group):
        count = min(group, total - f)
        inverse = new_inverses(count, table.eye)
        identities = table.eye.ap(pattern=[[width, size], [0, count], [1, width]], offset=0)
        nisa.tensor_copy(dst=inverse, src=identities)
        start = first + f
        nisa.tensor_copy(dst=inverses_t[0:size, start : start + count, 0:width], src=identities)
        inverses.append(inverse)
    groups = len(inverses)
    halves = size > 2 * QUADRANT
    for level in range(table.levels - 1 if halves else table.levels):
        factors = []
        for g in range(groups):
            factors.append(doubling_products(inverses[g], units_t, g * group, level, table))
        for g in range(groups):
            double_inverses(inverses[g], inverses_t, first + g * group, factors[g], level, table)
    if halves:
        factors = []
        for g in range(groups):
            factors.append(half_products(inverses[g], units_t, g * group, table))
        for g in range(groups):
            join_halves(inverses_t, first + g * group, factors[g], table)


def doubling_products(
    inverses: Tile, units_t: Tile, first: int, level: int, table: Doubling
) -> Tile:
    """Return the changed columns of the factors Q of some inverses; X_2 is Q."""
    size, count, width = inverses.shape
    half, s = width // 2, 2**level
    near = 0 if table.lower else s
    factors = nl.ndarray((size, count * half // s, s), dtype=nl.float32, buffer=nl.sbuf)
    products = nl.ndarray((size, count * half // s, s), dtype=nl.float32, buffer=nl.psum)
    for i in range(count):
        nisa.nc_matmul(
            dst=columns_of_one(products, i, count),
            stationary=units_t[0:size, first + i, 0:size],
            moving=half_columns(inverses, i, 1, s, near),
            is_moving_onezero=level == 0,
        )
    signs = table.signs.ap(
        pattern=[[LEVELS * half, size], [0, count], [s, half // s], [1, s]], offset=level * half
    )
    if level == 0:
        factors = half_columns(inverses, 0, count, s, near)
    nisa.tensor_tensor(dst=factors, data1=products, data2=signs, op=nl.multiply)
    return factors


def double_inverses(
    inverses: Tile, inverses_t: Tile, first: int, factors: Tile, level: int, table: Doubling
) -> None:
    """Multiply some inverses by factors, and transpose what changes."""
    size, count, width = inverses.shape
    half, s = width // 2, 2**level
    near = 0 if table.lower else s
    if level > 0:
        direct = nl.ndarray(factors.shape, dtype=nl.float32, buffer=nl.psum)
        for i in range(count):
            nisa.nc_matmul(
                dst=columns_of_one(direct, i, count),
                stationary=inverses_t[0:size, first + i, 0:size],
                moving=columns_of_one(factors, i, count),
            )
        nisa.tensor_copy(dst=half_columns(inverses, 0, count, s, near), src=direct)
    turned = nl.ndarray((size, count * half // s, s), dtype=nl.float32, buffer=nl.psum)
    for i in range(count):
        nisa.nc_matmul(
            dst=columns_of_one(turned, i, count),
            stationary=inverses[0:size, i, 0:size],
            moving=half_columns(table.eye.reshape((size, 1, width)), 0, 1, s, s - near),
            is_moving_onezero=True,
        )
    changed = half_columns(inverses_t, first, count, s, s - near)
    nisa.activation(dst=changed, op=nl.copy, data=turned)


def half_products(inverses: Tile, units_t: Tile, first: int, table: Doubling) -> Tile:
    """Return -T_s X_s for the last doubling, on the partitions of its rows of T."""
    size, count = inverses.shape[0], inverses.shape[1]
    s = table.eye.shape[1] // 2
    begin, end = (0, s) if table.lower else (s, size)
    low, high = (s, size) if table.lower else (0, s)
    products = nl.ndarray((high - low, count, s), dtype=nl.float32, buffer=nl.psum)
    for i in range(count):
        nisa.nc_matmul(
            dst=products[0 : high - low, i, 0:s],
            stationary=units_t[begin:end, first + i, low:high],
            moving=inverses[begin:end, i, begin : begin + s],
        )
    factors = nl.ndarray((size, count, s), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=factors[low:high], data=products, op0=nl.multiply, operand0=-1.0)
    return factors


def join_halves(inverses_t: Tile, first: int, factors: Tile, table: Doubling) -> None:
    """Write the block of the last doubling: ``factors.T`` times the transposed inverse."""
    size, count, s = factors.shape
    begin, end = (0, s) if table.lower else (s, size)
    low, high = (s, size) if table.lower else (0, s)
    joined = nl.ndarray((end - begin, count, s), dtype=nl.float32, buffer=nl.psum)
    for i in range(count):
        nisa.nc_matmul(
            dst=joined[0 : end - begin, i, 0:s],
            stationary=factors[low:high, i, 0 : end - begin],
            moving=inverses_t[low:high, first + i, low : low + s],
        )
    changed = inverses_t[begin:end, first : first + count, low : low + s]
    nisa.activation(dst=changed, op=nl.copy, data=joined)


def columns_of_one(x: Tile, i: int, count: int) -> Tile:
    """Return the columns of tile ``i`` of ``count`` in a tile of (rows, count * runs, run)."""
    rows, runs, run = x.shape
    return x[0:rows, i * runs // count : (i + 1) * runs // count, 0:run]


def half_columns(x: Tile, first: int, count: int, s: int, offset: int) -> Tile:
    """Return every other ``s`` columns of some tiles, beginning at column ``offset``."""
    size, tiles, width = x.shape
    return x.ap(
        pattern=[[tiles * width, size], [2 * s, count * width // (2 * s)], [1, s]],
        offset=first * width + offset,
    )


def reciprocal_diagonals(columns: Tile, blocks: Tile) -> None:
    """Write the reciprocals of the diagonals of square blocks, (rows, blocks, rows), to columns."""
    size, count = columns.shape
    diagonal = nl.ndarray(blocks.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.affine_select(
        dst=diagonal,
        pattern=[[0, count], [1, size]],
        channel_multiplier=-1,
        on_true_tile=blocks,
        on_false_value=0.0,
        cmp_op=nl.equal,
    )
    nisa.tensor_reduce(dst=columns, op=nl.add, data=diagonal, axis=2)
    nisa.reciprocal(dst=columns, data=columns)
