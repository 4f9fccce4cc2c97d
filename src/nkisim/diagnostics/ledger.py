"""Combined results of many runs: kernels, generations and counts, without duplicate findings."""

from __future__ import annotations

import copy
import json
import linecache
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nkisim.diagnostics.findings import Finding, Rewrite, in_order
from nkisim.diagnostics.frames import Place
from nkisim.diagnostics.pictures import Occupancy
from nkisim.diagnostics.recorder import FindingKey, key_of
from nkisim.diagnostics.report import Report, called, counted
from nkisim.diagnostics.rules import CHECKED, RULES, Rule

FailOn = Literal["error", "warning"]

SCHEMA = 1
"""Version of the JSON format; incremented when the meaning of a key changes."""


_MOST_CALLS = 20

_MOST_SHOWN_CALLS = 3
_WRITTEN = ("runs", "instructions", "targets", "arguments", "stopped", "note", "hint")
"""Calls of one kernel that a text and a page show; the JSON has more."""


@dataclass(slots=True)
class KernelRecord:
    """One kernel and the extent of its checks.

    Attributes:
        name: Its name.
        place: Where it is defined.
        runs: Number of runs; 0 where only its source was checked.
        instructions: Number of instructions executed in all runs.
        targets: Generations that it ran on.
        arguments: Arguments of its calls by name, as text; of the first 20 that differ.
        stopped: Reason why it did not complete, by generation.
        note: Reason why only its source was checked, if so.
        hint: How to run it, in that case.
        memory: Use of SBUF and PSUM over its last run.
        results: For checks that compare runs, by number of a run the digest of its arguments, and
            its results with the arguments as it left them; no arrays for one that was stopped.
    """

    name: str
    place: Place
    runs: int = 0
    instructions: int = 0
    targets: list[str] = field(default_factory=list)
    arguments: list[dict[str, str]] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)
    note: str = ""
    hint: str = ""
    memory: tuple[Occupancy, ...] = ()
    results: dict[int, tuple[str, tuple[Any, ...]]] = field(default_factory=dict)

    def add_arguments(self, calls: Iterable[dict[str, str]]) -> None:
        """Add the arguments of calls that differ from the known ones."""
        for call in calls:
            if call not in self.arguments and len(self.arguments) < _MOST_CALLS:
                self.arguments.append(call)

    @property
    def remark(self) -> str:
        """The reason why only its source was checked and how it can be run; empty if it ran."""
        if not self.note:
            return ""
        hint = f": {self.hint}" if self.hint else ""
        return f"only the source was checked, {self.note}{hint}"


