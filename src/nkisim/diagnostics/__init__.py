"""Rules, findings, reports and the user's place in them; imports nothing else of nkisim."""

from nkisim.diagnostics.findings import (
    RECORDER,
    Finding,
    NkiCallError,
    NkiFindingWarning,
    NkiValidationError,
    Recorder,
    Report,
    Strictness,
    flag,
)
from nkisim.diagnostics.frames import (
    Place,
    caught_by_own,
    loops_around,
    user_line,
    user_place,
    user_stacklevel,
    users_traceback,
)
from nkisim.diagnostics.rules import RULES, Rule, Severity, declare

__all__ = [
    "RECORDER",
    "RULES",
    "Finding",
    "NkiCallError",
    "NkiFindingWarning",
    "NkiValidationError",
    "Place",
    "Recorder",
    "Report",
    "Rule",
    "Severity",
    "Strictness",
    "caught_by_own",
    "declare",
    "flag",
    "loops_around",
    "user_line",
    "user_place",
    "user_stacklevel",
    "users_traceback",
]
