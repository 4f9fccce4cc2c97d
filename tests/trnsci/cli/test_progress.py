"""The progress bar of ``trnsci validate`` and ``trnsci coverage``."""

from __future__ import annotations

import io
import re
import sys
import time

from trnsci.cli.progress import progress
from trnsci.coverage import lines


class Terminal(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


def shown(monkeypatch, is_terminal, waits):
    """What a command with four steps writes to stderr, without control characters."""
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    with progress(4) as steps:
        for name in ("first", "second"):
            steps.started(name)
            time.sleep(waits)
            steps.ended()
            time.sleep(waits)
    assert sys.stderr is stream
    return re.sub(r"\x1b\[[\d;?]*\w", "", stream.getvalue())


def test_a_long_command_shows_steps_and_time(monkeypatch):
    monkeypatch.setattr("trnsci.cli.progress.AFTER", 0.05)
    text = shown(monkeypatch, True, 0.3)
    assert "1/4" in text
    assert re.search(r"2/4 \d:\d\d:\d\d second", text), text  # the time that is left


def test_a_short_command_shows_nothing(monkeypatch):
    assert "/4" not in shown(monkeypatch, True, 0.0)


def test_nothing_is_shown_elsewhere(monkeypatch):
    monkeypatch.setattr("trnsci.cli.progress.AFTER", 0.0)
    assert shown(monkeypatch, False, 0.05) == ""


def test_coverage_names_each_example(monkeypatch):
    monkeypatch.setattr("trnsci.coverage.survey.examples_of", lambda library: ["one", "two, b"])
    monkeypatch.setattr("trnsci.coverage.survey.outcome_of", lambda *names: None)
    names = []
    found = lines(["trnblas"], names.append)
    assert names == ["trnblas.one", "trnblas.two, b"]
    assert {line.function for line in found} == {"one", "two"}
