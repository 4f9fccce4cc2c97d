"""Rule x version: the versions in which rules hold that do not hold in all of them alike.

From NKI 0.7.0 on Python executes a kernel, so most limits of the old front end are gone. The table
follows what the documentation of a release states or implies. Rules that it does not list hold in
all versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from nkisim.versions import VERSIONS, at, language

Verdict = Literal["holds", "off", "changes"]


class Held(NamedTuple):
    """State of a rule from a version on.

    Attributes:
        verdict: ``"holds"``, ``"off"``, or ``"changes"`` for another condition or severity.
        note: The condition that holds.
        basis: ``"stated"``, ``"deduced"`` or ``"assumed"``.
        level: Severity, where it differs from the rule's.
    """

    verdict: Verdict
    note: str = ""
    basis: Literal["stated", "deduced", "assumed"] = "deduced"
    level: Literal["error", "warning", "note"] | None = None


_PYTHON = Held("off", "plain Python, which traces the kernel")
_NAMED = Held("off", "named by the announcement of tracing", "stated")
_VALUES = "results are Python's"
_NOT_SEEN = Held("off", "nobody has reported it", "assumed")

CHANGES: Mapping[str, Mapping[str, Held]] = {
    **{id: {"0.7.0": _NAMED} for id in ("L001", "L002", "L003", "L004", "L006", "L040", "L069")},
    **{
        f"L{number:03}": {"0.7.0": _PYTHON}
        for number in (
            *(5, 7, 8, 11, 12, 13, 14, 15, 16, 18, 20, 22, 25),
            *(43, 44, 45, 46, 47, 49, 54, 55, 56),
        )
    },
    **{id: {"0.7.0": Held("off", _VALUES)} for id in ("L048", "L051", "L052")},
    "L009": {
        "0.7.0": Held("changes", "a write that outlives the kernel happens once", level="warning")
    },
    "L010": {"0.7.0": Held("changes", "the kernel itself cannot be a generator or a coroutine")},
    "L017": {"0.7.0": Held("off", "every Python iterable; a tensor is refused by the run")},
    "L021": {"0.7.0": Held("changes", "on tensors, registers and scalars only")},
    "L023": {
        "0.7.0": Held("changes", "in the kernel's own signature only", "assumed", level="warning")
    },
    "L024": {"0.7.0": Held("changes", "in the kernel's own signature only", "assumed")},
    "L028": {"0.6.0": Held("off", "a copy of a tensor builds and runs on the device", "stated")},
    "L031": {"0.7.0": Held("changes", "also scalars, `while register` and nl.dynamic_range")},
    "L032": {"0.7.0": Held("off", "the loop statement is gone", "stated")},
    "L033": {"0.7.0": Held("changes", "of an index that is a register only", "stated")},
    "L035": {
        "0.7.0": Held("changes", "the write does not affect the loop", "stated", level="warning")
    },
    "L037": {"0.7.0": Held("changes", "a name that the body rebinds: L073", "stated")},
    "L050": {"0.7.0": Held("off", "integers of Python; scalars that wrap: D054", "stated")},
    "L053": {"0.7.0": Held("off", "Python orders the members of nc_version", "assumed")},
    "L057": {
        "0.7.0": Held("changes", "an object without value equality", "assumed", level="warning")
    },
    "L058": {"0.7.0": Held("off", "any object is accepted", "assumed")},
    "L065": {
        "0.7.0": Held("changes", "tracing needs no source, these checks do", level="note"),
    },
    **{
        id: {"0.3.0": Held("off", "no traced loops"), "0.7.0": Held("holds", "", "stated")}
        for id in ("L071", "L072", "L073")
    },
    "A016": {"0.7.0": Held("off", "assumed for the kernel's own signature too", "assumed")},
    "A017": {"0.7.0": Held("off", "identity, as in Python")},
    "A018": {"0.7.0": Held("changes", "a list is no key of a cache", "assumed", level="warning")},
    **{
        id: {"0.3.0": _NOT_SEEN, "0.5.0": Held("holds", "", "stated")}
        for id in ("C040", "C041", "C042")
    },
    "C044": {"0.7.0": _NOT_SEEN},
    **{id: {"0.3.0": _NOT_SEEN, "0.7.0": Held("holds", "", "stated")} for id in ("C045", "C046")},
    "M050": {
        "0.7.0": Held(
            "changes", "its documentation has int32 offsets in SBUF", "stated", level="warning"
        )
    },
    "M051": {"0.3.0": _NOT_SEEN, "0.6.0": Held("holds", "", "stated")},
    "M052": {"0.6.0": _NOT_SEEN},
    "R003": {"0.7.0": Held("off", "nl.affine_range is range, which is in order", "stated")},
    "A045": {
        "0.7.0": Held("changes", "also depends_on without kind, NKI_COMPILER_FRONTEND", "stated")
    },
}
"""State of each rule that changes, by rule id and first version."""


def held(id: str, version: str | None = None) -> Held:
    """Return the state of a rule in a version; None is the language in force."""
    return at(version or language(), Held("holds"), CHANGES.get(id, {}))


def is_off(id: str) -> bool:
    """Return whether a rule does not hold in the language in force."""
    return held(id).verdict == "off"


def verdicts(id: str) -> dict[str, Held]:
    """Return the state of a rule in each version; empty for a rule that never changes."""
    return {version: held(id, version) for version in VERSIONS} if id in CHANGES else {}


def rows(id: str) -> list[tuple[str, str]]:
    """Return the rows of a rule in the table rule x version: each version and the state as text."""
    texts = {}
    for version, found in verdicts(id).items():
        text = found.verdict if found.level is None else f"{found.verdict}, {found.level}"
        if found.verdict != "holds":
            text += f": {found.note} ({found.basis})"
        texts[f"NKI {version}"] = text
    return list(texts.items())
