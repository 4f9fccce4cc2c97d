"""Timing in turns, ratios, tables and CSV records, shared by every benchmark.

The speed of a machine varies over time, so contenders are timed in turns. Results are the median of
the ratios of adjacent turns in one run.
"""

from __future__ import annotations

import csv
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).parent / "results"

LONG_S = 200e-6
"""Baseline time from which on the work counts; below, the fixed cost of a call."""
GOAL_RATIO, GOAL_SMALL, GOAL_INNER = 1.05, 5.0, 3.0
"""Ratio to the baseline of work, of a small call, and of a small call of an inner loop."""
NEAR = 1.05
"""A result up to this multiple of its goal has reached it."""


@dataclass(frozen=True)
class Timing:
    """Seconds per call of one contender, turn by turn."""

    turns: tuple[float, ...]

    @property
    def p20(self) -> float:
        """The 20th percentile."""
        return statistics.quantiles(self.turns, n=10, method="inclusive")[1]

    @property
    def p50(self) -> float:
        """The median."""
        return statistics.median(self.turns)

    @property
    def p80(self) -> float:
        """The 80th percentile."""
        return statistics.quantiles(self.turns, n=10, method="inclusive")[7]


def clock_for(device: str, threads: int, keep: bool) -> Callable[[], float]:
    """Return the processor clock if one thread does all the work, else, and for records, wall time.

    Processor time excludes other processes, and includes other threads.
    """
    return time.process_time if device == "cpu" and threads == 1 and not keep else time.perf_counter


def measure(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int = 15,
    clock: Callable[[], float] = time.perf_counter,
    calls: int = 1,
    finish: Callable[[], object] | None = None,
    rest: float = 0.0,
) -> dict[str, Timing]:
    """Time every contender ``rounds`` times, in turns, after one turn to warm up.

    Args:
        contenders: Functions by name.
        rounds: Number of turns of each contender.
        clock: Function that returns the time in seconds.
        calls: Number of calls per turn.
        finish: Called at the end of a turn, such as a device synchronization.
        rest: Seconds to sleep before a turn, which then begins with a warm-up call. BLAS threads
            spin for a while after their work, which would slow down the next contender.
    """
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    turns = range(calls)
    for number in range(rounds + 1):
        for name, function in contenders.items():
            if rest:
                time.sleep(rest)
                function()
            start = clock()
            for _ in turns:
                function()
            if finish is not None:
                finish()
            if number:
                samples[name].append((clock() - start) / calls)
    return {name: Timing(tuple(times)) for name, times in samples.items()}


def ratio(ours: Timing, rival: Timing) -> float:
    """Return the time ratio of two contenders of one run."""
    return statistics.median(a / b for a, b in zip(ours.turns, rival.turns, strict=True))


def judged(
    ours: Timing, baseline: Timing, name: str, *, inner: bool = False
) -> tuple[str, str, str]:
    """Return the result compared with a baseline, the goal, and "missed" or nothing.

    Args:
        ours: Timing of the judged call.
        baseline: Timing of the fastest baseline, in turns with ours.
        name: Name of the baseline.
        inner: Whether the call is one of inner loops, such as gemm, axpy, fft and ``A @ x``.
    """
    most = GOAL_RATIO
    if baseline.p50 < LONG_S:
        most = GOAL_INNER if inner else GOAL_SMALL
    found = ratio(ours, baseline)
    shown, goal = f"{found:.3f} of {baseline.p50 * 1e6:.3g} us ({name})", f"{most:g}"
    return shown, goal, "missed" if found > most * NEAR else ""


def record(benchmark: str, problem: str, timings: Mapping[str, Timing]) -> None:
    """Append a problem's timings to the benchmark's CSV file: wall time on this CPU."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{benchmark}.csv"
    header = [
        "date",
        "commit",
        "machine",
        "python",
        "problem",
        "contender",
        "wall_p20_s",
        "wall_p50_s",
        "wall_p80_s",
    ]
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(header)
        for name, t in timings.items():
            writer.writerow(
                [
                    datetime.now(UTC).isoformat(timespec="seconds"),
                    _commit(),
                    f"{_processor()} x{os.cpu_count()}",
                    platform.python_version(),
                    problem,
                    name,
                    f"{t.p20:.3e}",
                    f"{t.p50:.3e}",
                    f"{t.p80:.3e}",
                ]
            )


def _processor() -> str:
    """Return the model name of the processor, or its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parent, check=False
    )
    return found.stdout.strip() or "unknown"


def show(
    rows: Sequence[tuple[str, ...]],
    header: tuple[str, ...] = ("problem", "measured", "goal", ""),
) -> None:
    """Print a table; the default header is problem, measured, goal, verdict."""
    rows = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
