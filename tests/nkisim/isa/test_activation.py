"""activation, activation_reduce and exponential against real functions evaluated in float64."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_within
from drawn import examples
from each_case import each_case
from oracles import elementwise as oracle
from oracles import reductions
from tiles import loaded, stored

from .harness import ALL_DTYPES, FLOATS, Operand, Problem, assert_rounded, chunks, run

# A function evaluated in float32, or by a table of polynomials: a few units in the last place.
FUNCTION_ULPS = 4

# Exponents of 2 between which a function is valid, for those that are not valid everywhere.
POSITIVE = {"log": (-64, 64), "sqrt": (-116, 118), "rsqrt": (-87, 97)}
ANGLES = {"sin": math.pi, "arctan": math.pi / 2}


def points(rng: np.random.Generator, op: str, shape: tuple[int, ...]) -> np.ndarray:
    """Float32 inputs over the interval where ``op`` is valid."""
    if op in POSITIVE:
        return np.float32(np.exp2(rng.uniform(*POSITIVE[op], shape)))
    if op == "reciprocal":
        return np.float32(rng.choice([-1, 1], shape) * np.exp2(rng.uniform(-42, 42, shape)))
    if op in ANGLES:
        bound = np.nextafter(np.float32(ANGLES[op]), np.float32(0))
        return np.float32(rng.uniform(-bound, bound, shape))
    near, far = rng.uniform(-5, 5, shape), rng.uniform(-85, 85, shape)
    return np.float32(np.where(rng.random(shape) < 0.7, near, far))


def with_contents(operand: Operand, base: np.ndarray) -> Operand:
    return Operand(base.astype(operand.dtype), operand.take, operand.positions, operand.buffer)


@pytest.mark.parametrize("op", sorted(oracle.ACTIVATIONS))
@examples(10)
@given(data=st.data())
def test_activation_evaluates_the_function(op, data):
    problem = Problem(data)
    free, start = problem.free_shape(), problem.start()
    places = problem.choose([("sbuf", "sbuf"), ("psum", "sbuf"), ("sbuf", "psum")])
    x = problem.read("float32", free, start, buffer=places[0])
    x = with_contents(x, points(problem.rng, op, x.base.shape))
    dtype = problem.choose(["float32", "float32", "bfloat16"])
    dst = problem.write(dtype, free, problem.start(), buffer=places[1])

    def instruction(data, dst):
        nisa.activation(dst=dst, op=getattr(nl, op), data=data)

    got = run(instruction, {"data": x, "dst": dst})["dst"]
    want = oracle.function(op, x.rows)
    exact = op in ("copy", "relu", "abs", "sign")
    assert_within(got, want, oracle.float32_ulps(want, 0 if exact else FUNCTION_ULPS))


@each_case(
    ("op", "at_minus_infinity", "at_zero", "at_infinity"),
    [
        ("copy", -np.inf, 0, np.inf),
        ("square", np.inf, 0, np.inf),
        ("sigmoid", 0, 0.5, 1),
        ("relu", 0, 0, np.inf),
        ("gelu", 0, 0, np.inf),
        ("gelu_dx", 0, 0.5, 1),
        ("gelu_apprx_tanh", 0, 0, np.inf),
        ("gelu_apprx_sigmoid", 0, 0, np.inf),
        ("gelu_apprx_sigmoid_dx", 0, 0.5, 1),
        ("silu", 0, 0, np.inf),
        ("silu_dx", 0, 0.5, 1),
        ("tanh", -1, 0, 1),
        ("softplus", 0, math.log(2), np.inf),
        ("mish", 0, 0, np.inf),
        ("erf", -1, 0, 1),
        ("erf_dx", 0, 2 / math.sqrt(math.pi), 0),
        ("exp", 0, 1, np.inf),
        ("sign", -1, 0, 1),
        ("abs", np.inf, 0, np.inf),
    ],
)
def test_activation_has_the_limits_of_the_function(op, at_minus_infinity, at_zero, at_infinity):
    # The largest finite arguments must already be at the limit, not NaN on the way to it.
    x = np.array([[-np.inf, -1e30, 0.0, 1e30, np.inf]], np.float32).repeat(3, axis=0)
    where = np.arange(x.size).reshape(x.shape)
    operands = {
        "data": Operand(x, lambda t: t, where),
        "dst": Operand(np.full(x.shape, 7, np.float32), lambda t: t, where),
    }

    def instruction(data, dst):
        nisa.activation(dst=dst, op=getattr(nl, op), data=data)

    got = run(instruction, operands)["dst"]
    assert_rounded(got[:, 0], np.full(3, at_minus_infinity, np.float32))
    assert_rounded(got[:, 4], np.full(3, at_infinity, np.float32))
    assert_within(
        got[:, 2], np.full(3, at_zero, np.float64), oracle.float32_ulps(np.float64(at_zero), 1)
    )
    if np.isfinite(at_infinity):
        assert_rounded(got[:, 3], np.full(3, at_infinity, np.float32))
    if np.isfinite(at_minus_infinity):
        assert_rounded(got[:, 1], np.full(3, at_minus_infinity, np.float32))


def scale_and_bias(
    problem: Problem, op: str, start: int, operands: dict[str, Operand], target: str | None
):
    """Keyword arguments that are Python numbers, and the oracle's values of scale and bias."""
    arguments, scale, bias = {}, np.float32(1), np.float32(0)
    kind = problem.choose(["absent", "number", "sbuf", "psum"])
    if kind == "number":
        arguments["scale"] = float(problem.rng.uniform(-2, 2))
        scale = np.float32(arguments["scale"])
    elif kind != "absent":
        operands["scale"] = problem.column("float32", start, "small", kind)
        scale = operands["scale"].rows
    # The Scalar engine ignores the bias of a copy, and gen2 takes no scalar bias.
    kinds = ["absent", "sbuf", "psum"] if target == "gen2" else ["absent", "number", "sbuf", "psum"]
    kind = "absent" if op == "copy" else problem.choose(kinds)
    if kind == "number":
        arguments["bias"] = float(problem.rng.uniform(-2, 2))
        bias = np.float32(arguments["bias"])
    elif kind != "absent":
        dtype = "float32" if kind == "psum" else problem.choose(["float32", "bfloat16", "float16"])
        operands["bias"] = problem.column(dtype, start, "small", kind)
        bias = oracle.widen(operands["bias"].rows)
    return arguments, np.float64(scale), np.float64(bias)


