"""Rules about the check itself; selections and comments do not apply to them."""

from __future__ import annotations

from nkisim.diagnostics import Rule

UNUSED_IGNORE = Rule(
    "X001",
    "unused-ignore",
    "warning",
    "A comment silences a rule that is not broken there.",
    "it would hide the mistake when somebody makes it",
)
BROKEN_FILE = Rule(
    "X002",
    "broken-file",
    "error",
    "A file cannot be read or imported, or its nkisim_examples() fails.",
    "its kernels were not checked to the end",
)
NOT_RUN = Rule(
    "X003",
    "not-run",
    "error",
    "A kernel was only read, although a run is required.",
    "most mistakes show in a run only",
)
WRONG_RESULT = Rule(
    "X004",
    "wrong-result",
    "error",
    "The results of a kernel are not those that nkisim_examples() expects.",
    "it computes something else",
)
OWN_RULES = (UNUSED_IGNORE, BROKEN_FILE, NOT_RUN, WRONG_RESULT)
"""The rules of this module."""
