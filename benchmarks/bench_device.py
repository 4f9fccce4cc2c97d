"""Predicted device time of the suite's kernels next to what hardware allows and to goals.

    python benchmarks/bench_device.py                  the sizes with goals, on gen3
    python benchmarks/bench_device.py --all            also larger and odd sizes, and other kernels
    python benchmarks/bench_device.py --only fft       problems whose name contains the text
    python benchmarks/bench_device.py --target gen2    another generation; goals are those of gen3
    python benchmarks/bench_device.py --record         write results/device.json, which a test reads
    python benchmarks/bench_device.py --record --only fft    write these problems of it
    python benchmarks/bench_device.py --check          fail if a time is not the recorded one

Nothing is measured: times are those of ``nkisim profile``, by shapes, with the fixed cost of a
kernel. A row is one public call, profiled at its launch. ``bound`` is the least time for operands,
results and products; ``share`` is the bound as a part of the predicted time. ``span`` is the
range over the alternatives of the model's assumptions and its error. A goal is missed if the time
exceeds it; problems without a goal show that no kernel is fitted to one size.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import device_problems
from device_problems.problem import Problem
from runner import RESULTS, show

from nkisim.files import write_text
from nkisim.tuning.result import TIE

GROUPS = ("PROBLEMS", "LARGER", "ODD", "KERNELS")
TARGETS = ("gen2", "gen3", "gen4")
RECORD = RESULTS / "device.json"
HEADER = ("problem", "us", "bound", "share", "bound by", "span", "goal", "")


def problems(groups: tuple[str, ...]) -> Iterator[Problem]:
    """Yield the problems of all modules, by group."""
    names = [module.name for module in pkgutil.iter_modules(device_problems.__path__)]
    for group in groups:
        for name in names:
            yield from getattr(importlib.import_module(f"device_problems.{name}"), group, ())


def row_of(problem: Problem, target: str) -> tuple[str, ...]:
    """Return the row of a problem."""
    found = problem.profile(target)
    time, bound = found.latency_us, problem.bound_us(target)
    low, high = found.interval_us
    goal = problem.goal_us if target == "gen3" else None
    return (
        problem.name,
        f"{time:,.1f}",
        f"{bound:,.1f}",
        f"{bound / time:.0%}",
        found.bound_by,
        f"{low:,.0f}-{high:,.0f}",
        "" if goal is None else f"{goal:,g}",
        "" if goal is None or time <= goal else "missed",
    )


def recorded(problem: Problem, target: str) -> dict[str, Any]:
    """Return the figures of a problem that are recorded."""
    found = problem.profile(target)
    return {
        "us": round(found.latency_us, 2),
        "span": [round(us, 2) for us in found.interval_us],
        "bound_us": round(problem.bound_us(target), 2),
        "bound_by": found.bound_by,
        "assumption": found.assumptions[0].name if found.assumptions else "",
    }


def record(chosen: list[Problem], path: Path = RECORD) -> None:
    """Write the figures of the chosen problems on all generations; others keep theirs."""
    figures = json.loads(path.read_text(encoding="utf-8"))
    figures |= {p.name: {t: recorded(p, t) for t in TARGETS} for p in chosen}
    kept = {p.name: figures[p.name] for p in problems(GROUPS)}
    write_text(path, json.dumps(kept, indent=1) + "\n")
    print(f"{path}: {len(chosen)} problems")


def moved(chosen: list[Problem], target: str, path: Path = RECORD) -> list[str]:
    """Return the problems whose time differs from the record by more than the model's error."""
    figures = json.loads(path.read_text(encoding="utf-8"))
    found = []
    for problem in chosen:
        known = figures.get(problem.name, {}).get(target, {}).get("us")
        time = problem.profile(target).latency_us
        if known is None or abs(time / known - 1) > TIE:
            found.append(f"{problem.name} on {target}: {time:,.1f} us, recorded {known}")
    return found


def main() -> None:
    """Print the table, or write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--target", choices=TARGETS, default="gen3")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    every = problems(GROUPS if options.all or options.record else GROUPS[:1])
    chosen = [problem for problem in every if options.only in problem.name]
    if options.record:
        record(chosen)
        return
    if options.check:
        faults = moved(chosen, options.target)
        sys.exit("\n".join(faults) + "\nrun --record and commit the change" if faults else 0)
    rows = [row_of(problem, options.target) for problem in chosen]
    print(f"predicted for {options.target}, us")
    show(rows, HEADER)


if __name__ == "__main__":
    main()
