"""The report of one run: findings, outputs and counts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nkisim.diagnostics.findings import Finding
from nkisim.diagnostics.pictures import Occupancy


def counted(findings: Iterable[Finding]) -> str:
    """Return the number of findings by severity, as text."""
    found = [f.severity for f in findings]
    if not found:
        return "no findings"
    counts = [
        f"{n} {severity}{'s' if n > 1 else ''}"
        for severity in ("error", "warning", "note")
        if (n := found.count(severity))
    ]
    return f"{len(found)} finding{'s' if len(found) > 1 else ''}: " + ", ".join(counts)


def called(kernel: str, arguments: Mapping[str, str]) -> str:
    """Return a call as text, such as ``scale(x=float32[128,512], factor=2.0)``."""
    return f"{kernel}({', '.join(f'{name}={text}' for name, text in arguments.items())})"


@dataclass(repr=False)
class Report:
    """Result of a run as data; ``str(report)`` is its text form.

    Attributes:
        findings: In order of first appearance, with counts of repeats. Findings that explain a NaN
            in an output of finite inputs come first.
        outputs: Return value of the kernel, or None when it was stopped.
        kernel: Name of the kernel.
        arguments: The arguments by name, as text: an array by dtype and shape.
        target: Simulated generation.
        nki: NKI version that it judged by.
        stopped: Reason why the kernel did not complete; empty when it did.
        instructions: Number of instructions executed on all cores.
        memory: Use of SBUF and PSUM over the run; only recorded by checks.
        silenced: File, line and rule id of findings that a comment silenced.
        arithmetic: ``"compiled"`` where elementary functions of large tiles are compiled loops,
            which may differ from NumPy's in the last places; else ``"numpy"``.
    """

    findings: list[Finding] = field(default_factory=list)
    outputs: Any = None
    kernel: str = ""
    arguments: dict[str, str] = field(default_factory=dict)
    target: str = ""
    nki: str = ""
    stopped: str = ""
    instructions: int = 0
    memory: list[Occupancy] = field(default_factory=list)
    silenced: set[tuple[str, int, str]] = field(default_factory=set)
    arithmetic: Literal["compiled", "numpy"] = "numpy"

    @property
    def ok(self) -> bool:
        """True when the kernel completed and no finding has error severity."""
        return not self.stopped and not self.errors

    @property
    def codes(self) -> set[str]:
        """Ids of the violated rules."""
        return {f.rule.id for f in self.findings}

    @property
    def errors(self) -> list[Finding]:
        """The findings of error severity."""
        return [f for f in self.findings if f.severity == "error"]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def summary(self) -> str:
        """Return the summary line: counts by severity, and why the kernel stopped."""
        stopped = f"; the kernel was stopped by {self.stopped}" if self.stopped else ""
        return counted(self.findings) + stopped

    def to_json(self) -> str:
        """Return the report, without the outputs, as JSON text."""
        data = {
            "kernel": self.kernel,
            "arguments": self.arguments,
            "target": self.target,
            "nki": self.nki,
            "ok": self.ok,
            "stopped": self.stopped,
            "instructions": self.instructions,
            "findings": [f.to_dict() for f in self.findings],
        }
        return json.dumps(data, indent=2)

    @property
    def subject(self) -> str:
        """What was run: kernel, arguments, generation and NKI version."""
        ran = called(self.kernel, self.arguments) if self.kernel else ""
        parts = [f"{ran} on {self.target}" if ran and self.target else ran]
        parts.append(f"NKI {self.nki}" if self.nki else "")
        return ", ".join(filter(None, parts))

    def __str__(self) -> str:
        of = f" ({self.subject})" if self.subject else ""
        return "\n".join([*map(str, self.findings), self.summary() + of])

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: the source with findings next to its lines."""
        from nkisim.diagnostics.html import fragment

        return fragment(
            f"nkisim: {self.subject}" if self.subject else "nkisim",
            self.summary(),
            self.findings,
            self.memory,
        )

    def __repr__(self) -> str:
        """Return line and fix of the first error, then the text; pytest shows the beginning."""
        if not self.findings:
            return str(self)
        first = (self.errors or self.findings)[0]
        fix = f", fix: {first.fix}" if first.fix else ""
        where = f"{os.path.basename(first.file)}:{first.line}"
        return f"{where} {first.rule.id}{fix}\n{self}"
