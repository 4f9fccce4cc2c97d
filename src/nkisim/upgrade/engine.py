"""Applies the rules to one text until none of them changes it any more."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass, field, replace

from nkisim.rewriting import Edit, applied, disjoint, loses_comment
from nkisim.source import SHORT_NAMES
from nkisim.upgrade import beta1, beta2, later
from nkisim.upgrade.releases import ERAS, TARGETS, Since, release_of, rules_between, version_of
from nkisim.upgrade.rules import Era, Match, Rule
from nkisim.upgrade.source import PLACEHOLDER, Source

assert beta1.__name__ and beta2.__name__ and later.__name__  # importing them fills the table

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
        options: What new features would make simpler.
        problem: Why the text was not processed; empty if it was.
        since: The release that the text was taken to be written for.
        accepted: The number of older forms that stay because the target version takes them, and
            the text may be written for it.
    """

    before: str
    after: str
    changes: list[Change] = field(default_factory=list)
    findings: list[Change] = field(default_factory=list)
    options: list[Change] = field(default_factory=list)
    problem: str = ""
    since: Era = "0.3"
    accepted: int = 0


def upgrade_text(
    text: str, since: Since = "auto", target: str = "0.3.0", *, notes: bool = False
) -> Outcome:
    """Bring the text of a module to a newer NKI version.

    Args:
        text: The module's source.
        since: The release that it was written for. ``"auto"``: Beta 1 for files that import
            ``neuronxcc.nki``, Beta 2 for files with arguments that only Beta 2 has. In other files
            only what the target version refuses is changed.
        target: The version to bring it to, one of ``TARGETS``.
        notes: Whether the findings are also written into the text, as comments.

    Raises:
        ValueError: A release is not known, or ``since`` is newer than ``target``.
    """
    if since not in (*ERAS, "auto"):
        raise ValueError(f"since is {since!r}; accepted are {', '.join((*ERAS, 'auto'))}")
    if target not in TARGETS:
        raise ValueError(f"target is {target!r}; accepted are {', '.join(TARGETS)}")
    if since != "auto" and ERAS.index(since) > ERAS.index(_era(target)):
        raise ValueError(f"since is {since!r}, which is newer than the target {target}")
    if "nki" not in text.lower():
        return Outcome(text, text)
    try:
        source = Source(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Outcome(text, text, problem=_not_python(error))
    try:
        era, known = release_of(source, since, target)
        rules = rules_between(era, target, since == "auto")
        matches, accepted = _matches(source, rules, target, era if known else None)
    except RecursionError as error:
        return Outcome(text, text, problem=_not_python(error))
    lines = list(range(1, text.count("\n") + 2))
    changes: list[Change] = []
    seen = {text}
    for _ in range(_MOST_ROUNDS):
        edits, made = _round(source, _first_step(matches), lines)
        if not edits:
            break
        try:
            new, lines = applied(source.text, edits, lines)
            source = Source(new)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            ids = ", ".join(sorted({change.rule for change in made}))
            return Outcome(
                text, text, problem=f"the rewrite ({ids}) would not be valid Python: {error}"
            )
        changes += made
        if new in seen:
            return Outcome(text, text, problem="the rules undo each other in this file")
        seen.add(new)
        matches, accepted = _matches(source, rules, target, era if known else None)
    else:
        return Outcome(text, text, problem=f"not finished after {_MOST_ROUNDS} rounds of rewrites")
    findings, options = (_left(source, matches, lines, kind) for kind in (False, True))
    result = _with_notes(source, findings) if notes else source.text
    after = text if result == text else result
    return Outcome(text, after, changes, findings, options, since=era, accepted=accepted)


def _left(
    source: Source, matches: list[tuple[Rule, Match]], lines: list[int], optional: bool
) -> list[Change]:
    """Return what is left to do, or what is optional, in the order of the text."""
    found = [
        Change(rule.id, lines[source.line(m.node) - 1], m.message, "", source.line(m.node))
        for rule, m in matches
        if not m.edits and (rule.kind == "optional") is optional
    ]
    return sorted(found, key=lambda one: (one.new_line, one.rule))


def _not_python(error: Exception) -> str:
    if isinstance(error, RecursionError | MemoryError):
        return "too deeply nested"
    line = getattr(error, "lineno", None)
    place = f"line {line}: " if line else ""
    return f"{place}not valid Python: {getattr(error, 'msg', None) or error}"


def _era(target: str) -> Era:
    """Return the release of a version."""
    return next(era for era in ERAS if version_of(era) == target)


def _matches(
    source: Source, rules: list[Rule], target: str, known: Era | None
) -> tuple[list[tuple[Rule, Match]], int]:
    """Return what the rules find, and the number of places that stay because the target takes them.

    An edit that cannot be made becomes a finding.
    """
    found = [(rule, match) for rule in rules for match in rule.find(source)]
    wanted = [(rule, match) for rule, match in found if rule.applies(match, target, known)]
    possible = [(rule, _possible(source, _imported(source, match))) for rule, match in wanted]
    return possible, len(found) - len(wanted)


def _imported(source: Source, match: Match) -> Match:
    """Return a match with the names of the modules of NKI in its texts, and with their imports.

    It has no edits if the usual name of a module that is not imported means something else.
    """
    texts = "".join((match.message, *(edit.text for edit in match.edits)))
    modules = sorted(set(PLACEHOLDER.findall(texts)), reverse=True)
    if not modules:
        return match
    known = {module: source.import_of(module) for module in modules}
    names = {m: SHORT_NAMES[m] if found is None else found[0] for m, found in known.items()}

    def named(text: str) -> str:
        return PLACEHOLDER.sub(lambda one: names[one[1]], text)

    message = named(match.message)
    missing = [module for module, found in known.items() if found is None]
    if missing and match.edits:
        first = f"import {missing[0]} under a name that is free, then upgrade again"
        return replace(match, edits=(), message=f"{first}: {message}", review="")
    imports = [edit for found in known.values() if found is not None for edit in found[1]]
    edits = [edit._replace(text=named(edit.text)) for edit in match.edits]
    return replace(match, edits=(*imports, *edits) if edits else (), message=message)


def _possible(source: Source, match: Match) -> Match:
    """Return a match without its edits if they would lose a comment or cut a format string."""
    if loses_comment(source.data, match.edits):
        return replace(match, edits=())
    if any(map(source.cuts_format_string, match.edits)):
        message = f"in a format string, which needs Python 3.12 to be changed: {match.message}"
        return replace(match, edits=(), message=message, review="")
    return match


def _first_step(matches: list[tuple[Rule, Match]]) -> list[tuple[Rule, Match]]:
    """Return the matches of the first step with edits: later rules read what earlier ones write."""
    steps = {TARGETS.index(rule.to) for rule, match in matches if match.edits}
    return [one for one in matches if TARGETS.index(one[0].to) == min(steps, default=0)]


def _round(
    source: Source, matches: list[tuple[Rule, Match]], lines: list[int]
) -> tuple[list[Edit], list[Change]]:
    """Return the edits that are made at once, without two of them in one place."""
    taken: list[Edit] = []
    made: list[Change] = []
    for rule, match in matches:
        fresh = [edit for edit in match.edits if edit not in taken or edit.start != edit.stop]
        if not fresh or not disjoint(fresh, taken):
            continue
        taken += fresh
        made.append(
            Change(rule.id, lines[source.line(match.node) - 1], match.message, match.review)
        )
    return taken, made


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
