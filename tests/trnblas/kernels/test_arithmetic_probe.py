"""The probe of a chip's rounding: it passes on the simulator and finds every planted error."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import pytest
import torch

import nkisim
from each_case import each_case
from scripts import loaded
from trnblas._kernels.arithmetic_probe import KINDS, arithmetic_probe
from trnblas.evidence import COLUMNS, SHIFT, probe_inputs
from trnsci.core.backend.launch import Launcher
from trnsci.core.counters import counts

ROOT = Path(__file__).parents[3]
simulated = Launcher("simulator")
module = loaded(ROOT / "scripts" / "arithmetic_probe.py")
main, probe = module.main, module.probe


@pytest.fixture(scope="module")
def results():
    return simulated(arithmetic_probe, *probe_inputs(), SHIFT)


def checks_of(results, change):
    """Return the checks of results that ``change`` has edited, by kind."""
    copies = [result.clone() for result in results]
    change(*copies)
    return {check.kind: check for check in probe(lambda *args: copies)}


def wrong(checks):
    return {kind for kind, check in checks.items() if check.wrong}


def test_the_simulator_is_as_assumed():
    before = counts()
    checks = probe(simulated)
    assert (counts() - before).launches == {"arithmetic_probe": 1}
    assert [check.kind for check in checks] == [*KINDS, "PSUM sum"]
    assert not any(check.wrong for check in checks)
    assert {c.kind for c in checks if c.subnormal == "kept"} == {
        "Vector difference",
        "Vector product",
        "GpSimd difference",
        "float16 value",
    }
    assert all(check.assumed == check.observed for check in checks)


@each_case("kind", range(len(KINDS)))
def test_one_wrong_bit_of_one_repetition_is_found(results, kind):
    """A rounding that differs on one partition only, as stochastic rounding would."""

    def change(observed, sums):
        observed.view(torch.int32)[kind, 77, 300] ^= 1 << 20 if KINDS[kind] == "reciprocal" else 1

    found = checks_of(results, change)
    assert wrong(found) == {KINDS[kind]}
    check = found[KINDS[kind]]
    assert check.wrong == 1
    assert check.assumed != check.observed


def test_truncation_is_found(results):
    """Rounding toward zero in place of to nearest."""

    def change(observed, sums):
        a, b, *_ = (x.double() for x in probe_inputs())
        exact = a + b
        nearest = observed[0]
        toward_zero = torch.nextafter(nearest, torch.zeros(()))
        observed[0] = torch.where(nearest.double().abs() > exact.abs(), toward_zero, nearest)

    found = checks_of(results, change)
    assert wrong(found) == {"Vector sum"}
    assert found["Vector sum"].wrong > COLUMNS // 4


def test_flushed_subnormal_numbers_are_reported_and_pass(results):
    def change(observed, sums):
        observed[(observed.abs() < 2.0**-126) & (observed != 0)] = 0

    found = checks_of(results, change)
    assert not wrong(found)
    assert found["Vector product"].subnormal == "flushed"
    assert found["float16 value"].subnormal == "kept"


def test_a_sum_in_psum_with_fewer_bits_is_found(results):
    """Sums up to 2**24 need 24 bits: dropping the last one changes the odd ones."""

    def change(observed, sums):
        sums.copy_((sums / 2).round() * 2)

    found = checks_of(results, change)
    assert wrong(found) == {"PSUM sum"}
    assert float(results[1][0, 0]) == 2**24
    assert float(results[1][1, 1]) == 2**24 - 127


def test_the_command_fails_with_a_plain_message(monkeypatch, capsys, results):
    assert main(["--on", "simulator"]) == 0
    assert "PSUM sum" in capsys.readouterr().out
    planted = [result.clone() for result in results]
    planted[0][2, :, 40] = 0.5
    monkeypatch.setattr(module, "Launcher", lambda path: lambda *args: planted)
    assert main(["--on", "simulator"]) == 1
    shown = capsys.readouterr()
    assert "error: Vector product: not rounded as assumed" in shown.err
    assert "1/512  " in shown.out
    assert "3f000000" in shown.out


def test_the_script_for_devices_runs_it_before_the_tests():
    lines = (ROOT / "scripts" / "run_neuron_tests.sh").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line.startswith('"$python" ')]
    assert commands[1] == '"$python" scripts/arithmetic_probe.py'
    assert "pytest" in commands[2]


@each_case("generation", ["gen2", "gen3", "gen4"])
def test_it_is_clean_on_every_generation(generation):
    a, b, left, right = probe_inputs()
    digits = (x.float().numpy().astype(ml_dtypes.bfloat16) for x in (left, right))
    simulation = nkisim.simulate(arithmetic_probe, strictness="strict", target=generation)
    simulation(a.numpy(), b.numpy(), *digits, SHIFT)
    assert not simulation.report.findings
