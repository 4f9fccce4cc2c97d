"""The verdict on a kernel, as data and as text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from nkisim.profiling.text import duration, size
from nkisim.program import Program

SCHEMA = 1
"""Version of the JSON format; incremented when the meaning of a key changes."""

Outcome = Literal["right", "refused", "wrong", "nothing", "time", "no verdict"]

STATUS: Mapping[Outcome, int] = {
    "right": 0,
    "refused": 1,
    "wrong": 1,
    "nothing": 3,
    "time": 5,
    "no verdict": 6,
}
"""Exit status of an outcome."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One reason why the judge refuses a kernel, or finds it wrong.

    Attributes:
        kind: A rule's id, or one of ``KINDS``.
        text: What is wrong; texts of the kernel's exceptions are quoted.
        file, line: Where, if known.
    """

    kind: str
    text: str
    file: str = ""
    line: int = 0


KINDS: Mapping[str, str] = {
    "import": "the file cannot be imported",
    "stopped": "the kernel raised on arguments that it must take",
    "input": "it changes an argument that it does not return",
    "result": "its results are not the reference's",
    "memory": "it exceeded the limit of memory",
    "crash": "the interpreter ended",
    "time": "it exceeded the limit of time",
    "slower": "it is slower than before",
}
"""Kinds of faults besides the ids of rules."""

OF_RESULTS = frozenset({"stopped", "input", "result", "slower"})
"""Kinds of faults of a legal kernel. Every other kind, and every rule, makes a kernel illegal."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case.

    Attributes:
        name: What is special about it.
        arguments: Its arguments by name, as text.
        counted: Whether the verdict includes it; False if the kernel or the reference refuses it.
        passed: Whether its results are within the tolerance.
        note: If not counted, why; else what is wrong with its results.
        ulps, norm: Largest error in units in the last place, and relative in the 2-norm.
        tolerance: Tolerance, relative to an element's size.
        tolerated: All of the tolerance of the worst element's output, as a sentence.
        dtypes, reference_dtypes: Dtypes of the outputs and of the reference's results.
        wrong: Number of elements whose error exceeds the tolerance.
        worst: ``output``, ``index``, ``got``, ``expected``, and the ``file`` and ``line`` of the
            statement that wrote the element farthest from the reference's.
    """

    name: str
    arguments: str
    counted: bool
    passed: bool
    note: str = ""
    ulps: float = 0.0
    norm: float = 0.0
    tolerance: float = 0.0
    tolerated: str = ""
    dtypes: tuple[str, ...] = ()
    reference_dtypes: tuple[str, ...] = ()
    wrong: int = 0
    worst: Mapping[str, Any] | None = None


@dataclass(slots=True, kw_only=True)
class Verdict:
    """Whether a kernel is legal, right and fast.

    Attributes:
        kernel, file: The kernel.
        target, nki: Generation and NKI version that it was judged for.
        seed: Seed of the values; 0 until it is drawn.
        outcome: ``"right"``, ``"refused"``, ``"wrong"``, ``"nothing"``, ``"time"``, or ``"no
            verdict"`` where no program can hold the kernel.
        unheld: Why there is no verdict; else empty.
        programs: What was judged: the programs of the kernel by their digests.
        faults: The reasons against it, the first one first.
        findings: The findings of its source and of its runs, as ``Finding.to_dict`` has them.
        cases: The cases.
        fast: Predicted time and what it consists of; None if it was not predicted.
        advice: The piece of advice, fix or finding that gains most; None without one.
        seconds: Time that the verdict took.
    """

    kernel: str
    file: str
    target: str
    nki: str
    seed: int
    outcome: Outcome = "nothing"
    unheld: str = ""
    programs: dict[str, Program] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    cases: list[CaseResult] = field(default_factory=list)
    fast: dict[str, Any] | None = None
    advice: dict[str, Any] | None = None
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the kernel is legal and right."""
        return self.outcome == "right"

    @property
    def status(self) -> int:
        """Exit status of the command."""
        return STATUS[self.outcome]

    @property
    def error(self) -> str | None:
        """The first fault, or why there is no verdict, in one line; None without one."""
        if not self.faults:
            return self.unheld or None
        fault = self.faults[0]
        where = f" ({fault.file}:{fault.line})" if fault.line else ""
        return f"{fault.kind}: {fault.text}{where}"

    @property
    def latency_us(self) -> float | None:
        """Predicted device time of the first case."""
        return None if self.fast is None else float(self.fast["latency_us"])

    @property
    def summary(self) -> str:
        """The verdict in one line."""
        head = f"{self.kernel} on {self.target}, NKI {self.nki}: {self.outcome}"
        if self.error is not None:
            return f"{head}, {self.error}"
        if self.outcome == "nothing":
            return f"{head} was judged"
        counted = [case for case in self.cases if case.counted]
        worst = max((case.ulps for case in counted), default=0.0)
        text = f"{head} in {len(counted)} cases, at most {worst:.3g} ulps from the reference"
        if self.fast is None:
            return text
        share = f"{self.fast['bound_share']:.0%}"
        return f"{text}; {duration(self.fast['latency_us'])}, {share} of what is possible"

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain data: the schema of ``judge --format json``."""
        illegal = [fault for fault in self.faults if fault.kind not in OF_RESULTS]
        wrong = [fault for fault in self.faults if fault.kind != "slower"]
        decided = self.outcome not in ("nothing", "time", "no verdict")
        micros = self.latency_us
        plain: dict[str, Any] = {
            "schema": SCHEMA,
            "passed": self.passed,
            "error": self.error,
            "summary": self.summary,
            "latency_us": micros,
            "latency_ms": None if micros is None else micros / 1e3,
            "outcome": self.outcome,
            "kernel": self.kernel,
            "file": self.file,
            "target": self.target,
            "nki": self.nki,
            "legal": {"passed": decided and not illegal, "findings": self.findings},
            "right": {
                "passed": decided and not wrong,
                "cases": [asdict(case) for case in self.cases],
            },
            "fast": self.fast,
            "next": self.advice,
            "faults": [asdict(fault) for fault in self.faults],
            "programs": {digest: program.arguments for digest, program in self.programs.items()},
            "seed": self.seed,
            "seconds": self.seconds,
        }
        return _finite(plain)

    def to_json(self) -> str:
        """Return the verdict as JSON text."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def __str__(self) -> str:
        lines = [self.summary]
        lines += [f"  {f.kind}: {f.text}" for f in self.faults[1:6]]
        first = next((case for case in self.cases if case.dtypes), None)
        if first is not None:
            lines.append(
                f"  dtypes      {', '.join(first.dtypes)}; the reference's "
                f"{', '.join(first.reference_dtypes)}"
            )
            lines.append(f"  tolerance   {first.tolerated}")
        for case in self.cases:
            state = "not counted" if not case.counted else "right" if case.passed else "WRONG"
            text = f"  {state:<12}{case.name}"
            if case.counted and not case.note:
                text += f": {case.ulps:.3g} ulps, {case.norm:.1e} in norm"
            lines.append(text + (f": {case.note}" if case.note else ""))
            if case.worst is not None and not case.passed:
                worst = case.worst
                place = f", written at {worst['file']}:{worst['line']}" if worst["file"] else ""
                lines.append(
                    f"    output {worst['output']} at {worst['index']} is {worst['got']:.6g} and "
                    f"not {worst['expected']:.6g}{place}"
                )
        if self.fast is not None:
            fast = self.fast
            low, high = fast["interval_us"]
            lines.append(
                f"  time        {duration(fast['latency_us'])} ({duration(low)} to "
                f"{duration(high)}, most by {fast['widest']}), bound by {fast['bound_by']}, "
                f"{fast['bound_share']:.0%} of the bound"
            )
            lines.append(
                f"  bytes       {size(fast['hbm_bytes'])} of HBM, at least "
                f"{size(fast['least_bytes'])}"
            )
        if self.advice is not None:
            lines.append(f"  next        {self.advice['text']}")
            lines += [f"    {line}" for line in (self.advice.get("code") or "").splitlines()]
        return "\n".join(lines) + "\n"


def _finite(value: Any) -> Any:
    """Return plain data with texts in place of numbers that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, (list, tuple)) else value
