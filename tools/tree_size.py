#!/usr/bin/env python
"""Print code lines by folder and exported names by package, or compare them with the budget.

    python tools/tree_size.py [CHECKOUT ...]   # table, several checkouts side by side
    python tools/tree_size.py --budget         # fail above [tool.budget] of pyproject.toml

A code line is a line of a ``.py`` file that is not blank, not a comment and not part of a
docstring. Stubs, pages and data files are generated and not counted. The exported names are the
entries of ``__all__`` in the ``__init__.py`` of each package.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tarfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
_STRING = re.compile(
    r"""\#[^\n]*                               # a comment, which may have quotes
    | r?"{3}(?:[^"\\]|\\.|"(?!""))*"{3}     # a string of many lines
    | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'""",
    re.DOTALL | re.VERBOSE,
)
_CONTINUED = ("(", "[", "{", ",", "=", "+", "\\")
"""Ends of a line after which a string is part of an expression and no docstring."""
_DECIDE = """\
Delete or replace first: what does the change supersede, and which name, option or path would
nobody miss? The budget has a slack for small changes. A change that needs more raises both numbers
of pyproject.toml by what it adds itself, so that the slack stays. Its commit names
who would miss what it adds."""


@dataclass(frozen=True)
class Size:
    """Size of one checkout.

    Attributes:
        code: Code lines of ``src`` by package (``trnfft``) and by its folders (``trnfft/nki``).
        tests: Code lines of ``tests``, in the same form.
        exported: Exported names of each package.
    """

    code: Counter[str]
    tests: Counter[str]
    exported: dict[str, frozenset[str]]

    @property
    def totals(self) -> dict[str, int]:
        """The two figures that have a budget."""
        return {
            "code-lines": sum(count for row, count in self.code.items() if "/" not in row),
            "exported-names": sum(map(len, self.exported.values())),
        }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT], metavar="CHECKOUT")
    parser.add_argument("--budget", action="store_true", help="fail above the budget")
    options = parser.parse_args(arguments)
    if options.budget:
        return check_budget(options.checkouts[0])
    for line in table({path.resolve().name: size_of(path) for path in options.checkouts}):
        print(line)
    return 0


def check_budget(root: Path) -> int:
    """Return 1 and print what grew if a checkout is above its budget, else 0."""
    budget = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["budget"]
    size = size_of(root)
    above = {name: count for name, count in size.totals.items() if count > budget[name]}
    for name, count in size.totals.items():
        print(f"{name}: {count:,} of {budget[name]:,}")
    if not above:
        return 0
    print(f"\nAbove the budget of pyproject.toml: {', '.join(above)}.", file=sys.stderr)
    for line in _grown(root, size):
        print(line, file=sys.stderr)
    print(_DECIDE, file=sys.stderr)
    return 1


def size_of(checkout: Path) -> Size:
    """Return the size of a checkout, or of a folder that has only its ``src``."""
    source = checkout / "src"
    exported = {
        path.parent.name: frozenset(_exported(path)) for path in source.glob("*/__init__.py")
    }
    return Size(_by_folder(source), _by_folder(checkout / "tests"), exported)


def table(sizes: dict[str, Size]) -> Iterator[str]:
    """Yield the lines of a table with the sizes of checkouts, given by name."""
    yield from sizes
    each = list(sizes.values())
    change = len(each) == 2
    yield f"{'':<28}" + "    code   tests  names" * len(each) + "  change" * change
    rows = sorted(set().union(*(size.code for size in each), *(size.tests for size in each)))
    rows = [row for row in rows if any(size.code[row] for size in each) or "/" not in row]
    for row in [*rows, ""]:
        label = f"  {row.partition('/')[2]}/" if "/" in row else row or "total"
        cells = [_cells(size, row) for size in each]
        text = "".join(f"{code:>8,}{tests:>8,}{names or '':>7}" for code, tests, names in cells)
        yield f"{label:<28}{text}" + (f"{cells[1][0] - cells[0][0]:>+8,}" if change else "")