@pytest.mark.parametrize("op", ["copy", "relu", "square", "exp", "tanh", "sigmoid"])
@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
@examples(10)
@given(data=st.data())
def test_activation_scales_then_adds_the_bias(op, target, data):
    problem = Problem(data)
    free, start = problem.free_shape(), problem.start()
    x = problem.read(problem.choose(FLOATS), free, start, "small")
    operands = {"data": x, "dst": problem.write(problem.choose(ALL_DTYPES), free, problem.start())}
    numbers, scale, bias = scale_and_bias(problem, op, start, operands, target)

    def instruction(data, dst, **columns):
        nisa.activation(dst=dst, op=getattr(nl, op), data=data, **numbers, **columns)

    got = run(instruction, operands, target=target)["dst"]
    argument, error = oracle.affine_argument(x.rows, scale, bias)
    assert_within(got, *oracle.evaluate(op, argument, error, FUNCTION_ULPS))


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@examples(8)
@given(data=st.data())
def test_activation_copy_converts_through_float32(dtype, data):
    problem = Problem(data)
    free = problem.free_shape()
    x = problem.read(dtype, free, problem.start())
    dst = problem.write(problem.choose(ALL_DTYPES), free, problem.start())

    def instruction(data, dst):
        nisa.activation(dst=dst, op=nl.copy, data=data)

    got = run(instruction, {"data": x, "dst": dst}, allow={"D016", "D017"})["dst"]
    assert_rounded(got, oracle.widen(x.rows))


# -- accumulators ----------------------------------------------------------------------------------

