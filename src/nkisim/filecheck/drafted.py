"""Texts of files with fixes applied, and what a check of them finds."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from nkisim.diagnostics import Finding, Rewrite
from nkisim.diagnostics.ledger import KernelRecord, Ledger
from nkisim.diagnostics.syntax import parsed, tree_of
from nkisim.rewriting import (
    Edit,
    NotPastedError,
    SourceError,
    SourceText,
    disjoint,
    edited,
    edits_of,
    read_source,
)

Key = tuple[str, str, int, str]
"""Rule, file, line before all fixes, and generation of a finding."""


@dataclass(frozen=True)
class Draft:
    """A text of a file, and the line before all fixes of each of its lines."""

    source: SourceText
    lines: Sequence[int]

    @classmethod
    def read(cls, path: Path) -> Draft | None:
        """Return a file as it is, None if it cannot be read, which is a finding of its own."""
        try:
            source = read_source(path)
        except SourceError:
            return None
        return cls(source, range(1, source.text.count("\n") + 2))

    def line_before(self, line: int) -> int:
        """Return the line before all fixes."""
        # A file whose lines end in carriage returns alone counts as one line.
        return self.lines[line - 1] if 0 < line <= len(self.lines) else line

    def edited(self, edits: Sequence[Edit]) -> Draft:
        """Return the text after edits.

        Raises:
            NotPythonError: It would not be valid Python.
        """
        text, lines = edited(self.source.text, edits, self.lines)
        return Draft(self.source._replace(text=text), lines)

    def made_of(self, first: int, last: int) -> str:
        """Return the code that lines ``first`` to ``last`` have become."""
        rows = self.source.text.splitlines()
        return "\n".join(r for r, at in zip(rows, self.lines, strict=False) if first <= at <= last)


@dataclass(frozen=True)
class Fix:
    """A rewrite of a file, as edits of its text, with the findings that have it.

    Attributes:
        first, last: The replaced lines, counted before all fixes.
    """

    path: Path
    rewrite: Rewrite
    edits: list[Edit]
    findings: list[Finding]
    first: int
    last: int

    @property
    def changes_results(self) -> bool:
        """Whether the kernel with the fault has wrong results."""
        return any(bool(finding.rule.silent) for finding in self.findings)

    @property
    def identity(self) -> tuple[str, ...]:
        """What the fix is known by after lines have moved."""
        return (str(self.path), self.rewrite.code, *(f.rule.id for f in self.findings))


@dataclass(frozen=True)
class State:
    """Texts of files, and what a check of them found.

    Attributes:
        files: The texts.
        ledger: The result of the check.
        ran: Names of the kernels that could run; None for all.
    """

    files: Mapping[Path, Draft]
    ledger: Ledger
    ran: Collection[str] | None = None

    @cached_property
    def findings(self) -> list[Finding]:
        """The findings, without those in the source of kernels that could not run."""
        if self.ran is None:
            return self.ledger.findings
        records = [(f, self.kernel_at(f.file, f.line)) for f in self.ledger.findings]
        return [f for f, record in records if record is None or record.name in self.ran]

    def key(self, finding: Finding, target: str) -> Key:
        """Return the key of a finding on a generation."""
        return finding.rule.id, finding.file, self.line_before(finding.file, finding.line), target

    def line_before(self, file: str, line: int) -> int:
        """Return the line before all fixes of a line."""
        draft = self.files.get(Path(file))
        return line if draft is None else draft.line_before(line)

    def keys(self, finding: Finding) -> list[Key]:
        """Return the keys of a finding on all its generations."""
        return [self.key(finding, target) for target in finding.targets or ("",)]

    def with_line_before(self, finding: Finding) -> Finding:
        """Return a finding with its line before all fixes."""
        line = self.key(finding, "")[2]
        return replace(finding, place=finding.place._replace(line=line))

    @cached_property
    def found(self) -> Counter[Key]:
        """The number of findings of each key."""
        return Counter(key for finding in self.findings for key in self.keys(finding))

    @cached_property
    def errors(self) -> Counter[Key]:
        """The number of errors of each key, and of exceptions that stopped a kernel."""
        found = [f for f in self.findings if f.severity == "error"]
        rules = {f.rule.id for f in found}
        keys = [key for finding in found for key in self.keys(finding)]
        for (file, _), record in self.ledger.kernels.items():
            for target, reason in record.stopped.items():
                if reason.partition(" ")[0] not in rules:
                    raised = re.search(rf" at {re.escape(file)}:(\d+)$", reason)
                    line = int(raised[1]) if raised else record.place.line
                    name = reason.partition(":")[0]
                    keys.append((name, file, self.line_before(file, line), target))
        return Counter(keys)

    # -- kernels -----------------------------------------------------------------------------------

    def kernel_at(self, file: str, line: int) -> KernelRecord | None:
        """Return the kernel that a line belongs to; None for a line outside of all."""
        for rows, record in self._rows.get(file, ()):
            if line in rows:
                return record
        return None

    @cached_property
    def _rows(self) -> Mapping[str, list[tuple[range, KernelRecord]]]:
        """The lines of each kernel of each file."""
        found: dict[str, list[tuple[range, KernelRecord]]] = {}
        for path, draft in self.files.items():
            tree, file = tree_of(draft.source.text), str(path)
            records = {r.place.line: r for (f, _), r in self.ledger.kernels.items() if f == file}
            for node in () if tree is None else ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                    at = [n for n in range(first, node.lineno + 1) if n in records]
                    rows = range(first, (node.end_lineno or first) + 1)
                    found.setdefault(file, []).extend((rows, records[n]) for n in at)
        return found

    def untried(self, finding: Finding) -> str:
        """Return why the code of a finding cannot be tried; empty if it can."""
        if finding.targets:
            return ""  # a run came to its line
        own = self.kernel_at(finding.file, finding.line)
        near = [own] if own is not None else list(self.ledger.kernels.values())
        ran = [record for record in near if record.runs]
        if not ran:
            return "no arguments"
        if not all(self._stops_before(record, finding) for record in ran):
            return ""
        return f"{' and '.join(record.name for record in ran)} stopped before it"

    def _stops_before(self, record: KernelRecord, finding: Finding) -> bool:
        """Return whether a kernel stopped before a line everywhere, where no fix is known."""
        if set(record.stopped) != set(record.targets):
            return False
        rules = {reason.partition(" ")[0] for reason in record.stopped.values()}
        stops = [f for f in self.findings if f.rule.id in rules]
        return not any(
            f.rewrite is not None or (f.file == finding.file and f.line >= finding.line)
            for f in stops
        )

    # -- fixes -------------------------------------------------------------------------------------

    @cached_property
    def fixes(self) -> list[Fix]:
        """The fixes that can be applied together, those of each file in turn."""
        found: list[Fix] = []
        for path, draft in self.files.items():
            here = [
                finding
                for finding in self.findings
                if finding.rewrite is not None
                and Path(finding.rewrite.file) == path
                and not self.untried(finding)
            ]
            found += _together(path, draft, here)
        return found


def _together(path: Path, draft: Draft, findings: Iterable[Finding]) -> list[Fix]:
    """Return the fixes of one text that are in different statements, with names of their own."""
    text = draft.source.text
    tree = tree_of(text)
    chosen: list[Fix] = []
    names = _stored(tree)
    taken: dict[int, set[str]] = {}
    for finding in findings:
        rewrite = finding.rewrite
        assert rewrite is not None
        same = [fix for fix in chosen if fix.findings[0].rewrite == rewrite]
        if same:
            same[0].findings.append(finding)
            continue
        others = [fix.rewrite for fix in chosen]
        if any(r.first <= rewrite.last and rewrite.first <= r.last for r in others):
            continue
        mine = taken.setdefault(_top(tree, rewrite.first), set())
        rewrite, new = _renamed(rewrite, names, mine)
        try:
            edits = edits_of(text, rewrite)
        except NotPastedError as error:
            reject([finding], str(error))
            continue
        if not edits or not disjoint(edits, [e for f in chosen for e in f.edits]):
            continue
        rows = [draft.line_before(line) for line in (rewrite.first, rewrite.last)]
        chosen.append(Fix(path, rewrite, edits, [finding], *rows))
        mine |= new
    return chosen


def _top(tree: ast.Module | None, line: int) -> int:
    """Return the number of the statement of a module that a line belongs to."""
    body = [] if tree is None else tree.body
    return sum(statement.lineno <= line for statement in body)


def _renamed(rewrite: Rewrite, known: set[str], taken: set[str]) -> tuple[Rewrite, set[str]]:
    """Return a rewrite with other names in place of taken ones, and the names that it binds."""
    new, code = _bound(rewrite.code) - known, rewrite.code
    for name in new & taken:
        number = next(n for n in range(2, 2 + len(taken)) if f"{name}{n}" not in known | taken)
        code = re.sub(rf"\b{name}\b", f"{name}{number}", code)
        new = (new - {name}) | {f"{name}{number}"}
    return rewrite._replace(code=code), new


def _bound(code: str) -> set[str]:
    """Return the names that code, or the head of a loop, binds."""
    code = textwrap.dedent(code)
    return _stored(parsed(code) or parsed(f"{code}\n    pass"))


def _stored(tree: ast.Module | None) -> set[str]:
    nodes = () if tree is None else ast.walk(tree)
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def reject(findings: Iterable[Finding], reason: str) -> None:
    """Take the code from findings whose fix does not hold, and note why."""
    for finding in findings:
        finding.rewrite = None
        finding.notes += (f"no code: {reason}",)
