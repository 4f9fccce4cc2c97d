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
from nkisim.diagnostics.frames import Place, user_line, user_place
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
    "declare",
    "flag",
    "user_line",
    "user_place",
]
