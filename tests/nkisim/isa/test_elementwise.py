"""tensor_tensor, tensor_scalar, scalar_tensor_tensor, tensor_copy and reciprocal by definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same, assert_same_bits, assert_within
from drawn import examples
from oracles import elementwise as oracle

from ..draws import Draws
from .harness import (
    ALL_DTYPES,
    FLOATS,
    INTEGERS,
    INTEGERS_THROUGH_FLOAT32,
    Operand,
    Problem,
    assert_rounded,
    run,
)

ARITHMETIC = sorted(oracle.ARITHMETIC)
BITWISE = sorted(set(oracle.BITWISE) - {"invert"})
# What PSUM holds in practice; the staging copy into it is itself under test below.
PSUM_DTYPES = ["float32", "bfloat16"]
# (data1, data2, dst): at most one input in PSUM.
PLACES = [
    ("sbuf", "sbuf", "sbuf"),
    ("psum", "sbuf", "sbuf"),
    ("sbuf", "psum", "psum"),
    ("sbuf", "sbuf", "psum"),
]


def dtype_in(problem: Problem, buffer: str) -> str:
    return str(problem.choose(PSUM_DTYPES if buffer == "psum" else ALL_DTYPES))


def small_shift(problem: Problem, operand: Operand) -> Operand:
    """The same view of shift counts that are less than the width of the elements."""
    width = 8 * operand.dtype.itemsize
    counts = problem.rng.integers(0, width, operand.base.shape).astype(operand.dtype)
    return Operand(counts, operand.take, operand.positions, operand.buffer)


def values_for(*ops: str | None) -> str:
    """What data to give fused operators: max and min of NaN are undocumented, so none may arise."""
    return "small" if {"maximum", "minimum"} & set(ops) else "any"


# -- tensor_tensor ---------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ARITHMETIC)
@examples(15)
@given(data=st.data())
def test_tensor_tensor_computes_in_float32_and_rounds_once(op, data):
    problem = Problem(data)
    free, start = problem.free_shape(), problem.start()
    places = problem.choose(PLACES)
    values = "logical" if op.startswith("logical") or "equal" in op else "any"
    a = problem.read(dtype_in(problem, places[0]), free, start, values, places[0])
    b = problem.read(dtype_in(problem, places[1]), free, start, values, places[1])
    dst = problem.write(dtype_in(problem, places[2]), free, problem.start(), buffer=places[2])

    def instruction(data1, data2, dst):
        # The engine is named because int32 tiles would otherwise go to GpSimd: another test.
        nisa.tensor_tensor(
            dst=dst, data1=data1, data2=data2, op=getattr(nl, op), engine=nisa.engine.vector
        )

    got = run(instruction, {"data1": a, "data2": b, "dst": dst}, allow=INTEGERS_THROUGH_FLOAT32)
    assert_same(got["dst"], oracle.tensor_tensor(a.rows, b.rows, op, dst.dtype))


@pytest.mark.parametrize("engine", ["unknown", "gpsimd"])
@examples(40)
@given(data=st.data())
def test_tensor_tensor_of_32_bit_integers_is_exact_and_wraps(engine, data):
    problem = Problem(data)
    free, start, dtype = problem.free_shape(), problem.start(), problem.choose(["int32", "uint32"])
    op = problem.choose(sorted(oracle.EXACT))
    values = "logical" if op.startswith("logical") else "any"
    a, b = (problem.read(dtype, free, start, values) for _ in range(2))
    dst = problem.write(dtype, free, problem.start())

    def instruction(data1, data2, dst):
        nisa.tensor_tensor(
            dst=dst,
            data1=data1,
            data2=data2,
            op=getattr(nl, op),
            engine=getattr(nisa.engine, engine),
        )

    got = run(instruction, {"data1": a, "data2": b, "dst": dst})
    assert_same_bits(got["dst"], oracle.integer_tensor_tensor(a.rows, b.rows, op))


@examples(30)
@given(data=st.data())
def test_tensor_tensor_tells_neighbouring_large_integers_apart_on_gpsimd_only(data):
    problem = Problem(data)
    base = problem.choose([2**24, 2**30, -(2**30)])
    shape = (problem.partitions, problem.choose(problem.sizes))
    whole = np.arange(np.prod(shape)).reshape(shape)
    left = np.full(shape, base, np.int32)
    right = (base + whole % 2).astype(np.int32)
    operands = {
        "data1": Operand(left, lambda t: t, whole),
        "data2": Operand(right, lambda t: t, whole),
        "dst": Operand(np.full(shape, 7, np.int32), lambda t: t, whole),
    }

    def equal_on(engine):
        def instruction(data1, data2, dst):
            nisa.tensor_tensor(dst=dst, data1=data1, data2=data2, op=nl.equal, engine=engine)

        return run(instruction, operands, allow=INTEGERS_THROUGH_FLOAT32)["dst"]

    assert_same_bits(equal_on(nisa.engine.unknown), (whole % 2 == 0).astype(np.int32))
    assert_same_bits(equal_on(nisa.engine.vector), np.ones(shape, np.int32))


@examples(20)
@given(data=st.data())
def test_tensor_tensor_of_integers_in_psum_goes_through_float32(data):
    problem = Problem(data)
    free, start = problem.free_shape(), problem.start()
    a = problem.read("int32", free, start, buffer="psum")
    b = problem.read("int32", free, start)
    dst = problem.write("int32", free, problem.start())
    op = problem.choose(["add", "subtract", "maximum"])

    def instruction(data1, data2, dst):
        nisa.tensor_tensor(dst=dst, data1=data1, data2=data2, op=getattr(nl, op))

    got = run(instruction, {"data1": a, "data2": b, "dst": dst}, allow=INTEGERS_THROUGH_FLOAT32)
    assert_same_bits(got["dst"], oracle.tensor_tensor(a.rows, b.rows, op, dst.dtype))


@pytest.mark.parametrize("op", BITWISE)
@examples(15)
@given(data=st.data())
def test_tensor_tensor_bitwise_is_exact(op, data):
    problem = Problem(data)
    free, start, dtype = problem.free_shape(), problem.start(), problem.choose(INTEGERS)
    a, b = (problem.read(dtype, free, start) for _ in range(2))
    if op.endswith("shift"):
        b = small_shift(problem, b)
    dst = problem.write(dtype, free, problem.start())

    def instruction(data1, data2, dst):
        nisa.tensor_tensor(dst=dst, data1=data1, data2=data2, op=getattr(nl, op))

    got = run(instruction, {"data1": a, "data2": b, "dst": dst})
    assert_same_bits(got["dst"], oracle.bitwise(op, a.rows, b.rows))


@examples(20)
@given(data=st.data())
def test_tensor_tensor_power(data):
    problem = Problem(data)
    free, start = problem.free_shape(), problem.start()
    a, b = (problem.read("float32", free, start, "small") for _ in range(2))
    a = Operand(np.abs(a.base) + np.float32(0.25), a.take, a.positions)
    dst = problem.write(problem.choose(FLOATS), free, problem.start())

    def instruction(data1, data2, dst):
        nisa.tensor_tensor(dst=dst, data1=data1, data2=data2, op=nl.power)

    got = run(instruction, {"data1": a, "data2": b, "dst": dst})["dst"]
    want = np.float64(a.rows) ** np.float64(b.rows)
    # A library power is right to 4 units in the last place of float32.
    assert_within(got, want, oracle.float32_ulps(want, 4))


@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
@pytest.mark.parametrize("engine", ["unknown", "vector", "gpsimd"])
@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
def test_powers_run_on_gpsimd(target, engine, buffer):
    seen = []

    @nkisim.jit
    def kernel(x):
        data, out = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf) for _ in range(2))
        nisa.dma_copy(dst=data, src=x)
        other = nl.ndarray(x.shape, dtype=x.dtype, buffer=getattr(nl, buffer))
        nisa.tensor_copy(dst=other, src=data)
        nisa.tensor_tensor(out, data, other, nl.power, engine=getattr(nisa.engine, engine))

    x = np.ones((8, 16), np.float32)
    report = nkisim.check(kernel, target=target, detect=(), watchers=(seen.append,))(x)
    # GpSimd has no port to PSUM.
    wrong = {"A034"} if engine == "vector" else {"M022"} if buffer == "psum" else set()
    assert report.codes == wrong
    if not wrong:
        assert seen[-1].engine is nisa.engine.gpsimd


@examples(20)
@given(data=st.data())
def test_tensor_tensor_in_place(data):
    problem = Problem(data)
    free, start = problem.free_shape(), problem.start()
    a = problem.write(problem.choose(ALL_DTYPES), free, start)
    b = problem.read("float32", free, start)

    def instruction(acc, other):
        nisa.tensor_tensor(dst=acc, data1=acc, data2=other, op=nl.add)

    got = run(instruction, {"acc": a, "other": b}, ("acc",), allow=INTEGERS_THROUGH_FLOAT32)
    assert_same(got["acc"], oracle.tensor_tensor(a.rows, b.rows, "add", a.dtype))


# -- tensor_scalar and scalar_tensor_tensor --------------------------------------------------------


def scalar_or_column(problem, start, name, operands):
    """A Python number, or None and a (P, 1) tile in ``operands``; and the oracle's operand."""
    kind = problem.choose(["float", "int", "sbuf", "psum"])
    if kind == "float":
        value = float(problem.rng.standard_normal())
        return value, np.float32(value)
    if kind == "int":
        value = int(problem.rng.integers(-3, 4))
        return value, np.float32(value)
    operands[name] = problem.column("float32", start, "small", kind)
    return None, operands[name].rows


