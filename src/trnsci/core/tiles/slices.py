"""Panels of slices: operands cut on the chip into numbers whose products are exact.

Layout   the contraction on partitions, in tiles of 128. A panel is a list of parts, SBUF tiles
         (rows, slices, tiles, columns): whole tiles of the contraction together, a ragged one alone
Limits   planes (K, columns) in float32 with entries in [-1, 1] for ``cut_digits``, and up to 65,519
         for ``cut_halves``; edges are sliced
Cost     ``cut_digits``: one Vector pass per slice, and about 1.7 passes of two operands;
         ``cut_halves``: two Vector passes and one of two operands
Lever    rounding by adding and subtracting a large number; error-free additions of three operations
         where one addend is known to be a multiple of the other's last bit
"""

from __future__ import annotations

from typing import Any

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE

_ELEMENTS = 1024  # columns of one instruction


def tiles_above(rows: int, column: int, upper: bool) -> int:
    """Return the row tiles of a result, or with ``upper`` the ones that begin before ``column``."""
    last = min(rows, column) if upper else rows
    return (last + TILE - 1) // TILE


def part_shapes(k0: int, k1: int, width: int) -> list[tuple[int, int, int]]:
    """Return the first row, the rows of a tile, and the number of tiles of each part."""
    shapes = []
    most = max(1, _ELEMENTS // width)
    whole = (k1 - k0) // TILE
    for t in range(0, whole, most):
        shapes.append((k0 + t * TILE, TILE, min(most, whole - t)))
    if k0 + whole * TILE < k1:
        shapes.append((k0 + whole * TILE, k1 - k0 - whole * TILE, 1))
    return shapes


def tile_places(parts: list[Tile]) -> list[tuple[int, int]]:
    """Return the part, and the tile within it, of each tile of the contraction."""
    places = []
    for p in range(len(parts)):
        for t in range(parts[p].shape[2]):
            places.append((p, t))
    return places


def load_plane(plane: Tile, k: int, rows: int, tiles: int, c0: int, c1: int) -> Tile:
    """Return ``tiles`` tiles of a plane in SBUF, (rows, tiles, columns), in one transfer."""
    columns = plane.shape[1]
    tile = nl.ndarray((rows, tiles, c1 - c0), dtype=nl.float32, buffer=nl.sbuf)
    pattern = [[columns, rows], [rows * columns, tiles], [1, c1 - c0]]
    nisa.dma_copy(dst=tile, src=plane.ap(pattern=pattern, offset=k * columns + c0))
    return tile


def fast_two_sum(a: Tile, b: Tile, engine: Any, last: Any) -> tuple[Tile, Tile]:
    """Return the rounded sum of ``a`` and ``b``, and its error, in SBUF.

    The error is exact if ``|a| >= |b|``, and also if ``a`` is a multiple of the last bit of ``b``.
    ``a`` may be in PSUM; ``last`` is the engine of the operation that does not read it.
    """
    total = nl.ndarray(b.shape, dtype=nl.float32, buffer=nl.sbuf)
    rest = nl.ndarray(b.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=a, data2=b, op=nl.add, engine=engine)
    nisa.tensor_tensor(dst=rest, data1=total, data2=a, op=nl.subtract, engine=engine)
    nisa.tensor_tensor(dst=rest, data1=b, data2=rest, op=nl.subtract, engine=last)
    return total, rest


def cut_digits(
    high: Tile, low: Tile, k0: int, k1: int, c0: int, c1: int, slices: int, engines: tuple[Any, ...]
) -> list[Tile]:
    """Return the panel of the sum of two planes, in bfloat16 digits; see ``cut``.

    ``engines`` compute the parts in turn.
    """
    parts = []
    shapes = part_shapes(k0, k1, c1 - c0)
    for p in range(len(shapes)):
        k, rows, tiles = shapes[p]
        rest = load_plane(high, k, rows, tiles, c0, c1)
        error = load_plane(low, k, rows, tiles, c0, c1)
        part = nl.ndarray((rows, slices, tiles, c1 - c0), dtype=nl.bfloat16, buffer=nl.sbuf)
        digits = []
        for s in range(slices):
            digits.append(part[0:rows, s])
        cut(rest, error, digits, 0, engines[p % len(engines)])
        parts.append(part)
    return parts


def cut(rest: Tile, error: Tile, digits: list[Tile], exponent: int, engine: Any) -> None:
    """Write the bfloat16 digits of ``rest + error``, whose entries are at most 2**exponent.

    In units of 2**exponent, digit s = 1, 2, ... is a multiple of ``2**(1 - 7 s)``, at most 64 times
    this, rounded to nearest. The remainder is at most half a unit. The error is added before digit
    3 is taken. The remainder until then is a multiple of the last bit of the error, so
    ``fast_two_sum`` is exact. The sum is rounded, and its rounding error is added before the next
    odd digit. The last of these additions is itself rounded, by less than an eighth of the final
    remainder. ``rest`` is overwritten.
    """
    slices = len(digits)
    last_entry = max(3, slices - 2 + (slices + 1) % 2)
    for s in range(1, slices + 1):
        if s % 2 == 1 and 1 < s < last_entry:
            rest, error = fast_two_sum(rest, error, engine, engine)
        if s == last_entry:
            nisa.tensor_tensor(dst=rest, data1=rest, data2=error, op=nl.add, engine=engine)
        shift = 1.5 * 2.0 ** (24 - 7 * s + exponent)
        nisa.tensor_scalar(
            dst=digits[s - 1],
            data=rest,
            op0=nl.add,
            operand0=shift,
            op1=nl.subtract,
            operand1=shift,
            engine=nisa.engine.vector,
        )
        if s < slices:
            nisa.tensor_tensor(
                dst=rest, data1=rest, data2=digits[s - 1], op=nl.subtract, engine=engine
            )


def cut_halves(plane: Tile, k0: int, k1: int, c0: int, c1: int) -> list[Tile]:
    """Return the panel of a plane in two float16 slices: the rounded values and the remainders."""
    parts = []
    shapes = part_shapes(k0, k1, c1 - c0)
    for p in range(len(shapes)):
        k, rows, tiles = shapes[p]
        values = load_plane(plane, k, rows, tiles, c0, c1)
        part = nl.ndarray((rows, 2, tiles, c1 - c0), dtype=nl.float16, buffer=nl.sbuf)
        nisa.activation(dst=part[0:rows, 0], op=nl.copy, data=values)
        nisa.tensor_tensor(
            dst=part[0:rows, 1],
            data1=values,
            data2=part[0:rows, 0],
            op=nl.subtract,
            engine=nisa.engine.vector if p % 2 else nisa.engine.gpsimd,
        )
        parts.append(part)
    return parts


def group_sum(left: list[Tile], right: list[Tile], pairs: tuple[tuple[int, int], ...]) -> Tile:
    """Return the sum of the products of pairs of slices, in PSUM."""
    lefts, rights = tile_places(left), tile_places(right)
    mw, nw = left[0].shape[3], right[0].shape[3]
    sums = nl.ndarray((mw, nw), dtype=nl.float32, buffer=nl.psum)
    for x in range(len(pairs)):
        i, j = pairs[x][0] - 1, pairs[x][1] - 1
        for t in range(len(lefts)):
            left_part, right_part = left[lefts[t][0]], right[rights[t][0]]
            kw = left_part.shape[0]
            nisa.nc_matmul(
                dst=sums,
                stationary=left_part[0:kw, i, lefts[t][1], 0:mw],
                moving=right_part[0:kw, j, rights[t][1], 0:nw],
                accumulate=(x > 0 or t > 0),
            )
    return sums


def store_parts(parts: list[Tile]) -> list[Tile]:
    """Return a panel's copy in HBM."""
    stored = []
    for part in parts:
        copy = nl.ndarray(part.shape, dtype=part.dtype, buffer=nl.private_hbm)
        nisa.dma_copy(dst=copy, src=part)
        stored.append(copy)
    return stored


def store_zeros(out: Tile, m0: int, m1: int, n0: int, n1: int) -> None:
    """Write zeros to rows ``m0`` to ``m1`` and columns ``n0`` to ``n1`` of a result."""
    if m0 < m1:
        zeros = nl.ndarray((min(TILE, m1 - m0), n1 - n0), dtype=out.dtype, buffer=nl.sbuf)
        nisa.memset(dst=zeros, value=0.0)
        for m in range(m0, m1, TILE):
            rows = min(TILE, m1 - m)
            nisa.dma_copy(dst=out[m : m + rows, n0:n1], src=zeros[0:rows])


def load_parts(stored: list[Tile]) -> list[Tile]:
    """Return a panel from its copy in HBM."""
    parts = []
    for copy in stored:
        part = nl.ndarray(copy.shape, dtype=copy.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=part, src=copy)
        parts.append(part)
    return parts
