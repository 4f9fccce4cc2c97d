"""iota, affine_select, tensor_copy_predicated, select_reduce, range_select, element by element."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same, assert_same_bits
from drawn import examples
from oracles import elementwise, selection
from oracles.reductions import accumulated

from .harness import (
    ALL_DTYPES,
    FLOATS,
    INTEGERS_THROUGH_FLOAT32,
    NARROW_INTEGERS,
    Operand,
    Problem,
    assert_rounded,
    chunks,
    run,
)

COMPARE = sorted(selection.COMPARE)
RANGE_COMPARE = ["equal", "greater", "greater_equal", "less", "less_equal"]
SIZES = [1, 2, 31, 32, 33]


def counts(problem: Problem) -> tuple[int, ...]:
    """Extents of a pattern of up to four dimensions."""
    return tuple(problem.choose([(5,), (33,), (128,), (3, 4), (2, 3, 4), (2, 1, 3, 5), (1, 1, 7)]))


def free_for(problem: Problem, extents: tuple[int, ...]) -> tuple[int, ...]:
    """A tile need only have as many elements as the pattern; its own dimensions may be others."""
    return problem.choose([(prod(extents),), extents if len(extents) < 4 else (prod(extents),)])


# -- iota and affine_select ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@examples(12)
@given(data=st.data())
def test_iota(dtype, data):
    problem = Problem(data)
    extents = counts(problem)
    dst = problem.write(dtype, free_for(problem, extents), problem.start())
    if dtype in ("int8", "uint8"):
        # Steps of one along fewer than 100 elements, from 20: inside both formats.
        offset, multiplier = problem.choose([0, 20]), 0
        steps = [problem.choose([0, 1]) if sum(extents) < 100 else 0 for _ in extents]
    elif dtype.startswith("uint"):
        offset, multiplier = problem.choose([0, 3, 1000]), problem.choose([0, 1, 100])
        steps = [problem.choose([0, 1, 7]) for _ in extents]
    else:
        offset, multiplier = problem.choose([0, 3, 1000, -500]), problem.choose([0, 1, -1, 100])
        steps = [problem.choose([0, 1, -1, 7]) for _ in extents]
    if dtype == "int32":
        # Beyond what float32 can count.
        offset *= problem.choose([1, 1_000_003])
    pattern = [[step, count] for step, count in zip(steps, extents, strict=True)]

    def instruction(dst):
        nisa.iota(dst=dst, pattern=pattern, offset=offset, channel_multiplier=multiplier)

    got = run(instruction, {"dst": dst}, allow=("D018",))["dst"]  # narrow floats round
    assert_same_bits(
        got, selection.iota(problem.partitions, pattern, offset, multiplier, dst.dtype)
    )


def test_iota_defaults_count_along_the_row_from_zero():
    where = np.arange(12).reshape(2, 6)
    operands = {"dst": Operand(np.full((2, 6), 9, np.int32), lambda t: t, where)}

    def instruction(dst):
        nisa.iota(dst, [[1, 6]])

    assert run(instruction, operands)["dst"].tolist() == [[0, 1, 2, 3, 4, 5]] * 2


@pytest.mark.parametrize("compare", COMPARE)
@examples(15)
@given(data=st.data())
def test_affine_select(compare, data):
    problem = Problem(data)
    extents = counts(problem)
    free, start = free_for(problem, extents), problem.start()
    dtype = problem.choose(ALL_DTYPES)
    x = problem.read(dtype, free, start)
    dst = problem.write(problem.choose([dtype, *FLOATS]), free, problem.start())
    steps = [problem.choose([0, 1, -1, 3]) for _ in extents]
    pattern = [[step, count] for step, count in zip(steps, extents, strict=True)]
    offset, multiplier = problem.choose([0, 2, -40]), problem.choose([0, 1, -1, -2])
    on_false = problem.choose([0.0, -1.0, -9984.0, selection.FLOAT32_MIN])
    if dst.dtype.kind in "iu":
        on_false = 5.0

    def instruction(on_true, dst):
        nisa.affine_select(
            dst=dst,
            pattern=pattern,
            offset=offset,
            channel_multiplier=multiplier,
            on_true_tile=on_true,
            on_false_value=on_false,
            cmp_op=getattr(nl, compare),
        )

    got = run(instruction, {"on_true": x, "dst": dst}, allow=INTEGERS_THROUGH_FLOAT32)["dst"]
    want = selection.affine_select(
        x.rows, pattern, offset, multiplier, compare, on_false, dst.dtype
    )
    assert_same(got, want)


def test_affine_select_makes_a_causal_mask():
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    where = np.arange(64).reshape(8, 8)
    operands = {"x": Operand(x, lambda t: t, where), "dst": Operand(0 * x, lambda t: t, where)}

    def instruction(x, dst):
        nisa.affine_select(
            dst=dst,
            pattern=[[-1, 8]],
            channel_multiplier=1,
            on_true_tile=x,
            on_false_value=-1.0,
            cmp_op=nl.greater_equal,
        )

    want = np.where(np.tril(np.ones((8, 8))) == 1, x, np.float32(-1))
    assert_same_bits(run(instruction, operands)["dst"], want)


# -- predicates ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@examples(12)
@given(data=st.data())
def test_tensor_copy_predicated_keeps_the_rest(dtype, data):
    problem = Problem(data, sizes=SIZES)
    free, start = problem.free_shape(), problem.start()
    place = problem.choose(["sbuf", "psum"]) if dtype in ("float32", "bfloat16") else "sbuf"
    src = problem.read(dtype, free, start, "patterns" if place == "sbuf" else "any", place)
    predicate = problem.read(problem.choose(["uint8", "uint16", "uint32"]), free, start, "logical")
    dst = problem.write(dtype, free, problem.start(), "patterns")
    reverse = problem.flag()

    def instruction(src, predicate, dst):
        nisa.tensor_copy_predicated(dst=dst, src=src, predicate=predicate, reverse_pred=reverse)

    got = run(instruction, {"src": src, "predicate": predicate, "dst": dst})["dst"]
    assert_same_bits(got, selection.predicated(dst.rows, src.rows, predicate.rows, reverse))


@examples(30)
@given(data=st.data())
def test_tensor_copy_predicated_of_a_number(data):
    problem = Problem(data, sizes=SIZES)
    free = problem.free_shape()
    dtype = problem.choose(ALL_DTYPES)
    value = problem.choose([0.1, -2.0]) if dtype in FLOATS else problem.choose([0, 100])
    # Any bit set makes a predicate true, also one that a narrower format would drop.
    predicate = problem.read("uint32", free, problem.start())
    set_bits = predicate.base * problem.rng.integers(0, 2, predicate.base.shape, np.uint32)
    predicate = Operand(set_bits, predicate.take, predicate.positions)
    dst = problem.write(dtype, free, problem.start(), "patterns")

    def instruction(predicate, dst):
        nisa.tensor_copy_predicated(dst=dst, src=value, predicate=predicate)

    got = run(instruction, {"predicate": predicate, "dst": dst})["dst"]
    fill = elementwise.narrow(np.float32([value]), dst.dtype)
    assert_same_bits(got, selection.predicated(dst.rows, fill, predicate.rows, False))


def on_false_of(problem: Problem, start: int, operands: dict[str, Operand]):
    """Keyword arguments if it is a Python number, and its value for the oracle."""
    if problem.flag():
        value = float(problem.rng.uniform(-2, 2))
        return {"on_false": value}, np.float32(value)
    operands["on_false"] = problem.column("float32", start, "small")
    return {}, operands["on_false"].rows


@examples(50)
@given(data=st.data())
def test_select_reduce_selects(data):
    problem = Problem(data, sizes=SIZES)
    free, start = problem.free_shape(), problem.start()
    places = problem.choose([("sbuf", "sbuf"), ("psum", "sbuf"), ("sbuf", "psum")])
    in_sbuf = FLOATS + NARROW_INTEGERS
    kinds = [["float32", "bfloat16"] if place == "psum" else in_sbuf for place in places]
    on_true = problem.read(problem.choose(kinds[0]), free, start, buffer=places[0])
    predicate = problem.read(problem.choose(NARROW_INTEGERS), free, start, "logical")
    dst = problem.write(problem.choose(kinds[1]), free, problem.start(), buffer=places[1])
    operands = {"on_true": on_true, "predicate": predicate, "dst": dst}
    number, on_false = on_false_of(problem, start, operands)
    reverse = problem.flag()

    def instruction(on_true, predicate, dst, **columns):
        nisa.select_reduce(
            dst=dst, predicate=predicate, on_true=on_true, reverse_pred=reverse, **number, **columns
        )

    want = selection.select(on_true.rows, on_false, predicate.rows, reverse)
    assert_rounded(run(instruction, operands)["dst"], want)


CHAINS = [
    ["reset_reduce"],
    ["reset_reduce", "reduce", "reduce"],
    ["reset_reduce", "reduce", "reset_reduce"],
]


def row_maxima(rows: np.ndarray) -> np.ndarray:
    return np.array([[max(row)] for row in rows.tolist()], np.float32)


def maximum_of(chain: list[str], parts: list[np.ndarray]) -> np.ndarray:
    """Row maxima of what the accumulator holds at the end of a chain."""
    return row_maxima(accumulated(chain, parts))


@pytest.mark.parametrize("chain", CHAINS, ids="-".join)
@examples(15)
@given(data=st.data())
def test_select_reduce_keeps_the_maximum_over_instructions(chain, data):
    problem = Problem(data, sizes=[7, 31, 33])
    free, start = (problem.choose(problem.sizes),), problem.start()
    on_true = problem.read(problem.choose(FLOATS), free, start, "small")
    predicate = problem.read(problem.choose(NARROW_INTEGERS), free, start, "logical")
    operands = {
        "on_true": on_true,
        "predicate": predicate,
        "dst": problem.write(problem.choose(FLOATS), free, problem.start()),
        "reduce_res": problem.column("float32", start),
    }
    number, on_false = on_false_of(problem, start, operands)
    reverse = problem.flag()
    cuts = list(chunks(free[0], len(chain)))

    def instruction(on_true, predicate, dst, reduce_res, **columns):
        for i, (command, cut) in enumerate(zip(chain, cuts, strict=True)):
            last = {"reduce_res": reduce_res} if i == len(chain) - 1 else {}
            nisa.select_reduce(
                dst=dst[:, cut],
                predicate=predicate[:, cut],
                on_true=on_true[:, cut],
                reduce_cmd=getattr(nisa.reduce_cmd, command),
                reduce_op=nl.maximum,
                reverse_pred=reverse,
                **number,
                **columns,
                **last,
            )

    got = run(instruction, operands, ("dst", "reduce_res"))
    want = selection.select(on_true.rows, on_false, predicate.rows, reverse)
    assert_rounded(got["dst"], want)
    assert_rounded(got["reduce_res"], maximum_of(chain, [want[:, cut] for cut in cuts]))


# -- range_select ----------------------------------------------------------------------------------


def bound(problem: Problem, start: int, first: int, last: int) -> Operand:
    """A column of positions, whole and half ones."""
    column = problem.column("float32", start)
    values = problem.rng.integers(2 * first - 2, 2 * last + 3, column.base.shape) / 2
    return Operand(values.astype(np.float32), column.take, column.positions)


@examples(60)
@given(data=st.data())
def test_range_select_selects_positions(data):
    problem = Problem(data, sizes=SIZES)
    free, start = problem.free_shape(), problem.start()
    range_start = problem.choose([0, 1, 100, -5, 2**20])
    place = problem.choose(["sbuf", "psum"])
    kinds = ["float32"] if place == "psum" else FLOATS
    x = problem.read(problem.choose(kinds), free, start, buffer=place)
    last = range_start + prod(free)
    operands = {
        "on_true": x,
        "bound0": bound(problem, start, range_start, last),
        "bound1": bound(problem, start, range_start, last),
        "dst": problem.write(problem.choose(FLOATS), free, problem.start()),
        "reduce_res": problem.column("float32", start),
    }
    compare0, compare1 = problem.choose(RANGE_COMPARE), problem.choose(RANGE_COMPARE)

    def instruction(on_true, bound0, bound1, dst, reduce_res):
        nisa.range_select(
            dst=dst,
            on_true_tile=on_true,
            comp_op0=getattr(nl, compare0),
            comp_op1=getattr(nl, compare1),
            bound0=bound0,
            bound1=bound1,
            reduce_res=reduce_res,
            range_start=range_start,
        )

    got = run(instruction, operands, ("dst", "reduce_res"))
    bounds = [operands[name].rows.ravel() for name in ("bound0", "bound1")]
    want = selection.range_select(x.rows, compare0, compare1, *bounds, range_start)
    assert_rounded(got["dst"], want)
    assert_rounded(got["reduce_res"], row_maxima(want))


@pytest.mark.parametrize("chain", CHAINS, ids="-".join)
@examples(12)
@given(data=st.data())
def test_range_select_keeps_the_maximum_over_instructions(chain, data):
    problem = Problem(data, sizes=[7, 31, 33])
    free, start = (problem.choose(problem.sizes),), problem.start()
    x = problem.read(problem.choose(FLOATS), free, start, "small")
    operands = {
        "on_true": x,
        "bound0": bound(problem, start, 0, free[0]),
        "bound1": bound(problem, start, 0, free[0]),
        "dst": problem.write("float32", free, problem.start()),
        "reduce_res": problem.column("float32", start),
    }
    cuts = list(chunks(free[0], len(chain)))

    def instruction(on_true, bound0, bound1, dst, reduce_res):
        for i, (command, cut) in enumerate(zip(chain, cuts, strict=True)):
            last = {"reduce_res": reduce_res} if i == len(chain) - 1 else {}
            nisa.range_select(
                dst=dst[:, cut],
                on_true_tile=on_true[:, cut],
                comp_op0=nl.greater_equal,
                comp_op1=nl.less,
                bound0=bound0,
                bound1=bound1,
                reduce_cmd=getattr(nisa.reduce_cmd, command),
                range_start=cut.start,
                **last,
            )

    got = run(instruction, operands, ("dst", "reduce_res"))
    bounds = [operands[name].rows.ravel() for name in ("bound0", "bound1")]
    want = selection.range_select(x.rows, "greater_equal", "less", *bounds, 0)
    assert_rounded(got["dst"], want)
    assert_rounded(got["reduce_res"], maximum_of(chain, [want[:, cut] for cut in cuts]))


def test_range_select_fills_bfloat16_with_minus_infinity_but_reduces_to_the_least_float32():
    where = np.arange(8).reshape(2, 4)
    column = np.arange(2).reshape(2, 1)
    bfloat16 = elementwise.DTYPES["bfloat16"]
    operands = {
        "x": Operand(np.ones((2, 4), np.float32), lambda t: t, where),
        "low": Operand(np.full((2, 1), 9, np.float32), lambda t: t, column),
        "high": Operand(np.full((2, 1), 10, np.float32), lambda t: t, column),
        "dst": Operand(np.zeros((2, 4), bfloat16), lambda t: t, where),
        "reduce_res": Operand(np.zeros((2, 1), np.float32), lambda t: t, column),
    }

    def instruction(x, low, high, dst, reduce_res):
        nisa.range_select(
            dst=dst,
            on_true_tile=x,
            comp_op0=nl.greater_equal,
            comp_op1=nl.less,
            bound0=low,
            bound1=high,
            reduce_res=reduce_res,
        )

    got = run(instruction, operands, ("dst", "reduce_res"))
    assert (got["dst"] == -np.inf).all()
    assert (got["reduce_res"] == np.finfo(np.float32).min).all()
