"""NaN and infinity in outputs of finite inputs: the instruction that made them comes first."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from fresh_process import nkisim_command
from nkisim.dtypes import as_dtype
from tiles import stored

from .samples import SAMPLES, run

ORIGINS = {"D020", "D031", "D042"}


def with_zero():
    """Numbers of which one is 0."""
    a = np.full((8, 16), 2.0, np.float32)
    a[3, 5] = 0
    return a


def inverted(a):
    tile = nl.load(a)
    spare = nl.ndarray((8, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=spare, src=tile)  # W004: nothing reads it
    nisa.reciprocal(dst=tile, data=tile)  # here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
    return stored(tile)


def line_of(kernel, mark="# here"):
    code = kernel.__code__
    with open(code.co_filename, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return next(i for i in range(code.co_firstlineno, len(lines)) if lines[i - 1].endswith(mark))


@pytest.mark.parametrize("entry", ["check", "strict"])
def test_the_instruction_that_made_it_comes_first(entry):
    if entry == "check":
        report = nkisim.check(inverted)(with_zero())
        assert {"W004", "D042"} <= report.codes
    else:
        simulation = nkisim.simulate(inverted, strictness="strict")
        simulation(with_zero())
        report = simulation.report
    first = report.findings[0]
    assert (first.rule.id, first.severity, first.instruction) == ("D042", "warning", "reciprocal")
    assert first.line == line_of(inverted)
    assert "output 0 has inf at (3, 5), although all inputs are finite" in first.notes
    assert first.data["outputs"] == ["output 0"]


def overflowed(a):
    half = nl.ndarray((8, 16), dtype=nl.float16, buffer=nl.sbuf)
    nisa.memset(dst=half, value=0.0)  # W-rules: overwritten unread
    nisa.tensor_copy(dst=half, src=nl.load(a))  # here
    nisa.tensor_tensor(dst=half, data1=half, data2=half, op=nl.subtract)
    return stored(half)


def test_a_conversion_that_overflows_is_an_origin_too():
    report = nkisim.check(overflowed)(np.full((8, 16), 1e6, np.float32))
    first = report.findings[0]
    assert (first.rule.id, first.line) == ("D020", line_of(overflowed))
    assert any("output 0 has nan" in note for note in first.notes)


def test_nothing_moves_where_the_outputs_are_finite():
    def kernel(a):
        tile = nl.load(a)
        spare = nl.ndarray((8, 16), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=spare, src=tile)
        nisa.reciprocal(dst=tile, data=tile)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.minimum, operand0=4.0)
        return stored(tile)

    report = nkisim.check(kernel)(with_zero())
    assert {f.rule.id: f.notes for f in report.findings}["D042"] == ()
    assert "outputs" not in report.findings[0].data


def test_nothing_moves_where_an_input_is_not_finite():
    a = with_zero()
    a[0, 0] = np.nan
    report = nkisim.check(inverted)(a)
    assert all("outputs" not in f.data for f in report.findings)


def test_an_input_that_the_kernel_overwrites_was_finite():
    def kernel(a):
        tile = nl.load(a)
        nisa.reciprocal(dst=tile, data=tile)
        nisa.dma_copy(dst=a, src=tile)
        return a

    report = nkisim.check(kernel)(with_zero())
    assert report.findings[0].data["outputs"] == ["output 0"]


def test_unwritten_memory_is_no_origin():
    def kernel(a):
        tile = nl.load(a)
        other = nl.ndarray((8, 16), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=tile, data=tile)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.minimum, operand0=4.0)
        return stored(other)

    report = nkisim.check(kernel)(with_zero())
    assert "M001" in report.codes
    assert all("outputs" not in f.data for f in report.findings)


def test_two_cores_have_it_first_too():
    @nkisim.jit
    def kernel(a):
        core = nl.program_id(0)
        out = nl.ndarray((2, 8, 16), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(a)
        nisa.reciprocal(dst=tile, data=tile)
        nl.store(out[core], tile)
        return out

    report = nkisim.check(kernel[2], target="gen3")(with_zero())
    assert report.findings[0].rule.id == "D042"
    assert report.findings[0].data["outputs"] == ["output 0"]


FILE = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def first(a):
    tile = nl.load(a)
    nisa.tensor_copy(dst=nl.ndarray((8, 16), dtype=nl.float32, buffer=nl.sbuf), src=tile)
    out = nl.ndarray((8, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def second(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.0)
    nisa.reciprocal(dst=tile, data=tile)
    out = nl.ndarray((8, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
"""


def test_it_is_the_first_of_a_file(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(FILE)
    done = nkisim_command("check", file, "--shapes", "a=f32[8,16]")
    assert done.stdout.startswith("warning[D042]"), done.stdout
    assert "[W004]" in done.stdout


# -- every instruction -----------------------------------------------------------------------------


def extreme(sample, value):
    """The sample with the same finite number in all its float tiles."""

    def changed(tile):
        dtype = as_dtype(tile.dtype)
        if tile.values is None or not dtype.is_float:
            return tile
        number = min(abs(value), dtype.max_finite) * np.sign(value)
        values = np.full(tile.shape, number).astype(tile.values.dtype)
        return dataclasses.replace(tile, values=values)

    return dataclasses.replace(sample, tiles={n: changed(t) for n, t in sample.tiles.items()})


@each_case("value", [0.0, -2.0, 3e38, -3e38])
@each_case("sample", [pytest.param(s, id=s.name) for s in SAMPLES])
def test_an_instruction_that_makes_nan_or_infinity_is_found(sample, value):
    outcome = run(extreme(sample, value), entry=nkisim.check)
    floats = [a for a in outcome.outputs.values() if a.dtype.kind not in "iub"]
    if all(np.isfinite(a.astype(np.float32)).all() for a in floats):
        return
    made = {f.instruction for f in outcome.findings if f.rule.id in ORIGINS}
    assert made == {sample.instruction}, outcome.findings
