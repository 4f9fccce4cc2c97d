"""Overflow, saturation and division by zero: warnings with a result, errors on request."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim import NkiFindingWarning, NkiValidationError
from tiles import hbm, loaded, sbuf, stored


def copied(dtype):
    def kernel(x):
        tile = sbuf(x.shape, dtype)
        nisa.tensor_copy(dst=tile, src=loaded(x))
        return stored(tile)

    return kernel


def transferred(dtype):
    def kernel(x):
        out = hbm(x.shape, dtype)
        nisa.dma_copy(dst=out, src=x)
        return out

    return kernel


def activated(dtype):
    def kernel(x):
        tile = sbuf(x.shape, dtype)
        nisa.activation(dst=tile, op=nl.square, data=loaded(x))
        return stored(tile)

    return kernel


def inverted(dtype):
    def kernel(x):
        tile = sbuf(x.shape, dtype)
        nisa.reciprocal(dst=tile, data=loaded(x))
        return stored(tile)

    return kernel


def multiplied(dtype):
    def kernel(x):
        total = nl.ndarray((x.shape[1], x.shape[1]), dtype=dtype, buffer=nl.psum)
        tile = loaded(x)
        nisa.nc_matmul(dst=total, stationary=tile, moving=tile)
        return stored(total)

    return kernel


# Kernel, value of all its inputs, rule, and what every element of the result is.
CASES = {
    "float8 overflow": (copied("float8_e4m3"), 1e5, "D020", np.inf),
    "float8_e5m2 overflow": (copied("float8_e5m2"), -1e5, "D020", -np.inf),
    "float16 overflow": (activated("float16"), 300.0, "D020", np.inf),
    "float16 overflow by DMA": (transferred("float16"), 1e6, "D020", np.inf),
    "int8 saturation": (copied("int8"), 300.0, "D019", 127),
    "uint8 saturation": (activated("uint8"), 20.0, "D019", 255),
    "int8 saturation by DMA": (transferred("int8"), -1e3, "D019", -128),
    "division by zero": (inverted("float32"), 0.0, "D042", np.inf),
    "overflowing product": (multiplied("float32"), 1e30, "D042", np.inf),
}

each_of_them = each_case("case", [pytest.param(c, id=n) for n, c in CASES.items()])


def full(value):
    return np.full((8, 16), value, np.float32)


@each_of_them
def test_strict_computes_and_records_a_warning(case):
    kernel, value, rule, result = case
    simulation = nkisim.simulate(kernel, strictness="strict")
    np.testing.assert_array_equal(simulation(full(value)).astype(np.float32), np.float32(result))
    assert [(f.rule.id, f.severity) for f in simulation.report.findings] == [(rule, "warning")]


@each_of_them
def test_strict_stops_where_the_rule_is_an_error(case):
    kernel, value, rule, _ = case
    strict = nkisim.simulate(kernel, strictness="strict", errors=(rule,))
    with pytest.raises(NkiValidationError, match=rf"error\[{rule}\]") as caught:
        strict(full(value))
    assert caught.value.finding.severity == "error"
    strict(full(1.0))


@each_of_them
def test_simulate_computes_and_warns_where_the_rule_is_an_error(case):
    kernel, value, rule, result = case
    simulation = nkisim.simulate(kernel, errors=(rule,))
    with pytest.warns(NkiFindingWarning, match=rule):
        outputs = simulation(full(value))
    np.testing.assert_array_equal(outputs.astype(np.float32), np.float32(result))
    assert not simulation.report.ok


@each_of_them
def test_a_check_is_not_ok_where_the_rule_is_an_error(case):
    kernel, value, rule, _ = case
    assert nkisim.check(kernel)(full(value)).ok
    report = nkisim.check(kernel, errors=(rule,))(full(value))
    assert not report.ok
    assert [f["severity"] for f in [finding.to_dict() for finding in report]] == ["error"]


def test_only_rules_can_be_errors():
    with pytest.raises(ValueError, match="errors: got 'D999'"):
        nkisim.simulate(copied("int8"), errors=("D020", "D999"))


# -- constants -------------------------------------------------------------------------------------


def filled(dtype, value):
    def kernel(x):
        tile = sbuf(x.shape, dtype)
        nisa.memset(dst=tile, value=value)
        return stored(tile)

    return kernel


@each_case(
    ("dtype", "value", "codes", "result"),
    [
        ("int8", 300, {"D019"}, 127),
        ("uint8", -1, {"D019"}, 0),
        ("int32", 2**40, {"D019"}, 2**31 - 1),
        ("int8", 127, set(), 127),
        ("int8", 0.0, {"A004"}, 0),
        ("int16", -7.0, {"A004"}, -7),
        ("int16", 2.5, {"A004"}, 2),
        ("int16", float("nan"), {"A004", "D019"}, 0),
        ("uint32", float("inf"), {"A004", "D019"}, 2**32 - 1),
        ("int8", float("-inf"), {"A004", "D019"}, -128),
        ("float8_e4m3", 1000.0, {"D020"}, np.inf),
        ("float8_e4m3", 1000, {"D020"}, np.inf),
        ("float8_e4m3", 241.0, set(), 240),
        ("float8_e4m3", float("inf"), set(), np.inf),
        ("float16", -1e6, {"D020"}, -np.inf),
        ("bfloat16", -3.4028235e38, {"D020"}, -np.inf),
        ("float32", -3.4028235e38, set(), -3.4028235e38),
        ("float32", 1e300, {"D020"}, np.inf),
        ("float32", float("nan"), set(), np.nan),
    ],
)
@each_case("values", [True, False])
def test_memset_reports_a_constant_that_does_not_fit(dtype, value, codes, result, values):
    report = nkisim.check(filled(dtype, value), values=values)(full(0.0))
    assert {code for code in report.codes if code[0] != "L"} == codes
    if values:
        got = report.outputs.astype(np.float64)
        np.testing.assert_array_equal(
            got, np.float64(result) if "int" in dtype else np.float32(result)
        )


def test_strict_stops_at_a_float_for_an_integer_tile():
    for value in (0.0, float("nan")):
        with pytest.raises(NkiValidationError, match="A004"):
            nkisim.simulate(filled("int8", value), strictness="strict")(full(0.0))


@each_case(
    ("dtype", "pattern", "offset", "step", "codes"),
    [
        ("int8", [[1, 16]], 0, 0, set()),
        ("int8", [[1, 16]], 112, 0, set()),
        ("int8", [[1, 16]], 113, 0, {"D019"}),
        ("int8", [[-8, 16]], -8, 0, set()),
        ("int8", [[-8, 16]], -9, 0, {"D019"}),
        ("uint8", [[16, 16]], 0, 2, set()),
        ("uint8", [[16, 16]], 0, 3, {"D019"}),
        ("uint8", [[1, 16]], 0, -1, {"D019"}),
        ("float8_e4m3", [[1, 16]], 225, 0, {"D018"}),
        ("float8_e4m3", [[16, 16]], 0, 0, set()),
        ("float8_e4m3", [[1, 16]], 1000, 0, {"D020"}),
        ("int32", [[1, 16]], 2**31 - 10, 0, {"D019"}),
        ("float32", [[1, 16]], 2**31 - 16, 0, {"D018"}),
        ("float32", [[128, 16]], 2**31 - 2048, 0, set()),
    ],
)
@each_case("values", [True, False])
def test_iota_reports_numbers_that_do_not_fit(dtype, pattern, offset, step, codes, values):
    def kernel(x):
        tile = sbuf(x.shape, dtype)
        nisa.iota(dst=tile, pattern=pattern, offset=offset, channel_multiplier=step)
        return stored(tile)

    report = nkisim.check(kernel, values=values)(full(0.0))
    assert {code for code in report.codes if code[0] != "L"} == codes


@pytest.mark.parametrize(
    ("dtype", "fill", "rule"),
    [
        ("int8", "a", "A048"),
        ("int8", None, "A048"),
        ("float8_e4m3fn_x4", 1.0, "D032"),
    ],
)
def test_affine_select_refuses_what_is_no_fill(dtype, fill, rule):
    def kernel(x):
        tile = nl.zeros((8, 4), dtype=dtype, buffer=nl.sbuf)
        nisa.affine_select(tile, [[1, 4]], 0, tile, fill, cmp_op=nl.less)
        return stored(tile)

    with pytest.raises(NkiValidationError) as caught:
        nkisim.simulate(kernel)(full(0.0))
    assert caught.value.rule_id == rule


# -- where findings begin --------------------------------------------------------------------------


def doubled(dtype):
    def kernel(x):
        tile = sbuf(x.shape, dtype)
        nisa.tensor_scalar(dst=tile, data=loaded(x), op0=nl.multiply, operand0=2.0)
        return stored(tile)

    return kernel


@each_case(
    ("kernel", "clean", "rule", "found"),
    [
        # What rounds to an integer of the type is none that saturates.
        (doubled("int8"), [63.625, -64.125], "D019", [63.875, -64.375]),
        (doubled("uint8"), [127.625, -0.125], "D019", [127.875, -0.375]),
        # What rounds to the largest number does not overflow; an infinity is no overflow.
        (copied("float16"), [65504, -65510, np.inf], "D020", [65536, -65536]),
        (copied("float8_e4m3"), [240, -241, -np.inf], "D020", [256, -256]),
        # Integers that float32 holds move and are multiplied without loss.
        (copied("float32"), np.int32([2**24, -(2**24), 2**24 + 2]), "D017", [2**24 + 1]),
        (copied("float32"), np.int32([-(2**24) - 2]), "D017", [-(2**24) - 1]),
        (doubled("int32"), [2**23, -(2**23)], "D016", [2**23 + 1, -(2**23) - 1]),
    ],
)
def test_the_last_clean_value_and_the_first_that_is_found(kernel, clean, rule, found):
    clean = np.asarray(clean)
    kind = clean.dtype if clean.dtype == np.int32 else np.float32

    def codes(*values):
        tile = np.ones((2, 4), kind)
        tile[1, : len(values)] = values
        return nkisim.check(kernel)(tile).codes

    assert codes(*clean) == set()
    for value in found:
        assert codes(value) == {rule}, value


# -- integers that do not fit ----------------------------------------------------------------------


def combined(op, kind):
    def kernel(x, y):
        tile = sbuf(x.shape, kind)
        nisa.tensor_tensor(dst=tile, data1=loaded(x), data2=loaded(y), op=op)
        return stored(tile)

    return kernel


ENDS = {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1)}
ARITHMETIC = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}


@each_case("op", list(ARITHMETIC))
@each_case("entry", [nkisim.simulate, nkisim.check])
@each_case(
    ("first", "second", "result"),
    [(a, b, c) for a in ENDS for b in ENDS for c in ENDS],
)
def test_what_does_not_fit_wraps_and_is_found(op, entry, first, second, result):
    """On the default engine; arithmetic on uint32 alone is meant to wrap."""
    low, high = ENDS[result]
    kernel = combined(getattr(nl, op), result)
    pairs = list(itertools.product((*ENDS[first], 0, 1, 3), (*ENDS[second], 0, 1, 3)))
    fitting = [pair for pair in pairs if low <= ARITHMETIC[op](*pair) <= high]
    # Each that does not fit by itself among ones, and all others in one tile.
    for put in (fitting, *([pair] for pair in pairs if pair not in fitting)):
        x, y = (np.full((4, 8), 1, kind) for kind in (first, second))
        x.flat[: len(put)], y.flat[: len(put)] = zip(*put, strict=True)
        simulation = entry(kernel)
        outputs = simulation(x, y)
        report = outputs if entry is nkisim.check else simulation.report
        values = report.outputs if entry is nkisim.check else outputs
        exact = ARITHMETIC[op](x.astype(object), y.astype(object))
        np.testing.assert_array_equal(values, ((exact - low) % 2**32 + low).astype(result))
        meant = {first, second, result} == {"uint32"}
        found = {f.rule.id for f in report.findings} & {"D016", "D019", "D051"}
        assert found == (set() if put is fitting or meant else {"D051"}), put


@each_case("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
@each_case("move", [copied, transferred])
def test_a_copy_that_loses_a_fraction_is_noted(move, dtype):
    values = full(3.0)
    assert nkisim.check(move(dtype))(values).codes == set()
    values[2, 5] = 2.5
    report = nkisim.check(move(dtype))(values)
    assert [(f.rule.id, f.severity, f.seen) for f in report.findings] == [
        ("D050", "note", "2.5 at (2, 5)")
    ]
    assert report.ok
    assert report.outputs[2, 5] == 2  # halves to even
