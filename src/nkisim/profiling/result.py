"""The data of a profile: the predicted time of a kernel on the device, and where it goes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType
from typing import Any, NamedTuple

from nkisim.diagnostics import Finding
from nkisim.profiling.model.ranges import Difference

ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync", "dge", "dma")
"""Keys of the engines, in the order of tables; ``dge`` is the generation of DMA descriptors."""


class Span(NamedTuple):
    """One instruction in the timeline.

    Attributes:
        engine: Key of its engine.
        start_us, end_us: Start and end of its occupancy of the engine.
        ready_us: Time from which other instructions can read its result.
        name: Name of the instruction.
        file, line: Line of the kernel.
        core: Core that runs it.
        nbytes: Bytes that a transfer moves, else 0.
        queue: Queue of a transfer, else "".
    """

    engine: str
    start_us: float
    end_us: float
    ready_us: float
    name: str
    file: str
    line: int
    core: int
    nbytes: int = 0
    queue: str = ""


class LineTime(NamedTuple):
    """Time of one line of the kernel.

    Attributes:
        file, line: The line.
        text: Its source, stripped.
        critical_us: Its share of the critical path.
        busy_us: Occupancy of engines by its instructions.
        instructions: Number of its instructions.
    """

    file: str
    line: int
    text: str
    critical_us: float
    busy_us: float
    instructions: int


class Cycle(NamedTuple):
    """The loop with most of the critical path, by the instructions of one iteration.

    Attributes:
        variable: The loop variable.
        iterations: Number of iterations.
        steps: Instruction, file, line and ns on the critical path, the median over iterations.
    """

    variable: str
    iterations: int
    steps: list[tuple[str, str, int, float]]


class MemoryUse(NamedTuple):
    """One tile over time.

    Attributes:
        region: ``"sbuf"`` or ``"psum"``.
        name: Its name or that of its variable.
        file, line: Line of its allocation.
        row_bytes: Bytes in one partition.
        start_us, end_us: Time of its first write, and of its last use.
        core: Core that owns it.
    """

    region: str
    name: str
    file: str
    line: int
    row_bytes: int
    start_us: float
    end_us: float
    core: int


class Doubt(NamedTuple):
    """An assumption that the predicted time depends on.

    Attributes:
        name: Its name, as in ``profile(..., assume={name: value})``.
        assumed: The value that the prediction uses.
        alternatives: By other value, the time that it would give, in us.
    """

    name: str
    assumed: Any
    alternatives: dict[Any, float]


class Advice(NamedTuple):
    """A change that makes the kernel faster.

    A piece with code has been tried: the edited kernel is legal and computes the same.

    Attributes:
        rule: Its id, such as ``"P001"``.
        title: The condition in a few words.
        cause: What was found, with numbers.
        action: What to change.
        gain_us: Difference of the predicted times of the kernel and the changed one; None for a
            sentence, which has not been tried.
        file, line: Line of the kernel that it concerns.
        code: The change as a unified diff of the file, or "".
        change: Largest change of an output, relative to the largest element of its array; 0 if all
            bits are the same.
        values: The names and numbers in ``cause`` and ``action``, by key. Code reads these; texts
            are for people.
        gain_range: The range of ``gain_us``; None for a sentence.
    """

    rule: str
    title: str
    cause: str
    action: str
    gain_us: float | None
    file: str = ""
    line: int = 0
    code: str = ""
    values: Mapping[str, Any] = MappingProxyType({})
    change: float = 0.0
    gain_range: Difference | None = None


@dataclass(frozen=True, slots=True)
class Together:
    """Pieces of advice that were tried together.

    Attributes:
        pieces: Their positions in the advice.
        latency_us: The predicted time with all of them.
        gain_range: The range of what they gain.
        change: Largest change of an output, as in ``Advice``.
        code: The changes as a unified diff of the file.
        text: The changed text of the file.
    """

    pieces: tuple[int, ...]
    latency_us: float
    gain_range: Difference
    change: float
    code: str
    text: str = field(repr=False)


@dataclass(slots=True, kw_only=True)
class ProfileData:
    """The predicted device time of one call of a kernel.

    Attributes:
        kernel: Name of the kernel.
        target: Generation.
        nki: NKI version that it was judged by.
        file: File that defines the kernel.
        arguments: The arguments by name, as text: an array by dtype and shape.
        results: The returned tensors of the first rank, as text in the same form.
        latency_us: Device time from start to end, with the fixed cost on the device.
        interval_us: Range of the prediction: over the alternatives of its assumptions, one at a
            time, and the error of the model. It contains 85 % of the times that are known.
        assumptions: The assumptions that matter for this kernel, the one that matters most first.
        fixed_us: Fixed cost in it.
        host_us: Host time of a call, not in ``latency_us``.
        engine_busy_us: Busy time by engine, of the busiest core.
        utilization: The same as a share of ``latency_us``.
        per_core: Busy time by engine for each core.
        bound_by: What determines the time: an engine, ``"dma"``, ``"dependencies"`` or
            ``"launch"``.
        bound_us: Least time that engines and bytes allow.
        hbm_bytes, transfers, spill_bytes: Sums over the cores.
        descriptors: Transfers by the origin of their descriptors: ``"software"``, ``"hardware"`` or
            ``"prebuilt"``.
        assumed_descriptors: Origin that was assumed where the kernel leaves it to the compiler.
        dma_efficiency: Rate of the transfers while the DMA engines are busy, as a share of the
            core's rate.
        flops: Floating-point operations of products.
        intensity: Operations per byte of HBM traffic.
        peak_tflops, hbm_gbps: The roofline's roofs for the types used.
        instructions: Number of instructions by name.
        lines: Time by line, longest share of the critical path first.
        cycle: The repeating part of the critical path of a kernel that is bound by dependencies;
            else None.
        timeline: The instructions in order of start.
        memory: Tiles over time.
        capacity: Bytes per partition of SBUF and PSUM.
        advice: Changes, those with the largest gain first, then sentences without one.
        together: The changes that gain together; None without a change.
        no_advice: Why a search for advice found none; empty if it found some.
        findings: Findings of the run.
    """

    kernel: str
    target: str
    nki: str
    latency_us: float
    interval_us: tuple[float, float]
    fixed_us: float
    host_us: float
    engine_busy_us: dict[str, float]
    utilization: dict[str, float]
    per_core: list[dict[str, float]]
    bound_by: str
    bound_us: float
    hbm_bytes: int
    transfers: int
    spill_bytes: int
    descriptors: dict[str, int]
    assumed_descriptors: str
    dma_efficiency: float
    flops: float
    intensity: float
    peak_tflops: float
    hbm_gbps: float
    instructions: dict[str, int]
    lines: list[LineTime]
    timeline: list[Span] = field(repr=False)
    memory: list[MemoryUse] = field(repr=False)
    capacity: dict[str, int]
    cycle: Cycle | None = None
    assumptions: list[Doubt] = field(default_factory=list)
    file: str = ""
    arguments: dict[str, str] = field(default_factory=dict)
    results: list[str] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    together: Together | None = None
    no_advice: str = ""
    findings: list[Finding] = field(default_factory=list)

    @property
    def achieved_tflops(self) -> float:
        """Floating-point rate of the products over the whole call."""
        return self.flops / self.latency_us / 1e6 if self.latency_us else 0.0

    @property
    def widest(self) -> str:
        """The assumption that widens the range most; "" if none changes the time."""
        return self.assumptions[0].name if self.assumptions else ""

    @property
    def bound_share(self) -> float:
        """``bound_us`` as a share of the time without the fixed cost; 1 is the best possible."""
        work = self.latency_us - self.fixed_us
        return min(1.0, self.bound_us / work) if work > 0 else 1.0

    @property
    def roofline_tflops(self) -> float:
        """Highest floating-point rate at this arithmetic intensity."""
        return min(self.peak_tflops, self.intensity * self.hbm_gbps / 1e3)

    def to_dict(self, *, timeline: bool = False) -> dict[str, Any]:
        """Return the profile as plain data; without the timeline unless asked for."""
        long = ("timeline", "memory")
        plain = {
            entry.name: getattr(self, entry.name)
            for entry in fields(self)
            if timeline or entry.name not in long
        }
        for name in ("lines", *(long if timeline else ())):
            plain[name] = [value._asdict() for value in plain[name]]
        plain["assumptions"] = [doubt._asdict() for doubt in self.assumptions]
        plain["advice"] = [
            piece._asdict()
            | {"tried": piece.gain_us is not None, "gain_range": _plain(piece.gain_range)}
            for piece in self.advice
        ]
        plain["cycle"] = None if self.cycle is None else self.cycle._asdict()
        if self.together is not None:
            whole = {k: v for k, v in asdict(self.together).items() if k != "text"}
            plain["together"] = whole | {"gain_range": _plain(self.together.gain_range)}
        plain["findings"] = [
            {"rule": f.rule.id, "severity": f.severity, "text": f.summary} for f in self.findings
        ]
        plain["achieved_tflops"] = self.achieved_tflops
        plain["bound_share"] = self.bound_share
        plain["widest"] = self.widest
        plain["roofline_tflops"] = self.roofline_tflops
        return plain

    def to_json(self, *, timeline: bool = False) -> str:
        """Return the profile as JSON text."""
        return json.dumps(self.to_dict(timeline=timeline), indent=2)


def _plain(found: Difference | None) -> dict[str, Any] | None:
    """Return the range of a gain, and whether it has one sign, as plain data."""
    return None if found is None else found._asdict() | {"separable": found.separable}