def code_lines(text: str) -> int:
    """Return the number of lines that are neither blank nor comments nor docstrings."""
    lines = map(str.strip, _STRING.sub(_without_docstring, text).splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))


def _without_docstring(match: re.Match[str]) -> str:
    """Return nothing in place of a string that is a statement, and anything else as it is."""
    if not match.group().startswith(('"""', 'r"""')):
        return match.group()
    start = match.string.rfind("\n", 0, match.start()) + 1
    alone = match.string[start : match.start()].isspace() or start == match.start()
    continued = match.string[:start].rstrip().endswith(_CONTINUED)
    return "" if alone and not continued else match.group()


def _by_folder(folder: Path) -> Counter[str]:
    """Return the code lines of packages and of their folders."""
    found: Counter[str] = Counter()
    for file in folder.rglob("*.py"):
        package, *rest = file.relative_to(folder).parts[:-1] or ("other",)
        lines = code_lines(file.read_text())
        found[package] += lines
        if rest:
            found[f"{package}/{rest[0]}"] += lines
    return found


def _cells(size: Size, row: str) -> tuple[int, int, int]:
    """Return code, tests and exported names of a row; the row "" is the total."""
    if not row:
        tests = sum(count for name, count in size.tests.items() if "/" not in name)
        return (size.totals["code-lines"], tests, size.totals["exported-names"])
    return (size.code[row], size.tests[row], len(size.exported.get(row, ())))


def _exported(file: Path) -> Iterator[str]:
    """Yield the names that a module's ``__all__`` lists."""
    for node in ast.parse(file.read_text()).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                yield from ast.literal_eval(value)


def _grown(root: Path, size: Size) -> Iterator[str]:
    """Yield what has grown since the commit that set the budget, the largest growth first."""
    pattern = "^(code-lines|exported-names) = "
    log = ["log", "-1", "--format=%h", "--extended-regexp", "-G", pattern, "--", "pyproject.toml"]
    commit = _git(root, *log).decode().strip()
    if not commit:
        yield "What grew is not known: this folder has no commit that sets the budget."
        return
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(_git(root, "archive", commit, "src"))) as archive:
            archive.extractall(folder, filter="data")
        old = size_of(Path(folder))
    yield f"Grown since commit {commit}, which set the budget:"
    parts = {*size.code, *old.code} - {row.partition("/")[0] for row in size.code if "/" in row}
    growth = Counter({row: size.code[row] - old.code[row] for row in parts})
    for row, lines in growth.most_common(10):
        if lines > 0:
            yield f"  {row:<28}{lines:>+7,} code lines"
    for package, names in sorted(size.exported.items()):
        for name in sorted(names - old.exported.get(package, frozenset())):
            yield f"  {package}.{name}"
    yield from _largest_commits(root, commit)


def _largest_commits(root: Path, since: str) -> Iterator[str]:
    """Yield the commits that added most lines to ``src``, comments included; at most three."""
    log = ["log", "--numstat", "--no-renames", "--format=* %h %s", f"{since}..HEAD"]
    added: Counter[str] = Counter()
    subject = ""
    for line in _git(root, *log, "--", "src/*.py").decode().splitlines():
        if line.startswith("* "):
            subject = line[2:]
        elif line:
            more, less, _ = line.split("\t")
            added[subject] += int(more) - int(less)
    for subject, lines in added.most_common(3):
        if lines > 0:
            yield f"  {lines:+,} lines by {subject}"


def _git(root: Path, *arguments: str) -> bytes:
    """Return what a git command prints; nothing where git or the repository is missing."""
    try:
        return subprocess.run(["git", "-C", root, *arguments], capture_output=True).stdout
    except FileNotFoundError:
        return b""


if __name__ == "__main__":
    sys.exit(main())
