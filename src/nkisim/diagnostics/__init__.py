"""Rules, findings, reports and locations in user code; imports nothing else of nkisim."""

from nkisim.diagnostics.findings import (
    RECORDER,
    Fact,
    Finding,
    NkiCallError,
    NkiFindingWarning,
    NkiValidationError,
    Recorder,
    Rewrite,
    Strictness,
    flag,
)
from nkisim.diagnostics.frames import (
    Place,
    assigned_name,
    decides,
    defined_at,
    hide_own_frames,
    is_own_file,
    loops_around,
    raised_at,
    user_line,
    user_place,
    user_stacklevel,
)
from nkisim.diagnostics.report import Report
from nkisim.diagnostics.rules import RULES, Rule, Severity, declare

__all__ = [
    "RECORDER",
    "RULES",
    "Fact",
    "Finding",
    "NkiCallError",
    "NkiFindingWarning",
    "NkiValidationError",
    "Place",
    "Recorder",
    "Report",
    "Rewrite",
    "Rule",
    "Severity",
    "Strictness",
    "assigned_name",
    "decides",
    "declare",
    "defined_at",
    "flag",
    "hide_own_frames",
    "is_own_file",
    "loops_around",
    "raised_at",
    "user_line",
    "user_place",
    "user_stacklevel",
]