@pytest.mark.parametrize("op0", ARITHMETIC)
@examples(15)
@given(data=st.data())
def test_tensor_scalar_computes_in_float32_and_rounds_once(op0, data):
    problem = Problem(data)
    free, start = problem.free_shape(), problem.start()
    places = problem.choose([("sbuf", "sbuf"), ("psum", "sbuf"), ("sbuf", "psum")])
    op1 = problem.choose([None, *ARITHMETIC])
    x = problem.read(dtype_in(problem, places[0]), free, start, values_for(op1), places[0])
    dst = problem.write(dtype_in(problem, places[1]), free, problem.start(), buffer=places[1])
    operands = {"data": x, "dst": dst}
    value0, operand0 = scalar_or_column(problem, start, "operand0", operands)
    reverse0, reverse1 = problem.flag(), problem.flag()
    value1, operand1 = (None, None)
    if op1 is not None:
        value1, operand1 = scalar_or_column(problem, start, "operand1", operands)

    def instruction(data, dst, operand0=value0, operand1=value1):
        first = {"op0": getattr(nl, op0), "operand0": operand0, "reverse0": reverse0}
        second = {}
        if op1 is not None:
            second = {"op1": getattr(nl, op1), "operand1": operand1, "reverse1": reverse1}
        nisa.tensor_scalar(dst=dst, data=data, **first, **second)

    got = run(instruction, operands, allow=INTEGERS_THROUGH_FLOAT32)["dst"]
    want = oracle.tensor_scalar(x.rows, op0, operand0, reverse0, op1, operand1, reverse1)
    assert_rounded(got, want)


