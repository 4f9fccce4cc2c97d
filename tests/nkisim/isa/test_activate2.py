"""activate2 of NKI 0.4.0: two steps, a function and a reduction, from their definitions."""

import math

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from releases import newest
from tiles import loaded, sbuf, stored

ROWS, COLUMNS = 4, 33
STEPS = [
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
]
STEP = {
    "multiply": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "bypass": lambda a, b: a,
}
#: The definition for one value, and the error in units in the last place that its evaluation has.
FUNCTIONS = {
    "copy": (lambda v, slope: v, 0),
    "prelu": (lambda v, slope: v if v >= 0 else slope * v, 0.5),
    "relu": (lambda v, slope: max(v, 0.0), 0),
    "square": (lambda v, slope: v * v, 0.5),
    "gelu": (lambda v, slope: v * (0.5 * math.erfc(-v / math.sqrt(2))), 1),
}


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def run(kernel, *inputs, nki="0.4.0", target="gen4"):
    report = nkisim.check(kernel, nki=nki, target=target)(*inputs)
    return report, {code for code in report.codes if code[0] not in "LW"}


def after_steps(x, first, second, imm0, imm1, reverse0=False, reverse1=False):
    """The value of the two steps, rounded to float32 after each."""
    value = x
    for name, imm, reverse in ((first, imm0, reverse0), (second, imm1, reverse1)):
        if name != "bypass":
            value = STEP[name](imm, value) if reverse else STEP[name](value, imm)
            value = value.astype(np.float32)
    return value


@each_case(("first", "second"), STEPS)
@pytest.mark.parametrize("columns", [False, True], ids=["numbers", "columns"])
def test_the_six_pairs_of_steps(first, second, columns):
    x, imm = normal(1, ROWS, COLUMNS), normal(2, 2, ROWS, 1)
    if not columns:
        imm = np.float32([[[1.75]], [[-0.375]]])
    for reverses in ((False, False), (True, False), (False, True)):
        names = (first, second)
        if any(on and name == "bypass" for on, name in zip(reverses, names, strict=True)):
            continue

        def kernel(x, imm0, imm1, reverses=reverses):
            out = sbuf(x.shape)
            given = (loaded(imm0), loaded(imm1)) if columns else (1.75, -0.375)
            nisa.activate2(
                out,
                nl.copy,
                loaded(x),
                *given,
                getattr(nl, first),
                getattr(nl, second),
                reverse0=reverses[0],
                reverse1=reverses[1],
            )
            return stored(out)

        report, found = run(kernel, x, imm[0], imm[1])
        assert not found, str(report)
        want = after_steps(x, first, second, imm[0], imm[1], *reverses)
        np.testing.assert_array_equal(report.outputs, want)


@each_case("name", FUNCTIONS)
def test_functions_of_the_result(name):
    function, ulp = FUNCTIONS[name]
    x, slopes = normal(3, ROWS, COLUMNS), normal(4, ROWS, 1)

    def kernel(x, slopes):
        out = sbuf(x.shape)
        nisa.activate2(
            out,
            getattr(nl, name),
            loaded(x),
            2.0,
            0.5,
            nl.multiply,
            nl.add,
            relu_param=loaded(slopes),
        )
        return stored(out)

    report, found = run(kernel, x, slopes)
    assert not found, str(report)
    value = after_steps(x, "multiply", "add", np.float32(2), np.float32(0.5)).astype(float)
    wide = np.broadcast_to(slopes, x.shape).astype(float)
    want = np.vectorize(function)(value, wide)
    error = np.abs(report.outputs - want)
    assert (error <= (ulp + 1e-6) * np.spacing(np.abs(want).astype(np.float32))).all()


def test_prelu_keeps_nan_and_has_slope_zero_by_default():
    x = np.float32([[-2, -0.0, 3, np.nan, np.inf]])

    def kernel(x):
        out = sbuf(x.shape)
        nisa.activate2(out, nl.prelu, loaded(x), 0.0, 0.0, nl.bypass, nl.bypass)
        return stored(out)

    got = nkisim.simulate(kernel, nki="0.4.0", target="gen4")(x)
    np.testing.assert_array_equal(got, np.float32([[0, 0, 3, np.nan, np.inf]]))


def keep_larger(a, b):
    return a if abs(a) > abs(b) else b


def keep_smaller(a, b):
    return a if abs(a) < abs(b) else b


