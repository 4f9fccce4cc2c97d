"""``nkisim judge`` and ``--baseline``: statuses, the JSON format, and comparisons with before."""

import json
import runpy
import signal
import subprocess
import sys

import numpy as np
import psutil
import pytest
from click.testing import CliRunner

import nkisim
from nkisim.cli import commands
from nkisim.judging import KINDS

from .judged import RIGHT
from .test_child import ENDLESS

REFERENCE = """
import numpy as np

def scale(x):
    return 1.5 * x

def other(x):
    return 2.5 * x

def narrow(x):
    assert x.shape[0] < 4
"""

SHAPES = ("--shapes", "x=f32[128,64]")
KEYS = (
    "schema passed error summary latency_us latency_ms outcome kernel file target nki legal right "
    "fast next faults programs seed seconds"
)


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NKISIM_TARGET", raising=False)
    (tmp_path / "kernels.py").write_text(RIGHT)
    (tmp_path / "reference.py").write_text(REFERENCE)

    def run(*arguments):
        done = CliRunner().invoke(commands, [*map(str, arguments)], standalone_mode=False)
        if done.exception is not None and hasattr(done.exception, "format_message"):
            return done.exception.exit_code, done.stdout, done.exception.format_message()
        assert done.exception is None, repr(done.exception)
        return done.return_value, done.stdout, done.stderr

    return run


def judged(command, reference, *options, kernel="scale"):
    given = ("--reference", f"reference.py::{reference}", *options)
    return command("judge", f"kernels.py::{kernel}", *given)


def test_a_right_kernel_as_json_and_before(command, tmp_path):
    status, out, _ = judged(command, "scale", *SHAPES, "--format", "json", "--seed", 3)
    found = json.loads(out)
    assert status == 0
    assert list(found) == KEYS.split()
    assert found["schema"] == 1
    assert (found["passed"], found["error"], found["seed"]) == (True, None, 3)
    assert found["latency_ms"] == pytest.approx(found["latency_us"] / 1e3)
    assert found["fast"]["least_bytes"] == 2 * 128 * 64 * 4
    assert {case["passed"] for case in found["right"]["cases"] if case["counted"]} == {True}

    found["latency_us"] *= 0.97
    (tmp_path / "old.json").write_text(json.dumps(found))
    again = ("--baseline", "old.json", "--fail-if-slower", "1%")
    status, out, _ = judged(command, "scale", *SHAPES, *again)
    assert status == 1
    assert "slower" in out


def test_a_wrong_kernel(command):
    status, out, _ = judged(command, "other", *SHAPES)
    assert status == 1
    assert "scale on gen3, NKI 0.3.0: wrong, result: as given" in out
    assert "written at kernels.py:" in out


@pytest.mark.parametrize(
    ("reference", "kernel", "options", "text"),
    [
        ("absent", "scale", SHAPES, "no function absent"),
        ("scale", "absent", SHAPES, "no function absent"),
        ("scale", "scale", ("--shapes", "x=f99[2]"), "f99"),
        ("scale", "scale", (*SHAPES, "--fail-if-slower", "much"), "a percentage"),
        ("scale", "scale", (*SHAPES, "--baseline", "reference.py"), "no report"),
        ("narrow", "scale", SHAPES, "AssertionError"),
    ],
)
def test_mistakes_on_the_command_line(command, reference, kernel, options, text):
    status, out, error = judged(command, reference, *options, kernel=kernel)
    assert (status, out) == (2, "")
    assert text in error


UNEQUAL = """
@nki.jit
def unequal(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    scales = [1.0, 1.5, 1.25]
    for i in nl.dynamic_range(0, 3):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scales.pop())
    return stored(tile, x.dtype)
"""


def test_no_verdict_on_what_no_program_can_hold(command, tmp_path):
    (tmp_path / "kernels.py").write_text(RIGHT + UNEQUAL)
    status, out, _ = judged(command, "scale", *SHAPES, "--format", "json", kernel="unequal")
    found = json.loads(out)
    assert (status, found["outcome"], found["passed"]) == (6, "no verdict", False)
    assert found["error"] == "a loop of the device whose iterations differ"
    assert found["summary"].endswith(f"no verdict, {found['error']}")
    assert (found["faults"], found["fast"], found["programs"]) == ([], None, {})


