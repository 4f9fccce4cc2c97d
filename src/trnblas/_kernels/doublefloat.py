"""Products of matrices that are sums of two float32 planes, as two planes, in one launch.

Layout   the contraction on partitions: planes (K, M) of the transposed left operand and (K, N) of
         the right one, the matrices of a batch below each other; slices in bfloat16, cut on the
         chip
Limits   entries in [-1, 1]; K and M at least 1, N at least 2; 3 to 16 slices; edges are sliced
Cost     M/128 * K/128 * N/512 products for each pair of slices, four passes of two operands for
         each sum in PSUM; HBM bytes of the planes, and of the left slices once per 512 columns;
         with ``upper``, only the tiles that reach the upper triangle
Lever    bfloat16 products at full rate; sums of several pairs that are exact in PSUM, because
         digits have 7 bits; error-free additions of three operations from the smallest sums up;
         Vector reads PSUM, GpSimd adds up errors; the next panel is cut meanwhile
"""

from __future__ import annotations

from typing import Any

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.doublefloat_arithmetic import two_sum
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.slices import (
    cut_digits,
    fast_two_sum,
    group_sum,
    load_parts,
    store_parts,
    store_zeros,
    tiles_above,
)
from trnsci.core.tiles.tiling import column_start, column_tiles

VECTOR, GPSIMD = nisa.engine.vector, nisa.engine.gpsimd
RIGHT_ENGINES, LEFT_ENGINES = (GPSIMD, VECTOR), (VECTOR,)


@nki.jit
def doublefloat_gemm(
    a_high: Tile,
    a_low: Tile,
    b_high: Tile,
    b_low: Tile,
    slices: int,
    chunk: int,
    groups: tuple[tuple[tuple[int, int], ...], ...],
    edges: tuple[int, ...],
    upper: bool = False,
    exact: bool = False,
) -> tuple[Tile, Tile]:
    """Return two planes whose sum is the product of ``a_high + a_low`` and ``b_high + b_low``.

    Planes of a batch have the matrices below each other: (K, M), (K, N) and, of the result,
    (batch M, N), where K is the sum of the contractions, which may differ.

    Args:
        a_high: The first plane of the transposed left operand.
        a_low: Its second plane, at most half of the last bit of the first.
        b_high: The first plane of the right operand.
        b_low: Its second plane.
        slices: Slices of each operand.
        chunk: Rows of the contraction that are summed in PSUM, a multiple of 128.
        groups: Groups of pairs of slices (numbered from 1); a group shares a sum in PSUM. The
            groups come in ascending magnitude. The last group is slice 1 with itself; the one
            before is slices 1 and 2.
        edges: First row of each product's contraction, then K; one without rows is zero.
        upper: Whether only the upper triangle of the result is needed: zeros are below its tiles.
        exact: Whether errors of all additions are added without error, for bounds by |A| |B|.
    """
    rows, columns = a_high.shape[1], b_high.shape[1]
    batch = len(edges) - 1
    high = nl.ndarray((batch * rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    low = nl.ndarray((batch * rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    for g in range(batch):
        stored: list[list[Any]] = []  # the left slices of each chunk, by row tiles, in HBM
        for t in range(column_tiles(columns)):
            n0, n1 = column_start(t, columns), column_start(t + 1, columns)
            row_tiles = tiles_above(rows, n1, upper) if edges[g] < edges[g + 1] else 0
            store_zeros(high, g * rows + min(row_tiles * TILE, rows), (g + 1) * rows, n0, n1)
            store_zeros(low, g * rows + min(row_tiles * TILE, rows), (g + 1) * rows, n0, n1)
            totals: list[list[Tile]] = []  # sums of each row tile over the previous chunks
            for c in range((edges[g + 1] - edges[g] + chunk - 1) // chunk):
                k0 = edges[g] + c * chunk
                k1 = min(k0 + chunk, edges[g + 1])
                right = cut_digits(b_high, b_low, k0, k1, n0, n1, slices, RIGHT_ENGINES)
                if t == 0:
                    stored.append([])
                lefts, sums = [], []
                for m in range(row_tiles + 1):
                    if m < row_tiles:  # cut one panel before its products
                        if m < len(stored[c]):
                            left = load_parts(stored[c][m])
                        else:
                            m0, m1 = m * TILE, min((m + 1) * TILE, rows)
                            left = cut_digits(a_high, a_low, k0, k1, m0, m1, slices, LEFT_ENGINES)
                            if n1 < columns:
                                stored[c].append(store_parts(left))
                        lefts.append(left)
                    if m > 0:
                        before = None
                        if c > 0:
                            before = load_parts(totals[m - 1])
                        total = add_groups(lefts[m - 1], right, groups, before, exact)
                        if k1 < edges[g + 1]:
                            sums.append(store_parts(total))
                        else:
                            m0, m1 = g * rows + (m - 1) * TILE, g * rows + min(m * TILE, rows)
                            store_sum(high[m0:m1, n0:n1], low[m0:m1, n0:n1], total)
                totals = sums
    return high, low


def add_groups(
    left: list[Tile],
    right: list[Tile],
    groups: tuple[tuple[tuple[int, int], ...], ...],
    before: list[Tile] | None,
    exact: bool,
) -> list[Tile]:
    """Return the sum of all products of two panels, and of ``before``, as three tiles.

    The tiles are the total, the sum of its rounding errors, and the rounding errors of that sum.
    A sum in PSUM is a multiple of the last bit of everything smaller that was added before it, so
    ``fast_two_sum`` gives the exact rounding error of each addition to the total. The errors of
    the first groups are added in float32. The errors of the last two groups, which are not small
    against the result, and of ``before`` are added by ``two_sum``, whose own errors are the third
    tile. If ``exact``, ``two_sum`` adds the sums of all groups, and all errors.
    """
    total = None
    errors: list[Tile] = []
    for g in range(len(groups)):
        sums = group_sum(left, right, groups[g])
        if total is None:
            total = nl.ndarray(sums.shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=total, op=nl.copy, data=sums)
        elif exact:
            total, error = two_sum(total, sums)
            errors.append(error)
        else:
            total, error = fast_two_sum(sums, total, VECTOR, GPSIMD)
            if 1 < g < len(groups) - 2:
                last = errors[0]
                nisa.tensor_tensor(dst=last, data1=last, data2=error, op=nl.add, engine=GPSIMD)
            else:
                errors.append(error)
    if before is not None:
        total, error = two_sum(before[0], total)
        errors.append(error)
        errors.append(before[1])
    middle, small = errors[0], None
    for e in range(1, len(errors)):
        middle, error = two_sum(middle, errors[e])
        if small is None:
            small = error
        else:
            nisa.tensor_tensor(dst=small, data1=small, data2=error, op=nl.add, engine=GPSIMD)
    if before is not None:
        nisa.tensor_tensor(dst=small, data1=small, data2=before[2], op=nl.add, engine=GPSIMD)
    return [total, middle, small]


def store_sum(high: Tile, low: Tile, total: list[Tile]) -> None:
    """Write the sum of three tiles as two planes."""
    first, second = two_sum(total[0], total[1])
    nisa.tensor_tensor(dst=second, data1=second, data2=total[2], op=nl.add, engine=GPSIMD)
    nisa.dma_copy(dst=high, src=first)
    nisa.dma_copy(dst=low, src=second)
