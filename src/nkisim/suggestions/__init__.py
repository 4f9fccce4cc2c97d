"""Suggested fixes as code: a rewrite of the user's statement with the user's own names.

A suggestion is made from a finding, its source line and the tensors of the call. It is made only
where it certainly preserves the evident meaning of the statement.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from nkisim.diagnostics import Finding, Rewrite
from nkisim.diagnostics.syntax import SYNTAX_LOCK
from nkisim.suggestions.arguments import ARGUMENT_MENDS
from nkisim.suggestions.calls import CALL_MENDS
from nkisim.suggestions.memory import MEMORY_MENDS
from nkisim.suggestions.operands import OPERAND_MENDS
from nkisim.suggestions.python import PYTHON_MENDS
from nkisim.suggestions.source import SOURCE_MENDS
from nkisim.suggestions.staging import STAGING_MENDS
from nkisim.suggestions.statement import Case, case_of

__all__ = ["complete", "suggestion"]

_LOG = logging.getLogger(__name__)

_MENDS: dict[str, Callable[[Case], Rewrite | None]] = {
    **ARGUMENT_MENDS,
    **CALL_MENDS,
    **MEMORY_MENDS,
    **OPERAND_MENDS,
    **PYTHON_MENDS,
    **SOURCE_MENDS,
    **STAGING_MENDS,
}


def suggestion(finding: Finding) -> Rewrite | None:
    """Return a fix as code, or None if no fix is certain."""
    mend = _MENDS.get(finding.rule.id)
    case = None if mend is None else case_of(finding)
    if mend is None or case is None:
        return None
    try:
        with SYNTAX_LOCK:
            return mend(case)
    except Exception:
        # Code that no mend was written for; a finding without one is better than none. The
        # tests of this package fail where it is said.
        _LOG.debug("%s: no code to paste for %s", finding.rule.id, finding.place, exc_info=True)
        return None


def complete(finding: Finding) -> None:
    """Add to a finding the span of its operand and, where there is one, a fix as code."""
    if finding.span is None:
        case = case_of(finding)
        finding.span = None if case is None else case.operand_span()
    if finding.rewrite is None:
        finding.rewrite = suggestion(finding)
