"""Measures problems side by side and prints ratios; shared by every benchmark.

Machines are noisy, so contenders are timed in turns, and what counts is the ratio of their medians
in one run.
"""

from __future__ import annotations

import csv
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Timing:
    """Seconds per call of one contender: 20th, 50th and 80th percentile."""

    p20: float
    p50: float
    p80: float


def measure(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int = 15,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time every contender ``rounds`` times, in turns, after one call to warm up.

    Where all work is done by one thread, ``time.thread_time`` as clock leaves out what other
    processes take.
    """
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for function in contenders.values():
        function()
    for _ in range(rounds):
        for name, function in contenders.items():
            start = clock()
            function()
            samples[name].append(clock() - start)
    return {name: _percentiles(times) for name, times in samples.items()}


def _percentiles(times: list[float]) -> Timing:
    cuts = statistics.quantiles(times, n=10, method="inclusive")
    return Timing(cuts[1], statistics.median(times), cuts[7])


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
    """Return the name of the processor, or at least its kind."""
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
    rows: list[tuple[str, str, str, str]],
    header: tuple[str, str, str, str] = ("problem", "measured", "goal", ""),
) -> None:
    """Print a table: problem, measured, goal, verdict, unless the header says otherwise."""
    rows = [header, *rows]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
