"""From a schedule to a profile: totals, bounds, the critical path, memory over time."""

from __future__ import annotations

import functools
import statistics
from collections import Counter
from collections.abc import Iterator

from nkisim.arch.timing import timing_of
from nkisim.diagnostics import Finding, Place
from nkisim.memory.region import is_on_chip
from nkisim.profiling.model.assumptions import ASSUMPTIONS, Assumptions, alternatives
from nkisim.profiling.model.program import Operation, Program
from nkisim.profiling.model.ranges import spanned
from nkisim.profiling.model.schedule import Schedule, schedule
from nkisim.profiling.model.spills import SPILL, with_spills
from nkisim.profiling.result import ENGINES, Cycle, Doubt, LineTime, MemoryUse, Span
from nkisim.profiling.shown import Profile
from nkisim.spec.enums import engine as Engine

_HIDDEN_SHARE = 0.6
"""Least share of the time for which an engine must be busy to bind a kernel."""

_WITHOUT_SCHEDULE = ("exposed_latency", "fixed_us")
"""Assumptions that leave the schedule as it is."""

_LAUNCH_SHARE = 0.5
"""Share of the time from which on the fixed cost binds a kernel."""


class Prediction:
    """The schedule of a program and its predicted time.

    Attributes:
        program: The program with spills.
        spill_bytes: Bytes of the spills.
        times: Its schedule, in which transfers run ahead of their use.
        latency_us: The predicted time.
    """

    def __init__(self, program: Program) -> None:
        spilled = with_spills(program)
        self.program = spilled.program
        self.spill_bytes = spilled.nbytes
        self.times = schedule(self.program)
        self.latency_us = self.latency_with(program.assumptions)

    def latency_with(self, assumptions: Assumptions, times: Schedule | None = None) -> float:
        """Return the device time in us: the longer of two estimates, and the fixed cost.

        The first estimate is the total of ``times``. The second one is the total if transfers took
        no time, plus a share of what transfers one by one add to it, at most doubled. Both
        estimates grow with every cost, and so does their maximum.

        Args:
            assumptions: The share is its ``exposed_latency``, the fixed cost its ``fixed_us``.
            times: The schedule; None uses ``self.times``.
        """
        total = (self.times if times is None else times).total
        if assumptions["exposed_latency"]:
            waited = assumptions["exposed_latency"] * (self._serial - self._free)
            total = max(total, self._free + min(waited, self._free))
        return float(total / 1e3 + assumptions["fixed_us"])

    @functools.cached_property
    def _free(self) -> float:
        """Total time if transfers take no time."""
        return schedule(self.program, "free").total

    @functools.cached_property
    def _serial(self) -> float:
        """Total time if each ring has one transfer under way."""
        return schedule(self.program, "one by one").total

    @functools.cached_property
    def doubts(self) -> list[Doubt]:
        """The assumptions that change the time, the one that changes it most first."""
        found: dict[str, Doubt] = {}
        current = self.program.assumptions
        for name, assumptions in alternatives(current):
            if not touches(self.program, name):
                continue
            times = self.times
            if name not in _WITHOUT_SCHEDULE:
                times = schedule(self.program.assuming(assumptions))
            us = self.latency_with(assumptions, times)
            if us != self.latency_us:
                doubt = found.setdefault(name, Doubt(name, current[name], {}))
                doubt.alternatives[assumptions[name]] = us

        def most(doubt: Doubt) -> float:
            return max(abs(us - self.latency_us) for us in doubt.alternatives.values())

        return sorted(found.values(), key=most, reverse=True)

    @property
    def interval_us(self) -> tuple[float, float]:
        """Range of the time over the alternatives and the error of the model."""
        error = timing_of(self.program.generation).calibration_error
        times = [us for doubt in self.doubts for us in doubt.alternatives.values()]
        return spanned(self.latency_us, times, error)


def touches(program: Program, assumption: str) -> bool:
    """Return whether an assumption can matter for a program."""
    works = [operation.work for operation in program.operations]
    moved = [work.transfer for work in works if work.transfer is not None]
    if assumption == "fixed_us":
        return True
    if assumption == "exposed_latency":
        return bool(moved)
    if assumption == "row_tiles":
        return any(work.array for work in works)
    if assumption == "shared_port":
        fast = any(work.fast_vector for work in works)
        return fast and any(work.engine is Engine.gpsimd for work in works)
    if assumption == "transfers_in_flight":
        return len(moved) > min(ASSUMPTIONS[assumption].values)
    if assumption == "software_descriptors":
        return any(transfer.mode == "software" for transfer in moved)
    if assumption == "transpose_rate":
        return any(transfer.transposes and transfer.hbm_bytes for transfer in moved)
    if assumption == "narrow_vector":
        return any(work.narrow for work in works)
    if assumption == "collective_hop_us":
        return any(work.link for work in works)
    if assumption in ("loop_iteration_us", "device_loops"):
        return any(operation.scope for operation in program.operations)
    return any(work.engine is Engine.gpsimd for work in works)


