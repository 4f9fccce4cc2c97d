"""Reductions along the free dimensions, and what is built from them."""

from __future__ import annotations

import math

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
from oracles import language as oracle
from oracles import matmul as products
from oracles.elementwise import DTYPES, float32, reals, widen
from oracles.reductions import reduce

from .harness import apply, stops_with

OPERATORS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
SHAPES = [(1, 1), (128, 33), (31, 512), (33, 2, 5), (5, 3, 1), (65, 2, 3, 3), (2, 1, 7, 4)]
BFLOAT16 = DTYPES["bfloat16"]


def shape_left(shape: tuple[int, ...], first: int, keepdims: bool) -> tuple[int, ...]:
    """The shape without the axes from ``first`` on; a tile has two dimensions at least."""
    left = shape[:first] + (1,) * (len(shape) - first if keepdims else 0)
    return left if len(left) > 1 else (*left, 1)


def contents(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers around one, so that neither sums nor products leave the range of a type."""
    if dtype in oracle.FLOATS:
        return (1 + 0.1 * rng.standard_normal(shape)).astype(DTYPES[dtype])
    return rng.integers(0, 3, shape).astype(DTYPES[dtype])


@pytest.mark.parametrize("function", sorted(OPERATORS))
@examples(30)
@given(data=st.data())
def test_reduction_of_trailing_axes(function, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    shape = data.draw(st.sampled_from(SHAPES))
    first = data.draw(st.integers(1, len(shape) - 1))
    dtype = data.draw(st.sampled_from([*oracle.FLOATS, "int8", "uint16", "int32"]))
    # products of integers soon leave what float32 holds
    if function == "prod" and dtype not in oracle.FLOATS:
        dtype = "float32"
    asked = data.draw(st.sampled_from([None, None, "float32", "bfloat16"]))
    keepdims, psum = data.draw(st.booleans()), data.draw(st.sampled_from(["", "0"]))
    x = contents(rng, shape, dtype)
    axes = list(range(first, len(shape)))
    axis = data.draw(
        st.sampled_from(
            [
                tuple(axes),
                axes,
                [a - len(shape) for a in axes],
                *([axes[0]] if len(axes) == 1 else []),
            ]
        )
    )
    arguments = {} if asked is None else {"dtype": getattr(nl, asked)}
    got = apply(
        lambda t: getattr(nl, function)(t, axis=axis, keepdims=keepdims, **arguments), x, psum=psum
    )
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    assert got.dtype == DTYPES[asked or dtype]
    left = shape_left(shape, first, keepdims)
    value, tolerance = reduce(OPERATORS[function], oracle.rows(widen(x), first))
    assert_within(got.values, value.reshape(left), tolerance.reshape(left))


@each_case("dtype", ["float32", "bfloat16", "int32", "uint8"])
@each_case("first", [1, 2])
def test_all_tells_whether_no_element_is_zero(dtype, first):
    x = (
        np.random.default_rng(0)
        .choice(np.array([0, 1, 1, 1, 1, 3]), (40, 3, 4))
        .astype(DTYPES[dtype])
    )
    axis = tuple(range(first, 3))
    got = apply(lambda t: nl.all(t, axis=axis), x)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    want = (
        (oracle.rows(reals(x), first) != 0).all(axis=1).reshape(shape_left(x.shape, first, False))
    )
    assert 0 < np.count_nonzero(want) < want.size
    assert_same(got.values, want.astype(DTYPES[dtype]))
    assert_same(apply(lambda t: nl.all(t, axis, nl.uint8), x).values, want.astype(np.uint8))


@each_case("keepdims", [False, True])
@each_case(("shape", "first"), [((33, 70), 1), ((5, 3, 4), 2), ((5, 3, 4), 1)])
@each_case("dtype", ["float32", "bfloat16", "float16", "int16"])
def test_mean_is_a_sum_in_float32(dtype, shape, first, keepdims):
    x = (3 * np.random.default_rng(0).standard_normal(shape)).astype(DTYPES[dtype])
    axis = tuple(range(first, len(shape)))
    got = apply(lambda t: nl.mean(t, axis=axis, keepdims=keepdims), x)
    assert (got.dtype, got.buffer, got.codes) == (DTYPES[dtype], "sbuf", frozenset())
    value, tolerance = oracle.mean(oracle.rows(widen(x), first))
    left = shape_left(shape, first, keepdims)
    assert_within(got.values, value.reshape(left), tolerance.reshape(left))
    wide = apply(lambda t: nl.mean(t, axis=axis, dtype=nl.float32, keepdims=keepdims), x)
    assert wide.dtype == np.float32
    assert_within(wide.values, value.reshape(left), tolerance.reshape(left))


@each_case("keepdims", [False, True])
@each_case(("shape", "first"), [((33, 70), 1), ((5, 3, 4), 2), ((5, 3, 4), 1)])
@each_case("dtype", ["float32", "bfloat16", "int16"])
def test_variance_always_keeps_its_dimensions(dtype, shape, first, keepdims):
    x = (2 + 3 * np.random.default_rng(0).standard_normal(shape)).astype(DTYPES[dtype])
    axis = tuple(range(first, len(shape)))
    got = apply(lambda t: nl.var(t, axis=axis, dtype=nl.float32, keepdims=keepdims), x)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    value, tolerance = oracle.var(oracle.rows(widen(x), first))
    left = shape_left(shape, first, True)
    assert_within(got.values, value.reshape(left), tolerance.reshape(left))
    assert apply(lambda t: nl.var(t, axis=axis), x).dtype == DTYPES[dtype]


def test_variance_survives_a_large_mean():
    # the difference of the mean square and the squared mean would keep no digit of this
    x = float32(10000 + np.array([[0, 1, 2, 3] * 8] * 3))
    got = apply(lambda t: nl.var(t, axis=1), x)
    value, tolerance = oracle.var(oracle.rows(x, 1))
    assert (value == 1.25).all()
    assert (tolerance < 0.01).all()
    assert_within(got.values, value.reshape(3, 1), tolerance.reshape(3, 1))


@each_case("function", ["sum", "prod", "max", "min", "all", "mean", "var", "softmax"])
@each_case(
    ("shape", "axis"),
    [
        ((4, 5), 0),
        ((4, 5), (0, 1)),
        ((4, 5), -2),
        ((4, 3, 5), 1),
        ((4, 3, 5), (0, 2)),
        ((4, 3, 2, 5), (1, 3)),
        ((4, 3, 2, 5), (1, 2)),
        ((4, 5), 2),
        ((4, 5), ()),
    ],
)
def test_only_trailing_free_axes_are_reduced(function, shape, axis):
    x = np.ones(shape, np.float32)
    assert stops_with(lambda t: getattr(nl, function)(t, axis=axis), x) == "S062"


@pytest.mark.parametrize("function", sorted(OPERATORS))
def test_reduction_of_a_view_with_steps(function):
    x = float32(np.random.default_rng(0).standard_normal((64, 4, 11)))
    got = apply(lambda t: getattr(nl, function)(t[32:64, 1:4:2, 1:11:3], axis=2), x)
    value, tolerance = reduce(OPERATORS[function], oracle.rows(x[32:64, 1:4:2, 1:11:3], 2))
    assert_within(got.values, value.reshape(32, 2), tolerance.reshape(32, 2))


def test_sum_of_bfloat16_is_rounded_once():
    # the partial sums 256, 257, ... need more bits than a bfloat16 has; their sum does not
    x = np.ones((2, 512), BFLOAT16)
    assert_same(apply(lambda t: nl.sum(t, axis=1), x).values, np.full((2, 1), 512, BFLOAT16))


@pytest.mark.parametrize(("function", "operator"), [("max", "maximum"), ("min", "minimum")])
def test_reduction_agrees_with_the_instruction(function, operator):
    x = float32(np.random.default_rng(0).standard_normal((7, 9)))

    def instruction(tile):
        out = nl.ndarray((7, 1), nl.float32)
        nisa.tensor_reduce(out, op=getattr(nl, operator), data=tile, axis=1)
        return out

    by_function = apply(lambda t: getattr(nl, function)(t, axis=1), x)
    assert_same(by_function.values, apply(instruction, x).values)


# -- softmax and rms_norm --------------------------------------------------------------------------


@each_case(("shape", "axis"), [((33, 70), -1), ((33, 70), 1), ((5, 3, 4), (1, 2)), ((5, 3, 4), 2)])
@each_case("dtype", ["float32", "bfloat16"])
def test_softmax_computes_and_is_a_finding(shape, axis, dtype):
    x = (4 * np.random.default_rng(0).standard_normal(shape)).astype(DTYPES[dtype])
    got = apply(lambda t: nl.softmax(t, axis=axis), x)
    assert (got.dtype, got.buffer, got.codes) == (DTYPES[dtype], "sbuf", {"S008"})
    first = 1 if axis == (1, 2) else len(shape) - 1
    value, tolerance = oracle.softmax(oracle.rows(widen(x), first))
    assert_within(got.values, value.reshape(shape), tolerance.reshape(shape))


def test_softmax_is_along_the_last_axis_and_takes_a_type():
    x = float32(np.random.default_rng(0).standard_normal((5, 6)))
    got = apply(lambda t: nl.softmax(t, dtype=nl.float16), x)
    assert got.dtype == np.float16
    assert_within(got.values, *oracle.softmax(oracle.rows(x, 1)))


def test_softmax_does_not_overflow():
    x = np.array([[1000.0, 1001.0, -1000.0]], np.float32)
    assert_within(apply(nl.softmax, x).values, *oracle.softmax(oracle.rows(x, 1)))


@pytest.mark.parametrize("rows_of_weight", [1, 33])
@pytest.mark.parametrize(("n", "epsilon"), [(70, 1e-6), (35, 0.5)])
def test_rms_norm_computes_and_is_a_finding(rows_of_weight, n, epsilon):
    rng = np.random.default_rng(0)
    x = float32(rng.standard_normal((33, 70)))
    weight = float32(rng.uniform(0.5, 2, (rows_of_weight, 70)))
    got = apply(lambda t, w: nl.rms_norm(t, w, axis=1, n=n, epsilon=epsilon), x, weight)
    assert (got.dtype, got.buffer, got.codes) == (np.float32, "sbuf", {"S008"})
    assert_within(got.values, *oracle.rms_norm(reals(x), reals(weight), n, epsilon))


def test_rms_norm_takes_types():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 16)).astype(BFLOAT16)
    weight = rng.uniform(0.5, 2, (5, 16)).astype(BFLOAT16)
    value, tolerance = oracle.rms_norm(reals(x), reals(weight), 16, 1e-6)
    got = apply(lambda t, w: nl.rms_norm(t, w, axis=1, n=16), x, weight)
    assert got.dtype == BFLOAT16
    assert_within(got.values, value, tolerance)
    wide = apply(lambda t, w: nl.rms_norm(t, w, axis=1, n=16, dtype=nl.float32), x, weight)
    assert_within(wide.values, value, tolerance)
    # Squares and quotients in bfloat16 have a relative error of 2^-8 each: half of it under the
    # root, then all of it; 1.01 covers their product.
    coarse = apply(
        lambda t, w: nl.rms_norm(t, w, 1, 16, dtype=nl.float32, compute_dtype=nl.bfloat16),
        x,
        weight,
    )
    assert_within(coarse.values, value, tolerance + 1.01 * 1.5 * 2.0**-8 * np.abs(value))


@pytest.mark.parametrize("function", ["softmax", "rms_norm"])
def test_what_broadcasts_inside_stops_a_strict_run(function):
    def kernel(x):
        tile = nl.load(x)
        if function == "softmax":
            return nl.softmax(tile)
        return nl.rms_norm(tile, tile, axis=1, n=5)

    with pytest.raises(nkisim.NkiValidationError) as stop:
        nkisim.simulate(kernel, strictness="strict")(np.ones((4, 5), np.float32))
    assert stop.value.rule_id == "S008"


# -- matmul ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "m", "n"), [(128, 128, 512), (1, 1, 1), (33, 5, 70), (127, 128, 3), (128, 1, 511)]
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2"])
def test_matmul_of_a_transposed_factor(k, m, n, dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((k, m)).astype(DTYPES[dtype])
    y = rng.standard_normal((k, n)).astype(DTYPES[dtype])
    got = apply(lambda a, b: nl.matmul(a, b, transpose_x=True), x, y)
    assert (got.dtype, got.buffer, got.codes) == (np.float32, "psum", frozenset())
    want = products.matmul(x, y)
    assert_within(got.values, want.value, want.tolerance)


def test_matmul_takes_different_16_bit_floats():
    x = np.arange(12).reshape(4, 3).astype(BFLOAT16)
    y = np.arange(20).reshape(4, 5).astype(np.float16)
    got = apply(lambda a, b: nl.matmul(a, b, transpose_x=True), x, y)
    # sums of small integers are exact
    assert_same(got.values, float32(reals(x).T @ reals(y)))


@pytest.mark.parametrize(("m", "k", "n"), [(5, 33, 70), (128, 128, 512), (1, 7, 1)])
def test_matmul_that_must_transpose_computes_and_is_a_finding(m, k, n):
    rng = np.random.default_rng(0)
    x, y = float32(rng.standard_normal((m, k))), float32(rng.standard_normal((k, n)))
    got = apply(nl.matmul, x, y)
    assert (got.dtype, got.buffer, got.codes) == (np.float32, "psum", {"S061"})
    want = products.matmul(x.T, y)
    assert_within(got.values, want.value, want.tolerance)


@pytest.mark.parametrize("x", [(128, 129), (64, 8), (128, 2)])
def test_matmul_has_limits(x):
    # more than 128 stationary columns; other contraction lengths; too many moving columns on gen2
    columns = 513 if x == (128, 2) else 4
    factors = np.ones(x, np.float32), np.ones((128, columns), np.float32)

    def product(a, b):
        return nl.matmul(a, b, transpose_x=True)

    assert stops_with(product, *factors, target="gen2") != "nothing"


def test_matmul_of_integers_is_refused():
    x = np.ones((4, 4), np.int32)
    assert stops_with(lambda a: nl.matmul(a, a, transpose_x=True), x) == "D002"


def test_matmul_of_a_view():
    x = float32(np.random.default_rng(0).standard_normal((40, 24)))
    got = apply(lambda t: nl.matmul(t[:, ::3], t[:, 1:24:2], transpose_x=True), x)
    want = products.matmul(x[:, ::3], x[:, 1::2])
    assert_within(got.values, want.value, want.tolerance)
    assert math.isclose(want.value[0, 0], float((reals(x[:, 0]) * reals(x[:, 1])).sum()))
