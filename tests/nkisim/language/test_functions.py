"""Functions of one tile: activation functions, copies and roundings to integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same, assert_within
from drawn import examples
from each_case import each_case
from oracles import elementwise as alu
from oracles import language as oracle
from oracles.elementwise import DTYPES, float32, float32_ulps, narrow, widen

from .harness import apply, assert_rounded, small

FLOATS = list(oracle.FLOATS)
INTEGERS = list(oracle.INTEGERS)
BFLOAT16 = DTYPES["bfloat16"]
FLOAT32 = DTYPES["float32"]
# Four units in the last place: what a function by table or library is taken to be good to.
FUNCTION_ULPS = oracle.FUNCTION / 2


# -- activation functions --------------------------------------------------------------------------


def points(function: str, shape: tuple[int, ...]) -> np.ndarray:
    """Arguments at which every activation function is valid."""
    spread = np.linspace(-1.5, 1.5, math.prod(shape))
    if function in ("log", "sqrt", "rsqrt"):
        spread = np.abs(spread) + 0.1
    elif function == "reciprocal":
        spread = np.where(np.abs(spread) < 0.1, 0.1, spread)
    return float32(spread.reshape(shape))


@each_case("function", sorted(alu.ACTIVATIONS))
@each_case("shape", [(7, 3), (128, 5), (4, 3, 5), (3, 2, 2, 2)])
def test_function_of_one_tile(function, shape):
    x = points(function, shape)
    want = alu.function(function, x)
    exact = function in ("copy", "relu", "abs", "sign")
    tolerance = float32_ulps(want, 0 if exact else FUNCTION_ULPS)
    got = apply(getattr(nl, function), x)
    assert (got.dtype, got.buffer, got.codes) == (np.float32, "sbuf", frozenset())
    assert_within(got.values, want, tolerance)
    rounded = apply(lambda t: getattr(nl, function)(t, dtype=nl.bfloat16), x)
    assert rounded.dtype == BFLOAT16
    assert_within(rounded.values, want, tolerance)


@each_case("function", sorted(alu.ACTIVATIONS))
def test_function_of_a_view_in_psum_and_of_other_types(function):
    x = points(function, (6, 8)).astype(BFLOAT16)
    want = alu.function(function, widen(x)[:, 1::2])
    tolerance = float32_ulps(want, FUNCTION_ULPS)
    for psum in ("", "0"):
        got = apply(lambda t: getattr(nl, function)(t[:, 1:8:2]), x, psum=psum)
        assert got.dtype == BFLOAT16
        assert got.buffer == ("psum" if psum and function == "copy" else "sbuf")
        assert_within(got.values, want, tolerance)


@each_case("function", sorted(alu.ACTIVATIONS))
def test_activation_takes_the_function_as_its_operator(function):
    x = points(function, (6, 8))

    def instruction(tile):
        out = nl.ndarray((6, 8), nl.float32)
        nisa.activation(out, op=getattr(nl, function), data=tile)
        return out

    want = alu.function(function, x)
    assert_within(apply(instruction, x).values, want, float32_ulps(want, FUNCTION_ULPS))


@each_case("dtype", INTEGERS)
def test_function_of_integers_is_rounded_to_the_type_of_the_tile(dtype):
    x = np.array([[0, 1, 2, 3, 4]], DTYPES[dtype])
    # 2^2 and 3^2 are exact; e, e^2, e^3 and e^4 are 2.718, 7.389, 20.09 and 54.60
    assert_same(apply(nl.square, x).values, np.array([[0, 1, 4, 9, 16]], DTYPES[dtype]))
    assert_same(apply(nl.exp, x).values, np.array([[1, 3, 7, 20, 55]], DTYPES[dtype]))


@each_case("dtype", FLOATS + INTEGERS)
def test_copy_keeps_values_and_memory(dtype):
    x = small(np.random.default_rng(0), (5, 2, 3), dtype)
    for psum, buffer in (("", "sbuf"), ("0", "psum")):
        got = apply(nl.copy, x, psum=psum)
        assert (got.buffer, got.codes) == (buffer, frozenset())
        assert_same(got.values, x)
    assert_rounded(apply(lambda t: nl.copy(t, dtype=nl.bfloat16), x), widen(x), BFLOAT16)
    assert_rounded(apply(lambda t: nl.copy(t, dtype=nl.int16), x), widen(x), DTYPES["int16"])


def test_copy_is_another_tile():
    def function(tile):
        twin = nl.copy(tile)
        nisa.memset(tile, 0.0)
        return twin

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert_same(apply(function, x).values, x)


def test_copy_of_large_integers_goes_through_float32():
    x = np.array([[2**24 + 1, -(2**24) - 1, 2**31 - 1, 7]], np.int32)
    got = apply(nl.copy, x)
    assert got.codes == {"D017"}
    assert_rounded(got, widen(x), DTYPES["int32"])


@each_case("dtype", FLOATS + INTEGERS)
def test_negative_changes_the_sign(dtype):
    x = small(np.random.default_rng(0), (5, 2, 3), dtype)
    got = apply(nl.negative, x)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    assert_rounded(got, -widen(x), DTYPES[dtype])
    signed = apply(lambda t: nl.negative(t, dtype=nl.int32), x)
    assert_rounded(signed, -widen(x), DTYPES["int32"])


def test_cosine_between_three_half_turns_back_and_a_quarter_ahead():
    # where x + pi/2 lies between -pi and pi, with a step left for its rounding
    x = float32(np.linspace(-1.5 * math.pi, math.pi / 2, 300)[1:-1]).reshape(2, 149)
    got = apply(nl.cos, x)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    assert_within(got.values, *oracle.cos(x))
    narrow_result = apply(lambda t: nl.cos(t, dtype=nl.float16), x)
    assert narrow_result.dtype == np.float16
    assert_within(narrow_result.values, *oracle.cos(x))


def test_tangent_within_a_quarter_turn():
    x = float32(np.linspace(-1.5, 1.5, 300)).reshape(3, 50, 2)
    got = apply(nl.tan, x)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    assert_within(got.values, *oracle.tan(x))
    assert apply(nl.tan, x.astype(BFLOAT16)).dtype == BFLOAT16


@pytest.mark.parametrize("function", ["sin", "tan", "log", "sqrt"])
def test_argument_outside_the_tables_is_a_finding(function):
    x = np.array([[9.0 if function in ("sin", "tan") else -1.0, 1.0]], np.float32)
    assert "D021" in apply(getattr(nl, function), x).codes


# -- rounding to integers --------------------------------------------------------------------------

HALVES = np.array(
    [[-3.5, -2.5, -2.0, -1.5, -1.25, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 3.5]], np.float32
)


@each_case("function", ["floor", "ceil", "trunc"])
@each_case("dtype", FLOATS)
def test_rounding_of_halves_and_negatives(function, dtype):
    x = HALVES.astype(DTYPES[dtype])
    got = apply(getattr(nl, function), x)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    assert_rounded(got, getattr(oracle, function)(widen(x)), DTYPES[dtype])
    for asked in ("int32", "int8", "float32"):
        cast = apply(lambda t, d=asked: getattr(nl, function)(t, dtype=getattr(nl, d)), x)
        assert_rounded(cast, getattr(oracle, function)(widen(x)), DTYPES[asked])


@pytest.mark.parametrize("function", ["floor", "ceil", "trunc"])
@examples(30)
@given(data=st.data())
def test_rounding_is_exact_up_to_the_last_fraction(function, data):
    # all finite float32 below 2^23 have room for a fraction
    finite = st.floats(-(2.0**23), 2.0**23, width=32)
    values = data.draw(st.lists(finite, min_size=1, max_size=20))
    near = [float(np.nextafter(np.float32(round(v)), np.float32(v))) for v in values]
    x = float32([values, near])
    got = apply(getattr(nl, function), x)
    assert not got.codes
    assert_rounded(got, getattr(oracle, function)(x), FLOAT32)


@each_case("function", ["floor", "ceil", "trunc"])
@each_case("dtype", INTEGERS)
def test_rounding_leaves_integers_alone(function, dtype):
    x = small(np.random.default_rng(0), (5, 6), dtype)
    assert_same(apply(getattr(nl, function), x).values, x)


@pytest.mark.parametrize("function", ["floor", "ceil", "trunc"])
def test_rounding_leaves_large_numbers_alone(function):
    x = np.array([[2.0**24 + 2, -(2.0**31), 1e10, -3e38, np.inf, -np.inf, np.nan]], np.float32)
    got = apply(getattr(nl, function), x)
    assert not got.codes
    assert_same(got.values, x)


def test_narrowing_is_what_the_oracle_does():
    # every function above is compared after one rounding; here is that rounding, by hand
    x = np.array([[1 + 2.0**-8, 1 + 3 * 2.0**-8, 300.0, -0.5]], np.float32)
    got = apply(lambda t: nl.copy(t, dtype=nl.bfloat16), x)
    assert_same(got.values, np.array([[1.0, 1 + 2.0**-6, 300, -0.5]], BFLOAT16))
    assert_same(got.values, narrow(x, BFLOAT16))
