"""``nkisim_examples()`` may say what a kernel returns; ``nkisim check`` compares."""

import json

import pytest
from click.testing import CliRunner

from nkisim.cli import commands

KERNEL = """
import nki
import nki.language as nl
import numpy as np

@nki.jit
def doubled(x, factor=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), factor))
    return out

@nki.jit
def in_place(x):
    nl.store(x, nl.multiply(nl.load(x), 2.0))
    return x

X = np.linspace(-1, 1, 512, dtype=np.float32).reshape(4, 128)
"""


def checked(tmp_path, monkeypatch, entry, *options):
    monkeypatch.chdir(tmp_path)
    examples = f"\ndef nkisim_examples():\n    return [{entry}]\n"
    (tmp_path / "kernel.py").write_text(KERNEL + examples)
    given = ["check", "kernel.py", "--target", "trn2", "--format", "json", *options]
    done = CliRunner().invoke(commands, given, standalone_mode=False)
    assert done.exception is None, repr(done.exception)
    return done.return_value, json.loads(done.stdout)["findings"]


@pytest.mark.parametrize(
    "entry",
    [
        "(doubled, (X,), 2 * X)",
        "(doubled, (X,), lambda x: x + x)",
        "(doubled, {'x': X, 'factor': 3.0}, lambda x, factor: x * factor)",
        "(in_place, (X,), lambda x: 2 * x)",
        "(in_place, (X.copy(),), 2 * X)",
        "(doubled, (X,), (2 * X,))",
        "('doubled', (X,), 2 * X)",
    ],
)
def test_expected_results(tmp_path, monkeypatch, entry):
    assert checked(tmp_path, monkeypatch, entry) == (0, [])


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("(doubled, (X,), 2 * X + 1e-3)", "elements are wrong"),
        ("(doubled, (X,), lambda x: 2.001 * x)", "elements are wrong"),
        ("(doubled, (X,), 2 * X[:2])", "shape (4, 128)"),
        ("(doubled, (X,), (X, X))", "1 outputs, and the reference has 2"),
    ],
)
def test_other_results(tmp_path, monkeypatch, entry, text):
    status, (finding,) = checked(tmp_path, monkeypatch, entry)
    assert (status, finding["rule"]) == (1, "X004")
    assert text in finding["message"]
    assert finding["line"] > 1


def test_a_function_that_raises_is_a_broken_file(tmp_path, monkeypatch):
    _, (finding,) = checked(tmp_path, monkeypatch, "(doubled, (X,), lambda x: x.nothing)")
    assert finding["rule"] == "X002"
    assert "AttributeError" in finding["message"]


def test_shapes_replace_arrays_and_leave_functions(tmp_path, monkeypatch):
    given = ("--shapes", "x=f32[8,64]")
    assert checked(tmp_path, monkeypatch, "(doubled, (X,), X)", *given) == (0, [])
    assert checked(tmp_path, monkeypatch, "(doubled, (X,), lambda x: x)", *given)[0] == 1
