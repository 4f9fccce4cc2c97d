"""``--watch``: a report at every save, with marks at what is new, until an interrupt."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .harness_serve import BAD, ENVIRONMENT, GOOD, written


def heed_interrupts():
    """Undo that a shell ignores interrupts of what it starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def report(process):
    """The lines of the next report: the time that begins one, to the summary."""
    lines = []
    while not lines or not lines[-1].startswith(END):
        line = process.stdout.readline()
        assert line, process.stderr.read()
        lines.append(line.rstrip())
    return lines


END = ("  no findings;", "+ no findings;", "  1 finding:", "+ 1 finding:")


def test_a_check_at_every_save(tmp_path):
    path = written(tmp_path, GOOD)
    process = subprocess.Popen(
        [sys.executable, "-m", "nkisim", "check", "--watch", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        start_new_session=True,
        preexec_fn=heed_interrupts,
    )
    try:
        assert not [line for line in report(process) if line.startswith("+")]
        Path(path).write_text(BAD)
        new = [line for line in report(process) if line.startswith("+")]
        assert any("error[A025]" in line for line in new)
        Path(path).write_text("# A line above\n" + BAD)
        assert not [line for line in report(process) if line.startswith("+")]
    finally:
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C in a terminal
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (1, "")


@pytest.mark.slow
def test_a_profile_at_every_save(tmp_path):
    path = written(tmp_path, GOOD)
    process = subprocess.Popen(
        [sys.executable, "-m", "nkisim", "profile", "--watch", path],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        start_new_session=True,
        preexec_fn=heed_interrupts,
    )

    def latency():
        return next(line for line in process.stdout if "  latency " in line)

    try:
        assert latency().startswith("   ")
        Path(path).write_text(GOOD.replace("512", "2048"))
        assert latency().startswith("+  ")
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0
