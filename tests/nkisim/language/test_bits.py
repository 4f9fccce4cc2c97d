"""Logic and bits of tiles, and choosing between tiles by a condition."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nkisim.language as nl
from comparing import assert_same
from each_case import each_case
from oracles import elementwise as alu
from oracles import language as oracle
from oracles.elementwise import DTYPES, float32, widen

from .harness import apply, assert_rounded, patterns, small, stops_with, warnings_of

FLOATS = list(oracle.FLOATS)
INTEGERS = list(oracle.INTEGERS)
LOGICAL = ["logical_and", "logical_or", "logical_xor"]
BFLOAT16 = DTYPES["bfloat16"]
FLOAT32 = DTYPES["float32"]


# -- logic and bits --------------------------------------------------------------------------------


@each_case("dtype", FLOATS + INTEGERS)
def test_logical_not_exchanges_zero_and_one(dtype):
    x = np.array([[0, 1, 1, 0], [1, 1, 0, 0]], DTYPES[dtype])
    got = apply(nl.logical_not, x)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    assert_same(got.values, (1 - widen(x)).astype(DTYPES[dtype]))
    asked = apply(lambda t: nl.logical_not(t, dtype=nl.uint8), x)
    assert_same(asked.values, (1 - widen(x)).astype(np.uint8))


@pytest.mark.parametrize("value", [2, -1, 0.5])
def test_logical_not_of_another_number_is_a_finding(value):
    x = np.array([[0, 1, value]], np.float32)
    assert apply(nl.logical_not, x).codes == {"D040"}


@each_case("dtype", INTEGERS)
@each_case("op", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits_of_two_tiles_and_of_a_number(op, dtype):
    x, y = patterns(dtype, (33, 2, 3)), patterns(dtype, (33, 2, 3), 1)
    got = apply(getattr(nl, op), x, y)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    assert_same(got.values, alu.bitwise(op, x, y))
    ones = 2 ** (8 * x.itemsize - 1) - 1
    for number in (0, 1, 0x55, ones):
        for function in (
            lambda t, n=number: getattr(nl, op)(t, n, dtype=getattr(nl, dtype)),
            lambda t, n=number: getattr(nl, op)(n, t, dtype=getattr(nl, dtype)),
        ):
            other = np.array(number, x.dtype)
            assert_same(apply(function, x).values, alu.bitwise(op, x, other))


@each_case("op", ["bitwise_and", "bitwise_or", "bitwise_xor"])
@each_case("number", [0xFFFFFFFF, 0x80000000, 0xFF])
def test_numbers_have_all_32_bits(op, number):
    x = patterns("uint32", (4, 5))
    got = apply(lambda t: getattr(nl, op)(t, number, dtype=nl.uint32), x)
    assert not got.codes
    assert_same(got.values, alu.bitwise(op, x, np.array(number, np.uint32)))


@each_case("dtype", INTEGERS)
def test_invert_flips_every_bit(dtype):
    x = patterns(dtype, (33, 2, 3))
    got = apply(nl.invert, x)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    assert_same(got.values, alu.bitwise("invert", x, x))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", ["left_shift", "right_shift"])
def test_shift_by_any_amount(op, dtype):
    x = patterns(dtype, (33, 6))
    width = 8 * x.itemsize
    # with the width of the type, of 32 bits, and beyond both, nothing of the number is left
    amounts = [0, 1, 3, width - 1, width, width + 1, 31, 32, 33, 40]
    for amount in amounts:
        got = apply(lambda t, n=amount: getattr(nl, op)(t, n, dtype=getattr(nl, dtype)), x)
        assert not got.codes
        assert_same(got.values, alu.bitwise(op, x, np.array(amount, x.dtype)))
    y = np.resize(np.array(amounts, x.dtype), x.shape)
    assert_same(apply(getattr(nl, op), x, y).values, alu.bitwise(op, x, y))
    of_number = apply(lambda t: getattr(nl, op)(0x5A, t, dtype=getattr(nl, dtype)), y)
    assert_same(of_number.values, alu.bitwise(op, np.array(0x5A, x.dtype), y))


def test_shifting_a_negative_number_right_brings_in_zeros_and_a_warning():
    x = np.array([[-1, -8]], np.int32)
    got = apply(lambda t: nl.right_shift(t, 1), x)
    assert_same(got.values, np.array([[2**31 - 1, 2**31 - 4]], np.int32))
    assert "D015" in warnings_of(lambda t: nl.right_shift(t, 1), x)
    assert "D015" not in warnings_of(lambda t: nl.right_shift(t, 1), -x)


@pytest.mark.parametrize("op", ["bitwise_and", "left_shift", "invert"])
def test_floats_have_no_bits(op):
    x = np.ones((2, 3), np.float32)
    arguments = [] if op == "invert" else [1]
    assert stops_with(lambda t: getattr(nl, op)(t, *arguments), x) == "D011"


# -- where -----------------------------------------------------------------------------------------


@each_case("condition", [*FLOATS, "uint8", "int32", "bool"])
@each_case("dtype", ["float32", "bfloat16", "int8", "uint32"])
def test_where_chooses_between_tiles(condition, dtype):
    rng = np.random.default_rng(0)
    mask = rng.integers(0, 2, (33, 2, 3)).astype(DTYPES.get(condition, condition))
    x, y = patterns(dtype, (33, 2, 3)), patterns(dtype, (33, 2, 3), 1)
    if dtype in FLOATS:
        x, y = small(rng, (33, 2, 3), dtype), small(rng, (33, 2, 3), dtype)
    got = apply(nl.where, mask, x, y)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    # integers arrive with every digit: nothing goes through float32
    assert_same(got.values, np.where(mask != 0, x, y))


def test_where_takes_numbers_for_either_choice():
    mask = np.array([[1, 0, 1], [0, 0, 1]], np.float32)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    chosen = mask != 0
    for function, want in (
        (lambda m, t: nl.where(m, t, -1.5), np.where(chosen, x, -1.5)),
        (lambda m, t: nl.where(m, 2.5, t), np.where(chosen, 2.5, x)),
        (lambda m, t: nl.where(m, 2.5, -1.5), np.where(chosen, 2.5, -1.5)),
    ):
        got = apply(function, mask, x)
        assert not got.codes
        assert_rounded(got, float32(want), FLOAT32)


def test_where_promotes_and_converts():
    mask = np.array([[1, 0]], np.float32)
    x, y = np.array([[3, 4]], np.int8), np.array([[0.5, 1 / 3]], ml_dtypes.bfloat16)
    assert_same(apply(nl.where, mask, x, y).values, np.array([[3, 1 / 3]], BFLOAT16))
    got = apply(lambda m, a, b: nl.where(m, a, b, dtype=nl.float16), mask, x, y)
    assert_rounded(got, np.array([[3, widen(y)[0, 1]]], np.float32), DTYPES["float16"])


def test_where_takes_comparisons_of_views():
    x = float32(np.random.default_rng(0).standard_normal((5, 8)))
    got = apply(lambda t: nl.where(nl.greater(t[:, ::2], 0.0), t[:, ::2], t[:, 1::2]), x)
    assert_rounded(got, np.where(x[:, ::2] > 0, x[:, ::2], x[:, 1::2]), FLOAT32)


def test_bytes_of_bool_are_zero_and_one():
    x, y = np.array([[True, True, False, False]]), np.array([[True, False, True, False]])
    for op in LOGICAL:
        got = apply(lambda a, b, op=op: getattr(nl, op)(a, b, dtype=nl.uint8), x, y)
        assert not got.codes
        assert_same(got.values, getattr(np, op)(x, y).astype(np.uint8))