# Around 1024, 4096, 32768 and 65536 elements, where other code computes a tile.
AROUND_LIMITS = [
    (1, 1), (4, 4), (31, 33), (32, 32), (25, 41), (63, 65), (64, 64), (17, 241), (127, 257),
    (128, 256), (128, 511), (128, 512), (128, 513),
]  # fmt: skip


def simulated(instruction, dtype, *arrays):
    """What an instruction that nothing watches writes to a tile like the first array."""

    def kernel(tensors):
        tiles = []
        for tensor in tensors:
            tile = nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=tensor)
            tiles.append(tile)
        dst = nl.ndarray(tensors[0].shape, dtype=dtype, buffer=nl.sbuf)
        instruction(dst, *tiles)
        out = nl.ndarray(dst.shape, dtype=dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=dst)
        return out

    return nkisim.simulate(kernel)(arrays)


@pytest.mark.parametrize("reverse1", [False, True])
@pytest.mark.parametrize("reverse0", [False, True])
@pytest.mark.parametrize("shape", AROUND_LIMITS)
@examples(8)
@given(data=st.data())
def test_exchanged_operands_at_every_size(shape, reverse0, reverse1, data):
    draws = Draws(data)
    rng = draws.rng

    def choose(*options):
        return draws.choose(options)

    values = {
        "number": np.float32(2.5),
        "integer": np.float32(-3),
        "column": rng.standard_normal((shape[0], 1)).astype(np.float32),
        "tile": rng.standard_normal(shape).astype(oracle.DTYPES[choose("float32", "bfloat16")]),
    }
    x = rng.standard_normal(shape).astype(oracle.DTYPES[choose("float32", "bfloat16")])
    into = choose("float32", "bfloat16")
    op0, op1 = choose("subtract", "multiply", "less"), choose(None, "subtract", "maximum")
    kind0 = choose("number", "integer", "column")
    kind1 = "number" if op1 is None else choose("number", "integer", "column", "tile")

    def instruction(dst, x, column, tile):
        operands = {"number": 2.5, "integer": -3, "column": column, "tile": tile}
        arguments = {"op0": getattr(nl, op0), "operand0": operands[kind0], "reverse0": reverse0}
        if op1 is not None:
            arguments |= {"op1": getattr(nl, op1), "operand1": operands[kind1]}
            arguments["reverse1"] = reverse1
        call = nisa.scalar_tensor_tensor if kind1 == "tile" else nisa.tensor_scalar
        call(dst=dst, data=x, **arguments)

    got = simulated(instruction, into, x, values["column"], values["tile"])
    want = oracle.tensor_scalar(x, op0, values[kind0], reverse0, op1, values[kind1], reverse1)
    assert_rounded(got, want)


