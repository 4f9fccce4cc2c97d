"""max8, nc_find_index8, nc_match_replace8, value by value."""

from __future__ import annotations

from dataclasses import replace

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
from oracles.elementwise import DTYPES

from .harness import (
    ALL_DTYPES,
    FLOATS,
    INTEGERS_THROUGH_FLOAT32,
    Operand,
    Problem,
    assert_rounded,
    run,
)

# From the fewest that can be searched; powers of two and their neighbours.
SIZES = [8, 9, 15, 31, 32, 33, 127, 129]
SEVERAL_DIMENSIONS = [(3, 5), (2, 33), (8, 1), (2, 3, 4), (1, 31, 2), (2, 1, 3, 5)]
# Small numbers that every format holds, so that searches across formats can match.
FEW = [0, 1, 2, 3]
MOST_ELEMENTS = 16384


def searched_shape(problem: Problem) -> tuple[int, ...]:
    """One to four free dimensions of at least eight elements."""
    return problem.choose([(problem.choose(SIZES),), problem.choose(SEVERAL_DIMENSIONS)])


def eight(problem: Problem) -> tuple[int, ...]:
    return problem.choose([(8,), (8,), (2, 4)])


def place_and_dtype(problem: Problem, dtypes: list[str]) -> tuple[str, str]:
    """A memory, and a format: PSUM is filled and emptied with floats only."""
    place = problem.choose(["sbuf", "sbuf", "psum"])
    return place, problem.choose(["float32", "bfloat16"] if place == "psum" else dtypes)


def holding(operand: Operand, base: np.ndarray) -> Operand:
    """The same view of a tile with other contents."""
    return replace(operand, base=base.astype(operand.dtype).reshape(operand.base.shape))


def few_values(problem: Problem, operand: Operand) -> Operand:
    """A tile of few different values, most of which occur many times."""
    choice = FEW[: problem.choose([1, 2, 3, 4])]
    return holding(operand, problem.rng.choice(choice, operand.base.shape))


def sought(problem: Problem, data: Operand, dtype: str, start: int, place: str) -> Operand:
    """Eight values per partition: repeated ones, one that is missing, or elements of the data."""
    vals = problem.operand(
        problem.choose(["whole", "rows", "pattern"]), dtype, eight(problem), start, "any", place
    )
    if data.dtype != vals.dtype or problem.flag():
        return holding(vals, problem.rng.choice([*FEW, 5], vals.base.shape))
    base = vals.base.copy()
    for p, row in enumerate(data.rows):
        base.ravel()[vals.positions[p].ravel()] = problem.rng.choice(row, 8)
    return replace(vals, base=base)


# -- max8 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@examples(15)
@given(data=st.data())
def test_max8(dtype, data):
    problem = Problem(data)
    start = problem.start()
    place = problem.choose(["sbuf", "psum"]) if dtype in ("float32", "bfloat16") else "sbuf"
    src = problem.read(dtype, searched_shape(problem), start, buffer=place)
    if problem.flag():
        src = few_values(problem, src)
    dst_place, dst_dtype = place_and_dtype(problem, [dtype, *FLOATS])
    dst = problem.write(dst_dtype, eight(problem), problem.start(), buffer=dst_place)

    def instruction(src, dst):
        nisa.max8(dst=dst, src=src)

    got = run(instruction, {"src": src, "dst": dst}, allow=INTEGERS_THROUGH_FLOAT32)["dst"]
    assert_rounded(got, gather.max8(src.rows))


def test_max8_keeps_equal_values():
    where = np.arange(18).reshape(2, 9)
    src = np.array([[1, 7, 7, 0, 7, -1, 7, 2, 2], [-3] * 9], np.float32)
    operands = {
        "src": Operand(src, lambda t: t, where),
        "dst": Operand(np.zeros((2, 8), np.float32), lambda t: t, np.arange(16).reshape(2, 8)),
    }

    def instruction(src, dst):
        nisa.max8(dst, src)

    got = run(instruction, operands)["dst"]
    assert got.tolist() == [[7, 7, 7, 7, 2, 2, 1, 0], [-3] * 8]


