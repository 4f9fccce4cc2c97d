"""tensor_scalar_reduce on the Vector engine's accumulator registers, from NKI 0.4.0 on."""

import math

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from releases import newest
from tiles import loaded, stored

ROWS, COLUMNS, PARTS = 4, 6, 3
NEUTRAL = {"add": 0.0, "multiply": 1.0, "maximum": -math.inf, "minimum": math.inf}
COMBINE = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
CASES = [
    (version, op, first)
    for version in ("0.4.0", "0.5.0", "0.6.0")
    for op in NEUTRAL
    for first in ("reset_reduce", "load_reduce")
]


def whole_numbers(seed, *shape):
    """Small whole numbers, so that sums and products are exact in any order."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def chain(x, start, op, commands, **options):
    """Reduce ``x + 1`` part by part; return the registers after each part."""
    tile, init, found = loaded(x), loaded(start), []
    width = x.shape[1] // len(commands)
    for i, command in enumerate(commands):
        part = tile[:, i * width : (i + 1) * width]
        out = nl.ndarray(part.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
        total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        extra = {"reduce_init": init} if command == "load_reduce" else {}
        nisa.tensor_scalar_reduce(
            dst=out,
            data=part,
            op0=nl.add,
            operand0=1.0,
            reduce_op=getattr(nl, op),
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd[command],
            **extra,
            **options,
        )
        found.append(stored(total))
    return tuple(found)


@each_case(("version", "op", "first"), CASES)
def test_a_chain_is_one_reduction_from_the_start_value(version, op, first):
    x, start = whole_numbers(1, ROWS, COLUMNS), whole_numbers(2, ROWS, 1)
    commands = (first, *["reduce"] * (PARTS - 1))
    got = nkisim.simulate(chain, nki=version)(x, start, op, commands)
    state = start[:, 0]
    if first == "reset_reduce":
        state = np.full(ROWS, NEUTRAL[op] if version == "0.6.0" else 0.0, np.float32)
    for part, total in zip(np.split(x + 1, PARTS, axis=1), got, strict=True):
        for column in part.T:
            state = COMBINE[op](state, column)
        np.testing.assert_array_equal(total[:, 0], state)


def test_0_3_0_reduces_without_a_start_value():
    x = whole_numbers(3, ROWS, COLUMNS) - 10

    def kernel(x):
        tile = loaded(x)
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        peak = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar_reduce(out, tile, nl.add, 0.0, nl.maximum, peak)
        return stored(peak)

    got = {v: nkisim.simulate(kernel, nki=v)(x)[:, 0] for v in ("0.3.0", "0.4.0", "0.6.0")}
    np.testing.assert_array_equal(got["0.3.0"], x.max(axis=1))
    np.testing.assert_array_equal(got["0.4.0"], np.zeros(ROWS))  # the peak is below the start
    np.testing.assert_array_equal(got["0.6.0"], x.max(axis=1))


def test_the_result_may_stay_in_the_registers_and_is_negated_on_the_way_out_only():
    x = whole_numbers(4, ROWS, COLUMNS)

    def kernel(x):
        tile, half = loaded(x), x.shape[1] // 2
        out = nl.ndarray((x.shape[0], half), dtype=nl.float32, buffer=nl.sbuf)
        below = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        above = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        more = {"op0": nl.multiply, "operand0": 2.0, "reduce_op": nl.add}
        nisa.tensor_scalar_reduce(out, tile[:, :half], **more)
        nisa.tensor_scalar_reduce(
            out,
            tile[:, half:],
            reduce_res=below,
            reduce_res_negate=True,
            reduce_cmd=nisa.reduce_cmd.reduce,
            **more,
        )
        nisa.tensor_scalar_reduce(
            out, tile[:, :half], reduce_res=above, reduce_cmd=nisa.reduce_cmd.reduce, **more
        )
        return stored(below), stored(above)

    report = nkisim.check(kernel, nki="0.6.0")(x)
    assert not [f for f in report.findings if f.rule.id[0] not in "LW"], str(report)
    below, above = report.outputs
    np.testing.assert_array_equal(below[:, 0], -2 * x.sum(axis=1))
    np.testing.assert_array_equal(above[:, 0], 2 * x.sum(axis=1) + 2 * x[:, :3].sum(axis=1))


def test_chains_with_other_instructions_of_the_engine_are_told_apart():
    def kernel(x):
        tile = loaded(x)
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.exponential(out, tile, reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.tensor_scalar_reduce(
            out, tile, nl.add, 0.0, nl.add, total, reduce_cmd=nisa.reduce_cmd.reduce
        )
        return stored(total)

    report = nkisim.check(kernel, nki="0.4.0", target="gen4")(whole_numbers(5, ROWS, COLUMNS))
    assert "R007" in report.codes


REFUSED = {
    "idle": ({"reduce_cmd": "idle"}, TypeError, "reduce_cmd"),
    "reset": ({"reduce_cmd": "reset"}, TypeError, "reduce_cmd"),
    "init without load": ({"reduce_init": 1.0}, "D046", "only with load_reduce"),
    "load without init": ({"reduce_cmd": "load_reduce"}, "D046", "without reduce_init"),
    "subtract": ({"reduce_op": nl.subtract}, "D025", "subtract"),
    "unary with an operand": ({"op0": nl.abs, "operand0": 1.0}, TypeError, "None or 0"),
    "binary without one": ({"operand0": None}, TypeError, "two inputs"),
    "no result": ({"reduce_res": None}, TypeError, "reduce_res must be a tensor"),
}


def refused(x, changed):
    tile = loaded(x)
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    arguments = {
        **{"dst": nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf), "data": tile},
        **{"op0": nl.add, "operand0": 1.0, "reduce_op": nl.add, "reduce_res": total},
        **changed,
    }
    if "reduce_cmd" in changed:
        arguments["reduce_cmd"] = nisa.reduce_cmd[changed["reduce_cmd"]]
    nisa.tensor_scalar_reduce(**arguments)
    nisa.memset(dst=total, value=0.0)
    return stored(total)


@each_case("name", REFUSED)
def test_what_0_4_0_refuses(name):
    changed, how, text = REFUSED[name]
    x = whole_numbers(6, ROWS, COLUMNS)
    checked = nkisim.check(lambda x: refused(x, changed), nki="0.4.0")
    if isinstance(how, str):
        found = [f for f in checked(x).findings if f.rule.id == how]
        assert found
        assert text in str(found[0])
    else:
        report = checked(x)
        assert "A025" in report.codes
        assert text in str(report)


@each_case(
    ("version", "op", "target", "legal"),
    [
        ("0.3.0", "square", "gen4", False),
        ("0.4.0", "square", "gen3", False),
        ("0.4.0", "square", "gen4", True),
        ("0.6.0", "relu", "gen4", True),
        ("0.4.0", "abs_max", "gen4", True),
        ("0.4.0", "abs_min", "gen2", False),
    ],
)
@pytest.mark.parametrize("instruction", ["tensor_scalar", "tensor_scalar_reduce"])
def test_operators_that_0_4_0_adds_on_gen4(instruction, version, op, target, legal):
    x = np.random.default_rng(7).standard_normal((ROWS, COLUMNS), dtype=np.float32)

    def kernel(x):
        tile = loaded(x)
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        operand = 0.5 if op.startswith("abs") else 0.0
        if instruction == "tensor_scalar":
            nisa.tensor_scalar(out, tile, op0=newest(op), operand0=operand)
        else:
            total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar_reduce(out, tile, newest(op), operand, nl.add, total)
        return stored(out)

    report = nkisim.check(kernel, nki=version, target=target)(x)
    assert (not report.codes & {"D022", "A033"}) is legal, str(report)
    if legal:
        want = {
            "square": x * x,
            "relu": np.maximum(x, 0),
            "abs_max": np.where(np.abs(x) > 0.5, x, np.float32(0.5)),
        }[op]
        np.testing.assert_array_equal(report.outputs, want)