def lanes_of(integers):
    """The bit patterns of integers in lanes of 32 bits, as between two bitwise operators."""
    return np.ascontiguousarray(integers).view(f"u{integers.itemsize}").astype(np.uint32)


@examples(40)
@given(data=st.data())
def test_tensor_scalar_bitwise_is_exact(data):
    problem = Problem(data)
    free, start, dtype = problem.free_shape(), problem.start(), problem.choose(INTEGERS)
    x = problem.read(dtype, free, start)
    operands = {"data": x, "dst": problem.write(dtype, free, problem.start())}
    ops = [problem.choose(sorted(oracle.BITWISE)) for _ in range(problem.choose([1, 2]))]
    arguments, want = {}, lanes_of(x.rows)
    for i, op in enumerate(ops):
        column = problem.column(dtype, start)
        if op.endswith("shift"):
            column = small_shift(problem, column)
        if problem.flag():
            operands[f"operand{i}"], operand = column, column.rows
        else:
            # An immediate is one number for all partitions.
            operand = column.rows[:1] & np.array(0x7F, column.dtype)
            arguments[f"operand{i}"] = int(operand[0, 0])
        arguments[f"op{i}"] = getattr(nl, op)
        want = oracle.bitwise(op, want, lanes_of(operand))

    def instruction(data, dst, **columns):
        nisa.tensor_scalar(dst=dst, data=data, **arguments, **columns)

    kept = want.astype(f"u{x.rows.itemsize}").view(x.rows.dtype)
    assert_same_bits(run(instruction, operands)["dst"], kept)


@examples(20)
@given(data=st.data())
def test_tensor_scalar_shift_of_a_constant_by_the_data(data):
    problem = Problem(data)
    free, start, dtype = problem.free_shape(), problem.start(), problem.choose(INTEGERS)
    x = small_shift(problem, problem.read(dtype, free, start))
    dst = problem.write(dtype, free, problem.start())
    op = problem.choose(["left_shift", "right_shift"])

    def instruction(data, dst):
        nisa.tensor_scalar(dst=dst, data=data, op0=getattr(nl, op), operand0=0x55, reverse0=True)

    got = run(instruction, {"data": x, "dst": dst})["dst"]
    constant = np.full((1, 1), 0x55, x.dtype)
    assert_same_bits(got, oracle.bitwise(op, x.rows, constant, reverse=True))


