"""Functions of two tiles, or of a tile and a number: values, types and memories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same, assert_within
from drawn import examples
from each_case import each_case
from oracles import elementwise as alu
from oracles import language as oracle
from oracles.elementwise import DTYPES, float32, widen

from ..draws import Draws
from .harness import apply, assert_rounded, small, stops_with, warnings_of

FLOATS = list(oracle.FLOATS)
INTEGERS = list(oracle.INTEGERS)
NARROW = [*FLOATS, "int8", "uint8", "int16", "uint16"]
BFLOAT16 = DTYPES["bfloat16"]
FLOAT32 = DTYPES["float32"]

# Two to four dimensions; partitions around the quarters, tails that no vector loop likes.
SHAPES = [(1, 1), (128, 33), (31, 7), (33, 2, 5), (5, 3, 1), (65, 2, 3, 3), (2, 1, 1, 4)]

COMPARISONS = ["equal", "not_equal", "greater", "greater_equal", "less", "less_equal"]
LOGICAL = ["logical_and", "logical_or", "logical_xor"]
ARITHMETIC = ["add", "subtract", "multiply", "maximum", "minimum"]


# -- two tiles -------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ARITHMETIC + COMPARISONS + LOGICAL)
@examples(30)
@given(data=st.data())
def test_function_of_two_tiles(op, data):
    draws = Draws(data)
    shape, one, other = (draws.choose(options) for options in (SHAPES, NARROW, NARROW))
    asked = draws.choose([None, None, *NARROW, "int32", "uint32"])
    psum = draws.choose(["", "0", "1"])
    x, y = small(draws.rng, shape, one), small(draws.rng, shape, other)
    arguments = {} if asked is None else {"dtype": getattr(nl, asked)}
    got = apply(lambda a, b: getattr(nl, op)(a, b, **arguments), x, y, psum=psum)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    assert_rounded(
        got, alu.alu(op, widen(x), widen(y)), DTYPES[asked or oracle.promoted(one, other)]
    )


@each_case("one", FLOATS + INTEGERS)
@each_case("other", FLOATS + INTEGERS)
def test_result_has_the_type_that_holds_both(one, other):
    x, y = np.ones((2, 3), DTYPES[one]), np.ones((2, 3), DTYPES[other])
    assert apply(nl.maximum, x, y).dtype == DTYPES[oracle.promoted(one, other)]


@each_case("dtype", ["int32", "uint32"])
@each_case("op", ARITHMETIC + COMPARISONS)
def test_tiles_of_32_bit_integers_are_combined_exactly(op, dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 2**32, (33, 40), np.uint32).view(DTYPES[dtype]) for _ in range(2))
    y[:5] = x[:5]
    got = apply(getattr(nl, op), x, y)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    assert_same(got.values, alu.integer_tensor_tensor(x, y, op))


def test_32_bit_integers_in_psum_go_through_float32():
    x = np.array([[2**24 + 1, 5]], np.int32)
    got = apply(nl.add, x, x, psum="0")
    assert got.codes == {"D016"}
    assert_same(got.values, np.array([[2**25, 10]], np.int32))


def test_integers_saturate_where_a_narrow_type_ends():
    x = np.array([[100, -100, 3]], np.int8)
    assert_same(apply(nl.add, x, x).values, np.array([[127, -128, 6]], np.int8))
    assert "D019" in warnings_of(nl.add, x, x)


def test_operands_are_not_rounded_before_they_are_combined():
    # 1 + 2^-8 is halfway between two bfloat16 and goes to the even one, 1; what is 2^-20 above it
    # goes up, unless the operand was rounded to bfloat16 first.
    x = np.array([[1.0, 1.0]], np.float32)
    y = np.array([[2.0**-8, 2.0**-8 + 2.0**-20]], np.float32)
    got = apply(lambda a, b: nl.add(a, b, dtype=nl.bfloat16), x, y)
    assert_same(got.values, np.array([[1.0, 1 + 2.0**-7]], BFLOAT16))


def test_views_are_combined_like_tiles():
    x = np.arange(64 * 12, dtype=np.float32).reshape(64, 12)

    def function(tile):
        return nl.subtract(tile[32:64, 1:12:2], tile[32:64, 0:12:2])

    got = apply(function, x)
    assert not got.codes
    assert_same(got.values, x[32:64, 1::2] - x[32:64, ::2])


def test_views_of_three_dimensions_are_combined_like_tiles():
    x = np.arange(4 * 6 * 10, dtype=np.float32).reshape(4, 6, 10)
    got = apply(lambda t: nl.maximum(t[:, ::2, 1:9:3], t[:, 1::2, 2:9:3]), x)
    assert_same(got.values, np.maximum(x[:, ::2, 1:9:3], x[:, 1::2, 2:9:3]))


def test_two_tiles_in_psum_cannot_be_combined():
    def function(tile):
        nl.add(nl.transpose(tile), nl.transpose(tile))

    assert stops_with(function, np.ones((4, 4), np.float32)) == "M023"


def test_function_needs_a_tile():
    one = np.ones((2, 2), np.float32)
    assert stops_with(lambda _: nl.add(1, 2), one) == "A025"
    assert stops_with(lambda t: nl.add(t), one) == "A025"
    assert stops_with(lambda t: nl.add(t, t, mask=None), one) != "nothing"


@pytest.mark.parametrize("number", [True, False])
def test_an_operand_in_hbm_is_loaded_with_a_finding(number):
    def kernel(x, loads):
        other = 2.0 if number else x
        if loads:
            x, other = nl.load(x), other if number else nl.load(other)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.where(x, nl.multiply(nl.exp(x), nl.add(x, other)), other))
        return out

    x = np.random.default_rng(0).standard_normal((6, 5), dtype=np.float32)
    report = nkisim.check(kernel)(x, False)
    assert {code for code in report.codes if code[0] != "L"} == {"M049"}
    np.testing.assert_array_equal(report.outputs, nkisim.check(kernel)(x, True).outputs)
    with pytest.raises(nkisim.NkiValidationError) as stop:
        nkisim.simulate(kernel, strictness="strict")(x, False)
    assert stop.value.rule_id == "M049"


@pytest.mark.parametrize("op", ["add", "maximum", "less"])
def test_function_is_the_operator_of_instructions(op):
    rng = np.random.default_rng(0)
    x, y = small(rng, (5, 6), "float32"), small(rng, (5, 6), "float32")

    def instruction(a, b):
        out = nl.ndarray((5, 6), nl.float32)
        nisa.tensor_tensor(out, a, b, op=getattr(nl, op))
        return out

    assert_same(apply(getattr(nl, op), x, y).values, apply(instruction, x, y).values)


# -- a tile and a number ---------------------------------------------------------------------------


@pytest.mark.parametrize("op", ARITHMETIC + COMPARISONS + LOGICAL)
@examples(30)
@given(data=st.data())
def test_function_of_a_tile_and_a_number(op, data):
    draws = Draws(data)
    dtype = draws.choose([*NARROW, "int32", "uint32"])
    x = small(draws.rng, draws.choose(SHAPES), dtype)
    number = draws.choose([0, 1, 2, -3, 7, 0.5, -1.25, 1 / 3])
    asked = draws.choose([*NARROW, "int32"])
    first, psum = draws.flag(), draws.choose(["", "0"])

    def function(tile):
        both = (number, tile) if first else (tile, number)
        return getattr(nl, op)(*both, dtype=getattr(nl, asked))

    got = apply(function, x, psum=psum)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    assert_rounded(got, alu.alu(op, widen(x), np.float32(number), reverse=first), DTYPES[asked])


@each_case(
    ("dtype", "number", "result"),
    [
        ("float32", 2, "float32"),
        ("float32", 2.5, "float32"),
        ("int32", 2, "int32"),
        ("int8", 2.5, "float32"),
        ("uint16", 2.5, "float32"),
        ("int32", 2.5, "float32"),
    ],
)
def test_number_brings_its_kind(dtype, number, result):
    x = np.ones((2, 3), DTYPES[dtype])
    for function in (lambda t: nl.add(t, number), lambda t: nl.add(number, t)):
        assert_same(apply(function, x).values, np.full((2, 3), 1 + number, DTYPES[result]))


def test_large_integers_and_a_number_go_through_float32():
    x = np.array([[2**25 + 1, 3]], np.int32)
    got = apply(lambda t: nl.add(t, 1), x)
    assert got.codes == {"D016"}
    assert_same(got.values, np.array([[2**25, 4]], np.int32))


@pytest.mark.parametrize(
    ("function", "rule"), [(nl.copy, "D017"), (lambda t: nl.multiply(t, 1), "D016")]
)
def test_first_integer_that_float32_drops_is_a_finding(function, rule):
    assert apply(function, np.array([[2**24 + 1]], np.int32)).codes == {rule}


# -- broadcasting ----------------------------------------------------------------------------------


@each_case("op", ["add", "multiply", "less", "bitwise_or"])
@each_case(
    ("one", "other", "code"),
    [
        ((5, 4), (5, 1), "S008"),
        ((5, 1), (5, 4), "S008"),
        ((5, 4), (1, 4), "S008"),
        ((5, 1), (1, 4), "S008"),
        ((1, 1), (5, 1), "S008"),
        ((5, 2, 3), (5, 2, 1), "S008"),
        ((5, 2, 3), (5, 1, 3), "S008"),
        ((5, 2, 1), (5, 1, 3), "S008"),
        ((5, 2, 3), (5, 1), "S064"),
        ((5, 1), (5, 2, 3), "S064"),
    ],
)
def test_broadcasting_computes_and_is_a_finding(op, one, other, code):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, one).astype(np.int32), rng.integers(0, 9, other).astype(np.int32)
    got = apply(getattr(nl, op), x, y)
    assert (got.buffer, got.codes) == ("sbuf", {code})
    # a tile of lower rank keeps its partitions and gets free dimensions of extent 1
    rank = len(oracle.broadcast(one, other))
    wide = [t.reshape(*t.shape, *(1,) * (rank - t.ndim)) for t in (x, y)]
    combine = {"add": np.add, "multiply": np.multiply, "less": np.less, "bitwise_or": np.bitwise_or}
    assert_same(got.values, combine[op](*wide).astype(np.int32))


def test_tiles_of_one_size_but_other_shapes_are_broadcast():
    x = np.arange(15, dtype=np.float32).reshape(5, 3, 1)
    y = np.arange(15, dtype=np.float32).reshape(5, 1, 3)
    got = apply(nl.add, x, y)
    assert got.codes == {"S008"}
    assert_same(got.values, x + y)


def test_broadcasting_stops_where_every_error_stops():
    def kernel(x):
        return nl.add(nl.load(x), nl.load(x[:, 0:1]))

    with pytest.raises(nkisim.NkiValidationError) as stop:
        nkisim.simulate(kernel, strictness="strict")(np.ones((4, 5), np.float32))
    assert stop.value.rule_id == "S008"


@pytest.mark.parametrize(("one", "other"), [((4, 6), (4, 5)), ((4, 6), (3, 6)), ((4, 6), (4, 2))])
def test_tiles_that_do_not_fit_are_refused(one, other):
    x, y = np.ones(one, np.float32), np.ones(other, np.float32)
    assert stops_with(nl.add, x, y) in ("S005", "S006", "S007")


# -- no engine has these ---------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["mod", "fmod"])
def test_remainder_computes_and_is_a_finding(function):
    rng = np.random.default_rng(0)
    x = float32(rng.uniform(-20, 20, (33, 6)))
    y = float32(rng.choice([-1, 1], (33, 6)) * rng.uniform(0.5, 5, (33, 6)))
    x[0], y[0] = [6, -6, 6, -6, 5, -5], [4, 4, -4, -4, 2.5, 2.5]
    got = apply(getattr(nl, function), x, y)
    assert got.codes == {"D014"}
    assert_rounded(got, getattr(oracle, function)(x, y), FLOAT32)
    by_number = apply(lambda t: getattr(nl, function)(t, -2.5), x)
    assert by_number.codes == {"D014"}
    assert_rounded(by_number, getattr(oracle, function)(x, np.float32(-2.5)), FLOAT32)
    of_number = apply(lambda t: getattr(nl, function)(7.0, t), y)
    assert_rounded(of_number, getattr(oracle, function)(np.float32(7), y), FLOAT32)


def test_quotient_computes_and_is_a_finding():
    rng = np.random.default_rng(0)
    x, y = float32(rng.uniform(-20, 20, (33, 6))), float32(rng.uniform(0.5, 5, (33, 6)))
    for function, left, right in (
        (nl.divide, x, y),
        (lambda a, b: nl.divide(a, 3.0), x, np.float32(3)),
        (lambda a, b: nl.divide(2.0, b), np.float32(2), y),
    ):
        got = apply(function, x, y)
        assert got.codes == {"D013"}
        assert_within(got.values, *oracle.divide(left, right))


def test_power_of_a_tile():
    rng = np.random.default_rng(0)
    x, y = float32(rng.uniform(0.1, 5, (33, 6))), float32(rng.uniform(-4, 4, (33, 6)))
    got = apply(nl.power, x, y)
    assert not got.codes
    assert_within(got.values, *oracle.power(x, y))


def test_power_with_a_number_as_exponent_is_a_finding():
    x = np.array([[-2.0, 0.5, 3.0]], np.float32)
    got = apply(lambda t: nl.power(t, 2.0), x)
    assert got.codes == {"D014"}
    assert_within(got.values, *oracle.power(x, np.float32(2)))


def test_power_of_a_number():
    x = np.array([[-2.0, 0.5, 3.0]], np.float32)
    got = apply(lambda t: nl.power(2.0, t), x)
    assert_within(got.values, *oracle.power(np.float32(2), x))


@pytest.mark.parametrize(("function", "rule"), [("divide", "D013"), ("mod", "D014")])
def test_what_no_engine_has_stops_a_strict_run(function, rule):
    def kernel(x):
        tile = nl.load(x)
        return getattr(nl, function)(tile, tile)

    with pytest.raises(nkisim.NkiValidationError) as stop:
        nkisim.simulate(kernel, strictness="strict")(np.ones((4, 5), np.float32))
    assert stop.value.rule_id == rule