# Each chain of commands, one per instruction; the last one's sum is read out.
SCALAR_CHAINS = [
    ["reset_reduce"],
    ["reset_reduce", "reduce"],
    ["reset_reduce", "reduce", "reduce"],
    ["reset", "reduce", "reduce"],
    ["reset_reduce", "reduce", "reset_reduce", "reduce"],
]


@pytest.mark.parametrize("chain", SCALAR_CHAINS, ids="-".join)
@examples(12)
@given(data=st.data())
def test_activation_accumulates_over_instructions(chain, data):
    problem = Problem(data, sizes=[7, 31, 128, 129])
    op = problem.choose(["copy", "exp", "square", "tanh"])
    free, start = (problem.choose(problem.sizes),), problem.start()
    x = problem.read(problem.choose(FLOATS), free, start, "small")
    dst = problem.write(problem.choose(FLOATS), free, problem.start())
    where = problem.choose(["sbuf", "psum"])
    kinds = ["float32"] if where == "psum" else FLOATS
    total = problem.column(problem.choose(kinds), start, buffer=where)
    cuts = list(chunks(free[0], len(chain)))

    def instruction(data, dst, total):
        for i, (command, cut) in enumerate(zip(chain, cuts, strict=True)):
            last = {"reduce_res": total} if i == len(chain) - 1 else {}
            nisa.activation(
                dst=dst[:, cut],
                op=getattr(nl, op),
                data=data[:, cut],
                scale=0.5,
                reduce_op=nl.add,
                reduce_cmd=getattr(nisa.reduce_cmd, command),
                **last,
            )

    got = run(instruction, {"data": x, "dst": dst, "total": total}, ("dst", "total"))
    # Halving is exact, so that only the function's own error counts.
    values, errors = oracle.evaluate(op, oracle.widen(x.rows) / 2, 0.0, FUNCTION_ULPS)
    assert_within(got["dst"], values, errors)
    terms = [reductions.accumulated(chain, [a[:, cut] for cut in cuts]) for a in (values, errors)]
    assert_within(got["total"].ravel(), *reductions.perturbed_sum(*terms))


@examples(30)
@given(data=st.data())
def test_activation_reduce_sums_unrounded_values(data):
    problem = Problem(data)
    op = problem.choose(["copy", "exp", "square", "sigmoid"])
    free, start = problem.free_shape(), problem.start()
    x = problem.read(problem.choose(FLOATS), free, start, "small")
    dst = problem.write(problem.choose(FLOATS), free, problem.start())
    operands = {"data": x, "dst": dst, "reduce_res": problem.column("float32", start)}
    numbers, scale, bias = scale_and_bias(problem, op, start, operands, None)

    def instruction(data, dst, reduce_res, **columns):
        nisa.activation_reduce(
            dst=dst,
            op=getattr(nl, op),
            data=data,
            reduce_op=nl.add,
            reduce_res=reduce_res,
            **numbers,
            **columns,
        )

    got = run(instruction, operands, ("dst", "reduce_res"))
    argument, error = oracle.affine_argument(x.rows, scale, bias)
    values, errors = oracle.evaluate(op, argument, error, FUNCTION_ULPS)
    assert_within(got["dst"], values, errors)
    assert_within(got["reduce_res"].ravel(), *reductions.perturbed_sum(values, errors))


def test_the_sum_is_of_the_values_before_they_are_rounded_into_the_destination():
    # 1 + 2^-9 is 1 in bfloat16: 64 of them differ by an eighth between the two readings.
    x = np.full((2, 64), 1 + 2.0**-9, np.float32)
    where = np.arange(x.size).reshape(x.shape)
    operands = {
        "data": Operand(x, lambda t: t, where),
        "dst": Operand(x.astype(oracle.DTYPES["bfloat16"]), lambda t: t, where),
        "total": Operand(np.zeros((2, 1), np.float32), lambda t: t, np.arange(2).reshape(2, 1)),
    }

    def instruction(data, dst, total):
        nisa.activation_reduce(dst=dst, op=nl.copy, data=data, reduce_op=nl.add, reduce_res=total)

    got = run(instruction, operands, ("dst", "total"))
    assert (got["dst"] == 1).all()
    assert (got["total"] == 64 + 0.125).all()