@pytest.mark.parametrize(
    ("op", "engine"),
    [("abs", "unknown"), ("rsqrt", "unknown"), ("rsqrt", "gpsimd"), ("reciprocal", "vector")],
)
@examples(15)
@given(data=st.data())
def test_tensor_scalar_with_an_operator_of_one_argument(op, engine, data):
    problem = Problem(data)
    free, start = problem.free_shape(), problem.start()
    x = problem.read(problem.choose(["float32", "bfloat16"]), free, start, "small")
    if op != "abs":
        x = Operand((np.abs(x.base) + x.dtype.type(0.25)).astype(x.dtype), x.take, x.positions)
    dst = problem.write(problem.choose(FLOATS), free, problem.start())
    operands = {"data": x, "dst": dst}

    def instruction(data, dst):
        nisa.tensor_scalar(
            dst=dst,
            data=data,
            op0=getattr(nl, op),
            operand0=0.0,
            engine=getattr(nisa.engine, engine),
        )

    want = oracle.function(op, x.rows)
    # A square root and a quotient are each rounded once: 2 ulp; abs has no error.
    tolerance = oracle.float32_ulps(want, 0 if op == "abs" else 2)
    assert_within(run(instruction, operands)["dst"], want, tolerance)


@pytest.mark.parametrize(("op0", "op1"), [("multiply", "add"), ("multiply", None), ("add", None)])
@pytest.mark.parametrize("target", ["gen3", "gen4"])
@examples(8)
@given(data=st.data())
def test_tensor_scalar_on_the_scalar_engine(op0, op1, target, data):
    problem = Problem(data)
    free, start = problem.free_shape(), problem.start()
    x = problem.read(problem.choose(FLOATS), free, start, "small")
    operands = {"data": x, "dst": problem.write(problem.choose(FLOATS), free, problem.start())}
    second = {} if op1 is None else {"op1": getattr(nl, op1), "operand1": -1.5}

    def instruction(data, dst):
        nisa.tensor_scalar(
            dst=dst,
            data=data,
            op0=getattr(nl, op0),
            operand0=0.3,
            engine=nisa.engine.scalar,
            **second,
        )

    got = run(instruction, operands, target=target)["dst"]
    want = oracle.tensor_scalar(x.rows, op0, np.float32(0.3), False, op1, np.float32(-1.5))
    assert_rounded(got, want)


@examples(60)
@given(data=st.data())
def test_scalar_tensor_tensor_computes_in_float32_and_rounds_once(data):
    problem = Problem(data)
    free, start = problem.free_shape(), problem.start()
    places = problem.choose(PLACES)
    op0, op1 = problem.choose(ARITHMETIC), problem.choose(ARITHMETIC)
    x = problem.read(dtype_in(problem, places[0]), free, start, values_for(op1), places[0])
    other = problem.read(dtype_in(problem, places[1]), free, start, buffer=places[1])
    dst = problem.write(dtype_in(problem, places[2]), free, problem.start(), buffer=places[2])
    operands = {"data": x, "operand1": other, "dst": dst}
    value0, operand0 = scalar_or_column(problem, start, "operand0", operands)
    reverse0, reverse1 = problem.flag(), problem.flag()

    def instruction(data, operand1, dst, operand0=value0):
        nisa.scalar_tensor_tensor(
            dst=dst,
            data=data,
            op0=getattr(nl, op0),
            operand0=operand0,
            op1=getattr(nl, op1),
            operand1=operand1,
            reverse0=reverse0,
            reverse1=reverse1,
        )

    got = run(instruction, operands, allow=INTEGERS_THROUGH_FLOAT32)["dst"]
    want = oracle.tensor_scalar(x.rows, op0, operand0, reverse0, op1, other.rows, reverse1)
    assert_rounded(got, want)


def test_fused_operators_do_not_round_to_the_destination_in_between():
    # In bfloat16, 1 + 2^-9 would be rounded to 1 and the difference would vanish.
    x = np.full((4, 8), 1.0, np.float32)
    operands = {
        "data": Operand(x, lambda t: t, np.arange(32).reshape(4, 8)),
        "dst": Operand(
            x.astype(oracle.DTYPES["bfloat16"]), lambda t: t, np.arange(32).reshape(4, 8)
        ),
    }

    def instruction(data, dst):
        nisa.tensor_scalar(
            dst=dst, data=data, op0=nl.add, operand0=2.0**-9, op1=nl.subtract, operand1=1.0
        )

    assert (run(instruction, operands)["dst"] == 2.0**-9).all()


