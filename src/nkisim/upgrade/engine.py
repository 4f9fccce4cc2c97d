"""Applies the rules to one text until none of them changes it any more."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

import libcst as cst

from nkisim.rewriting import Edit, NotPythonError, disjoint, edited, loses_comment
from nkisim.upgrade import beta1, beta2
from nkisim.upgrade.rules import RULES, Era, Match, Rule
from nkisim.upgrade.source import Source

__all__ = ["ERAS", "TARGETS", "Change", "Outcome", "upgrade_text"]

assert beta1.__name__ and beta2.__name__  # importing them fills the table of rules

ERAS: tuple[Era, ...] = get_args(Era)
TARGETS = ("0.3.0",)

_MOST_ROUNDS = 40


@dataclass(frozen=True)
class Change:
    """A change that was made, or a finding that is left.

    Attributes:
        rule: The id of the rule.
        line: The line in the text as it came, counted from 1.
        new_line: The line in the resulting text; 0 for a change.
        message: What was done, or what is to be done.
        review: What to check after the change, if anything.
    """

    rule: str
    line: int
    message: str
    review: str = ""
    new_line: int = 0


@dataclass
class Outcome:
    """The result for one text.

    Attributes:
        before: The text as it came.
        after: The text after all changes; the same object as ``before`` where nothing changed.
        changes: The changes, in the order in which they were made.
        findings: What is left to do by hand.
        problem: Why the text was not processed; empty if it was.
    """

    before: str
    after: str
    changes: list[Change] = field(default_factory=list)
    findings: list[Change] = field(default_factory=list)
    problem: str = ""


def upgrade_text(
    text: str, since: Era | Literal["auto"] = "auto", *, notes: bool = False
) -> Outcome:
    """Bring the text of a module to NKI 0.3.0.

    Args:
        text: The module's source.
        since: The release that it was written for. ``"auto"`` takes files that import
            ``neuronxcc.nki`` for Beta 1; in all others it applies only the rules whose old form
            0.3.0 does not have.
        notes: Whether the findings are also written into the text, as comments.
    """
    if since not in (*ERAS, "auto"):
        raise ValueError(f"since is {since!r}; accepted are 'auto', 'beta1', 'beta2' and '0.3'")
    if "nki" not in text:
        return Outcome(text, text)
    try:
        ast.parse(text)
        source = Source(text)
    except (SyntaxError, ValueError, cst.ParserSyntaxError, RecursionError) as error:
        return Outcome(text, text, problem=_not_python(error))
    rules = _rules_for(source, since)
    lines = list(range(1, text.count("\n") + 2))
    changes: list[Change] = []
    seen = {text}
    for _ in range(_MOST_ROUNDS):
        edits, made = _round(source, rules, lines)
        if not edits:
            break
        try:
            new, lines = edited(source.text, edits, lines)
            source = Source(new)
        except (NotPythonError, cst.ParserSyntaxError) as error:
            ids = ", ".join(sorted({change.rule for change in made}))
            return Outcome(
                text, text, problem=f"the rewrite ({ids}) would not be valid Python: {error}"
            )
        changes += made
        if new in seen:
            return Outcome(text, text, problem="the rules undo each other in this file")
        seen.add(new)
    else:
        return Outcome(text, text, problem=f"not finished after {_MOST_ROUNDS} rounds of rewrites")
    findings = [
        Change(rule.id, lines[source.line(m.node) - 1], m.message, "", source.line(m.node))
        for rule in rules
        for m in rule.find(source)
        if not m.edits or loses_comment(source.data, m.edits)
    ]
    findings.sort(key=lambda finding: (finding.new_line, finding.rule))
    result = _with_notes(source, findings) if notes else source.text
    return Outcome(text, text if result == text else result, changes, findings)


def _not_python(error: Exception) -> str:
    line = getattr(error, "lineno", None) or getattr(error, "raw_line", None)
    place = f"line {line}: " if line else ""
    return f"{place}not valid Python: {getattr(error, 'msg', None) or error}"


def _rules_for(source: Source, since: Era | Literal["auto"]) -> list[Rule]:
    """Return the rules for a file, the ones for the oldest release first."""
    era: Era | None = None if since == "auto" else since
    if since == "auto" and imports_old_namespace(source):
        era = "beta1"
    order = ERAS.index
    return [
        rule
        for rule in sorted(RULES.values(), key=lambda r: r.id)
        if (era is None and rule.certain) or (era is not None and order(rule.since) >= order(era))
    ]


def imports_old_namespace(source: Source) -> bool:
    """Return whether a module imports from ``neuronxcc``, the package of Beta 1."""
    for statement in (*source.all(cst.Import), *source.all(cst.ImportFrom)):
        if "neuronxcc" in source.code(statement):
            return True
    return False


def _round(source: Source, rules: list[Rule], lines: list[int]) -> tuple[list[Edit], list[Change]]:
    """Return the edits that the rules make at once, without two of them in one place."""
    taken: list[Edit] = []
    made: list[Change] = []
    for rule, match in _matches(source, rules):
        fresh = [edit for edit in match.edits if edit not in taken or edit.start != edit.stop]
        if not fresh or not disjoint(fresh, taken):
            continue
        taken += fresh
        made.append(
            Change(rule.id, lines[source.line(match.node) - 1], match.message, match.review)
        )
    return taken, made


def _matches(source: Source, rules: list[Rule]) -> Iterator[tuple[Rule, Match]]:
    for rule in rules:
        for match in rule.find(source):
            if match.edits and not loses_comment(source.data, match.edits):
                yield rule, match


def _with_notes(source: Source, findings: list[Change]) -> str:
    """Return the text with a comment above each statement with a finding.

    A comment goes only in front of a line that starts a statement: inside a string or behind a
    backslash it would not be one. A note that is already there is not repeated.
    """
    rows = source.text.splitlines(keepends=True)
    starts: dict[int, int] = {}
    row = depth = 0
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if depth == 0 and token.type not in _LAYOUT:
            row, depth = token.start[0], 1
        if token.type == tokenize.NEWLINE:
            for number in range(row, token.end[0] + 1):
                starts[number] = row
            depth = 0
    notes: dict[int, list[str]] = {}
    for finding in findings:
        first = starts.get(finding.new_line, finding.new_line)
        indent = rows[first - 1][: len(rows[first - 1]) - len(rows[first - 1].lstrip())]
        note = f"{indent}# nkisim: {finding.rule} {finding.message}"
        above = {r.strip() for r in rows[max(0, first - 1 - len(findings)) : first - 1]}
        if note.strip() not in above and note not in notes.get(first, []):
            notes.setdefault(first, []).append(note)
    out: list[str] = []
    for number, text in enumerate(rows, 1):
        out += [note + source.newline for note in notes.get(number, [])]
        out.append(text)
    return "".join(out)


_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
