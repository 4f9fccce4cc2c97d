"""Which rules count: ids, or the beginning of ids, that are wanted or not."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from nkisim.diagnostics import RULES, Finding, Rule

__all__ = ["Selection", "all_rules"]

_HOMES = ("isa", "language", "collectives", "api")


def all_rules() -> Mapping[str, Rule]:
    """Return every rule by id; they are declared where they act, so this imports all of nkisim."""
    for home in _HOMES:
        import_module(f"nkisim.{home}")
    return RULES


@dataclass(frozen=True, slots=True)
class Selection:
    """Rules that are wanted.

    Attributes:
        only: Ids or beginnings of ids; empty means all.
        ignore: Those to leave out.
        per_file: Those to leave out in files that match a pattern.
    """

    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = all_rules()
        for name in (*self.only, *self.ignore, *(n for ids in self.per_file.values() for n in ids)):
            if not any(rule.startswith(name) for rule in known):
                raise ValueError(
                    f"{name!r} is no rule and no family of rules; `nkisim rules` lists"
                )

    def wants(self, finding: Finding) -> bool:
        """Tell whether a finding counts."""
        rule = finding.rule.id
        if rule not in RULES:  # what is said about the check itself
            return True
        if not self.includes(rule):
            return False
        return not any(
            _begins(rule, ids) for pattern, ids in self.per_file.items() if _fits(finding, pattern)
        )

    def includes(self, rule: str) -> bool:
        """Tell whether a rule counts in any file."""
        return (not self.only or _begins(rule, self.only)) and not _begins(rule, self.ignore)


def _begins(rule: str, names: Iterable[str]) -> bool:
    return any(rule.startswith(name) for name in names)


def _fits(finding: Finding, pattern: str) -> bool:
    file = Path(finding.file)
    return fnmatch.fnmatch(file.as_posix(), pattern) or file.match(pattern)
