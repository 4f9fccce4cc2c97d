"""Blocks of one triangle: what a cut costs, block after block, and which one of all is chosen."""

from __future__ import annotations

import itertools
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn import examples
from trnblas._kernels.tiling_syrk import syrk_tiling
from trnsci.core.tiles.hardware import CORES
from trnsci.core.tiles.tiling import Blocks, Tiling

SIZE = {"float32": 4, "bfloat16": 2}


def tiles(extent, most=128):
    return -(-extent // most)


def priced(size, depth, dtype, generation, layout, operands, row_tiles, depth_tiles, buffers):
    """The cut as its schedule goes: a block of rows stays, those after it pass by."""
    core, item, step = CORES[generation], SIZE[dtype], 128 * row_tiles
    whole = depth_tiles >= tiles(depth)
    starts = list(range(0, size, step))
    rows_read = pieces = 0
    for first in starts:
        last = min(size, first + step)
        after = [min(step, size - start) for start in starts if start > first]
        # What stays is read again for each block that passes by, if the depth is cut.
        rows_read += (last - first) * (1 if whole else len(after) + 1) + sum(after)
        for m in range(first, last, 128):
            pieces += tiles(last - m, 512) + sum(tiles(width, 512) for width in after)
    products = pieces * operands * tiles(depth)
    triangle = sum(range(1, tiles(size) + 1))
    turned = triangle
    if layout != "rows":
        turned += operands * tiles(depth) * tiles(rows_read)
    columns = 128 * triangle
    streamed = columns * operands * tiles(depth) * (4 if dtype == "float32" else 1)
    tensor = (streamed + products * core.product_cycles) / core.tensor_ghz
    evicted = 2 * columns * tiles(tiles(depth), depth_tiles)
    vector = (evicted + core.vector_cycles * pieces * operands) / core.vector_ghz
    turning = turned * core.transpose_ns[dtype]
    on_tensor = generation != "gen2"
    width = tiles(min(step, size), 512)
    limit = 3 if on_tensor else 4
    group = tiles(width, tiles(width, limit))
    stage = min(depth_tiles, 4096 // (128 * item))
    moved = item * (operands * rows_read * depth + size * size)
    held = min(size, step)
    panel = operands * depth_tiles * held * item
    passing = len(starts) > 1
    if whole:
        room = panel + buffers * panel if passing else panel
    else:
        room = buffers * panel * (2 if passing else 1) + row_tiles * held * 4
    room += 2 * stage * 128 * item + 4 * (min(held, 512) + 128) * 4 + 2 * 128
    return Tiling(
        Blocks(row_tiles, width, depth_tiles, "", group, stage),
        generation,
        dtype,
        buffers,
        room,
        2 * group + (2 if on_tensor else 0),
        moved,
        products,
        turned,
        tensor + (turning if on_tensor else 0.0),
        vector + (0.0 if on_tensor else turning),
        moved / core.dma_bytes_per_ns,
    )


def chosen(size, depth, *rest):
    """Of the cuts within a tenth of the shortest time, the one that moves the fewest bytes."""
    cuts = []
    evenly = sorted({tiles(tiles(size), count) for count in range(1, tiles(size) + 1)})
    for rows in evenly:
        if rows < 4 or rows % 4 == 0 or rows == tiles(size):
            depths = [tiles(depth), *(d for d in (16, 8, 4) if d < tiles(depth))]
            for deep, buffers in itertools.product(depths, (2, 1)):
                cuts.append(priced(size, depth, *rest, rows, deep, buffers))
    cuts = [cut for cut in cuts if cut.fits]
    limit = 1.1 * min(cut.time_ns for cut in cuts)
    near = [cut for cut in cuts if cut.time_ns <= limit]
    return min(near, key=lambda c: (c.hbm_bytes, c.time_ns, -overlap(c.blocks), c.sbuf_bytes))


def overlap(blocks):
    """Tiles of a block: at most 2 rows of them, one if they are deep, and 4 columns."""
    columns = min(4, blocks.column_tiles)
    return columns if blocks.depth_tiles > 16 else columns * min(2, blocks.row_tiles)


@examples(80)
@given(
    *[st.one_of(st.integers(1, 1500), st.integers(1500, 12_000))] * 2,
    st.sampled_from(sorted(SIZE)),
    st.sampled_from(["gen2", "gen3", "gen4"]),
    st.sampled_from(["rows", "columns"]),
    st.sampled_from([1, 2]),
)
def test_the_cut_is_the_best_of_all(size, depth, dtype, generation, layout, operands):
    found = syrk_tiling(size, depth, dtype, generation, layout=layout, operands=operands)
    wanted = chosen(size, depth, dtype, generation, layout, operands)
    for field in fields(Tiling):
        got, want = (getattr(cut, field.name) for cut in (found, wanted))
        assert got == (pytest.approx(want) if isinstance(want, float) else want), field.name


def test_one_operand_that_is_turned_unless_it_is_said():
    assert syrk_tiling(300, 200) == syrk_tiling(
        size=300, depth=200, dtype="float32", generation=None, layout="columns", operands=1
    )
    assert syrk_tiling(1, 1).products == 1