def tiles_of_ones(*shapes: tuple[int, int]) -> list[Operand]:
    return [
        Operand(np.ones(shape, np.float32), lambda t: t, np.arange(np.prod(shape)).reshape(shape))
        for shape in shapes
    ]


def test_activation_reads_the_sum_out_without_changing_it():
    data, dst, idle, total = tiles_of_ones((3, 8), (3, 8), (3, 1), (3, 1))

    def instruction(data, dst, idle, total):
        commands = nisa.reduce_cmd
        for command, result in (
            (commands.reset_reduce, None),
            (commands.idle, idle),
            (commands.reduce, total),
        ):
            nisa.activation(
                dst=dst,
                op=nl.copy,
                data=data,
                reduce_op=nl.add,
                reduce_res=result,
                reduce_cmd=command,
            )

    operands = {"data": data, "dst": dst, "idle": idle, "total": total}
    got = run(instruction, operands, ("idle", "total"))
    assert (got["idle"] == 8).all()
    assert (got["total"] == 16).all()


def test_the_scalar_and_vector_engines_have_accumulators_of_their_own():
    data, dst, total = tiles_of_ones((3, 8), (3, 8), (3, 1))

    def instruction(data, dst, total):
        commands = nisa.reduce_cmd
        arguments = {"op": nl.copy, "data": data, "reduce_op": nl.add}
        nisa.activation(dst=dst, reduce_cmd=commands.reset_reduce, **arguments)
        nisa.exponential(dst=dst, src=data, reduce_cmd=commands.reset_reduce)
        nisa.activation(dst=dst, reduce_cmd=commands.reduce, reduce_res=total, **arguments)

    got = run(instruction, {"data": data, "dst": dst, "total": total}, ("total",), target="gen4")
    assert (got["total"] == 16).all()


# -- exponential -----------------------------------------------------------------------------------


def shifted(problem: Problem, start: int, operands: dict[str, Operand]):
    """Keyword arguments for max_value, and its values."""
    kind = problem.choose(["absent", "number", "column"])
    if kind == "absent":
        return {}, np.float64(0)
    if kind == "number":
        value = float(problem.rng.uniform(-2, 2))
        return {"max_value": value}, np.float64(np.float32(value))
    operands["max_value"] = problem.column("float32", start, "small")
    return {}, np.float64(operands["max_value"].rows)


@examples(40)
@given(data=st.data())
def test_exponential_subtracts_the_maximum_first(data):
    problem = Problem(data)
    free, start = problem.free_shape(), problem.start()
    places = problem.choose([("sbuf", "sbuf"), ("psum", "sbuf"), ("sbuf", "psum")])
    # uint32 is no output format of this instruction.
    outputs = [dtype for dtype in ALL_DTYPES if dtype != "uint32"]
    kinds = [
        "float32" if place == "psum" else problem.choose(dtypes)
        for place, dtypes in zip(places, (ALL_DTYPES, outputs), strict=True)
    ]
    src = problem.read(kinds[0], free, start, "small", places[0])
    dst = problem.write(kinds[1], free, problem.start(), buffer=places[1])
    operands = {"src": src, "dst": dst}
    numbers, maximum = shifted(problem, start, operands)

    def instruction(src, dst, **columns):
        nisa.exponential(dst=dst, src=src, **numbers, **columns)

    got = run(instruction, operands, target="gen4")["dst"]
    argument, error = oracle.affine_argument(src.rows, np.float64(1), -maximum)
    assert_within(got, *oracle.evaluate("exp", argument, error, FUNCTION_ULPS))