class Ledger:
    """Collects the reports of runs.

    Attributes:
        kernels: The kernels, by file and name.
        findings: Findings of all runs without duplicates, with their generations.
        rules: Number of rules checked.
        silenced: File, line and rule id of findings that a comment silenced.
        fixed: Findings of an earlier check whose fixes were written to the files.
        nki: NKI versions that the runs were judged by.
    """

    def __init__(self, rules: int | None = None) -> None:
        self.kernels: dict[tuple[str, str], KernelRecord] = {}
        self.rules = rules
        self.silenced: set[tuple[str, int, str]] = set()
        self.fixed: list[Finding] = []
        self.nki: set[str] = set()
        self._found: dict[FindingKey, Finding] = {}

    @property
    def findings(self) -> list[Finding]:
        """The findings as they first appeared, those that explain a NaN in an output first."""
        return in_order(self._found.values())

    @property
    def instructions(self) -> int:
        """Number of instructions executed."""
        return sum(kernel.instructions for kernel in self.kernels.values())

    @property
    def targets(self) -> list[str]:
        """The generations simulated."""
        return sorted({target for kernel in self.kernels.values() for target in kernel.targets})

    @property
    def stopped(self) -> list[KernelRecord]:
        """The kernels that did not complete."""
        return [kernel for kernel in self.kernels.values() if kernel.stopped]

    def by_file(self) -> dict[str, list[str]]:
        """Return the names of the kernels of each file."""
        found: dict[str, list[str]] = {}
        for kernel in self.kernels.values():
            found.setdefault(kernel.place.file, []).append(kernel.name)
        return found

    def label(self, kernel: KernelRecord) -> str:
        """Return the name of a kernel, with its file where there are several."""
        several = len(self.by_file()) > 1
        return f"{kernel.place.file}::{kernel.name}" if several else kernel.name

    def ran(self) -> list[str]:
        """Return for each kernel that ran its calls, their generations and NKI versions."""
        by = f", NKI {', '.join(sorted(self.nki))}" if self.nki else ""
        lines = []
        for kernel in self.kernels.values():
            if not kernel.runs:
                continue
            shown = kernel.arguments[:_MOST_SHOWN_CALLS]
            calls = [called(self.label(kernel), arguments) for arguments in shown]
            more = len(kernel.arguments) - len(shown)
            if more:
                calls.append(f"{more} other call{'s' if more > 1 else ''}")
            lines.append(f"ran {', '.join(calls)} on {', '.join(kernel.targets)}{by}")
        return lines

    def remarks(self) -> list[str]:
        """Return a remark for each kernel that was not fully checked, with the reason."""
        notes: dict[str, list[str]] = {}
        for kernel in self.kernels.values():
            if kernel.note:
                notes.setdefault(kernel.remark, []).append(self.label(kernel))
        found = [f"{', '.join(names)}: {note}" for note, names in notes.items()]
        for kernel in self.kernels.values():
            reasons: dict[str, list[str]] = {}
            for target, reason in kernel.stopped.items():
                reasons.setdefault(reason, []).append(target)
            name = self.label(kernel)
            found += [
                f"{name}: not checked to its end on {', '.join(targets)}: stopped by {why}"
                for why, targets in reasons.items()
            ]
        return found

    def kernel(self, name: str, place: Place) -> KernelRecord:
        """Return the record of a kernel, created on first use."""
        return self.kernels.setdefault((place.file, name), KernelRecord(name, place))

    def enter(self, name: str, place: Place, report: Report) -> None:
        """Add the report of one run."""
        record = self.kernel(name, place)
        record.runs += 1
        record.instructions += report.instructions
        record.add_arguments([report.arguments])
        record.memory = tuple(report.memory) or record.memory
        if report.target not in record.targets:
            record.targets.append(report.target)
        if report.stopped:
            record.stopped[report.target] = report.stopped
        self.silenced |= report.silenced
        self.nki |= {report.nki} - {""}
        self.add(report.findings, report.target)

    def add(self, findings: Iterable[Finding], target: str = "") -> None:
        """Add findings of one generation, or of all."""
        for finding in findings:
            key = key_of(finding)
            known = self._found.get(key)
            if known is None:
                known = self._found[key] = copy.copy(finding)
                known.targets = finding.targets or ((target,) if target else ())
                continue
            known.count = max(known.count, finding.count)
            known.rewrite = known.rewrite or finding.rewrite
            fresh = {*known.targets, *finding.targets, *([target] if target else [])}
            known.targets = tuple(sorted(fresh))

    def keep(self, wanted: Callable[[Finding], bool]) -> None:
        """Remove all findings that are not selected."""
        self._found = {key: f for key, f in self._found.items() if wanted(f)}

    def merge(self, other: Ledger) -> None:
        """Add the contents of another ledger."""
        for record in other.kernels.values():
            mine = self.kernel(record.name, record.place)
            mine.runs += record.runs
            mine.instructions += record.instructions
            mine.add_arguments(record.arguments)
            mine.targets += [t for t in record.targets if t not in mine.targets]
            mine.stopped |= record.stopped
            if not mine.note:
                mine.note, mine.hint = record.note, record.hint
            mine.memory = record.memory or mine.memory
            mine.results |= record.results
        self.silenced |= other.silenced
        self.fixed += other.fixed
        self.nki |= other.nki
        self.add(other.findings)

    def relative_to(self, folder: str) -> None:
        """Make the paths of files below a folder relative to it."""
        self.renamed(folder.rstrip(os.sep) + os.sep, "")

    def renamed(self, old: str, new: str) -> None:
        """Replace the beginning of the paths that begin with ``old``."""

        def short(file: str) -> str:
            name = new + file.removeprefix(old) if file.startswith(old) else file
            linecache.checkcache(name)  # the new name may be cached for a file elsewhere
            return name

        for finding in (*self._found.values(), *self.fixed):
            place, rewrite = finding.place, finding.rewrite
            finding.place = place._replace(file=short(place.file))
            if rewrite is not None:
                finding.rewrite = rewrite._replace(file=short(rewrite.file))
            finding.notes = tuple(note.replace(old, new) for note in finding.notes)
            finding.fix = finding.fix.replace(old, new)
        for record in self.kernels.values():
            record.place = record.place._replace(file=short(record.place.file))
            record.hint = record.hint.replace(old, new)
            record.stopped = {
                target: reason.replace(old, new) for target, reason in record.stopped.items()
            }

    def fails(self, at: FailOn = "error", besides: Collection[str] = ()) -> bool:
        """Return whether a build must fail: a finding is severe enough, or a kernel was stopped.

        Findings of the rules ``besides`` do not count.
        """
        levels = ("error",) if at == "error" else ("error", "warning")
        found = (f for f in self.findings if f.rule.id not in besides)
        return bool(self.stopped) or any(f.severity in levels for f in found)

    def summary(self) -> str:
        """Return the summary line: numbers of findings and of checked kernels."""
        ran = [kernel for kernel in self.kernels.values() if kernel.runs]
        parts = [_many(len(self.kernels), "kernel")]
        if len(ran) < len(self.kernels):
            parts[0] += f" ({len(self.kernels) - len(ran)} by source alone)"
        parts.append(_many(self.instructions, "instruction"))
        parts.append(_many(self.rules if self.rules is not None else len(CHECKED), "rule"))
        where = f" on {', '.join(self.targets)}" if self.targets else ""
        fixed = f", {len(self.fixed):,} fixed" if self.fixed else ""
        by = f" by NKI {', '.join(sorted(self.nki))}" if self.nki else ""
        return f"{counted(self.findings)}{fixed}; checked {', '.join(parts)}{where}{by}"

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger as plain data."""
        return {
            "schema": SCHEMA,
            "tool": "nkisim",
            "ok": not self.fails(),
            "checked": {
                "kernels": len(self.kernels),
                "instructions": self.instructions,
                "rules": self.rules if self.rules is not None else len(CHECKED),
                "targets": self.targets,
                "nki": sorted(self.nki),
            },
            "kernels": [
                {"name": k.name, "file": k.place.file, "line": k.place.line}
                | {name: getattr(k, name) for name in _WRITTEN}
                for k in self.kernels.values()
            ],
            "findings": [f.to_dict() | {"why": f.rule.matters} for f in self.findings],
            "fixed": [f.to_dict() | {"why": f.rule.matters} for f in self.fixed],
        }

    def to_json(self) -> str:
        """Return the ledger as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Ledger:
        """Return the ledger with the contents that ``to_dict`` returned."""
        ledger = cls(data["checked"]["rules"])
        ledger.nki = set(data["checked"]["nki"])
        for k in data["kernels"]:
            record = ledger.kernel(k["name"], Place(k["file"], k["line"]))
            for name in _WRITTEN:
                setattr(record, name, k[name])
        ledger.add(_finding(f) for f in data["findings"])
        ledger.fixed = [_finding(f) for f in data.get("fixed", ())]
        return ledger


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _finding(data: Mapping[str, Any]) -> Finding:
    rule = RULES.get(data["rule"])
    if rule is None:
        rule = Rule(data["rule"], data["slug"], data["severity"], "", data["why"])
    same = ("instruction", "operand", "seen", "allowed", "fix", "count", "data")
    return Finding(
        rule,
        data["message"],
        Place(data["file"], data["line"], tuple(data["loops"].items())),
        notes=tuple(data["notes"]),
        level=None if data["severity"] == rule.severity else data["severity"],
        rewrite=None if data["rewrite"] is None else Rewrite(**data["rewrite"]),
        targets=tuple(data["targets"]),
        span=None if data["span"] is None else tuple(data["span"]),
        tried=bool(data.get("tried")),
        untried=data.get("untried", ""),
        **{name: data[name] for name in same},
    )
