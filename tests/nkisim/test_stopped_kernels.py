"""Kernels that do not reach their end, or not a clean one: what the report, the traceback and the
warning say about it.
"""

import json
import os
import pickle
import traceback
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from tiles import loaded, stored

SOURCE = np.ones((4, 3), np.float32)
PACKAGE = os.path.dirname(nkisim.__file__) + os.sep


def refuse(source):
    nisa.dma_copy(dst=3, src=source)


@nkisim.jit
def ends(source, how):
    if how == "removed":
        nl.arange(4)
    if how == "finding":
        refuse(source)
    if how == "signature":
        nl.ndarray()
    if how == "own":
        raise KeyError("as written") from ValueError("its cause")
    if how == "noted":
        error = ValueError("as written")
        error.add_note("a note")
        raise error
    if how == "inside":
        ends(source, "finding")
    if how == "unwritten":
        return nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    if how == "handling":
        try:
            refuse(source)
        except nkisim.NkiValidationError:
            refuse(source)
    return stored(loaded(source))


# Reports


@each_case("how", ["removed", "finding", "signature"])
@each_case("kernel", [ends, ends[2]], ids=["one-core", "two-cores"])
def test_a_stopped_kernel_is_not_ok(kernel, how):
    report = nkisim.check(kernel)(SOURCE, how)
    rule = {"removed": "A029"}.get(how, "A025")
    assert not report.ok
    assert report.outputs is None
    assert report.codes == {rule}
    assert report.stopped.startswith(rule)
    assert f"stopped by {rule}" in report.summary()
    data = json.loads(report.to_json())
    assert data["ok"] is False
    assert data["stopped"] == report.stopped


def test_a_kernel_that_reached_its_end_was_not_stopped():
    for how in ("nothing", "unwritten"):
        report = nkisim.check(ends)(SOURCE, how)
        assert report.stopped == ""
        assert report.ok == (how == "nothing")
        assert "stopped" not in report.summary()
        assert json.loads(report.to_json())["stopped"] == ""


@pytest.mark.parametrize("strictness", ["simulate", "strict", "check"])
def test_a_simulation_reports_the_call_that_raised(strictness):
    sim = nkisim.simulate(ends, strictness=strictness)
    with pytest.raises(KeyError):
        sim(SOURCE, "own")
    assert not sim.report.ok
    assert sim.report.stopped == "KeyError: 'as written'"
    assert "KeyError" in str(sim.report)
    sim(SOURCE, "nothing")
    assert sim.report.ok


def test_the_finding_that_raised_is_in_the_report():
    sim = nkisim.simulate(ends)
    with pytest.raises(nkisim.NkiValidationError) as caught:
        sim(SOURCE, "finding")
    assert sim.report.findings == [caught.value.finding]
    assert not sim.report.ok


@nkisim.jit
def waits_forever(source):
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        nisa.core_barrier(data=out, cores=(0, 1))
    return out


def test_a_deadlock_stopped_the_kernel():
    report = nkisim.check(waits_forever[2])(SOURCE)
    assert report.stopped.startswith("C009")
    assert not report.ok


def test_a_report_shows_its_findings_in_notebooks_and_tests():
    report = nkisim.check(ends)(SOURCE, "unwritten")
    finding = report.findings[0]
    first, _, rest = repr(report).partition("\n")
    assert first == f"{Path(__file__).name}:{finding.line} M006, fix: {finding.fix}"
    assert rest == str(report)
    clean = nkisim.check(ends)(SOURCE, "")
    assert clean.ok, clean
    assert repr(clean) == str(clean)
    assert repr(report.findings).startswith(f"[<error[M006] output-unwritten at {__file__}:")
    assert repr(nkisim.simulate(ends[2])) == "<simulation of <nki kernel ends[2]>>"


REGISTERS = {
    "greater": (lambda n: n > 2, "L031"),
    "at least": (lambda n: n <= 2, "L031"),
    "sum": (lambda n: n + 1, "L033"),
}