def profile_of(prediction: Prediction, kernel: str, findings: list[Finding], nki: str) -> Profile:
    """Return the profile of a predicted program."""
    program, times = prediction.program, prediction.times
    generation, timing = program.generation, timing_of(program.generation)
    latency, fixed = prediction.latency_us, program.assumptions["fixed_us"]
    per_core = [_busy(program, times, core) for core in range(program.cores)]
    busiest = max(per_core, key=lambda busy: max(busy.values()))
    moved = [o for o in program.operations if o.work.transfer is not None]
    hbm_bytes = sum(o.work.transfer.hbm_bytes for o in moved if o.work.transfer is not None)
    flops = sum(operation.work.flops for operation in program.operations)
    bound_us, bound_by = _bound(busiest, latency, fixed)
    nbytes = sum(o.work.transfer.nbytes for o in moved if o.work.transfer is not None)
    dma_busy = sum(busy["dma"] for busy in per_core)
    return Profile(
        kernel=kernel,
        target=generation.name,
        nki=nki,
        latency_us=latency,
        interval_us=prediction.interval_us,
        fixed_us=fixed,
        host_us=timing.host / 1e3,
        engine_busy_us=busiest,
        utilization={key: value / latency for key, value in busiest.items()},
        per_core=per_core,
        bound_by=bound_by,
        bound_us=bound_us,
        hbm_bytes=hbm_bytes,
        transfers=len(moved),
        spill_bytes=prediction.spill_bytes,
        descriptors=dict(
            Counter(
                o.work.transfer.mode
                for o in moved
                if o.work.transfer is not None and o.name != SPILL
            )
        ),
        assumed_descriptors=program.assumed_descriptors,
        dma_efficiency=nbytes / dma_busy / timing.dma_core_rate / 1e3 if dma_busy else 0.0,
        flops=flops,
        intensity=flops / hbm_bytes if hbm_bytes else 0.0,
        peak_tflops=_peak_tflops(program),
        hbm_gbps=float(timing.dma_core_rate) * program.cores,
        instructions=dict(Counter(o.name for o in program.operations).most_common()),
        lines=_lines(program, times),
        cycle=_cycle(program, times) if bound_by == "dependencies" else None,
        timeline=_timeline(program, times),
        memory=_memory(program, times),
        assumptions=prediction.doubts,
        capacity={"sbuf": generation.sbuf_usable_bytes, "psum": generation.psum_bytes},
        findings=findings,
    )


def _busy(program: Program, times: Schedule, core: int) -> dict[str, float]:
    """Return the busy time of each engine of a core, in us.

    The DMA engines of a core are as busy as the busiest of them, and so are its descriptor
    generators: GpSimd, and the two in hardware.
    """
    spans: dict[str, list[tuple[float, float]]] = {}
    generators: dict[Engine, float] = {}
    for operation in program.operations:
        if operation.core != core:
            continue
        number, moved = operation.number, operation.work.transfer
        if moved is None:
            key = lane(operation)
            spans.setdefault(key, []).append((times.start[number], times.end[number]))
            continue
        issue = (times.start[number], times.issued[number])
        if moved.mode != "prebuilt":
            made = generators.get(moved.trigger, 0.0)
            generators[moved.trigger] = made + issue[1] - issue[0]
        if moved.mode != "hardware":
            spans.setdefault(moved.trigger.name, []).append(issue)
    busy = dict.fromkeys(ENGINES, 0.0) | {key: _union(found) for key, found in spans.items()}
    busy["dge"] = max(generators.values(), default=0.0)
    busy["dma"] = times.dma_busy[core]
    return {key: value / 1e3 for key, value in busy.items()}


def _union(spans: list[tuple[float, float]]) -> float:
    """Return the time that intervals cover together."""
    covered, until = 0.0, 0.0
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered


def _bound(busy: dict[str, float], latency: float, fixed: float) -> tuple[float, str]:
    """Return the least time that engines and bytes allow, and what binds the kernel."""
    engine = max(busy, key=lambda key: busy[key])
    most = busy[engine]
    work = latency - fixed
    if fixed >= _LAUNCH_SHARE * latency:
        return most, "launch"
    if most < _HIDDEN_SHARE * work:
        return most, "dependencies"
    return most, engine


def _peak_tflops(program: Program) -> float:
    """Return the rate of the Tensor engine for the types of the program's products."""
    products = [operation.work for operation in program.operations if operation.work.flops]
    flops = sum(work.flops for work in products)
    full = sum(work.full_rate_flops for work in products)
    peak = timing_of(program.generation).tensor_ghz * 2 * 128 * 128 / 1e3 * program.cores
    return peak * min(1.0, flops / full) if full else peak


