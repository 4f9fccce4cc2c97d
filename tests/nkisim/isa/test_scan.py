"""tensor_tensor_scan and tensor_scalar_cumulative against a loop over the elements.

The order of a scan is its definition, so results are compared exactly.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim.isa as nisa
import nkisim.language as nl
from drawn import examples
from oracles import elementwise, reductions

from .harness import (
    ALL_DTYPES,
    FLOATS,
    NARROW_INTEGERS,
    Operand,
    Problem,
    assert_rounded,
    chunks,
    run,
)

ARITHMETIC = ["add", "subtract", "multiply", "maximum", "minimum"]
PLACES = [("sbuf", "sbuf", "sbuf"), ("psum", "sbuf", "sbuf"), ("sbuf", "psum", "psum")]


def number_or_column(problem: Problem, name: str, start: int, operands: dict[str, Operand]):
    """Keyword arguments if it is a Python number, and its value for the oracle."""
    if problem.flag():
        value = float(problem.rng.uniform(-2, 2))
        return {name: value}, np.float32(value)
    operands[name] = problem.column("float32", start, "small")
    return {}, operands[name].rows.ravel()


@pytest.mark.parametrize("op0", ARITHMETIC)
@pytest.mark.parametrize("op1", ARITHMETIC)
@examples(8)
@given(data=st.data())
def test_tensor_tensor_scan(op0, op1, data):
    problem = Problem(data)
    free, start = problem.free_shape(), problem.start()
    places = problem.choose(PLACES)
    kinds = ["float32" if place == "psum" else problem.choose(ALL_DTYPES) for place in places]
    a = problem.read(kinds[0], free, start, "small", places[0])
    b = problem.read(kinds[1], free, start, "small", places[1])
    dst = problem.write(kinds[2], free, problem.start(), buffer=places[2])
    operands = {"data0": a, "data1": b, "dst": dst}
    number, initial = number_or_column(problem, "initial", start, operands)
    reverse0, reverse1 = problem.flag(), problem.flag()

    def instruction(data0, data1, dst, **columns):
        nisa.tensor_tensor_scan(
            dst=dst,
            data0=data0,
            data1=data1,
            op0=getattr(nl, op0),
            op1=getattr(nl, op1),
            reverse0=reverse0,
            reverse1=reverse1,
            **number,
            **columns,
        )

    # Long products overflow to infinity and then to NaN, of which max and min are not documented.
    want = reductions.scan(
        op0, op1, elementwise.widen(a.rows), elementwise.widen(b.rows), initial, reverse0, reverse1
    )
    got = run(instruction, operands, allow={"D016", "D017"})["dst"]
    known = ~np.logical_or.accumulate(np.isnan(want) | np.isinf(want), axis=1)
    assert_rounded(got[known], want[known])


@examples(20)
@given(data=st.data())
def test_tensor_tensor_scan_carries_its_state_over_tiles(data):
    # A cumulative sum into bfloat16 in two instructions: the state between them is kept in float32.
    problem = Problem(data, sizes=[31, 128, 129])
    free, start = (problem.choose(problem.sizes),), problem.start()
    x = problem.read("float32", free, start, "small")
    ones = Operand(np.ones(x.base.shape, np.float32), x.take, x.positions)
    dst = problem.write("bfloat16", free, start)
    state = problem.write("float32", free, start)
    cut = free[0] // 2

    def instruction(ones, x, dst, state):
        for part, initial in ((slice(0, cut), 0.0), (slice(cut, free[0]), state[:, cut - 1 : cut])):
            for out in (dst, state):
                nisa.tensor_tensor_scan(
                    dst=out[:, part],
                    data0=ones[:, part],
                    data1=x[:, part],
                    initial=initial,
                    op0=nl.multiply,
                    op1=nl.add,
                )

    got = run(instruction, {"ones": ones, "x": x, "dst": dst, "state": state}, ("dst", "state"))
    want = reductions.scan("multiply", "add", ones.rows, x.rows, np.float32(0))
    assert_rounded(got["dst"], want)
    assert_rounded(got["state"], want)


@pytest.mark.parametrize("op1", ARITHMETIC)
@pytest.mark.parametrize(
    "chain",
    [
        ["reset_reduce"],
        ["reset_reduce", "reduce", "reduce"],
        ["load_reduce"],
        ["load_reduce", "reduce", "reset_reduce"],
    ],
    ids="-".join,
)
@examples(6)
@given(data=st.data())
def test_tensor_scalar_cumulative(op1, chain, data):
    problem = Problem(data, sizes=[7, 31, 33, 129])
    free, start = (problem.choose(problem.sizes),), problem.start()
    op0 = problem.choose(ARITHMETIC)
    src = problem.read(problem.choose(FLOATS + NARROW_INTEGERS), free, start, "small")
    dst = problem.write(problem.choose(FLOATS + NARROW_INTEGERS), free, problem.start())
    operands = {"src": src, "dst": dst}
    number0, operand0 = number_or_column(problem, "imm0", start, operands)
    number1, first = {}, None
    if "load_reduce" in chain:
        number1, first = number_or_column(problem, "imm1", start, operands)
    cuts = list(chunks(free[0], len(chain)))

    def instruction(src, dst, **columns):
        columns = {**number0, **number1, **columns}
        imm1 = columns.pop("imm1", None)
        for command, cut in zip(chain, cuts, strict=True):
            loaded = {"imm1": imm1} if command == "load_reduce" else {}
            nisa.tensor_scalar_cumulative(
                dst=dst[:, cut],
                src=src[:, cut],
                op0=getattr(nl, op0),
                op1=getattr(nl, op1),
                reduce_cmd=getattr(nisa.reduce_cmd, command),
                **columns,
                **loaded,
            )

    got = run(instruction, operands)["dst"]
    values, register, parts = elementwise.widen(src.rows), None, []
    for command, cut in zip(chain, cuts, strict=True):
        if command == "reset_reduce":
            register = np.float32(reductions.START[op1])
        elif command == "load_reduce":
            register = first
        part, register = reductions.cumulate(op0, op1, values[:, cut], operand0, register)
        parts.append(part)
    want = np.concatenate(parts, axis=1)
    known = ~np.logical_or.accumulate(np.isnan(want), axis=1)
    assert_rounded(got[known], want[known])


def test_tensor_scalar_cumulative_subtracts_the_register_from_the_element():
    src = np.arange(1, 6, dtype=np.float32).reshape(1, 5)
    where = np.arange(5).reshape(1, 5)
    operands = {
        "src": Operand(src, lambda t: t, where),
        "dst": Operand(np.full((1, 5), 7, np.float32), lambda t: t, where),
    }

    def instruction(src, dst):
        nisa.tensor_scalar_cumulative(dst=dst, src=src, op0=nl.multiply, op1=nl.subtract, imm0=1.0)

    assert run(instruction, operands)["dst"].tolist() == [[1.0, 1.0, 2.0, 2.0, 3.0]]