# -- tensor_copy and reciprocal --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("engine", ["unknown", "vector", "gpsimd"])
@examples(6)
@given(data=st.data())
def test_tensor_copy_keeps_every_bit_pattern(dtype, engine, data):
    problem = Problem(data)
    free = problem.free_shape()
    src = problem.read(dtype, free, problem.start(), "patterns")
    # The destination may have other dimensions, as long as it has as many elements.
    flat = problem.choose([free, (int(np.prod(free)),)])
    dst = problem.write(dtype, flat, problem.start(), "patterns")

    def instruction(src, dst):
        nisa.tensor_copy(dst=dst, src=src, engine=getattr(nisa.engine, engine))

    assert_same_bits(run(instruction, {"src": src, "dst": dst})["dst"], src.rows)


@examples(60)
@given(data=st.data())
def test_tensor_copy_converts_through_float32(data):
    problem = Problem(data)
    free = problem.free_shape()
    places = problem.choose(
        [("sbuf", "sbuf"), ("psum", "sbuf"), ("sbuf", "psum"), ("psum", "psum")]
    )
    src = problem.read(dtype_in(problem, places[0]), free, problem.start(), "patterns", places[0])
    dst = problem.write(dtype_in(problem, places[1]), free, problem.start(), buffer=places[1])
    scalar = src.dtype.kind != "i" and problem.flag()

    def instruction(src, dst):
        nisa.tensor_copy(
            dst=dst, src=src, engine=nisa.engine.scalar if scalar else nisa.engine.unknown
        )

    got = run(instruction, {"src": src, "dst": dst}, allow=INTEGERS_THROUGH_FLOAT32)["dst"]
    same_integers = src.dtype == dst.dtype and src.dtype.kind in "iu" and not scalar
    assert_same(
        got, src.rows if same_integers else oracle.narrow(oracle.widen(src.rows), dst.dtype)
    )


@examples(40)
@given(data=st.data())
def test_reciprocal(data):
    problem = Problem(data)
    free, start = problem.free_shape(), problem.start()
    places = problem.choose([("sbuf", "sbuf"), ("psum", "sbuf"), ("sbuf", "psum")])
    x = problem.read(dtype_in(problem, places[0]), free, start, buffer=places[0])
    dst = problem.write(dtype_in(problem, places[1]), free, problem.start(), buffer=places[1])

    def instruction(data, dst):
        nisa.reciprocal(dst=dst, data=data)

    got = run(instruction, {"data": x, "dst": dst}, allow=INTEGERS_THROUGH_FLOAT32)["dst"]
    with np.errstate(divide="ignore"):
        want = 1 / np.float64(oracle.widen(x.rows))
    infinite = np.isinf(want)
    # The Vector engine's reciprocal is documented as the precise one; one ulp covers any rounding.
    finite = np.where(infinite, 0, want)
    assert_within(got[~infinite], finite[~infinite], oracle.float32_ulps(finite, 1)[~infinite])
    assert_rounded(got[infinite], np.float32(want[infinite]))


def test_the_default_mode_computes_the_same_as_check():
    @nkisim.jit
    def kernel(a, b):
        x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        y = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        nisa.dma_copy(dst=y, src=b)
        nisa.tensor_tensor(dst=y, data1=x, data2=y, op=nl.multiply)
        out = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=y)
        return out

    rng = np.random.default_rng(0)
    a = rng.standard_normal((128, 129), np.float32)
    b = rng.standard_normal((128, 129), np.float32).astype(oracle.DTYPES["bfloat16"])
    want = oracle.tensor_tensor(a, b, "multiply", b.dtype)
    for strictness in ("simulate", "strict"):
        assert_same_bits(nkisim.simulate(kernel, strictness=strictness)(a, b), want)
    assert_same_bits(nkisim.check(kernel)(a, b).outputs, want)
