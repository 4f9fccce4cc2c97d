"""Predicted device time of the suite's kernels next to what hardware allows and to goals.

    python benchmarks/bench_device.py                  the sizes with goals, on gen3
    python benchmarks/bench_device.py --all            also larger and odd sizes
    python benchmarks/bench_device.py --only fft       problems whose name contains the text
    python benchmarks/bench_device.py --target gen2    another generation; goals are those of gen3

Nothing is measured: times are those of ``nkisim profile``, by shapes, with the fixed cost of a
kernel. A row is one public call, profiled at its launch. ``bound`` is the least time for operands,
results and products; ``share`` is the bound as a part of the predicted time. ``span`` is the
range over the alternatives of the model's assumptions and its error. A goal is missed if the time
exceeds it; problems without a goal show that no kernel is fitted to one size.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Iterator

import device_problems
from device_problems.problem import Problem
from runner import show

GROUPS = ("PROBLEMS", "LARGER", "ODD")
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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--target", choices=("gen2", "gen3", "gen4"), default="gen3")
    options = parser.parse_args()
    chosen = problems(GROUPS if options.all else GROUPS[:1])
    rows = [row_of(p, options.target) for p in chosen if options.only in p.name]
    print(f"predicted for {options.target}, us")
    show(rows, HEADER)


if __name__ == "__main__":
    main()
