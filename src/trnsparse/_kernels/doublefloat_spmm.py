"""The product of a sparse matrix by rows and a dense matrix, both sums of two float32 planes.

u = 2**-24. The error of an entry is at most 16 u**2 |A| |B|, whatever the signs: 8 u**2 of a
product (its rounding error is a number; of the small terms, the product of both low parts is left
out and five operations round), u**2 of the planes of both operands, u**2 of the result's low part.
Sums are exact: the errors of the first parts are added to the second ones, and theirs to a third
one, in which up to 128 terms lose less than u**2.

Layout   rows sorted by length, 128 on partitions; their s-th entries are a slot, a column of
         the operands of entries. A tile has a power of two of slots, each with up to 512 columns
Limits   any shape; up to 128 entries in a row, the caller cuts longer ones. Every sum of moduli is
         0 or at least 2**-63, no entry is larger than 1
Cost     one gather of 128 rows of both planes for each slot; 17 Vector passes over a tile for its
         products, and 21 for each addition, most of them of half a tile and less
Lever    both planes of a row lie side by side, so that a product takes as many gathers as in
         float32, and narrow ones as much time; the slots of a tile share the instructions; sums
         are folded in halves, so that no order of entries has a long chain of additions
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.doublefloat_arithmetic import combined, halves, two_product, two_sum
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import BANK, TILE
from trnsci.core.tiles.slices import store_zeros
from trnsci.core.tiles.transfers import copy

WINDOW = 512
"""Slots of entries that are loaded at once."""

Term = list[Tile]
"""Tiles whose sum is a number: its first part, the second, and the third one if there is one."""


@nki.jit
def doublefloat_spmm(
    v_high: Tile, v_low: Tile, columns: Tile, b: Tile, slots: tuple[int, ...], rows: int
) -> tuple[Tile, Tile]:
    """Return the planes of the product, (rows, N), of a matrix whose rows are sorted by length.

    Args:
        v_high: The first plane of the entries, (128, slots); 0 where a row has none.
        v_low: Their second plane.
        columns: Their columns, (128, slots) in uint32; any of the matrix where a row has none.
        b: The first plane of the dense operand, and the second to its right, (n, 2 N).
        slots: Length of the longest of each 128 sorted rows.
        rows: Rows of the result.
    """
    width = b.shape[1] // 2
    high = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.shared_hbm)
    low = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.shared_hbm)
    for c0 in range(0, width, BANK):
        c1 = min(c0 + BANK, width)
        slot, end = 0, 0
        loaded: list[Tile] = []
        for run in equal_groups(slots, c1 - c0):
            m0 = run.first * TILE
            if run.length == 0:
                store_zeros(high, m0, rows, c0, c1)
                store_zeros(low, m0, rows, c0, c1)
                continue
            total: Term = []
            for s0 in range(0, run.length, run.size):
                count = min(run.size, run.length - s0)
                if slot + run.groups * count > end:
                    first, end = slot, min(slot + WINDOW, v_high.shape[1])
                    loaded = window(v_high, v_low, columns, first, end)
                rows_of_b = gathered(b, loaded[4], slot - first, count, run, c0, c1)
                term = products(rows_of_b, loaded, slot - first, count)
                total = term if s0 == 0 else added(total, term)
                slot = slot + run.groups * count
            total = folded(total)
            first_part, second = two_sum(total[0], total[1])
            if len(total) == 3:
                second = combined(second, total[2], nl.add)
            for g in range(run.groups):
                r0, r1 = m0 + g * TILE, min(m0 + (g + 1) * TILE, rows)
                part = first_part[0 : r1 - r0, g, 0, 0 : c1 - c0]
                copy(high[r0:r1, c0:c1], part, second=True)
                part = second[0 : r1 - r0, g, 0, 0 : c1 - c0]
                copy(low[r0:r1, c0:c1], part, second=True)
    return high, low


class Run(NamedTuple):
    """Groups of 128 rows that are computed together, in tiles (128, groups, size, columns).

    Attributes:
        first: The first group.
        groups: Their number, 1 where a tile does not hold all slots of a group.
        length: Slots of each group.
        size: Slots of a tile: a power of two.
    """

    first: int
    groups: int
    length: int
    size: int


def equal_groups(slots: tuple[int, ...], width: int) -> list[Run]:
    """Return the groups in runs; those without slots, which are the last ones, are one run."""
    runs = []
    first = 0
    while first < len(slots):
        length = slots[first]
        size = tile_slots(length, width)
        most = max(1, BANK // (size * width)) if length <= size else 1
        groups = 1
        while first + groups < len(slots) and slots[first + groups] == length and groups < most:
            groups = groups + 1
        if length == 0:
            groups = len(slots) - first
        runs.append(Run(first, groups, length, size))
        first = first + groups
    return runs


def tile_slots(length: int, width: int) -> int:
    """Return the slots of a tile: a power of two, no more than rows of ``length`` entries need."""
    size = 1
    for power in range(1, 8):
        if size < length and 2**power * width <= BANK:
            size = 2**power
    return size


def window(v_high: Tile, v_low: Tile, columns: Tile, first: int, end: int) -> list[Tile]:
    """Return entries in two planes, the halves of the first, and their columns.

    Each tile ends with zeros: a product reads as many slots as its tile has.
    """
    planes = []
    for x in (v_high, v_low):
        tile = nl.ndarray((TILE, end - first + TILE), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile[0:TILE, end - first : end - first + TILE], value=0.0)
        copy(tile[0:TILE, 0 : end - first], x[0:TILE, first:end])
        planes.append(tile)
    index = nl.ndarray((TILE, end - first), dtype=nl.uint32, buffer=nl.sbuf)
    copy(index, columns[0:TILE, first:end])
    upper, lower = halves(planes[0])
    return [planes[0], planes[1], upper, lower, index]


def gathered(b: Tile, index: Tile, at: int, count: int, run: Run, c0: int, c1: int) -> Tile:
    """Return both planes of the rows that ``count`` slots of each group name.

    The tile is (128, 2, groups, size, c1 - c0).
    """
    width, wide = b.shape[1] // 2, c1 - c0
    groups, size = run.groups, run.size
    tile = nl.ndarray((TILE, 2, groups, size, wide), dtype=nl.float32, buffer=nl.sbuf)
    if count < size:
        nisa.memset(dst=tile[0:TILE, 0:2, 0:groups, count:size, 0:wide], value=0.0)
    for s in range(groups * count):
        nisa.dma_copy(
            dst=tile[0:TILE, 0:2, s // count, s % count, 0:wide],
            src=b.ap(
                pattern=[[2 * width, TILE], [width, 2], [1, wide]],
                offset=c0,
                vector_offset=index[0:TILE, at + s : at + s + 1],
                indirect_dim=0,
            ),
            dge_mode=nisa.dge_mode.swdge,
        )
    return tile


def products(rows_of_b: Tile, loaded: list[Tile], at: int, count: int) -> Term:
    """Return the products of gathered rows with ``count`` entries of each group from ``at`` on."""
    _, _, groups, size, wide = rows_of_b.shape
    entries = []
    for x in loaded[0:4]:
        pattern = [[x.shape[1], TILE], [count, groups], [1, size], [0, wide]]
        entries.append(x.ap(pattern=pattern, offset=at))
    b_high, b_low = rows_of_b[0:TILE, 0], rows_of_b[0:TILE, 1]
    product, error = two_product(b_high, entries[0], halves(b_high), (entries[2], entries[3]))
    cross = combined(b_high, entries[1], nl.multiply)
    cross = combined(cross, combined(b_low, entries[0], nl.multiply), nl.add)
    return [product, combined(error, cross, nl.add)]


def added(x: Term, y: Term) -> Term:
    """Return the sum of two terms; what it loses is rounded errors of errors of errors."""
    first, error = two_sum(x[0], y[0])
    second, rest = two_sum(x[1], y[1])
    second, more = two_sum(second, error)
    third = combined(rest, more, nl.add)
    for term in (x, y):
        if len(term) == 3:
            third = combined(third, term[2], nl.add)
    return [first, second, third]


def folded(x: Term) -> Term:
    """Return the sums over the slots of a tile, with one slot."""
    _, groups, size, wide = x[0].shape
    for power in range(6, -1, -1):
        half = 2**power
        if 2 * half <= size:
            left, right = [], []
            for tile in x:
                left.append(tile[0:TILE, 0:groups, 0:half, 0:wide])
                right.append(tile[0:TILE, 0:groups, half : 2 * half, 0:wide])
            x = added(left, right)
    return x