@pytest.mark.parametrize("version", ["0.3.0", "0.6.0"])
@pytest.mark.parametrize("name", REGISTERS)
def test_python_that_needs_the_value_of_a_register_is_reported(name, version):
    decide, rule = REGISTERS[name]

    def kernel(source):
        return stored(loaded(source)) if decide(nisa.register_alloc(3)) else source

    report = nkisim.check(kernel, nki=version)(SOURCE)
    assert report.codes == {rule}
    assert not report.ok


@pytest.mark.parametrize("how", ["finding", "removed"])
def test_a_finding_goes_from_one_process_to_another(how):
    with pytest.raises(nkisim.NkiValidationError) as caught:
        ends(SOURCE, how)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value)
    assert again.finding == caught.value.finding
    assert str(again) == str(caught.value)


def test_an_unknown_option_is_refused_with_those_there_are():
    for function in (nkisim.simulate, nkisim.check):
        with pytest.raises(TypeError, match=rf"{function.__name__}: .*'strict'.*strictness"):
            function(ends, strict=True)


# Tracebacks


def steps_of(error):
    """The functions of an exception's traceback, and whether each is the simulator's."""
    return [
        (step.name, step.filename.startswith(PACKAGE))
        for step in traceback.extract_tb(error.__traceback__)
    ]


LAUNCHES = {
    "kernel": lambda how: ends(SOURCE, how),
    "grid": lambda how: ends[2](SOURCE, how),
    "partial": lambda how: nkisim.jit(partial(ends, SOURCE))(how),
    "simulate": lambda how: nkisim.simulate(ends)(SOURCE, how),
    "strict": lambda how: nkisim.simulate(ends, strictness="strict")(SOURCE, how),
}
each_launch = pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)


@each_launch
@each_case(
    ("how", "last"),
    [("removed", ["ends"]), ("finding", ["ends", "refuse"]), ("inside", ["ends"] * 2 + ["refuse"])],
)
def test_the_traceback_of_a_finding_ends_in_the_kernel(launch, how, last):
    with pytest.raises(nkisim.NkiValidationError) as caught:
        launch(how)
    steps = steps_of(caught.value)
    assert [name for name, _ in steps][2:] == last  # behind the test and the lambda
    assert not any(own for _, own in steps)


@each_launch
def test_exceptions_of_the_kernel_keep_their_kind_cause_and_notes(launch):
    with pytest.raises(KeyError) as caught:
        launch("own")
    assert [name for name, _ in steps_of(caught.value)][2:] == ["ends"]
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(ValueError, match="as written") as noted:
        launch("noted")
    assert noted.value.__notes__ == ["a note"]


@nkisim.jit
def stumbles(source, how):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=tile)  # M001
    if how == "own":
        raise KeyError("as written")
    if how == "finding":
        refuse(source)
    return stored(tile)


@pytest.mark.parametrize("how", ["own", "finding"])
def test_findings_before_the_exception_are_noted(how):
    with pytest.raises((KeyError, nkisim.NkiValidationError)) as caught:
        stumbles(SOURCE, how)
    (note,) = caught.value.__notes__
    assert "M001" in note
    assert f"{__file__}:{stumbles.function.__code__.co_firstlineno + 3}" in note


def test_what_the_simulator_caught_itself_is_not_shown():
    with pytest.raises(TypeError) as caught:
        ends(SOURCE, "signature")
    text = "".join(traceback.format_exception(caught.value))
    assert "nl.ndarray(shape, dtype, buffer=" in text  # how to call it, without annotations
    assert "During handling" not in text
    assert PACKAGE not in text


def test_what_the_kernel_caught_is_shown():
    with pytest.raises(nkisim.NkiValidationError) as caught:
        ends(SOURCE, "handling")
    assert "During handling" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("kernel", [ends, ends[2]], ids=["one-core", "two-cores"])