# -- nc_find_index8 --------------------------------------------------------------------------------


@pytest.mark.parametrize("dst_dtype", ["uint16", "uint32"])
@pytest.mark.parametrize("values", ["few", "any"])
@examples(40)
@given(data=st.data())
def test_find_index8(values, dst_dtype, data):
    problem = Problem(data)
    start = problem.start()
    place, dtype = place_and_dtype(problem, ALL_DTYPES)
    x = problem.read(dtype, searched_shape(problem), start, buffer=place)
    if values == "few":
        x = few_values(problem, x)
    vals_place = "sbuf" if place == "psum" else problem.choose(["sbuf", "psum"])
    kinds = ["float32", "bfloat16"] if vals_place == "psum" else [dtype, dtype, *ALL_DTYPES]
    vals = sought(problem, x, problem.choose(kinds), start, vals_place)
    dst = problem.write(dst_dtype, eight(problem), problem.start())

    def instruction(x, vals, dst):
        nisa.nc_find_index8(dst=dst, data=x, vals=vals)

    operands = {"x": x, "vals": vals, "dst": dst}
    got = run(instruction, operands, allow=INTEGERS_THROUGH_FLOAT32)["dst"]
    assert_same_bits(got, gather.find_index8(x.rows, vals.rows, dst.dtype))


def search_kernel(data, vals):
    x, v = nl.load(data), nl.load(vals)
    short = nl.ndarray(v.shape, dtype=nl.uint16, buffer=nl.sbuf)
    long = nl.ndarray(v.shape, dtype=nl.uint32, buffer=nl.sbuf)
    swapped = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    where = nl.ndarray(v.shape, dtype=nl.uint32, buffer=nl.sbuf)
    nisa.nc_find_index8(dst=short, data=x, vals=v)
    nisa.nc_find_index8(dst=long, data=x, vals=v)
    nisa.nc_match_replace8(dst=swapped, data=x, vals=v, imm=-1.0, dst_idx=where)
    outputs = []
    for tile in (short, long, swapped, where):
        out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        outputs.append(out)
    return tuple(outputs)


def searched(data: list[float], vals: list[float]) -> list[list[float]]:
    """Rows of the four results of ``search_kernel`` on one partition."""
    report = nkisim.check(search_kernel)(np.array([data], np.float32), np.array([vals], np.float32))
    assert report.ok, str(report)
    return [out[0].tolist() for out in report.outputs]


def test_equal_values_are_found_forwards_and_replaced_backwards():
    short, long, swapped, where = searched(
        [1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8], [3, 8, 8, 8, 8, 8, 8, 8]
    )
    assert short == long == [2, 4, 5, 6, 7, 8, 9, 10]
    assert where == [2, 10, 9, 8, 7, 6, 5, 4]
    assert swapped == [1, 2, -1, 4, -1, -1, -1, -1, -1, -1, -1]


def test_slots_without_a_match_are_all_ones():
    data = [5, 6, 5, 0, 0, 0, 0, 0, 0]
    short, long, swapped, where = searched(data, [5, 9, 5, 5, 6, 6, 9, 5])
    none16, none32 = 0xFFFF, 0xFFFFFFFF
    assert short == [0, none16, 2, none16, 1, none16, none16, none16]
    assert long == [0, none32, 2, none32, 1, none32, none32, none32]
    # From the last slot on: 5 in slots 7 and 3, 6 in slot 5 are served; the rest come too late.
    assert where == [none32, none32, none32, 2, none32, 1, none32, 0]
    assert swapped == [-1, -1, -1, 0, 0, 0, 0, 0, 0]


def test_the_largest_search():
    rng = np.random.default_rng(0)
    data = rng.permutation(MOST_ELEMENTS).astype(np.float32)
    vals = [MOST_ELEMENTS - 1.0, 0.0, data[0], data[-1], data[-2], 7.0, 8191.0, 8192.0]
    short, long, swapped, where = searched(data.tolist(), [float(v) for v in vals])
    places = [int(np.flatnonzero(data == v)[0]) for v in vals]
    assert short == long == where == places
    data[places] = -1
    assert swapped == data.tolist()


