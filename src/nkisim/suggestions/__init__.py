"""Suggested fixes as code: a rewrite of the user's statement with the user's own names.

A suggestion is made from a finding, its source line and the tensors of the call. It is made only
where it certainly preserves the evident meaning of the statement.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache

from nkisim.diagnostics import Finding, Rewrite
from nkisim.diagnostics.syntax import SYNTAX_LOCK
from nkisim.source import expression, names_in
from nkisim.suggestions.statement import FIXES, Fix, NoFixError, case_of, compound_case_of

__all__ = ["complete", "explained", "settle", "suggestion"]

_WHOLE_STATEMENT = ("L029", "L026", "L027", "L028", "L021", "A025", "A026", "A037")
"""Rules whose fix replaces the statement by another one, the most specific first."""

_AROUND = ("L031", "L060")
"""Rules whose findings are at a condition or a definition, with a fix elsewhere."""


@cache
def _fixes() -> Mapping[str, Fix]:
    """Return the fix of each rule; the first finding imports the modules that declare them."""
    from nkisim.suggestions import calls, loops, products, python, shapes, staging, tiling

    return FIXES


def suggestion(finding: Finding) -> Rewrite | None:
    """Return a fix as code, or None if no fix is certain."""
    fix = _fixes().get(finding.rule.id)
    case = None if fix is None else case_of(finding)
    if case is None and finding.rule.id in _AROUND:
        case = compound_case_of(finding)
    if fix is None or case is None:
        return None
    try:
        with SYNTAX_LOCK:
            return fix(case)
    except NoFixError:
        return None
    except Exception:
        # No fix was written for such code: report the finding without one. The
        # tests of this package fail where this is logged.
        import logging

        log = logging.getLogger(__name__)
        log.debug("%s: no code to paste for %s", finding.rule.id, finding.place, exc_info=True)
        return None


def complete(findings: Iterable[Finding]) -> None:
    """Add to findings the spans of their operands and, where there is one, a fix as code."""
    for finding in findings:
        if finding.span is None:
            case = case_of(finding)
            finding.span = None if case is None else case.operand_span()
        if finding.rewrite is None:
            finding.rewrite = suggestion(finding)


_EXPLAINED = {"L018": ("S012",), "L021": ("L026", "L027", "L028", "L029")}
"""Rules of the source, and the rules of runs that report the same cause at the same line."""


def explained(finding: Finding, ran: Iterable[Finding]) -> bool:
    """Return whether a run reports the cause of a source finding, so that it is shown once."""
    for other in ran:
        if other.rule is finding.rule and other.rule.id == "L070":
            return True  # a run reports L070 at the line of the loop, the source in its body
        if (other.file, other.line) != (finding.file, finding.line):
            continue
        if other.rule is finding.rule:
            return True
        if other.rule.id in _EXPLAINED.get(finding.rule.id, ()):
            return not _remains(finding, other.rewrite)
    return False


def settle(findings: Iterable[Finding]) -> None:
    """Leave one fix to every line: of fixes that replace the same statement, the first remains."""
    by_line: dict[tuple[str, int], list[Finding]] = {}
    for finding in findings:
        by_line.setdefault((finding.file, finding.line), []).append(finding)
    for found in by_line.values():
        if len(found) > 1:
            _settle(found)


def _settle(found: list[Finding]) -> None:
    forms = [f for f in found if f.rule.id in _WHOLE_STATEMENT]
    # Findings with code come first, then those of the most specific rule.
    forms.sort(key=lambda f: _WHOLE_STATEMENT.index(f.rule.id) if f.rewrite is None else -1)
    for finding in forms[1:]:
        if finding.rule.id != forms[0].rule.id and not _remains(finding, forms[0].rewrite):
            finding.fix, finding.rewrite = f"as for {forms[0].rule.id} on this line", None
    coded = [f for f in found if f.rewrite is not None]
    for finding in coded[1:]:
        if finding.rewrite != coded[0].rewrite:
            finding.rewrite = None


def _remains(finding: Finding, rewrite: Rewrite | None) -> bool:
    """Return whether the call of a finding is still there after the fix of another one."""
    if finding.rule.id != "L021":
        return False
    if rewrite is not None:
        return finding.data["call"] in rewrite.code
    call = expression(finding.data["call"])
    assert isinstance(call, ast.Call)
    return not names_in(*call.args, *call.keywords)  # on numbers alone
