"""The recorded predictions of tuned kernels are those of this checkout."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import loaded

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bench():
    """benchmarks/bench_device.py; its neighbours are forgotten afterwards."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield loaded(BENCHMARKS / "bench_device.py")
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("device_problems", "runner"):
            del sys.modules[name]


@pytest.fixture
def problem(bench):
    (found,) = (p for p in bench.problems(bench.GROUPS) if p.name == "trsm 129 x 77")
    return found


def test_a_time_is_the_recorded_one(bench, problem):
    assert bench.moved([problem], "gen3") == []


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
def test_all_times_are_the_recorded_ones(target):
    command = [sys.executable, BENCHMARKS / "bench_device.py", "--check", "--all"]
    done = subprocess.run([*command, "--target", target], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_time_that_moved_is_named(bench, problem, tmp_path):
    record = json.loads((BENCHMARKS / "results" / "device.json").read_text())
    record[problem.name]["gen3"]["us"] *= 1.03
    (tmp_path / "device.json").write_text(json.dumps(record))
    (found,) = bench.moved([problem], "gen3", tmp_path / "device.json")
    assert found.startswith(problem.name)
