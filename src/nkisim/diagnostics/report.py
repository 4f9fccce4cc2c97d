"""What one run found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from nkisim.diagnostics.findings import Finding
from nkisim.diagnostics.html import fragment
from nkisim.diagnostics.pictures import Occupancy

__all__ = ["Report", "counted"]


def counted(findings: Iterable[Finding]) -> str:
    """Return how many findings there are, by severity."""
    found = [f.severity for f in findings]
    if not found:
        return "no findings"
    counts = [
        f"{n} {severity}{'s' if n > 1 else ''}"
        for severity in ("error", "warning", "note")
        if (n := found.count(severity))
    ]
    return f"{len(found)} finding{'s' if len(found) > 1 else ''}: " + ", ".join(counts)


@dataclass(repr=False)
class Report:
    """What a run found. Data first; ``str(report)`` is one way to show it.

    Attributes:
        findings: In order of first appearance, repeats folded.
        outputs: What the kernel returned, or None when it was stopped.
        target: Generation that was simulated.
        stopped: Why the kernel did not run to its end; empty when it did.
        instructions: Number of instructions that ran, on all cores.
        memory: What was in SBUF and PSUM, and when; of checks only.
        silenced: File, line and id of what a comment of the user silenced.
        arithmetic: ``"compiled"`` where elementary functions and statistics of large tiles are
            compiled loops, which may differ from NumPy's in the last places; else ``"numpy"``.
    """

    findings: list[Finding] = field(default_factory=list)
    outputs: Any = None
    target: str = ""
    stopped: str = ""
    instructions: int = 0
    memory: list[Occupancy] = field(default_factory=list)
    silenced: set[tuple[str, int, str]] = field(default_factory=set)
    arithmetic: Literal["compiled", "numpy"] = "numpy"

    @property
    def ok(self) -> bool:
        """True when the kernel ran to its end and no finding has error severity."""
        return not self.stopped and not self.errors

    @property
    def codes(self) -> set[str]:
        """Ids of the rules that were found."""
        return {f.rule.id for f in self.findings}

    @property
    def errors(self) -> list[Finding]:
        """The findings of error severity."""
        return [f for f in self.findings if f.severity == "error"]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def summary(self) -> str:
        """Return the closing line: counts by severity, and what stopped the kernel."""
        stopped = f"; the kernel was stopped by {self.stopped}" if self.stopped else ""
        return counted(self.findings) + stopped

    def to_json(self) -> str:
        """Return the report, without the outputs, as JSON text."""
        data = {
            "target": self.target,
            "ok": self.ok,
            "stopped": self.stopped,
            "instructions": self.instructions,
            "findings": [f.to_dict() for f in self.findings],
        }
        return json.dumps(data, indent=2)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.findings), self.summary()])

    def _repr_html_(self) -> str:
        """Return what notebooks show: the source, with the findings beside its lines."""
        title = "nkisim" + (f" on {self.target}" if self.target else "")
        return fragment(title, self.summary(), self.findings, self.memory)

    __repr__ = __str__  # what notebooks and test reports show
