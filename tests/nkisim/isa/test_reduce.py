"""tensor_reduce, tensor_partition_reduce and tensor_scalar_reduce against their definitions."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ml_dtypes import bfloat16

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same_bits, assert_within
from drawn import examples
from oracles import elementwise, reductions

from .harness import ALL_DTYPES, FLOATS, INTEGERS, Operand, Problem, assert_rounded, run

ARITHMETIC = ["add", "subtract", "multiply", "maximum", "minimum"]
LOGICAL = ["logical_and", "logical_or", "logical_xor"]
BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor"]
SHAPES = [
    (1,),
    (2,),
    (33,),
    (128,),
    (129,),
    (3, 5),
    (2, 33),
    (7, 1),
    (2, 3, 4),
    (1, 31, 2),
    (5, 1, 8),
]


class Reduction:
    """A tile, the trailing axes that are reduced, and the shape that is left."""

    def __init__(self, problem: Problem) -> None:
        self.free = problem.choose(SHAPES)
        rank = len(self.free)
        self.reduced = problem.choose(range(1, rank + 1))
        axes = tuple(range(rank + 1 - self.reduced, rank + 1))
        # One axis may be given as a number; several as a tuple or a list.
        forms = [axes, list(axes)] + ([axes[0]] if len(axes) == 1 else [])
        self.axis = problem.choose(forms)
        self.keepdims = problem.flag()
        kept = self.free[: rank - self.reduced]
        self.dst_free = (*kept, *([1] * self.reduced)) if self.keepdims else (kept or (1,))

    def rows(self, data: np.ndarray) -> np.ndarray:
        """The elements that are reduced to one, one row for each element of the result."""
        return data.reshape(-1, prod(self.free[len(self.free) - self.reduced :]))


@pytest.mark.parametrize("op", ARITHMETIC + LOGICAL)
@examples(25)
@given(data=st.data())
def test_tensor_reduce_over_trailing_axes(op, data):
    problem = Problem(data)
    shape, start = Reduction(problem), problem.start()
    places = problem.choose([("sbuf", "sbuf"), ("psum", "sbuf"), ("sbuf", "psum")])
    dtypes = ["float32", "bfloat16"] if places[0] == "psum" else ALL_DTYPES
    dtype = problem.choose(dtypes)
    x = problem.read(dtype, shape.free, start, "logical" if op in LOGICAL else "small", places[0])
    if op == "multiply" and dtype in INTEGERS:
        # Mostly ones: a product that overflows on the way depends on the order.
        few = np.where(problem.rng.random(x.base.shape) < 0.9, 1, x.base % 3).astype(x.dtype)
        x = Operand(few, x.take, x.positions, x.buffer)
    dtype = "float32" if places[1] == "psum" else problem.choose(ALL_DTYPES)
    dst = problem.write(dtype, shape.dst_free, problem.start(), buffer=places[1])
    negate = op in ARITHMETIC and problem.flag()

    def instruction(data, dst):
        nisa.tensor_reduce(
            dst=dst,
            op=getattr(nl, op),
            data=data,
            axis=shape.axis,
            negate=negate,
            keepdims=shape.keepdims,
        )

    # Products of integers pass 2^24, which is a finding about the values.
    got = run(instruction, {"data": x, "dst": dst}, allow={"D016", "D017"})["dst"]
    rows = elementwise.widen(shape.rows(x.data))
    if op == "add":
        total = reductions.sum_in_order(rows)
        assert_rounded(got.ravel(), -total if negate else total)
        return
    values, tolerance = reductions.reduce(op, rows)
    values = -values if negate else values
    assert_within(got.ravel(), values, tolerance)


def summed(x, axes, step):
    data = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=data, src=x)
    data = data[..., ::step]
    kept = data.shape[: axes[0]] if axes[0] > 1 else (data.shape[0], 1)
    total = nl.ndarray(kept, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=data, axis=axes)
    out = nl.ndarray(kept, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out


@pytest.mark.parametrize("fast", ["0", "1"])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
@pytest.mark.parametrize(
    ("shape", "reduced"),
    [
        ((1, 4096), 1),
        ((3, 4096), 1),
        ((128, 1), 1),
        ((127, 514), 1),
        ((9, 1027), 1),
        ((16, 4, 640), 2),
        ((5, 3, 2, 64), 1),
        ((64, 16, 8), 2),
        ((31, 2, 3, 40), 2),
        ((2, 1, 6, 600), 3),
    ],
)
def test_sums_are_in_order(shape, reduced, dtype, step, fast, monkeypatch):
    monkeypatch.setenv("NKISIM_FAST", fast)
    if fast == "1":
        pytest.importorskip("numba", reason="the compiled loop needs numba")
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(dtype)
    x[0] = -0.0  # the sum of negative zeros is one
    if shape[0] > 3:
        x[1, ..., -1], x[2, ..., -1] = np.inf, np.nan
        x[3] *= np.finfo(dtype).smallest_subnormal * 100 if dtype is np.float32 else 2.0**-130
    axes = tuple(range(len(shape) - reduced, len(shape)))
    got = nkisim.simulate(summed)(x, axes, step)
    taken = x[..., ::step].astype(np.float32)
    rows = taken.reshape(-1, int(np.prod(taken.shape[axes[0] :])))
    assert_same_bits(got.ravel(), reductions.sum_in_order(rows))


def negated_columns(x, columns):
    out = nl.ndarray((x.shape[0], columns), dtype=x.dtype, buffer=nl.shared_hbm)
    data = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    tile = nl.ndarray((x.shape[0], columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=data, src=x)
    for i in range(columns):
        part = data[:, 8 * i : 8 * i + 8]
        nisa.tensor_reduce(dst=tile[:, i : i + 1], op=nl.maximum, data=part, axis=1, negate=True)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_a_negated_reduction_into_a_column_of_a_tile():
    rng = np.random.default_rng(0)
    for columns in range(1, 10):  # np.negative is wrong for some distances between elements
        x = rng.standard_normal((128, 8 * columns)).astype(np.float32)
        got = nkisim.simulate(negated_columns)(x, columns)
        np.testing.assert_array_equal(got, -x.reshape(128, columns, 8).max(axis=2))


@pytest.mark.parametrize("op", BITWISE)
@examples(15)
@given(data=st.data())
def test_tensor_reduce_bitwise_is_exact(op, data):
    problem = Problem(data)
    shape, dtype = Reduction(problem), problem.choose(INTEGERS)
    x = problem.read(dtype, shape.free, problem.start())
    dst = problem.write(dtype, shape.dst_free, problem.start())

    def instruction(data, dst):
        nisa.tensor_reduce(
            dst=dst, op=getattr(nl, op), data=data, axis=shape.axis, keepdims=shape.keepdims
        )

    got = run(instruction, {"data": x, "dst": dst})["dst"]
    assert_same_bits(got.ravel(), reductions.reduce_bits(op, shape.rows(x.data)))


@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_tensor_reduce_keeps_infinities(op):
    inf = np.inf
    rows = np.array([[inf, -inf, 1.0], [-inf, -inf, -inf], [1e30, 1e-40, -0.0]], np.float32)
    operands = {
        "data": Operand(rows, lambda t: t, np.arange(9).reshape(3, 3)),
        "dst": Operand(np.full((3, 1), 7, np.float32), lambda t: t, np.arange(3).reshape(3, 1)),
    }

    def instruction(data, dst):
        nisa.tensor_reduce(dst=dst, op=getattr(nl, op), data=data, axis=1)

    want = {"maximum": [inf, -inf, 1e30], "minimum": [-inf, -inf, -0.0]}[op]
    assert_rounded(run(instruction, operands)["dst"].ravel(), np.array(want, np.float32))


@pytest.mark.parametrize("op", ["add", "maximum"])
@examples(25)
@given(data=st.data())
def test_tensor_partition_reduce(op, data):
    problem = Problem(data)
    free = problem.free_shape()
    x = problem.read(problem.choose(ALL_DTYPES), free, problem.start(), "small")
    one = problem.on(1)
    dst = one.write(problem.choose(ALL_DTYPES), free, one.start())

    def instruction(data, dst):
        nisa.tensor_partition_reduce(dst=dst, op=getattr(nl, op), data=data)

    got = run(instruction, {"data": x, "dst": dst})["dst"]
    assert_within(got[0], *reductions.reduce(op, elementwise.widen(x.rows.T)))


@pytest.mark.parametrize("op", ["bitwise_and", "bitwise_or"])
@examples(20)
@given(data=st.data())
def test_tensor_partition_reduce_bitwise_is_exact(op, data):
    # Few partitions, so that the and of random patterns is not always 0.
    problem = Problem(data, partitions=[1, 2, 3, 31])
    free, dtype = problem.free_shape(), problem.choose(INTEGERS)
    x = problem.read(dtype, free, problem.start())
    one = problem.on(1)
    dst = one.write(dtype, free, one.start())

    def instruction(data, dst):
        nisa.tensor_partition_reduce(dst=dst, op=getattr(nl, op), data=data)

    got = run(instruction, {"data": x, "dst": dst})["dst"]
    assert_same_bits(got[0], reductions.reduce_bits(op, np.ascontiguousarray(x.rows.T)))


@pytest.mark.parametrize("reduce_op", [*ARITHMETIC, "max", "min"])
@examples(15)
@given(data=st.data())
def test_tensor_scalar_reduce_reduces_unrounded_values(reduce_op, data):
    problem = Problem(data)
    free, start = problem.free_shape(), problem.start()
    x = problem.read(problem.choose(FLOATS), free, start, "small")
    operands = {
        "data": x,
        "dst": problem.write(problem.choose(FLOATS), free, problem.start()),
        "reduce_res": problem.column("float32", start, buffer=problem.choose(["sbuf", "psum"])),
    }
    op0 = problem.choose(["add", "subtract", "multiply", "maximum", "minimum", "greater"])
    arguments = {}
    if problem.flag():
        arguments["operand0"] = float(problem.rng.uniform(-2, 2))
        operand0 = np.float32(arguments["operand0"])
    else:
        operands["operand0"] = problem.column("float32", start, "small")
        operand0 = operands["operand0"].rows

    def instruction(data, dst, reduce_res, **columns):
        nisa.tensor_scalar_reduce(
            dst=dst,
            data=data,
            op0=getattr(nl, op0),
            reduce_op=getattr(nl, reduce_op),
            reduce_res=reduce_res,
            **arguments,
            **columns,
        )

    got = run(instruction, operands, ("dst", "reduce_res"))
    values = elementwise.tensor_scalar(x.rows, op0, operand0)
    assert_rounded(got["dst"], values)
    name = {"max": "maximum", "min": "minimum"}.get(reduce_op, reduce_op)
    assert_within(got["reduce_res"].ravel(), *reductions.reduce(name, values))
