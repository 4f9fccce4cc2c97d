"""What a cut of a product moves and computes, against loops that go through the schedule."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn import examples
from trnsci.core.tiles.tiling import Blocks, Tiling, column_start, column_tiles, fewest_bytes
from trnsci.core.tiles.tiling_gemm import Problem, outgoing_bytes, price, stage_tiles

SIZE = {"float32": 4, "bfloat16": 2}


def tiles_of(extent):
    """Extents of the tiles of 128 in an extent."""
    return [min(128, extent - start) for start in range(0, extent, 128)]


def column_tiles_of(columns):
    starts = [column_start(t, columns) for t in range(column_tiles(columns) + 1)]
    return [last - first for first, last in itertools.pairwise(starts)]


def blocks_of(tiles, count):
    return [tiles[i : i + count] for i in range(0, len(tiles), count)]


def loads(problem, blocks):
    """Yield the operand and the extent of every block that is loaded, in order."""
    rows = blocks_of(tiles_of(problem.rows), blocks.row_tiles)
    columns = blocks_of(column_tiles_of(problem.columns), blocks.column_tiles)
    for entry in range(problem.batch):
        if blocks.resident == "a":
            for row in rows:
                if entry == 0 or problem.shared != "a":
                    yield "a", sum(row)
                yield from (("b", sum(column)) for column in columns)
        elif blocks.resident == "b":
            for column in columns:
                if entry == 0 or problem.shared != "b":
                    yield "b", sum(column)
                yield from (("a", sum(row)) for row in rows)
        else:
            for row, column in itertools.product(rows, columns):
                yield "a", sum(row)
                yield "b", sum(column)


problems = st.builds(
    Problem,
    rows=st.integers(1, 700),
    columns=st.integers(1, 2600),
    depth=st.integers(1, 700),
    dtype=st.sampled_from(sorted(SIZE)),
    generation=st.sampled_from(["gen2", "gen3", "gen4"]),
    a_layout=st.sampled_from(["rows", "columns"]),
    b_layout=st.sampled_from(["rows", "columns"]),
    batch=st.integers(1, 3),
    shared=st.sampled_from(["", "a", "b"]),
)
counts = st.integers(1, 6)


@examples(100)
@given(problems, counts, counts, st.sampled_from(["a", "b", ""]), st.integers(1, 4))
def test_bytes_products_and_transposes_are_those_of_the_schedule(p, row, column, resident, group):
    depth = len(tiles_of(p.depth))
    blocks = Blocks(row, column, depth, resident, group, stage_tiles(depth, SIZE[p.dtype]))
    found = price(p, blocks, 2)
    moved = transposes = 0
    for operand, extent in loads(p, blocks):
        moved += extent * p.depth
        if (p.a_layout if operand == "a" else p.b_layout) != "rows":
            transposes += len(tiles_of(extent)) * depth
    moved += p.batch * p.rows * p.columns
    products = len(tiles_of(p.rows)) * len(column_tiles_of(p.columns)) * depth
    assert found.hbm_bytes == moved * SIZE[p.dtype]
    assert found.products == p.batch * products
    assert found.transposes == transposes
    on_chip = p.generation != "gen2" and "columns" in (p.a_layout, p.b_layout)
    assert found.psum_banks == 2 * group + 2 * on_chip


def test_an_operand_transposed_on_the_tensor_engine_leaves_room_for_its_banks():
    p = Problem(512, 4096, 512, "float32", "gen3", "columns", "rows")
    assert p.group_limit == 3
    assert replace(p, a_layout="rows").group_limit == 4
    assert replace(p, generation="gen2").group_limit == 4  # its Vector engine transposes


@pytest.mark.parametrize(
    ("depth", "itemsize", "tiles"), [(3, 4, 3), (8, 4, 8), (9, 4, 8), (20, 2, 16)]
)
def test_a_staged_load_has_at_most_four_kib_per_row(depth, itemsize, tiles):
    assert stage_tiles(depth, itemsize) == tiles


def test_what_goes_out_is_two_rows_and_two_scaled_tiles():
    assert outgoing_bytes(300, 2) == 2 * 300 * 2 + 2 * 300 * 4
    assert outgoing_bytes(2048, 4) == 2 * 2048 * 4 + 2 * 512 * 4


def sbuf_of(p, blocks, buffers):
    return price(p, blocks, buffers).sbuf_bytes - outgoing_bytes(512, SIZE[p.dtype])


def test_a_second_buffer_is_for_what_passes_by():
    """256 rows of A in two blocks, 1024 columns of B in two: a tile of float32 takes 512 bytes."""
    p = Problem(256, 1024, 256, "float32", "gen3", "rows", "rows")
    a, b = 2 * 128 * 4, 2 * 512 * 4  # one row tile of A, one column tile of B, all of K
    for resident, passing in (("a", b), ("b", a)):
        blocks = Blocks(1, 1, 2, resident, 1, 2)
        assert sbuf_of(p, blocks, 1) == a + b
        assert sbuf_of(p, blocks, 2) == a + b + passing
        # In a batch the operand that stays is the next one's, too, unless all share it.
        batch = replace(p, batch=2)
        assert sbuf_of(batch, blocks, 2) == 2 * (a + b)
        assert sbuf_of(replace(batch, shared=resident), blocks, 2) == a + b + passing
    # A block of the result that stays is in float32, and both operands pass by.
    assert sbuf_of(p, Blocks(1, 1, 1, "", 1, 1), 2) == 2 * (a + b) // 2 + 512 * 4
    # What is transposed on chip is staged first, twice.
    turned = replace(p, a_layout="columns")
    assert sbuf_of(turned, Blocks(1, 1, 2, "a", 1, 2), 1) == a + b + 2 * 2 * 128 * 4


def test_one_product_that_fits_has_nothing_passing_by():
    p = Problem(128, 512, 256, "float32", "gen3", "rows", "rows")
    assert sbuf_of(p, Blocks(1, 1, 2, "a", 1, 2), 2) == 2 * (128 + 512) * 4


def test_a_single_buffer_waits_for_its_loads():
    cut = Tiling(
        Blocks(1, 1, 1, "a", 1, 1), "gen2", "float32", 2, 180_224, 8, 0, 0, 0, 3.0, 5.0, 7.0
    )
    assert cut.time_ns == 7.0
    assert replace(cut, buffers=1).time_ns == 5.0 + 7.0
    assert cut.fits
    assert not replace(cut, sbuf_bytes=180_225).fits
    assert not replace(cut, psum_banks=9).fits


def test_the_least_traffic_is_one_pass_or_what_the_memory_allows():
    assert fewest_bytes(10, 20, 30, "bfloat16", "gen2") == 2 * (10 * 30 + 30 * 20 + 10 * 20)
    # 128 partitions of 176 KiB and of 8 banks of 2 KiB hold 6 Mi elements of float32.
    held = 128 * (176 + 16) * 1024 // 4
    n = 65536
    assert fewest_bytes(n, n, n, "float32", "gen2") == 4 * int(2 * n**3 / held**0.5 - 2 * held)
