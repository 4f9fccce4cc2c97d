"""Unmodified code can fail a build: ``nkisim run``, ``pytest --nkisim`` and the environment."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import nkisim
from fresh_process import nkisim_command, pytest_command

from .checker_cases import GOOD, UNWRITTEN, WARNED, write

VARIABLES = ("NKISIM_STRICT", "NKISIM_TARGET", "NKISIM_REPORT", "NKISIM_IGNORE", "NKI_SIMULATOR")

CALL = """\
if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    print(NAME(np.ones((4, 8), np.float32)).shape)
"""

TARGET = """\
@nki.jit
def told(x):
    print(nisa.get_nc_version().name)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
"""


def without_ours(env):
    kept = {k: v for k, v in os.environ.items() if k not in VARIABLES and "PYTEST" not in k}
    return kept | (env or {})


def python(*arguments, env=None, cwd=None):
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command, env=without_ours(env), cwd=cwd, capture_output=True, text=True, timeout=300
    )
    return done


def run(*arguments, env=None, cwd=None):
    return nkisim_command("run", *arguments, env=without_ours(env), cwd=cwd)


@pytest.fixture
def unwritten(tmp_path):
    return write(tmp_path, UNWRITTEN, CALL, NAME="unwritten")


def test_a_script_with_findings_runs_unless_asked(unwritten):
    done = run(unwritten)
    assert (done.returncode, done.stdout) == (0, "(4, 8)\n")


def test_strict_stops_at_the_line(unwritten):
    for done in (run("--strict", unwritten), run(unwritten, env={"NKISIM_STRICT": "1"})):
        assert done.returncode == 1
        assert "error[M001]" in done.stderr
        assert done.stdout == ""


def test_fail_on_lets_the_script_end_first(unwritten, tmp_path):
    done = run("--fail-on", "error", unwritten)
    assert (done.returncode, done.stdout) == (1, "(4, 8)\n")
    assert "error[M001]" in done.stderr
    assert "checked 1 kernel, 1 instruction," in done.stderr
    warned = write(tmp_path, WARNED, CALL, NAME="warned", name="warned.py")
    done = run("--fail-on", "error", warned)
    assert done.returncode == 0
    assert done.stderr.startswith("nkisim: 1 finding: 1 warning; checked 1 kernel, 3 instructions")
    assert run("--fail-on", "warning", warned).returncode == 1


def test_the_scripts_own_failure_comes_first(tmp_path):
    script = write(tmp_path, UNWRITTEN, CALL + "    raise SystemExit(7)\n", NAME="unwritten")
    assert run("--fail-on", "error", script).returncode == 7


def test_target(tmp_path):
    script = write(tmp_path, TARGET, CALL, NAME="told")
    assert run("--target", "trn1", script).stdout.startswith("gen2\n")
    env = {"NKISIM_TARGET": "trn2", "NEURON_PLATFORM_TARGET_OVERRIDE": "trn1"}
    assert run(script, env=env).stdout.startswith("gen3\n")
    done = run("--target", "trn9", script)
    assert (done.returncode, "unknown platform 'trn9'" in done.stderr) == (2, True)


@pytest.mark.parametrize("way", ["option", "variable"])
def test_the_report_is_written_also_by_processes_that_the_script_starts(tmp_path, way):
    write(tmp_path, UNWRITTEN, CALL, NAME="unwritten", name="child.py")
    start = "import subprocess, sys\n\nsubprocess.run([sys.executable, 'child.py'], check=True)\n"
    parent = write(tmp_path, GOOD, start + CALL, NAME="doubled", name="parent.py")
    path = os.pathsep.join(filter(None, [*sys.path]))
    hook = "import nkisim; nkisim.install()\n"
    (tmp_path / "sitecustomize.py").write_text(hook)  # as the installed package does it
    env = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{path}"}
    if way == "option":
        done = run("--report", "out.json", parent, cwd=tmp_path, env=env)
    else:
        done = python(parent, cwd=tmp_path, env=env | {"NKISIM_REPORT": "out.json"})
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "out.json").read_text())
    assert sorted(kernel["name"] for kernel in data["kernels"]) == ["doubled", "unwritten"]
    assert [finding["rule"] for finding in data["findings"]] == ["M001"]


def test_a_report_needs_a_suffix_that_means_something(unwritten):
    done = run("--report", "out.docx", unwritten)
    assert done.returncode == 2
    assert ".json, .sarif, .html, .txt" in done.stderr


def test_pyproject_holds_for_scripts_too(unwritten, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.nkisim]\nstrict = true\nignore = ["M001"]\n')
    done = run("--fail-on", "error", unwritten)
    assert done.returncode == 0, done.stderr


# pytest


def pytest_in(folder, *options):
    plugins = ["-p", "nkisim.pytest_plugin", "-p", "xdist", "-p", "no:cacheprovider"]
    command = ["-q", "--nkisim", *plugins, "-W", "ignore", *options]
    env = without_ours({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    return pytest_command(*command, cwd=folder, env=env)


TESTS = """\
def test_one():
    unwritten(np.ones((4, 8), np.float32))


def test_two():
    unwritten(np.ones((4, 8), np.float32))
"""


@pytest.fixture
def suite(tmp_path):
    write(tmp_path, UNWRITTEN, TESTS, name="test_it.py")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_pytest_passes_unless_asked(suite):
    done = pytest_in(suite)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pytest_strict_fails_the_tests(suite):
    done = pytest_in(suite, "--nkisim-strict")
    assert done.returncode == 1
    assert "2 failed" in done.stdout


@pytest.mark.parametrize("workers", [[], pytest.param(["-n", "2"], marks=pytest.mark.slow)])
def test_pytest_fail_on_fails_the_run_and_reports(suite, workers):
    options = ["--nkisim-fail-on", "error", "--nkisim-report", "out.json"]
    done = pytest_in(suite, *options, *workers)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert "error[M001]" in done.stdout
    assert done.returncode == 1
    data = json.loads((suite / "out.json").read_text())
    assert [kernel["runs"] for kernel in data["kernels"]] == [2]


def test_pytest_refuses_an_unknown_target(suite):
    done = pytest_in(suite, "--nkisim-target", "trn9")
    assert done.returncode == 4
    assert "trn9" in done.stderr + done.stdout


@pytest.mark.parametrize("entry", [nkisim.simulate, nkisim.check])
def test_an_unknown_strictness_is_refused(entry, monkeypatch):
    def kernel(x):
        return x

    with pytest.raises(ValueError, match="got 'hard', accepted: 'simulate', 'strict', 'check'"):
        entry(kernel, strictness="hard")
    monkeypatch.setenv("NKISIM_STRICT", "hard")
    with pytest.raises(ValueError, match="NKISIM_STRICT: got 'hard', accepted: '0' or '1'"):
        nkisim.simulate(kernel)(np.ones((4, 4), np.float32))


def test_check_has_one_strictness():
    with pytest.raises(ValueError, match="check: strictness is 'strict', accepted: 'check'"):
        nkisim.check(lambda x: x, strictness="strict")
