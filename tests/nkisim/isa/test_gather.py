"""Gathers, the shuffle and the two compactions, element by element and bit by bit."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same_bits
from drawn import examples
from each_case import each_case
from oracles import gather
from oracles.elementwise import DTYPES, reals

from .harness import ALL_DTYPES, FLOATS, PARTITIONS, Operand, Problem, run

SIZES = [1, 2, 3, 31, 32, 33, 65]
UNTOUCHED = 4  # what integers that nothing wrote read as; floats read as NaN


def whole(array: np.ndarray) -> Operand:
    """All of a tile."""
    return Operand(array, lambda t: t, np.arange(array.size).reshape(array.shape))


def indices_below(problem: Problem, operand: Operand, bound: int) -> Operand:
    """The same view with indices into ``bound`` elements, the first and the last among them."""
    choice = problem.choose([[0, bound - 1], np.arange(bound)])
    base = problem.rng.choice(choice, operand.base.shape)
    return replace(operand, base=base.astype(operand.dtype))


def out(tile):
    """A new output with the contents of a tile."""
    result = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=result, src=tile)
    return result


def assert_undefined(got: np.ndarray) -> None:
    """Every element reads as memory that nothing wrote."""
    values = reals(got)
    undefined = values == UNTOUCHED if got.dtype.kind in "iu" else np.isnan(values)
    assert undefined.all(), got


# -- nc_n_gather -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@examples(12)
@given(data=st.data())
def test_n_gather(dtype, data):
    problem = Problem(data, sizes=SIZES)
    start = problem.start()
    x = problem.read(dtype, problem.free_shape(), start, "patterns")
    count = problem.free_shape()
    indices = problem.read("uint32", count, start)
    indices = indices_below(problem, indices, x.rows.shape[1])
    dst = problem.write(dtype, problem.choose([count, (prod(count),)]), start, "patterns")

    def instruction(x, indices, dst):
        nisa.nc_n_gather(dst=dst, data=x, indices=indices)

    got = run(instruction, {"x": x, "indices": indices, "dst": dst})["dst"]
    assert_same_bits(got, gather.n_gather(x.rows, indices.rows))


@each_case("dtype", ALL_DTYPES)
def test_n_gather_beyond_the_data_is_undefined_there_only(dtype):
    rng = np.random.default_rng(0)
    data = rng.integers(5, 100, (40, 6)).astype(DTYPES[dtype])
    indices = rng.integers(0, 6, (40, 9)).astype(np.uint32)
    outside = np.zeros((40, 9), bool)
    outside[3, 2] = outside[39, 0] = outside[39, 8] = True
    wrong = np.where(outside, np.uint32([6, 7, 8, 9, 10, 11, 2**16, 2**31, 2**32 - 1]), indices)
    operands = {
        "data": whole(data),
        "indices": whole(wrong.astype(np.uint32)),
        "dst": whole(np.zeros((40, 9), data.dtype)),
    }

    def instruction(data, indices, dst):
        nisa.nc_n_gather(dst=dst, data=data, indices=indices)

    got = run(instruction, operands, allow={"S050"})["dst"]
    assert_same_bits(got[~outside], gather.n_gather(data, indices)[~outside])
    assert_undefined(got[outside])


# -- local_gather ----------------------------------------------------------------------------------

WIDTHS = [1, 2, 4, 8, 16, 32]
CORES = [16, 32, 48, 64, 80, 96, 112, 128]


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@examples(15)
@given(data=st.data())
def test_local_gather(dtype, data):
    problem = Problem(data, partitions=CORES)
    start = problem.start()
    width = problem.choose(WIDTHS)
    shape = problem.choose([(width,), (width + 1,), (67,), (3, 11, 2), (5, width), (2, 3, 4, 5)])
    x = problem.read(dtype, shape, start, "patterns")
    size = prod(shape)
    if size < width:
        width = 1
    columns = problem.choose([(1,), (2,), (5,), (3, 2)])
    # An index is the offset of an element, and a run may start at any of them.
    index = indices_below(problem, problem.read("uint16", columns, start), size - width + 1)
    most = 16 * prod(columns)
    valid = problem.choose([None, most, most - 1, most - 15, 1, 7])
    count = most if valid is None else valid
    tail = problem.choose([0, 0, 1, 5])
    free = problem.choose([(count * width + tail,), (count + tail, width), (1, count, width)])
    dst = problem.write(dtype, free, start, "patterns")
    arguments = {} if valid is None else {"num_valid_indices": valid}

    def instruction(x, index, dst):
        nisa.local_gather(dst=dst, src_buffer=x, index=index, num_elem_per_idx=width, **arguments)

    got = run(instruction, {"x": x, "index": index, "dst": dst})["dst"]
    assert_same_bits(got, gather.local_gather(dst.rows, x.rows, index.rows, width, valid))


def test_local_gather_takes_its_indices_down_the_partitions():
    data = np.tile(np.arange(40, dtype=np.float32), (32, 1))
    index = np.arange(64, dtype=np.uint16).reshape(32, 2) // 2
    operands = {
        "data": whole(data),
        "index": whole(index),
        "dst": whole(np.zeros((32, 32), np.float32)),
    }

    def instruction(data, index, dst):
        nisa.local_gather(dst, data, index)

    got = run(instruction, operands)["dst"]
    down = list(range(16))
    assert got[:16].tolist() == [down + down] * 16
    assert got[16:].tolist() == [[16 + i for i in down + down]] * 16


def test_local_gather_of_the_most_indices():
    rng = np.random.default_rng(0)
    data = rng.standard_normal((16, 50), dtype=np.float32)
    index = rng.integers(0, 50, (16, 256)).astype(np.uint16)
    operands = {
        "data": whole(data),
        "index": whole(index),
        "dst": whole(np.zeros((16, 4096), np.float32)),
    }

    def instruction(data, index, dst):
        nisa.local_gather(dst=dst, src_buffer=data, index=index)

    got = run(instruction, operands)["dst"]
    assert_same_bits(got, gather.local_gather(np.zeros_like(got), data, index, 1, None))


@each_case("dtype", ALL_DTYPES)
@each_case(("width", "wrong"), [(1, 12), (4, 9), (4, 60000)])
def test_local_gather_beyond_the_source_is_undefined_there_only(dtype, width, wrong):
    rng = np.random.default_rng(0)
    data = rng.integers(5, 100, (32, 12)).astype(DTYPES[dtype])
    index = rng.integers(0, 8, (32, 1)).astype(np.uint16)
    legal = gather.local_gather(np.zeros((32, 16 * width), data.dtype), data, index, width, None)
    index[19] = wrong
    outside = np.zeros(legal.shape, bool)
    for j in range(width):
        outside[16:, 3 * width + j] = wrong + j >= 12
    operands = {"data": whole(data), "index": whole(index), "dst": whole(0 * legal)}

    def instruction(data, index, dst):
        nisa.local_gather(dst=dst, src_buffer=data, index=index, num_elem_per_idx=width)

    got = run(instruction, operands, allow={"S050"})["dst"]
    assert outside.any()
    assert_undefined(got[outside])
    elsewhere = np.ones(legal.shape, bool)
    elsewhere[16:, 3 * width : 4 * width] = False
    assert_same_bits(got[elsewhere], legal[elsewhere])


def gathered_columns(data, index, columns):
    picked = nl.ndarray((16, 20), dtype=data.dtype, buffer=nl.sbuf)
    nisa.local_gather(
        dst=picked, src_buffer=nl.load(data), index=nl.load(index), num_valid_indices=9
    )
    return out(picked[:, 0:columns])


def test_local_gather_writes_what_it_gathers_and_no_more():
    data = np.random.default_rng(0).standard_normal((16, 30), dtype=np.float32)
    index = np.arange(16, dtype=np.uint16).reshape(16, 1)
    assert not nkisim.check(gathered_columns)(data, index, 9).findings
    assert nkisim.check(gathered_columns)(data, index, 10).codes == {"M001"}


# -- nc_stream_shuffle -----------------------------------------------------------------------------


def draw_mask(problem: Problem, below: int) -> list[int]:
    """Thirty-two rows that exist in every quadrant, some of them kept."""
    kept = problem.choose([0.0, 0.3, 1.0])
    rows = problem.rng.integers(0, below, 32)
    keep = problem.rng.random(32) < kept
    return [gather.KEEP if k else int(row) for row, k in zip(rows, keep, strict=True)]


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@examples(15)
@given(data=st.data())
def test_stream_shuffle(dtype, data):
    problem = Problem(data, sizes=SIZES)
    src_rows = problem.partitions
    quadrants = -(-src_rows // 32)
    dst_rows = problem.choose([rows for rows in PARTITIONS if rows <= 32 * quadrants])
    last = -(-dst_rows // 32) - 1
    mask = draw_mask(problem, min(32, src_rows - 32 * last))
    free = problem.free_shape()
    # Starts follow from the larger of the two operands, rounded up to whole quadrants.
    active = problem.on(32 * quadrants)
    places = ["sbuf", "psum"] if dtype in ("float32", "bfloat16") else ["sbuf"]
    src_place, dst_place = problem.choose(places), problem.choose(places)
    kinds = {"sbuf": "patterns", "psum": "any"}
    src = problem.read(dtype, free, active.start(), kinds[src_place], src_place)
    dst = problem.on(dst_rows).write(dtype, free, active.start(), kinds[dst_place], dst_place)

    def instruction(src, dst):
        nisa.nc_stream_shuffle(dst=dst, src=src, shuffle_mask=mask)

    got = run(instruction, {"src": src, "dst": dst})["dst"]
    assert_same_bits(got, gather.stream_shuffle(dst.rows, src.rows, mask))


@examples(30)
@given(data=st.data())
def test_stream_shuffle_in_place(data):
    problem = Problem(data, sizes=SIZES)
    below = problem.partitions - 32 * ((problem.partitions - 1) // 32)
    active = problem.on(32 * -(-problem.partitions // 32))
    x = problem.write(problem.choose(ALL_DTYPES), problem.free_shape(), active.start(), "patterns")
    mask = draw_mask(problem, below)

    def instruction(x):
        nisa.nc_stream_shuffle(dst=x, src=x, shuffle_mask=mask)

    got = run(instruction, {"x": x}, ("x",))["x"]
    assert_same_bits(got, gather.stream_shuffle(x.rows, x.rows, mask))


@each_case("start", [0, 32, 64, 96])
@each_case("dtype", ALL_DTYPES)
def test_a_mask_of_zeros_broadcasts_one_partition(dtype, start):
    rng = np.random.default_rng(0)
    row = rng.integers(0, 100, (1, 7)).astype(DTYPES[dtype])
    base = np.zeros((128, 7), row.dtype)
    positions = np.arange(base.size).reshape(128, 7)[start : start + 32]
    dst = Operand(base, lambda t: t[start : start + 32], positions)

    def instruction(row, dst):
        nisa.nc_stream_shuffle(dst=dst, src=row, shuffle_mask=[0] * 32)

    got = run(instruction, {"row": whole(row), "dst": dst})["dst"]
    assert_same_bits(got, np.repeat(row, 32, axis=0))


def test_a_mask_of_255_changes_no_bit():
    dst = np.random.default_rng(0).integers(0, 2**32, (96, 5), np.uint32)
    src = np.zeros_like(dst)

    def instruction(src, dst):
        nisa.nc_stream_shuffle(dst, src, [255] * 32)

    got = run(instruction, {"src": whole(src), "dst": whole(dst)})["dst"]
    assert_same_bits(got, dst)


def test_shuffling_back_and_forth_restores_every_quadrant():
    rng = np.random.default_rng(0)
    forth = [int(i) for i in rng.permutation(32)]
    back = [forth.index(i) for i in range(32)]
    x = rng.integers(0, 2**32, (128, 3), np.uint32)

    def instruction(x, there):
        nisa.nc_stream_shuffle(dst=there, src=x, shuffle_mask=forth)
        nisa.nc_stream_shuffle(dst=x, src=there, shuffle_mask=back)

    got = run(instruction, {"x": whole(x), "there": whole(0 * x)}, ("x", "there"))
    assert_same_bits(got["x"], x)
    assert (got["there"] != x).any()


def shuffled_from_two_rows(data):
    picked = nl.ndarray((32, 4), dtype=data.dtype, buffer=nl.sbuf)
    nisa.nc_stream_shuffle(dst=picked, src=nl.load(data), shuffle_mask=[1, 2] * 16)
    return out(picked)


@each_case("dtype", [*FLOATS, "int32", "uint8"])
def test_rows_that_the_source_does_not_have_are_undefined(dtype):
    data = np.arange(8, 16).reshape(2, 4).astype(DTYPES[dtype])
    report = nkisim.check(shuffled_from_two_rows)(data)
    assert report.codes == {"S050"}
    assert_same_bits(report.outputs[0::2], np.repeat(data[1:2], 16, axis=0))
    assert_undefined(report.outputs[1::2])


def shuffled_rows(data, rows):
    picked = nl.ndarray((32, 4), dtype=data.dtype, buffer=nl.sbuf)
    nisa.nc_stream_shuffle(dst=picked, src=nl.load(data), shuffle_mask=[31] * 8 + [255] * 24)
    return out(picked[0:rows])


def test_kept_rows_do_not_count_as_written():
    data = np.random.default_rng(0).standard_normal((32, 4), dtype=np.float32)
    assert not nkisim.check(shuffled_rows)(data, 8).findings
    assert nkisim.check(shuffled_rows)(data, 9).codes == {"M001"}


# -- nonzero_with_count ----------------------------------------------------------------------------


def sparse(problem: Problem, operand: Operand) -> Operand:
    """The same view with zeros of both signs, all or no zeros in some partitions."""
    share = problem.rng.choice([0.0, 0.1, 0.5, 1.0], (len(operand.base), 1))
    flat = (len(operand.base), -1)
    values = operand.base.reshape(flat).copy()
    drop = problem.rng.random(values.shape) < share
    negative_zero = np.array(-0.0).astype(values.dtype)
    values[drop] = problem.rng.choice(np.array([0, negative_zero], values.dtype), drop.sum())
    return replace(operand, base=values.reshape(operand.base.shape))


@pytest.mark.parametrize("target", ["gen3", "gen4"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@examples(30)
@given(data=st.data())
def test_nonzero_with_count(dtype, target, data):
    problem = Problem(data, partitions=[*PARTITIONS, 15, 16, 17, 112, 113], sizes=SIZES)
    free, start = problem.free_shape(), problem.start()
    src = sparse(problem, problem.read(dtype, free, start))
    dst = problem.write("int32", (prod(free) + 1,), start, "patterns")
    offset = problem.choose([0, 16, -3, 2**24 + 1, 2**31 - 1 - prod(free)])
    padding = problem.choose([-1, 0, 2**24 + 1, -(2**31), 2**31 - 1])

    def instruction(src, dst):
        nisa.nonzero_with_count(dst=dst, src=src, index_offset=offset, padding_val=padding)

    got = run(instruction, {"src": src, "dst": dst}, target=target)["dst"]
    assert_same_bits(got, gather.nonzero_with_count(dst.rows, src.rows, offset, padding))


def test_nonzero_with_count_defaults():
    operands = {
        "src": whole(np.array([[0, 1, 1, 0, 0, 1, 0, 0]], np.float32)),
        "dst": whole(np.zeros((1, 9), np.int32)),
    }

    def instruction(src, dst):
        nisa.nonzero_with_count(dst, src)

    got = run(instruction, operands)["dst"]
    assert got.tolist() == [[1, 2, 5, -1, -1, -1, -1, -1, 3]]


def every_sixteenth_row(mask):
    flags = nl.ndarray((128, 6), dtype=mask.dtype, buffer=nl.sbuf)
    found = nl.ndarray((128, 7), dtype=nl.int32, buffer=nl.sbuf)
    result = nl.ndarray((8, 7), dtype=nl.int32, buffer=nl.shared_hbm)
    for core in range(8):
        nisa.dma_copy(dst=flags[16 * core : 16 * core + 1], src=mask[core : core + 1])
    nisa.nonzero_with_count(dst=found, src=flags)
    for core in range(8):
        nisa.dma_copy(dst=result[core : core + 1], src=found[16 * core : 16 * core + 1])
    return result


def rows_between(mask):
    found = nl.ndarray((32, 7), dtype=nl.int32, buffer=nl.sbuf)
    nisa.nonzero_with_count(dst=found, src=nl.load(mask))
    return out(found[1:2])


def test_rows_between_the_cores_are_neither_read_nor_written():
    rng = np.random.default_rng(0)
    mask = rng.integers(0, 2, (32, 6)).astype(np.int32)
    report = nkisim.check(every_sixteenth_row)(mask[:8])
    assert not report.findings, str(report)
    spread = np.zeros((128, 6), np.int32)
    spread[::16] = mask[:8]
    want = gather.nonzero_with_count(np.zeros((128, 7), np.int32), spread, 0, -1)[::16]
    assert_same_bits(report.outputs, want)
    assert nkisim.check(rows_between)(mask).codes == {"M001"}


# -- sequence_bounds -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@examples(30)
@given(data=st.data())
def test_sequence_bounds(dtype, data):
    problem = Problem(data, partitions=[1], sizes=[1, 2, 3, 31, 32, 33, 513])
    free, start = problem.free_shape(), problem.start()
    ids = problem.read(dtype, free, start)
    # Runs of length one upwards: an id stays with a chance that is drawn.
    fresh = problem.rng.random(ids.base.size) > problem.choose([0.0, 0.5, 0.9])
    drawn = problem.rng.choice([0, 0, 1, 2, 3, 2**24], ids.base.size)
    runs = drawn[np.maximum.accumulate(np.where(fresh, np.arange(ids.base.size), 0))]
    ids = replace(ids, base=runs.reshape(ids.base.shape).astype(ids.dtype))
    dst = problem.write(problem.choose(["float32", "int32"]), (2, prod(free)), problem.start())

    def instruction(ids, dst):
        nisa.sequence_bounds(dst=dst, segment_ids=ids)

    got = run(instruction, {"ids": ids, "dst": dst})["dst"]
    starts, ends = gather.sequence_bounds(ids.rows[0].tolist())
    assert_same_bits(got, np.array([starts + ends]).astype(dst.dtype))


def test_sequence_bounds_of_the_documented_ids():
    operands = {
        "ids": whole(np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3]], np.int32)),
        "dst": whole(np.zeros((1, 2, 9), np.int32)),
    }

    def instruction(ids, dst):
        nisa.sequence_bounds(dst, ids)

    got = run(instruction, operands)["dst"].reshape(2, 9)
    assert got[0].tolist() == [9, 1, 1, 3, 3, 3, 9, 7, 7]
    assert got[1].tolist() == [-1, 3, 3, 6, 6, 6, -1, 9, 9]


def test_integer_ids_that_float32_cannot_tell_apart_are_different_segments():
    operands = {
        "ids": whole(np.array([[2**24, 2**24 + 1, 2**24 + 1, 2**31 - 1]], np.int32)),
        "dst": whole(np.zeros((1, 2, 4), np.int32)),
    }

    def instruction(ids, dst):
        nisa.sequence_bounds(dst=dst, segment_ids=ids)

    got = run(instruction, operands)["dst"].reshape(2, 4)
    assert got.tolist() == [[0, 1, 1, 3], [1, 3, 3, 4]]