@pytest.mark.parametrize(
    "chain",
    [
        ["reset_reduce"],
        ["reset_reduce", "reduce", "reduce"],
        ["load_reduce"],
        ["load_reduce", "reduce"],
        ["reset_reduce", "load_reduce", "reduce"],
    ],
    ids="-".join,
)
@examples(10)
@given(data=st.data())
def test_exponential_accumulates_over_instructions(chain, data):
    problem = Problem(data, sizes=[7, 31, 128, 129])
    free, start = (problem.choose(problem.sizes),), problem.start()
    src = problem.read(problem.choose(FLOATS), free, start, "small")
    dst = problem.write(problem.choose(FLOATS), free, problem.start())
    operands = {"src": src, "dst": dst, "total": problem.column("float32", start)}
    numbers, maximum = shifted(problem, start, operands)
    first = float(np.float32(problem.rng.uniform(1, 100)))
    cuts = list(chunks(free[0], len(chain)))

    def instruction(src, dst, total, **columns):
        for i, (command, cut) in enumerate(zip(chain, cuts, strict=True)):
            more = {"reduce_res": total} if i == len(chain) - 1 else {}
            if command == "load_reduce":
                more["reduce_init"] = first
            nisa.exponential(
                dst=dst[:, cut],
                src=src[:, cut],
                reduce_cmd=getattr(nisa.reduce_cmd, command),
                **numbers,
                **columns,
                **more,
            )

    got = run(instruction, operands, ("dst", "total"), target="gen4")
    argument, error = oracle.affine_argument(src.rows, np.float64(1), -maximum)
    values, errors = oracle.evaluate("exp", argument, error, FUNCTION_ULPS)
    assert_within(got["dst"], values, errors)
    loaded = np.full((len(values), 1), first)
    terms = [
        reductions.accumulated(chain, [a[:, cut] for cut in cuts], start)
        for a, start in ((values, loaded), (errors, 0 * loaded))
    ]
    assert_within(got["total"].ravel(), *reductions.perturbed_sum(*terms))


@each_case("instruction", ["activation", "activation_reduce"])
@each_case("columns", [8, 512])
@each_case(("bias", "levels"), [(0.0, ["note"]), (1.5, ["error"])])
def test_the_bias_of_a_copy_is_ignored_and_said_so(instruction, columns, bias, levels):
    reduction = instruction == "activation_reduce"

    def kernel(x, shift):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile, total = nl.load(x), nl.ndarray((x.shape[0], 1), dtype=x.dtype, buffer=nl.sbuf)
        others = {"reduce_op": nl.add, "reduce_res": total} if reduction else {}
        function = getattr(nisa, instruction)
        function(dst=tile, op=nl.copy, data=tile, bias=nl.load(shift), scale=2.0, **others)
        nl.store(out, tile)
        return out

    x = np.random.default_rng(0).standard_normal((8, columns), dtype=np.float32)
    shift = np.full((8, 1), bias, np.float32)
    for _ in range(2):  # the second run finds its plan
        report = nkisim.check(kernel)(x, shift)
        assert report.codes == {"D023"}
        assert [f.severity for f in report.findings] == levels
        np.testing.assert_array_equal(report.outputs, 2 * x)
    assert nkisim.check(kernel, values=False)(x, shift).codes == {"D023"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nkisim.NkiFindingWarning)
        np.testing.assert_array_equal(nkisim.simulate(kernel)(x, shift), 2 * x)


@nkisim.jit
def repeated_small(x, shift, op):
    """Small calls go another way, which is made for the first of them and kept."""
    tile, bias = loaded(x), loaded(shift)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    for _ in range(3):
        nisa.activation(dst=out, op=op, data=tile, bias=bias, scale=0.5)
    return stored(out)


@pytest.mark.parametrize("op", ["exp", "square", "tanh", "sqrt"])
def test_small_calls_add_their_bias(op):
    rng = np.random.default_rng(3)
    x, shift = (rng.uniform(0.5, 2.0, shape).astype(np.float32) for shape in ((8, 5), (8, 1)))
    got = nkisim.simulate(repeated_small)(x, shift, getattr(nl, op))
    want = getattr(np, op)(0.5 * x.astype(np.float64) + shift)
    # Three roundings of the argument, whose effect on these functions is below fourfold.
    np.testing.assert_allclose(got, want, rtol=16 * 2.0**-24)