REDUCTIONS = {
    "add": (lambda a, b: a + b, 0.0),
    "maximum": (max, -math.inf),
    "minimum": (min, math.inf),
    "abs_max": (keep_larger, 0.0),
    "abs_min": (keep_smaller, math.inf),
}


@each_case("op", REDUCTIONS)
def test_reductions_chain_in_the_registers(op):
    combine, neutral = REDUCTIONS[op]
    # Whole numbers: sums are exact, and magnitudes agree often.
    x = np.random.default_rng(5).integers(-4, 5, (ROWS, 2 * COLUMNS)).astype(np.float32)

    def kernel(x):
        tile, out, total = loaded(x), sbuf((ROWS, COLUMNS)), sbuf((ROWS, 1))
        steps = {"imm0": 0.0, "imm1": 0.0, "op0": nl.bypass, "op1": nl.bypass}
        more = {"op": nl.copy, "reduce_op": getattr(nl, op), **steps}
        nisa.activate2(out, data=tile[:, :COLUMNS], reduce_cmd=nisa.reduce_cmd.reset_reduce, **more)
        nisa.activate2(
            out,
            data=tile[:, COLUMNS:],
            reduce_cmd=nisa.reduce_cmd.reduce,
            reduce_res=total,
            **more,
        )
        return stored(total)

    report, found = run(kernel, x)
    assert not found, str(report)
    for row, got in zip(x.tolist(), report.outputs[:, 0], strict=True):
        state = neutral
        for value in row:
            state = combine(state, value)
        assert got == state


def test_the_registers_are_those_of_activation():
    def kernel(x):
        tile, out, total = loaded(x), sbuf(x.shape), sbuf((ROWS, 1))
        nisa.activation(
            out, nl.copy, tile, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce
        )
        nisa.activate2(
            *(out, nl.copy, tile, 0.0, 0.0, nl.bypass, nl.bypass),
            reduce_op=nl.add,
            reduce_cmd=nisa.reduce_cmd.reduce,
            reduce_res=total,
        )
        return stored(total)

    assert "R007" in run(kernel, normal(6, ROWS, COLUMNS))[1]


REFUSED = {
    "two steps that do not go together": ({"op0": nl.add, "op1": nl.add}, "D022"),
    "an operator that is no step": ({"op0": nl.maximum}, "D022"),
    "no function": ({"op": nl.add}, "D022"),
    "a reversed step that is not there": ({"op1": newest("bypass"), "reverse1": True}, "A025"),
    "load_reduce": ({"reduce_cmd": "load_reduce", "reduce_op": nl.add}, "A025"),
    "a reduction without operator": ({"reduce_cmd": "reset_reduce"}, "D024"),
    "an operator that does not reduce": (
        {"reduce_cmd": "reset_reduce", "reduce_op": nl.multiply},
        "D024",
    ),
}


@each_case("name", REFUSED)
def test_what_is_refused(name):
    changed, rule = REFUSED[name]

    def kernel(x):
        out = sbuf(x.shape)
        nisa.memset(out, 0.0)
        given = {"op": nl.copy, "imm0": 1.0, "imm1": 2.0, "op0": nl.multiply, "op1": nl.add}
        given |= changed
        if "reduce_cmd" in given:
            given["reduce_cmd"] = nisa.reduce_cmd[given["reduce_cmd"]]
        nisa.activate2(out, data=loaded(x), **given)
        return stored(out)

    report, found = run(kernel, normal(7, ROWS, COLUMNS))
    assert rule in found, str(report)


def test_columns_have_one_dtype_and_gen4_is_needed():
    def kernel(x, imm0, imm1):
        out = sbuf(x.shape)
        nisa.activate2(out, nl.copy, loaded(x), loaded(imm0), loaded(imm1), nl.multiply, nl.add)
        return stored(out)

    x, wide = normal(8, ROWS, COLUMNS), normal(9, ROWS, 1)
    assert "D033" in run(kernel, x, wide, wide.astype(np.float16))[1]
    assert run(kernel, x, wide, wide, target="gen3")[1] == {"A033"}
    report, found = run(kernel, x, wide, wide, nki="0.3.0")
    assert found == {"A025"}
    assert "0.4.0" in str(report)


def test_activation_takes_no_function_with_a_parameter():
    def kernel(x):
        out = sbuf(x.shape)
        nisa.activation(out, nl.prelu, loaded(x))
        return stored(out)

    assert "D022" in run(kernel, normal(10, ROWS, COLUMNS))[1]
