"""Fixes of files: the rewrites of findings, applied and checked again until none is left."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nkisim.diagnostics import Finding, Rewrite
from nkisim.diagnostics.ledger import Ledger
from nkisim.diagnostics.syntax import parsed, tree_of
from nkisim.filecheck.files import check_files
from nkisim.filecheck.settings import CheckSettings
from nkisim.rewriting import (
    Edit,
    NotPastedError,
    NotPythonError,
    SourceError,
    SourceText,
    disjoint,
    edited,
    edits_of,
    read_source,
    write_source,
)

__all__ = ["FixedFile", "fix_files"]

MOST_ROUNDS = 20
"""Rounds of checks and fixes after which a file that still changes is restored."""


@dataclass
class FixedFile:
    """A file with its fixes.

    Attributes:
        path: The file.
        before: Its contents before all fixes.
        now: Its contents after them; the same where there are none.
        fixed: The findings whose fixes were applied, with their lines in ``before``.
        problem: Reason why it was not fixed; empty if it was, or if there was nothing to fix.
    """

    path: Path
    before: SourceText
    now: SourceText
    fixed: list[Finding] = field(default_factory=list)
    problem: str = ""
    _lines: list[int] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _written: int = 0

    @classmethod
    def read(cls, path: Path) -> FixedFile | None:
        """Return a file as it is, None if it cannot be read."""
        try:
            source = read_source(path)
        except SourceError:
            return None  # which is a finding of its own
        lines = list(range(1, source.text.count("\n") + 2))
        return cls(path, source, source, _lines=lines, _seen={source.text})

    @property
    def changed(self) -> bool:
        """Whether the contents differ from those before."""
        return self.now.text != self.before.text

    def apply(self, findings: Iterable[Finding]) -> bool:
        """Apply the fixes that findings of the file carry; return whether there were any."""
        chosen = _Chosen(self.now.text)
        for finding in findings:
            if finding.rewrite is not None and not self.problem:
                chosen.add(finding, finding.rewrite)
        if not chosen.edits:
            return False
        try:
            text, lines = edited(self.now.text, chosen.edits, self._lines)
        except NotPythonError as error:
            self.problem = f"not fixed, the result would not be valid Python: {error}"
            return False
        if text in self._seen:
            self.restore("the fixes undo each other")
            return True
        self.fixed += [
            replace(f, place=replace(f.place, line=self._line_before(f.line)))
            for f in chosen.findings
        ]
        self.now, self._lines = replace(self.now, text=text), lines
        self._seen.add(text)
        return True

    def _line_before(self, line: int) -> int:
        # A file whose lines end in carriage returns alone counts as one line.
        return self._lines[line - 1] if line <= len(self._lines) else line

    def restore(self, reason: str) -> None:
        """Give up all fixes of the file."""
        self.now, self.fixed, self.problem = self.before, [], f"not fixed: {reason}"

    def write(self, known: SourceText) -> None:
        """Write the contents, if the file still has those that were checked."""
        try:
            if read_source(self.path) != known:
                raise SourceError("not fixed: it changed while it was checked")
            write_source(self.path, self.now)
            self._written = len(self.fixed)
        except SourceError as error:
            self.now, self.problem = known, str(error)
            del self.fixed[self._written :]


class _Chosen:
    """Fixes of one text that can be applied together: in different statements, with own names."""

    def __init__(self, text: str) -> None:
        self.edits: list[Edit] = []
        self.findings: list[Finding] = []
        self._text = text
        self._rewrites: list[Rewrite] = []
        self._names = _stored(tree_of(text))
        self._new: set[str] = set()

    def add(self, finding: Finding, rewrite: Rewrite) -> None:
        """Add the fix of a finding, unless it must wait for the next round."""
        if rewrite in self._rewrites:
            self.findings.append(finding)
            return
        if any(r.first <= rewrite.last and rewrite.first <= r.last for r in self._rewrites):
            return
        try:
            edits = edits_of(self._text, rewrite)
        except NotPastedError as error:
            finding.notes += (f"--fix left this line as it is: {error}",)
            return
        new = _bound(rewrite.code) - self._names
        if not edits or new & self._new or not disjoint(edits, self.edits):
            return
        self.edits += edits
        self.findings.append(finding)
        self._rewrites.append(rewrite)
        self._new |= new


def _bound(code: str) -> set[str]:
    """Return the names that code, or the head of a loop, binds."""
    code = textwrap.dedent(code)
    return _stored(parsed(code) or parsed(f"{code}\n    pass"))


def _stored(tree: ast.Module | None) -> set[str]:
    nodes = () if tree is None else ast.walk(tree)
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def fix_files(
    wanted: Sequence[tuple[Path, str | None]], settings: CheckSettings, *, write: bool
) -> tuple[Ledger, list[FixedFile]]:
    """Check files and fix what their findings have code for; return what remains, and the files.

    With ``write`` the files are written and checked again until no fix is left. Without it they
    stay as they are, and only the fixes of the present findings are applied to their texts. Only
    the files of ``wanted`` are changed, not the ones that they import.

    Raises:
        ValueError: As ``check_files``.
    """
    paths = dict.fromkeys(path.resolve() for path, _ in wanted)
    files = [file for path in paths if (file := FixedFile.read(path)) is not None]
    ledger = check_files(wanted, settings)
    for number in range(MOST_ROUNDS + 1):
        known = [file.now for file in files]
        changing = [file for file in files if file.apply(_findings(ledger, file))]
        if not changing or not write:
            break
        if number == MOST_ROUNDS:
            for file in changing:
                file.restore(f"not finished after {MOST_ROUNDS} rounds")
        for file, source in zip(files, known, strict=True):
            if file.now != source:
                file.write(source)
        ledger = check_files(wanted, settings)
    if write:
        ledger.fixed = [finding for file in files for finding in file.fixed]
    return ledger, files


def _findings(ledger: Ledger, file: FixedFile) -> list[Finding]:
    """Return the findings whose rewrites are in a file."""
    return [
        f for f in ledger.findings if f.rewrite is not None and Path(f.rewrite.file) == file.path
    ]