def _lines(program: Program, times: Schedule) -> list[LineTime]:
    """Return the time of each line, by its share of the critical path."""
    critical = _critical(program, times)
    busy: dict[tuple[str, int], list[float]] = {}
    for operation in program.operations:
        found = busy.setdefault((operation.place.file, operation.place.line), [0.0, 0.0])
        found[0] += times.end[operation.number] - times.moved[operation.number]
        found[1] += 1
    lines = [
        LineTime(
            file,
            line,
            Place(file, line).text,
            critical.get((file, line), 0.0) / 1e3,
            total / 1e3,
            int(count),
        )
        for (file, line), (total, count) in busy.items()
    ]
    return sorted(lines, key=lambda found: (-found.critical_us, -found.busy_us))


def _critical(program: Program, times: Schedule) -> dict[tuple[str, int], float]:
    """Return the share of each line in the critical path."""
    found: dict[tuple[str, int], float] = {}
    for operation, ns in _path(program, times):
        key = (operation.place.file, operation.place.line)
        found[key] = found.get(key, 0.0) + ns
    return found


def _path(program: Program, times: Schedule) -> Iterator[tuple[Operation, float]]:
    """Yield the critical path from the last result to the start, with ns of each operation.

    Waiting belongs to the operation that is waited for.
    """
    if not program.operations:
        return
    number = max(range(len(program.operations)), key=times.ready.__getitem__)
    until = times.ready[number]
    while number >= 0:
        waits = number in times.waited_for
        begin = times.moved[number] if waits else times.start[number]
        yield program.operations[number], max(0.0, until - begin)
        until = min(until, begin)
        number = times.waited_for[number] if waits else times.cause[number]


def _cycle(program: Program, times: Schedule) -> Cycle | None:
    """Return the loop with most of the critical path; None if it has less than half of it."""
    spent: dict[tuple[str, ...], dict[tuple[str, str, int], Counter[object]]] = {}
    totals: Counter[tuple[str, ...]] = Counter()
    for o, ns in _path(program, times):
        loop = tuple(name for name, _ in o.place.loops)
        rounds = spent.setdefault(loop, {}).setdefault(
            (o.name, o.place.file, o.place.line), Counter()
        )
        rounds[o.place.loops] += round(ns)
        totals[loop] += round(ns)
    loop = max(totals, key=totals.__getitem__, default=())
    if not loop or 2 * totals[loop] < totals.total():
        return None
    every = {o.place.loops for o in program.operations}
    every = {loops for loops in every if tuple(name for name, _ in loops) == loop}
    steps = []
    for key, rounds in sorted(spent[loop].items(), key=lambda step: step[0][2]):
        ns = statistics.median(rounds[loops] for loops in every)
        steps += [(*key, ns)] if ns else []
    return Cycle(loop[-1], len(every), steps)


def _timeline(program: Program, times: Schedule) -> list[Span]:
    spans = []
    for operation in program.operations:
        number, moved = operation.number, operation.work.transfer
        spans.append(
            Span(
                lane(operation),
                times.moved[number] / 1e3,
                times.end[number] / 1e3,
                times.ready[number] / 1e3,
                operation.name,
                operation.place.file,
                operation.place.line,
                operation.core,
                0 if moved is None else moved.nbytes,
                "" if moved is None else _queue_name(operation),
            )
        )
        if moved is not None and moved.mode != "prebuilt":
            spans.append(
                Span(
                    "dge",
                    times.start[number] / 1e3,
                    times.issued[number] / 1e3,
                    times.issued[number] / 1e3,
                    f"descriptors by {moved.trigger.name}",
                    operation.place.file,
                    operation.place.line,
                    operation.core,
                )
            )
    return sorted(spans, key=lambda span: (span.start_us, span.engine))


def lane(operation: Operation) -> str:
    """Return the key of the engine that an operation occupies; ``link`` for a collective."""
    return "link" if operation.work.link else operation.work.engine.name


def _queue_name(operation: Operation) -> str:
    moved = operation.work.transfer
    assert moved is not None
    if operation.name == SPILL:
        return "spills"
    direction = "stores" if moved.stores else "loads"
    return f"{direction} ({moved.trigger.name}, {moved.mode})"


def _memory(program: Program, times: Schedule) -> list[MemoryUse]:
    return [
        MemoryUse(
            tile.region.value,
            tile.name if tile.name != "unnamed" else f"line {tile.line[1]}",
            *tile.line,
            tile.row_bytes,
            times.start[tile.uses[0]] / 1e3,
            max(times.ready[number] for number in tile.uses) / 1e3,
            tile.core,
        )
        for tile in program.tiles
        if tile.uses and is_on_chip(tile.region)
    ]
