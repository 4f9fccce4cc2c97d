"""Settings of a check, with the selected rules, and the rules about the check itself."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path

from nkisim.arch import GENERATIONS
from nkisim.diagnostics import CHECKED, RULES, Finding, Rule
from nkisim.filecheck.arguments import Shapes

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


_HOMES = ("isa", "language", "collectives", "api")
_ADVICE = "profiling.advice"


def all_rules() -> Mapping[str, Rule]:
    """Return every rule by id, with the advice of profiles."""
    _declare(*_HOMES, _ADVICE)
    return RULES


def _declare(*homes: str) -> None:
    """Import modules of nkisim with all that they use: each module declares its own rules."""
    for home in homes:
        import_module(f"nkisim.{home}")


@dataclass(frozen=True)
class Selection:
    """A selection of rules.

    Attributes:
        only: Ids or prefixes of ids; empty selects all.
        ignore: Ids or prefixes to exclude.
        per_file: Ids or prefixes to exclude in files that match a pattern.
    """

    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _declare(*_HOMES)
        for name in (*self.only, *self.ignore, *(n for ids in self.per_file.values() for n in ids)):
            if not any(rule.startswith(name) for rule in CHECKED):
                raise ValueError(
                    f"{name!r} is no rule of checks and no family of them; `nkisim rules` lists"
                )

    def wants(self, finding: Finding) -> bool:
        """Return whether a finding is selected."""
        rule = finding.rule.id
        if rule not in CHECKED:  # messages about the check itself
            return True
        if rule not in self.rules:
            return False
        return not any(
            _begins(rule, ids) for pattern, ids in self.per_file.items() if _fits(finding, pattern)
        )

    @cached_property
    def rules(self) -> frozenset[str]:
        """The rules that are selected in any file."""
        chosen = (rule for rule in CHECKED if not self.only or _begins(rule, self.only))
        return frozenset(rule for rule in chosen if not _begins(rule, self.ignore))


def _begins(rule: str, names: Iterable[str]) -> bool:
    return any(rule.startswith(name) for name in names)


def _fits(finding: Finding, pattern: str) -> bool:
    file = Path(finding.file)
    return fnmatch.fnmatch(file.as_posix(), pattern) or file.match(pattern)


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    """Settings of a check.

    Attributes:
        shapes: Arguments by parameter name.
        targets: Generations to run on.
        selection: Selected rules.
        max_instructions: Number of instructions after which a run is aborted.
        max_seconds: Seconds after which a run is aborted.
        require_run: Whether a kernel that is only read is an error.
        source_only: Whether files are only read, and none is imported.
        results: Whether the ledger keeps the results of each run.
        whole: By name of the kernels that run, the generations with values and all detectors; on
            the others only legality is checked. None runs all kernels so on all generations.
    """

    shapes: Shapes = field(default_factory=dict)
    targets: tuple[str, ...] = tuple(generation.name for generation in GENERATIONS)
    selection: Selection = field(default_factory=Selection)
    max_instructions: int = 2_000_000
    max_seconds: float = 600.0
    require_run: bool = False
    source_only: bool = False
    results: bool = False
    whole: Mapping[str, Collection[str]] | None = None

    def runs(self, kernel: str) -> bool:
        """Return whether a kernel is run, if it has arguments."""
        return self.whole is None or kernel in self.whole

    def checks_whole(self, kernel: str, target: str) -> bool:
        """Return whether a kernel runs on a generation with values and all detectors."""
        return self.whole is None or target in self.whole[kernel]