def test_a_program_where_a_kernel_may_stand(command, tmp_path):
    made = ("--reference", "reference.py::scale", *SHAPES, "--format", "json")
    status, out, _ = command("judge", "kernels.py::scale", *made, "--source", "judged.py")
    assert status == 0
    by_file = json.loads(out)
    text = (tmp_path / "judged.py").read_text()
    assert text.count("def scale(x):") == len(by_file["programs"])
    assert all(digest in text for digest in by_file["programs"])
    compile(text, "judged.py", "exec")

    nkisim.install()
    try:
        kernels = runpy.run_path(str(tmp_path / "kernels.py"))
    finally:
        nkisim.uninstall()
    program = nkisim.record(kernels["scale"])(np.ones((128, 64), np.float32))
    program.save(tmp_path / "scale.json")
    status, out, _ = command("judge", "scale.json", "--reference", "reference.py::scale")
    assert status == 0
    assert "scale on gen3, NKI 0.3.0: right" in out
    status, out, _ = command(
        "judge", "scale.json", "--reference", "reference.py::other", "--format", "json"
    )
    by_program = json.loads(out)
    assert (status, by_program["outcome"]) == (1, "wrong")
    assert [*by_program["programs"]] == [program.digest]

    (tmp_path / "scale.json").write_text('{"program": 1}')
    status, out, error = command("judge", "scale.json", "--reference", "reference.py::scale")
    assert (status, out) == (2, "")
    assert "no program" in error


def test_the_reference_is_in_another_file(command):
    status, _, error = command(
        "judge", "kernels.py::scale", "--reference", "kernels.py::relu", *SHAPES
    )
    assert status == 2
    assert "another file" in error


def test_nothing_is_judged_without_arguments(command):
    status, out, _ = judged(command, "scale")
    assert status == 3
    assert "nothing was judged" in out
    assert '--shapes "x=f32[128,512]"' in out


def test_a_shape_for_no_parameter(command):
    status, _, err = judged(command, "scale", "--shapes", "z=f32[128,64]")
    assert status == 2
    assert "no kernel of kernels.py has a parameter 'z'; they have: x" in err


def test_no_time(command):
    assert judged(command, "scale", *SHAPES, "--max-seconds", 0.2)[0] == 5


@pytest.fixture
def interruptible():
    """Children accept SIGINT, which background jobs of a shell ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.usefixtures("interruptible")
def test_a_command_that_a_signal_ends_leaves_no_child(sent, tmp_path):
    (tmp_path / "kernels.py").write_text(RIGHT + ENDLESS)
    (tmp_path / "reference.py").write_text("def matmul(a, b):\n    return a.T @ b\n")
    given = ["kernels.py::cheat", "--reference", "reference.py::matmul"]
    shapes = ["--shapes", "a=f32[128,32] b=f32[128,64]", "--max-seconds", "600"]
    line = [sys.executable, "-m", "nkisim", "judge", *given, *shapes]
    with subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.DEVNULL) as judge:
        parent = psutil.Process(judge.pid)
        while not (children := parent.children()):
            assert judge.poll() is None
        judge.send_signal(sent)
        assert judge.wait(60) == (128 + sent if sent == signal.SIGTERM else 130)
    gone, _ = psutil.wait_procs(children, 60)
    assert set(gone) == set(children)


def test_a_profile_that_is_slower_than_before(command, tmp_path):
    given = ("profile", "kernels.py::scale", *SHAPES)
    status, out, _ = command(*given, "--format", "json")
    assert status == 0
    old = json.loads(out)
    old["profiles"][0]["latency_us"] *= 0.9
    (tmp_path / "old.json").write_text(json.dumps(old))
    assert command(*given, "--baseline", "old.json", "--fail-if-slower", "20%")[0] == 0
    status, out, _ = command(*given, "--baseline", "old.json", "--fail-if-slower", "5%")
    assert status == 1
    assert "11.1% slower" in out
    other = ("profile", "kernels.py::scale", "--shapes", "x=f32[128,128]")
    status, _, error = command(*other, "--baseline", "old.json")
    assert status == 0
    assert "has no scale on gen3 with x=float32[128,128]" in error


def test_each_kind_of_fault_is_said_in_the_page():
    from ...docs.pages import DOCS

    page = (DOCS / "guides" / "let-a-program-write-kernels.md").read_text()
    assert [kind for kind in KINDS if f"`{kind}`" not in page] == []
    assert [key for key in KEYS.split() if f"`{key}`" not in page] == []
