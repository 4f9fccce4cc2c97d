"""The progress of a long run on a terminal."""

from __future__ import annotations

import ast
import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim.runs import progress


class Terminal(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


def body(tile, count):
    for _ in range(count):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)


@nkisim.jit
def added(x, count):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for m in range(x.shape[0] * count):  # the outermost
        body(tile, m * 0 + 10)
    nl.store(out, tile)
    return out


@pytest.mark.parametrize("cores", [1, 2])
def test_a_terminal_shows_the_progress_and_the_time_that_is_left(monkeypatch, cores):
    x = np.zeros((4, 8), np.float32)
    stream = Terminal(True)
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "__stderr__", stream)
    kernel = nkisim.simulate(added if cores == 1 else added[2])
    while "%" not in stream.getvalue():  # on a busy machine the display may not get its turn
        stream.truncate(stream.seek(0))
        assert (kernel(x, 150) == 6000).all()
    *lines, cleared = stream.getvalue().split("\r")
    assert cleared == "\x1b[K"
    text = r"added: [\d,]+ instructions in \d+ s"
    text += r"(, (\d+)% of the loop at line (\d+), about \d+ s left)?\x1b\[K"
    read = [re.fullmatch(text, line) for line in lines[1:]]
    assert all(read)
    shares = [int(match[2]) for match in read if match[1]]
    assert shares
    assert shares == sorted(shares)
    source = Path(__file__).read_text().splitlines()
    assert {source[int(m[3]) - 1][-13:] for m in read if m[1]} == {"the outermost"}


@pytest.mark.parametrize("what", ["no terminal", "replaced", "short"])
def test_nothing_is_written_elsewhere_or_soon(monkeypatch, what):
    stream = Terminal(what != "no terminal")
    monkeypatch.setattr(progress, "EVERY", 0.005)
    if what != "short":
        monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(sys, "stderr", stream)
    if what != "replaced":
        monkeypatch.setattr(sys, "__stderr__", stream)
    nkisim.simulate(added)(np.zeros((4, 8), np.float32), 20)
    assert stream.getvalue() == ""


X = np.zeros((6, 4))


@each_case(
    ("header", "value", "share"),
    [
        ("i in range(8)", 2, 0.25),
        ("i in range(2, 10)", 4, 0.25),
        ("i in range(0, x.shape[0] * 2 + 4, 4)", 8, 0.5),
        ("i in nl.affine_range(n // 2 - 1)", 1, 0.5),
        ("i in range(len(x))", 1, None),
        ("i in [1, 2]", 1, None),
        ("i in range(missing)", 1, None),
        ("i in range(n / 2)", 1, None),
        ("i in range(2)", 7, None),
        ("i in f(8)", 2, None),
    ],
)
def test_the_share_of_a_loop_that_is_done(header, value, share):
    (loop,) = ast.parse(f"for {header}:\n    pass").body
    assert progress.done(loop, {"x": X, "n": 6, "i": value}) == share