# -- nc_match_replace8 -----------------------------------------------------------------------------


@pytest.mark.parametrize("values", ["few", "any"])
@examples(50)
@given(data=st.data())
def test_match_replace8(values, data):
    problem = Problem(data)
    free, start = searched_shape(problem), problem.start()
    place, dtype = place_and_dtype(problem, ALL_DTYPES)
    x = problem.read(dtype, free, start, buffer=place)
    if values == "few":
        x = few_values(problem, x)
    vals = sought(problem, x, problem.choose([dtype, *ALL_DTYPES]), start, "sbuf")
    dst_place, dst_dtype = place_and_dtype(problem, [dtype, *FLOATS])
    operands = {
        "x": x,
        "vals": vals,
        "dst": problem.write(dst_dtype, free, problem.start(), buffer=dst_place),
    }
    writes: tuple[str, ...] = ("dst",)
    if problem.flag():
        index_dtype = problem.choose(["uint16", "uint32"])
        operands["dst_idx"] = problem.write(index_dtype, eight(problem), problem.start())
        writes = ("dst", "dst_idx")
    # Not one of the values, so that it cannot matter when it is written; 0.1 must be rounded.
    imm = problem.choose([7.0, 0.1, 100.0])

    def instruction(x, vals, dst, **found):
        nisa.nc_match_replace8(dst=dst, data=x, vals=vals, imm=imm, **found)

    got = run(instruction, operands, writes, allow=INTEGERS_THROUGH_FLOAT32)
    index = operands.get("dst_idx")
    want, where = gather.match_replace8(
        x.rows, vals.rows, imm, DTYPES["uint32"] if index is None else index.dtype
    )
    assert_rounded(got["dst"], want)
    if index is not None:
        assert_same_bits(got["dst_idx"], where)


@examples(25)
@given(data=st.data())
def test_match_replace8_in_place(data):
    problem = Problem(data)
    start = problem.start()
    x = problem.write(problem.choose(FLOATS), searched_shape(problem), start)
    x = few_values(problem, x)
    vals = sought(problem, x, "float32", start, "sbuf")

    def instruction(x, vals):
        nisa.nc_match_replace8(dst=x, data=x, vals=vals, imm=-2.0)

    got = run(instruction, {"x": x, "vals": vals}, ("x",))["x"]
    want, _ = gather.match_replace8(x.rows, vals.rows, -2.0, DTYPES["uint32"])
    assert_rounded(got, want)


def top24_kernel(data):
    x = nl.load(data)
    rows = x.shape[0]
    top = nl.ndarray((rows, 24), dtype=nl.float32, buffer=nl.sbuf)
    where = nl.ndarray((rows, 24), dtype=nl.uint32, buffer=nl.sbuf)
    for i in range(3):
        part = slice(8 * i, 8 * i + 8)
        nisa.max8(dst=top[:, part], src=x)
        nisa.nc_match_replace8(
            dst=x, data=x, vals=top[:, part], imm=-float("inf"), dst_idx=where[:, part]
        )
    values = nl.ndarray((rows, 24), dtype=nl.float32, buffer=nl.shared_hbm)
    places = nl.ndarray((rows, 24), dtype=nl.uint32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=values, src=top)
    nisa.dma_copy(dst=places, src=where)
    return values, places


@each_case("distinct", [2, 5, 1000])
@each_case("target", ["gen2", "gen3", "gen4"])
def test_repeated_search_sorts(target, distinct):
    data = np.random.default_rng(0).integers(0, distinct, (37, 50)).astype(np.float32)
    values, places = nkisim.simulate(top24_kernel, target=target)(data)
    assert np.array_equal(values, -np.sort(-data, axis=1)[:, :24])
    assert np.array_equal(np.take_along_axis(data, places.astype(np.int64), axis=1), values)
    assert all(len(set(row)) == 24 for row in places.tolist())


def test_replacing_by_infinity_is_no_finding():
    data = np.random.default_rng(0).standard_normal((5, 30), dtype=np.float32)
    report = nkisim.check(top24_kernel)(data)
    assert not report.findings, str(report)