def test_a_wrong_call_is_shown_at_the_call(kernel):
    for call in (
        lambda: kernel(SOURCE),
        lambda: kernel(SOURCE, how="own", other=1),
        lambda: nkisim.simulate(kernel, ranks=2)(SOURCE),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert steps_of(caught.value)[-1] == ("<lambda>", False)


def test_a_wrong_argument_is_shown_at_the_call():
    with pytest.raises(nkisim.NkiValidationError) as caught:
        ends(SOURCE.astype(np.float64), "own")
    assert not any(own for _, own in steps_of(caught.value))


class Faulty:
    """An argument that makes the simulator stumble, as a fault of its own would."""

    shape = (2, 2)

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("cannot be read")


def test_a_fault_behind_the_kernels_frames_keeps_the_users():
    with pytest.raises(RuntimeError, match="cannot be read") as caught:
        ends(Faulty(), "own")
    assert steps_of(caught.value)[-1][0] == "__array__"

    @dataclass
    class Watcher:
        seen: int = 0

        def __call__(self, event):
            raise RuntimeError("watching failed")

    with pytest.raises(RuntimeError, match="watching failed") as caught:
        nkisim.simulate(ends, watchers=(Watcher(),))(SOURCE, "nothing")
    steps = steps_of(caught.value)
    assert not any(own for _, own in steps)
    assert steps[-1] == ("__call__", False)


# Warnings


@pytest.mark.parametrize("name", sorted(LAUNCHES.keys() - {"strict"}))
def test_the_warning_stands_at_the_users_line(name):
    launch = LAUNCHES[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        launch("unwritten")
    assert [w.category for w in caught] == [nkisim.NkiFindingWarning]
    assert caught[0].filename == __file__
    assert caught[0].lineno == launch.__code__.co_firstlineno


# Prints


@nkisim.jit
def prints(source, dtype):
    tile = nl.ndarray((2, 3), dtype=dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile[0:1, :], value=2)
    print(tile)
    nl.device_print("tile", tile)
    return stored(loaded(source))


@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16, nl.float8_e4m3, nl.int32, nl.uint8])
def test_unwritten_elements_are_printed_as_such(dtype, capsys):
    prints(SOURCE, dtype)
    text = capsys.readouterr().out
    two = "2.0" if dtype.is_float else "2"
    assert text.count(f"[{two} {two} {two}]") == 2
    assert text.count("[-- -- --]") == 2


# Idioms


@nkisim.jit
def reads_the_host(source):
    tile = loaded(source)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=SOURCE, op=nl.add)
    return stored(tile)


def test_an_array_that_is_no_argument_is_named_as_such():
    (finding,) = nkisim.check(reads_the_host)(SOURCE)
    assert finding.rule.id == "A025"
    assert finding.seen == "float32 (4, 3) on the host"
    assert "argument of the kernel" in finding.fix


@nkisim.jit
def fills_with_an_array(source):
    tile = loaded(source)
    nisa.memset(dst=tile, value=SOURCE)
    return stored(tile)


def test_what_was_seen_takes_one_line():
    (finding,) = nkisim.check(fills_with_an_array)(SOURCE)
    assert finding.seen.startswith("array([[1., 1., 1.], [1., 1., 1.]")


@nkisim.jit
def with_numpy_scalars(scores, low, high, zero, one):
    """``zero`` and ``one`` are Python integers or their NumPy twins."""
    tile, shown = loaded(scores), nl.ndarray((4 * one, 3), dtype=nl.float32, buffer=nl.sbuf)
    peaks = nl.ndarray((4, 1), dtype=nl.float32, buffer=nl.sbuf)
    count = nl.ndarray((4, 3), dtype=nl.int32, buffer=nl.sbuf)
    least = np.finfo(np.float32).min if isinstance(one, np.integer) else -3.4028235e38
    nisa.range_select(
        dst=shown,
        on_true_tile=tile,
        comp_op0=nl.greater_equal,
        comp_op1=nl.less,
        bound0=loaded(low),
        bound1=loaded(high),
        reduce_res=peaks,
        range_start=zero,
        on_false_value=least,
    )
    nisa.iota(dst=count, pattern=[[one, 3]], offset=zero, channel_multiplier=one)
    for _ in nl.affine_range(zero, one, one):
        nisa.tensor_tensor(dst=shown, data1=tile, data2=count, op=nl.add)
    return stored(shown), stored(peaks)


