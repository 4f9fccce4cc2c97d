"""The budget of code lines and exported names: what counts, and what an excess prints."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from scripts import loaded

tree_size = loaded(Path(__file__).parents[2] / "tools" / "tree_size.py")

BUDGET = "[tool.budget]\ncode-lines = {}\nexported-names = {}\n"
MODULE = '''\
"""A module.

Its second line.
"""

# A comment.
SIZE = 3  # """ in a comment
"""A sentence on the line above."""
TEXT = """
many lines

# of a string
"""
"""A sentence on the string."""
HASH, QUOTES = "#", '"""'


def area(
    width,
):
    r"""Return a product, \\alpha."""
    return (
        """an expression"""
        + str(width)
    )
'''


def in_code(text):
    """The definition: lines of the syntax tree outside of strings that are statements."""
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    lines = enumerate(map(str.strip, text.splitlines()), start=1)
    return sum(bool(line) and line[0] != "#" and at not in docstrings for at, line in lines)


def test_docstrings_comments_and_blank_lines_are_no_code():
    assert tree_size.code_lines(MODULE) == in_code(MODULE) == 12


def test_the_count_is_that_of_the_syntax_tree():
    for file in sorted(Path(tree_size.__file__).parent.glob("*.py")):
        assert tree_size.code_lines(file.read_text()) == in_code(file.read_text()), file.name


@pytest.fixture
def checkout(tmp_path):
    """A repository of one package at its budget of code lines and of exported names."""

    def git(*arguments):
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", tmp_path, *who, *arguments], check=True, capture_output=True)

    package = tmp_path / "src" / "ours"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text('__all__ = ["area"]\n')
    (package / "inner" / "area.py").write_text("area = 1\n")
    (tmp_path / "pyproject.toml").write_text(BUDGET.format(2, 1))
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "a budget")
    for name, lines in (("length", 1), ("unit", 3)):
        (package / "inner" / f"{name}.py").write_text("# A comment.\n" * lines)
        git("add", ".")
        git("commit", "--quiet", "--message", f"ours: {name}")
    return tmp_path


def test_a_tree_at_its_budget_passes(checkout, capsys):
    assert tree_size.main(["--budget", str(checkout)]) == 0
    assert capsys.readouterr().out == "code-lines: 2 of 2\nexported-names: 1 of 1\n"


def test_an_excess_names_what_grew_since_the_budget_was_set(checkout, capsys):
    package = checkout / "src" / "ours"
    (package / "__init__.py").write_text('__all__ = ["area", "volume"]\n')
    (package / "inner" / "volume.py").write_text('"""Volumes."""\n\nvolume = 1\nunit = 2\n')
    assert tree_size.main(["--budget", str(checkout)]) == 1
    printed = capsys.readouterr().err
    assert "Above the budget of pyproject.toml: code-lines, exported-names." in printed
    assert "  ours/inner                       +2 code lines\n  ours.volume\n" in printed
    assert "who would miss" in printed
    commits = [line.split() for line in printed.splitlines() if " lines by " in line]
    assert [(words[0], words[-1]) for words in commits] == [("+3", "unit"), ("+1", "length")]
    (checkout / "pyproject.toml").write_text(BUDGET.format(4, 2))
    assert tree_size.main(["--budget", str(checkout)]) == 0


def test_two_checkouts_side_by_side_show_the_change(checkout, tmp_path_factory, capsys):
    other = tmp_path_factory.mktemp("other")
    (other / "src" / "ours" / "inner").mkdir(parents=True)
    (other / "src" / "ours" / "__init__.py").write_text("__all__ = []\n")
    (other / "src" / "ours" / "inner" / "area.py").write_text("area = 1\nunit = 2\nzero = 0\n")
    tree_size.main([str(checkout), str(other)])
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()[3:]}
    assert rows["inner/"] == ["1", "0", "3", "0", "+2"]
    assert rows["total"] == ["2", "0", "1", "4", "0", "+2"]
