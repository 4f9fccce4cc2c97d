"""What a command does once: it parses a text, for all of its parts."""

import ast
from collections import Counter

import pytest
from click.testing import CliRunner

from nkisim.cli import commands
from nkisim.diagnostics.syntax import module_of
from nkisim.upgrade import upgrade_text

from .checker_cases import COMPREHENSION, HEAD, UNWRITTEN, WARNED, write

BETA1 = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, value=tile * 2.0 + 1.0)
    return out
"""


@pytest.fixture
def parses(monkeypatch):
    """Counts the calls of ``ast.parse`` by text."""
    module_of.cache_clear()
    counts, parse = Counter(), ast.parse

    def counted(source, *arguments, **named):
        counts[source.decode() if isinstance(source, bytes) else source] += 1
        return parse(source, *arguments, **named)

    monkeypatch.setattr(ast, "parse", counted)
    return counts


@pytest.mark.parametrize("options", [(), ("--diff",), ("--fix",)])
def test_check_with_suggestions_and_fixes(parses, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, WARNED, COMPREHENSION, UNWRITTEN)
    before = file.read_text()
    done = CliRunner().invoke(
        commands,
        ["check", str(file), "--shapes", "x=f32[4,8]", *options],
        standalone_mode=False,
    )
    assert done.exception is None
    assert "A013" in done.output
    assert "M001" in done.output
    assert (file.read_text() != before) == ("--fix" in options)
    of_file = {text: n for text, n in parses.items() if text.startswith(HEAD)}
    assert of_file.pop(before) == 1
    assert parses[file.read_text()] == 1
    assert set(of_file.values()) <= {1}  # what fixes try, too


def test_upgrade(parses):
    outcome = upgrade_text(BETA1, target="0.6.0")
    assert outcome.changes
    texts = {text: n for text, n in parses.items() if "def kernel" in text}
    assert texts[BETA1] == texts[outcome.after] == 1
    assert set(texts.values()) == {1}


def test_upgrade_after_check_uses_its_tree(parses, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, WARNED)
    CliRunner().invoke(commands, ["check", str(file)], standalone_mode=False)
    CliRunner().invoke(commands, ["upgrade", "--check", str(file)], standalone_mode=False)
    assert parses[file.read_text()] == 1