@pytest.mark.parametrize("kind", [int, np.int64, np.int8])
def test_a_numpy_scalar_is_as_good_as_a_number(kind):
    bounds = np.zeros((4, 1), np.float32), np.full((4, 1), 2, np.float32)
    report = nkisim.check(with_numpy_scalars, detect=())(SOURCE, *bounds, kind(0), kind(1))
    assert not report.findings, str(report)
    rows, cols = np.indices(SOURCE.shape)
    np.testing.assert_array_equal(report.outputs[0], SOURCE + rows + cols)
    np.testing.assert_array_equal(report.outputs[1], 1)


@nkisim.jit
def with_fractions(source, count):
    tile = loaded(source)
    for _ in nl.affine_range(count):
        nl.ndarray((count, 2), dtype=nl.float32, buffer=nl.sbuf)
    return stored(tile)


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_a_count_that_is_a_float_is_found(kind):
    report = nkisim.check(with_fractions, detect=())(SOURCE, kind(2))
    assert len(report.findings) == 2
    assert len(report.codes) == 1


def half_of(count):
    return range(count / 2)  # found


@nkisim.jit
def with_a_range_of_a_float(source, how):
    extent = source.shape[0]
    if how == "division":
        for _ in range(extent / 2):  # found
            pass
    if how == "lines":
        for _ in range(
            0,
            extent / 2,  # found
        ):
            pass
    if how == "name":
        count = extent / np.float64(2)
        for _ in range(count):  # found
            pass
    if how == "function":
        for _ in half_of(extent):
            pass
    if how == "other":
        return [source] * 2.0
    return source


@each_case("how", ["division", "lines", "name", "function"])
def test_a_range_of_a_float_is_found_at_its_line(how):
    report = nkisim.check(with_a_range_of_a_float)(SOURCE, how)
    assert report.stopped == "L019 fractional-extent"
    lines = {f.line for f in report.findings if f.rule.id == "L019"}
    source = Path(__file__).read_text().splitlines()
    assert {source[line - 1].partition("#")[2] for line in lines} == {" found"}
    with pytest.raises(TypeError, match="L019") as caught:  # which it is in Python
        nkisim.simulate(with_a_range_of_a_float)(SOURCE, how)
    assert caught.value.finding.line in lines


def test_other_type_errors_of_the_kernel_are_raised():
    with pytest.raises(TypeError, match="can't multiply sequence") as caught:
        nkisim.check(with_a_range_of_a_float)(SOURCE, "other")
    assert type(caught.value) is TypeError


@nkisim.jit
def with_a_number_for_a_member(source):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source, dge_mode=3)
    return stored(tile)


def test_an_integer_for_an_enum_member_only_warns():
    sim = nkisim.simulate(with_a_number_for_a_member, strictness="strict")
    np.testing.assert_array_equal(sim(SOURCE), SOURCE)
    assert sim.report.ok
    assert [(f.rule.id, f.severity) for f in sim.report] == [("A013", "warning")]


@pytest.mark.parametrize(("module", "name"), [(nl, "sofmax"), (nisa, "tensor_scaler")])
def test_python_can_suggest_the_name_that_was_meant(module, name):
    with pytest.raises(AttributeError, match=name) as caught:
        getattr(module, name)
    # From these two Python makes its "Did you mean".
    assert (caught.value.name, caught.value.obj) == (name, module)
