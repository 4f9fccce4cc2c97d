"""What a cut takes by the model, instruction by instruction, and which one of all is chosen."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn import examples
from trnsci.core.errors import FlagError, ShapeError
from trnsci.core.tiles.hardware import CORES
from trnsci.core.tiles.tiling import Blocks
from trnsci.core.tiles.tiling_gemm import (
    Problem,
    best,
    gemm_tiling,
    part,
    price,
    splits,
    stage_tiles,
)

from .test_tiling import SIZE, column_tiles_of, counts, loads, problems, tiles_of


def tensor_ns(p, transposes):
    """Four passes of float32 over the columns of each product, one of bfloat16."""
    core, cycles = CORES[p.generation], 0
    for width in column_tiles_of(p.columns):
        passes = 4 if p.dtype == "float32" else 1
        cycles += (
            p.batch
            * len(tiles_of(p.rows))
            * len(tiles_of(p.depth))
            * (passes * width + core.product_cycles)
        )
    turned = transposes * core.transpose_ns[p.dtype] if p.generation != "gen2" else 0
    return cycles / core.tensor_ghz + turned


def vector_ns(p, depth_blocks, transposes):
    """The way out of PSUM of each row of tiles, of which none takes under 64 cycles."""
    core, tiles = CORES[p.generation], len(column_tiles_of(p.columns))
    of_row = max(p.columns, 64 * tiles) + core.vector_cycles * tiles
    cycles = p.batch * depth_blocks * len(tiles_of(p.rows)) * of_row
    turned = transposes * core.transpose_ns[p.dtype] if p.generation == "gen2" else 0
    return cycles / core.vector_ghz + turned


def transfer_ns(p, elements, instructions):
    core = CORES[p.generation]
    return max(860.0 * instructions, elements * SIZE[p.dtype] / core.dma_bytes_per_ns)


def dma_ns(p, blocks, group_columns):
    """Each operand and the result: its instructions one after the other, or its bytes."""
    depth = len(tiles_of(p.depth))
    elements, instructions = dict.fromkeys("ab", 0), dict.fromkeys("ab", 0)
    layouts = {"a": p.a_layout, "b": p.b_layout}
    for operand, extent in loads(p, blocks):
        elements[operand] += extent * p.depth
        if layouts[operand] == "rows":
            instructions[operand] += depth
        else:
            staged = len(range(0, depth, blocks.stage_tiles))
            instructions[operand] += len(tiles_of(extent)) * staged
    stores = p.batch * len(tiles_of(p.rows)) * len(range(0, p.columns, group_columns))
    return (
        transfer_ns(p, elements["a"], instructions["a"])
        + transfer_ns(p, elements["b"], instructions["b"])
        + transfer_ns(p, p.batch * p.rows * p.columns, stores)
    )


@examples(100)
@given(problems, counts, counts, st.sampled_from(["a", "b", ""]), st.integers(1, 4))
def test_times_are_those_of_the_instructions(p, row, column, resident, group):
    depth = len(tiles_of(p.depth))
    blocks = Blocks(row, column, depth, resident, group, stage_tiles(depth, SIZE[p.dtype]))
    found = price(p, blocks, 2)
    # The widest run of neighbouring tiles of which a group can be.
    tiles = column_tiles_of(p.columns)
    units = 128 * max(1, -(-group * len(tiles_of(p.columns)) // len(tiles)))
    assert found.tensor_ns == pytest.approx(tensor_ns(p, found.transposes))
    assert found.vector_ns == pytest.approx(vector_ns(p, 1, found.transposes))
    assert found.dma_ns == pytest.approx(dma_ns(p, blocks, min(p.columns, units)))
    assert (found.blocks, found.buffers, found.dtype) == (blocks, 2, p.dtype)


@pytest.mark.parametrize(("dtype", "itemsize"), SIZE.items())
def test_a_result_that_stays_is_added_to_once_for_each_block_of_the_depth(dtype, itemsize):
    p = Problem(300, 700, 5 * 128, dtype, "gen3", "rows", "rows")
    found = price(p, Blocks(2, 1, 2, "", 1, 2), 1)
    assert found.vector_ns == pytest.approx(vector_ns(p, 3, 0))
    # Two blocks of rows and two of columns: each operand is read twice.
    assert found.hbm_bytes == itemsize * (2 * 300 * 640 + 2 * 640 * 700 + 300 * 700)


@pytest.mark.parametrize(("rows", "transfers"), [(128, 1), (100, 1), (300, 2), (384, 1)])
def test_times_of_whole_matrices_are_those_of_few_transfers(rows, transfers):
    p = Problem(rows, 100, 128, "float32", "gen3", "columns", "rows", 9)
    found = price(p, Blocks(3, 1, 1, "b", 1, 1, 4), 2)  # three groups
    sizes = ((rows * 128, transfers), (128 * 100, 1), (rows * 100, transfers))
    want = sum(transfer_ns(p, 9 * elements, 3 * count) for elements, count in sizes)
    assert found.dma_ns == pytest.approx(want)


def cuts(p):
    """Every cut that may be chosen, in the order of preference among equals."""
    rows, columns = len(tiles_of(p.rows)), len(column_tiles_of(p.columns))
    depth, limit = len(tiles_of(p.depth)), p.group_limit

    def blocks(row, column, deep, resident):
        group = part(column, limit)
        return Blocks(row, column, deep, resident, group, stage_tiles(deep, SIZE[p.dtype]))

    for row, column, buffers in itertools.product(splits(rows), (4, 3, 2, 1), (2, 1)):
        yield price(p, blocks(row, min(column, columns), depth, "a"), buffers)
    for column, row, buffers in itertools.product(splits(columns), (8, 4, 2, 1), (2, 1)):
        yield price(p, blocks(min(row, rows), column, depth, "b"), buffers)
    for deep, row, buffers in itertools.product((16, 8, 4), splits(rows), (2, 1)):
        if deep < depth:
            for column in sorted(splits(columns), reverse=True):
                cut = price(p, blocks(row, column, deep, ""), buffers)
                if cut.fits:
                    yield cut
                    break


def grouped(p):
    """The cut with whole matrices in a transfer, if 8 KiB per partition hold one.

    Groups are even, of at most 1.5 times the root of the batch.
    """
    m, n, k = p.rows, p.columns, p.depth
    tiles = [[m, n], [k, m], [k, n]]  # rows on partitions, and columns
    tiles += [[m, k]] if p.a_layout != "rows" else []
    tiles += [[n, k]] if p.b_layout != "rows" else []
    largest = max(SIZE[p.dtype] * len(tiles_of(rows)) * columns for rows, columns in tiles)
    matrices = min(p.batch, 8192 // largest)
    if p.batch == 1 or p.shared or n == 1 or matrices == 0:
        return None
    groups = -(-p.batch // min(matrices, round(1.5 * math.sqrt(p.batch))))
    matrices = -(-p.batch // groups)
    columns, depth = len(column_tiles_of(n)), len(tiles_of(k))
    stage, group = stage_tiles(depth, SIZE[p.dtype]), part(columns, p.group_limit)
    return price(p, Blocks(len(tiles_of(m)), columns, depth, "b", group, stage, matrices), 2)


def chosen(p):
    """Of the cuts within a tenth of the shortest time, the one that moves the fewest bytes."""
    whole = grouped(p)
    if whole is not None:
        return whole
    fitting = [cut for cut in cuts(p) if cut.fits]
    limit = 1.1 * min(cut.time_ns for cut in fitting)
    near = [cut for cut in fitting if cut.time_ns <= limit]
    return min(near, key=lambda c: (c.hbm_bytes, c.time_ns, -overlap(c), c.sbuf_bytes))


def overlap(cut):
    """Tiles of a block: at most 2 rows of them, one if they are deep, and 4 columns."""
    blocks = cut.blocks
    columns = min(4, blocks.column_tiles)
    return columns if blocks.depth_tiles > 16 else columns * min(2, blocks.row_tiles)


EXTENTS = (1, 100, 128, 129, 700, 1500, 4096, 10_000)


@examples(60)
@given(
    *[st.one_of(st.sampled_from(EXTENTS), st.integers(2, 20_000))] * 3,
    st.sampled_from(sorted(SIZE)),
    st.sampled_from(["gen2", "gen3", "gen4"]),
    *[st.sampled_from(["rows", "columns"])] * 2,
    st.sampled_from([(1, ""), (3, ""), (3, "a"), (2, "b")]),
)
def test_the_cut_is_the_best_of_all(m, n, k, dtype, generation, a, b, batch):
    found = gemm_tiling(
        m, n, k, dtype, generation, a_layout=a, b_layout=b, batch=batch[0], shared=batch[1]
    )
    if n == 1 and m > 1:  # as its transpose
        m, n, a, b = n, m, b, a
        batch = batch[0], {"a": "b", "b": "a", "": ""}[batch[1]]
    assert found == chosen(Problem(m, n, k, dtype, generation, a, b, *batch))


@pytest.mark.parametrize(
    ("shape", "dtype", "generation", "a", "b"),
    [
        ((6784, 47, 2304), "float32", "gen4", "rows", "columns"),
        ((3397, 557, 777), "bfloat16", "gen4", "rows", "columns"),
        ((2688, 2560, 352), "bfloat16", "gen4", "rows", "columns"),
        ((7103, 1792, 2722), "bfloat16", "gen2", "rows", "columns"),
        ((6992, 1664, 72), "bfloat16", "gen2", "rows", "rows"),
        ((61, 21804, 102), "bfloat16", "gen4", "rows", "columns"),
        ((6656, 9983, 497), "bfloat16", "gen4", "rows", "columns"),
        ((1086, 513, 7008), "bfloat16", "gen2", "rows", "columns"),
        ((2403, 412, 25820), "bfloat16", "gen3", "columns", "rows"),
    ],
)
def test_every_size_of_block_is_the_best_for_some_product(shape, dtype, generation, a, b):
    found = gemm_tiling(*shape, dtype=dtype, generation=generation, a_layout=a, b_layout=b)
    assert found == chosen(Problem(*shape, dtype, generation, a, b))


def test_time_comes_before_bytes_beyond_a_tenth():
    p = Problem(256, 1024, 256, "float32", "gen3", "rows", "rows")
    cut = price(p, Blocks(1, 1, 2, "a", 1, 2), 2)

    def other(time, moved, sbuf=1000):
        return replace(
            cut, tensor_ns=time, vector_ns=0.0, dma_ns=0.0, hbm_bytes=moved, sbuf_bytes=sbuf
        )

    fast, near, far = other(100.0, 50), other(109.0, 40), other(111.0, 30)
    assert best([fast, near, far]) == near
    assert best([far, fast]) == fast
    assert best([other(105.0, 50), fast]) == fast  # the faster of equal bytes
    assert best([other(100.0, 50, 1001), fast]) == fast  # and the smaller of equal time
    wide = replace(other(100.0, 50, 2000), blocks=cut.blocks._replace(row_tiles=2))
    assert best([wide, fast]) == wide  # more tiles in a block, of equal time
    wider = replace(wide, blocks=cut.blocks._replace(row_tiles=3), sbuf_bytes=3000)
    assert best([wider, wide]) == wide  # up to two
    assert best([fast, other(1.0, 1, 10**6)]) == fast  # what does not fit is none
    assert best([other(100.0, 50), other(110.0, 40)]).hbm_bytes == 40


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_sizes_below_one_are_named(sizes):
    said = "sizes must be at least 1, got M={}, N={}, K={}, batch=1".format(*sizes)
    with pytest.raises(ShapeError, match=said):
        gemm_tiling(*sizes)
    with pytest.raises(ShapeError, match="M=1, N=1, K=1, batch=0"):
        gemm_tiling(1, 1, 1, batch=0)
    assert gemm_tiling(1, 1, 1).products == 1
    with pytest.raises(FlagError, match="dtype 'int8', accepted: float32, bfloat16"):
        gemm_tiling(1, 1, 1, "int8")


def test_a_column_is_planned_as_a_row_with_its_operands_exchanged():
    for shared, swapped in (("a", "b"), ("b", "a"), ("", "")):
        column = gemm_tiling(700, 1, 300, a_layout="rows", batch=3, shared=shared)
        row = gemm_tiling(1, 700, 300, a_layout="rows", b_layout="rows", batch=3, shared=swapped)
        assert column == row
