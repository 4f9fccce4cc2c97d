"""Panels and tiles of matrix products, on whole numbers, for which every sum is exact."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import nkisim
from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import (
    extents,
    group_starts,
    load_panel,
    new_panel,
    new_totals,
    row_sums,
    store_tiles,
)

TILE = 128


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


@nki.jit
def panel_of(x, layout, k0, k1, c0, c1, stage_tiles):
    """Store the tiles of a panel under one another."""
    panel = new_panel(x, k0, k1, c0, c1)
    nisa.memset(dst=panel, value=0.0)
    load_panel(panel, x, layout, k0, k1, c0, c1, stage_tiles)
    tiles, columns = panel.shape[1], panel.shape[2]
    out = nl.ndarray((tiles * TILE, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for t in range(tiles):
        nisa.dma_copy(dst=out[t * TILE : (t + 1) * TILE, :], src=panel[:, t, :])
    return out


@pytest.mark.parametrize("target", ["gen2", "gen3"])
@pytest.mark.parametrize("stage_tiles", [1, 2, 6])
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_a_panel_holds_part_of_the_contraction_and_some_columns(layout, stage_tiles, target):
    x = numbers(900, 200)
    k0, k1, c0, c1 = 128, 890, 3, 190
    given = x if layout == "rows" else np.ascontiguousarray(x.T)
    run = nkisim.simulate(panel_of, target=target)
    got = run(given, layout, k0, k1, c0, c1, stage_tiles)
    wanted = np.zeros((768, c1 - c0), np.float32)
    wanted[: k1 - k0] = x[k0:k1, c0:c1]
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("target", "transposes", "copies"),
    [
        # 32 by 32 on the Vector engine: 16 of each full tile, 4 by 2 of what is left.
        ("gen2", 5 * 16 + 4 * 2, 0),
        # Four full tiles share a bank and leave it at once.
        ("gen3", 6, 3),
    ],
)
def test_transposes_of_five_tiles_and_a_rest(target, transposes, copies):
    executed = Counter()
    run = nkisim.simulate(
        panel_of, target=target, watchers=(lambda event: executed.update([event.instruction]),)
    )
    run(numbers(128, 5 * TILE + 40), "columns", 0, 5 * TILE + 40, 0, 128, 6)
    assert (executed["nc_transpose"], executed["tensor_copy"]) == (transposes, copies)
    assert executed["dma_copy"] == 1 + 6  # one load, and the stores of this test


@nki.jit
def product(a, b, c, alpha, beta, column_cuts, depth_cuts):
    """alpha * a' b + beta * c: column by column block, the contraction in blocks."""
    rows, columns = a.shape[1], b.shape[1]
    out = nl.ndarray((rows, columns), dtype=a.dtype, buffer=nl.shared_hbm)
    for n0, n1 in pairwise(column_cuts):
        middle = (n1 - n0) // 2
        starts = [0, middle, n1 - n0]
        totals = new_totals(rows, n1 - n0, len(depth_cuts) > 2)
        last = len(depth_cuts) - 2
        for i, (k0, k1) in enumerate(pairwise(depth_cuts)):
            left, right = new_panel(a, k0, k1, 0, rows), new_panel(b, k0, k1, n0, n1)
            load_panel(left, a, "rows", k0, k1, 0, rows, 1)
            load_panel(right, b, "rows", k0, k1, n0, n1, 1)
            for m in range(0, rows, TILE):
                mw = min(TILE, rows - m)
                sums = row_sums([left], [right], k0, k1, m, mw, starts, totals)
                if i == last:
                    store_tiles(out, c, m, n0, starts, sums, alpha, beta)
    return out


@pytest.mark.parametrize("depth_cuts", [(0, 300), (0, 128, 300), (0, 128, 256, 300)])
@pytest.mark.parametrize(
    ("alpha", "beta"), [(1.0, None), (2.0, None), (1.0, 1.0), (2.0, 1.0), (1.0, 3.0), (2.0, -3.0)]
)
def test_a_product_in_blocks_is_the_product(alpha, beta, depth_cuts):
    a, b, c = numbers(300, 150), numbers(300, 70, seed=1), numbers(150, 70, seed=2)
    given = None if beta is None else c
    cuts = (0, 3, 70)  # a run of one column, and of two, among them
    got = nkisim.simulate(product)(a, b, given, alpha, beta or 0.0, cuts, depth_cuts)
    np.testing.assert_array_equal(got, alpha * (a.T @ b) + (beta or 0.0) * c)


@nki.jit
def paired(a, b):
    """The sum of two products: the last left panel goes with the first right one."""
    depth, rows, columns = 128, a.shape[2], b.shape[2]
    out = nl.ndarray((rows, columns), dtype=a.dtype, buffer=nl.shared_hbm)
    panels = []
    for x in (a, b):
        loaded = []
        for i in range(2):
            panel = new_panel(x[i], 0, depth, 0, x.shape[2])
            load_panel(panel, x[i], "rows", 0, depth, 0, x.shape[2], 1)
            loaded.append(panel)
        panels.append(loaded)
    sums = row_sums(*panels, 0, depth, 0, rows, [0, columns], None)
    store_tiles(out, None, 0, 0, [0, columns], sums, 1.0, 0.0)
    return out


def test_several_panels_go_crosswise_into_one_sum():
    a, b = numbers(2, 128, 20), numbers(2, 128, 30, seed=1)
    wanted = a[0].T @ b[1] + a[1].T @ b[0]
    np.testing.assert_array_equal(nkisim.simulate(paired)(a, b), wanted)


@pytest.mark.parametrize(("shape", "batch"), [((5, 7), ()), ((5, 7), (3,))])
def test_extents_name_the_contraction_first(shape, batch):
    class Operand:
        pass

    x = Operand()
    x.shape = (*batch, *shape)
    assert extents(x, "rows") == (5, 7)
    assert extents(x, "columns") == (7, 5)


def test_groups_start_where_their_column_tiles_do():
    # 1300 columns are 11 units of 128 in three tiles: 3, 4 and 4 of them, the last one cut short.
    assert group_starts(0, 3, 1300, 0) == [0, 384, 896, 1300]
    assert group_starts(1, 3, 1300, 384) == [0, 512, 916]


@nki.jit
def totals_of(x, height):
    """Store the shape of the totals of a block, as far as it is not 128 and the width."""
    totals = new_totals(height, 6, True)
    out = nl.ndarray((totals.shape[1], totals.shape[2]), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((totals.shape[1], totals.shape[2]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=1.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.parametrize(("height", "tiles"), [(1, 1), (127, 1), (128, 1), (129, 2), (256, 2)])
def test_totals_have_no_more_tiles_than_rows_need(height, tiles):
    assert nkisim.simulate(totals_of)(numbers(1, 1), height).shape == (tiles, 6)


@pytest.mark.parametrize(("depth", "tiles"), [(1, 1), (128, 1), (129, 2), (256, 2)])
def test_panels_have_no_more_tiles_than_their_depth_needs(depth, tiles):
    got = nkisim.simulate(panel_of)(numbers(300, 3), "rows", 0, depth, 0, 3, 1)
    assert got.shape == (tiles * TILE, 3)
