"""The recorded predictions of tuned kernels are those of this checkout."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def check(*options):
    command = [sys.executable, str(BENCHMARKS / "bench_device.py"), "--check", *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_time_is_the_recorded_one():
    done = check("--only", "gemm 1024")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
def test_all_times_are_the_recorded_ones(target):
    done = check("--all", "--target", target)
    assert done.returncode == 0, done.stderr


def test_a_time_that_moved_is_named(tmp_path):
    record = json.loads((BENCHMARKS / "results" / "device.json").read_text())
    name = next(name for name in record if "gemm 1024" in name)
    record[name]["gen3"]["us"] *= 1.03
    (tmp_path / "device.json").write_text(json.dumps(record))
    text = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import bench_device as b;"
        "chosen = [p for p in b.problems(b.GROUPS) if p.name == sys.argv[2]];"
        "print(b.moved(chosen, 'gen3', pathlib.Path(sys.argv[3])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, str(BENCHMARKS), name, str(tmp_path / "device.json")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert name in done.stdout
