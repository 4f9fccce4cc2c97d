#!/usr/bin/env python
"""Write the benchmark page from the results in benchmarks/results.

The page is not part of the repository; it is generated when the site is built.

    python tools/gen_benchmarks.py [FOLDER]     FOLDER/benchmarks; default: docs
"""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "tools") not in sys.path:
    sys.path.append(str(ROOT / "tools"))

from markdown_text import join, table  # noqa: E402

from trnsci.cli.bench import Result, chart, read_results, seconds_text  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
EVEN = 1.05  # variation between runs of one program

LIBRARIES = {
    "trnblas": ("blas",),
    "trnfft": ("fft",),
    "trnrand": ("rand", "qmc"),
    "trnsolver": ("solver", "batched_jacobi"),
    "trnsparse": ("sparse", "attention"),
    "trntensor": ("einsum",),
    "nkisim": ("bench_simulator", "cores", "bench_check"),
}
"""The result files of every library."""

INTRODUCTION = """\
Every problem is timed beside the fastest freely available routine that does the same with the same
dtype and threads, in turns, in one process. A ratio is the median time of ours over that of the
strongest of them; below 1 is faster. What is shown is the last recorded run, good or bad, on the
machine that is named. The libraries are measured on their torch path, since no predicted time of a
device is a measurement; `nkisim` is measured as a program on this CPU, beside NumPy and torch that
compute the same mathematics without simulating anything."""

AGAIN = """\
`trnsci bench` runs all benchmarks and appends to the results, `trnsci bench --list` names them,
`trnsci bench --no-run --draw charts` draws what is recorded."""


def main(folder: Path = ROOT / "docs", results: Path = RESULTS) -> None:
    """Write the page into ``folder``, replacing an earlier one."""
    home = folder / "benchmarks"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (home / "index.md").write_text(page(results), encoding="utf-8")


def page(results: Path) -> str:
    """Return the page."""
    sections, missing = [], []
    for library, files in LIBRARIES.items():
        found = {
            name: read_results(results / f"{name}.csv") for name in files if kept(results, name)
        }
        found = {name: rows for name, rows in found.items() if rows}
        if found:
            sections += [f"## {library}", *(part for n in found for part in section(n, found[n]))]
        else:
            command = f"trnsci bench {files[0].removeprefix('bench_')}"
            missing.append(f"- {library}: nothing is recorded yet; `{command}` does it.")
    if missing:
        sections += ["## Not measured", "\n".join(missing)]
    return join(["# Benchmarks", INTRODUCTION, AGAIN, *sections])


def kept(results: Path, name: str) -> bool:
    """Return whether there are results of that name."""
    return (results / f"{name}.csv").is_file()


def section(name: str, results: Sequence[Result]) -> list[str]:
    """Return the section of one result file: summary, chart, and table of slower problems."""
    slower = sorted((r for r in results if r.ratio > EVEN), key=lambda r: -r.ratio)
    faster = sum(r.ratio <= 1 for r in results)
    even = len(results) - faster - len(slower)
    middle = statistics.median(r.ratio for r in results)
    parts = [
        f"**{name.removeprefix('bench_')}**, {measured(results)}: of {len(results)} problems "
        f"{faster} as fast as the strongest baseline or faster, {even} slower by less than "
        f"{EVEN - 1:.0%}, {len(slower)} slower by more; the median ratio is {middle:.2f}.",
        '<div class="chart" style="overflow-x: auto">\n'
        + chart(results, f"{name}: times over the fastest baseline", standalone=False)
        + "</div>",
    ]
    if slower:
        rows = [
            (
                r.problem,
                seconds_text(r.ours_s),
                f"{seconds_text(r.rival_s)} ({r.rival})",
                f"{r.ratio:.2f}",
                f"+{seconds_text(r.ours_s - r.rival_s)}",
            )
            for r in slower
        ]
        head = ("slower by more than 5 %", "ours", "baseline", "ratio", "difference")
        parts.append(table(head, rows))
    return parts


def measured(results: Sequence[Result]) -> str:
    """Return date, commit and machine of the results, for up to three runs."""
    runs = dict.fromkeys((r.date, r.commit, r.machine, r.python) for r in results)
    texts = [f"{date} at {commit} on {where}, Python {v}" for date, commit, where, v in runs]
    return "; ".join(texts[:3]) + (f" and {len(texts) - 3} more runs" if len(texts) > 3 else "")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
