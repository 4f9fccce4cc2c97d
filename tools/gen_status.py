#!/usr/bin/env python
"""Write docs/status.md: the validation table of this version, from the records.

The page is part of the repository. It is written from complete records only: every kernel passed,
and no source has changed since. A test compares its kernels with those of the libraries.

    trnsci validate --quick && python tools/gen_status.py [FILE]     default: docs/status.md
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "tools") not in sys.path:
    sys.path.append(str(ROOT / "tools"))

from markdown_text import join, table  # noqa: E402

from trnsci.validation import GENERATIONS, LIBRARIES, Row, records_folder, rows  # noqa: E402

TIMES = tuple(f"time {generation}" for generation in GENERATIONS)
HEAD = (
    "kernel",
    "what",
    "reached by",
    "dtypes",
    "reference",
    "rel. error",
    *GENERATIONS,
    *TIMES,
    "hardware",
)
ADVISED = "gen3"
FURTHEST = 5


def main(file: Path = ROOT / "docs" / "status.md") -> None:
    """Write the page, or exit with the kernels whose records are not complete."""
    found, _ = rows(records_folder())
    missing = [
        f"{row.library}.{row.kernel}: {row.status}" for row in found if row.status != "passed"
    ]
    if missing:
        raise SystemExit("\n".join(["run `trnsci validate --quick` first", *missing]))
    file.write_text(page(found), encoding="utf-8")
    print(f"{file}: {len(found)} kernels")


def page(found: Sequence[Row]) -> str:
    """Return the text of the page."""
    dates = sorted(row.record.stamp.get("date", "")[:10] for row in found if row.record)
    on_device = sum(row.hardware.startswith("passed") for row in found)
    parts = [
        "<!-- Written by tools/gen_status.py from the records of `trnsci validate`. -->",
        "# Validation status",
        f"{len(found)} kernels passed on the simulator ({dates[-1]}); {on_device} have a record of "
        f"a run on a NeuronCore. [Validation](validation.md) explains the columns; "
        f"`trnsci status` shows the table for your own records.",
    ]
    for library in LIBRARIES:
        parts += [
            f"## {library}",
            table(HEAD, [line(row) for row in found if row.library == library]),
        ]
    return join([*parts, *_furthest(found)])


def _furthest(found: Sequence[Row]) -> list[str]:
    """Return a section on the kernels whose time is the furthest from their bound."""
    speeds = [
        (row, row.record.speed[ADVISED])
        for row in found
        if row.record and "us" in row.record.speed.get(ADVISED, {})
    ]
    slow = [pair for pair in speeds if pair[1]["bound_by"] != "launch"]
    slow.sort(key=lambda pair: pair[1]["bound_share"])
    lines = [
        [
            f"`{row.library}.{row.kernel}`",
            f"{speed['us']:,.1f}",
            speed["bound_by"],
            f"{speed['bound_share']:.0%}",
            "; ".join(speed["advice"]) or "none: its instructions wait for each other",
        ]
        for row, speed in slow[:FURTHEST]
    ]
    return [
        "## Furthest from their bound",
        f"The kernels whose predicted time on {ADVISED} is the furthest from the time of their "
        "busiest engine, with the advice of [`nkisim profile`](guides/profiling.md). Kernels that "
        "the launch binds are left out.",
        table(("kernel", "us", "bound by", "share of the bound", "advice"), lines),
    ]


def line(row: Row) -> list[str]:
    """Return the cells of a kernel."""
    _, kernel, what, reached, _, dtypes, reference, error, *rest = row.cells()
    generations, hardware = rest[: len(GENERATIONS)], rest[-1]
    times = rest[-1 - len(GENERATIONS) : -1]
    return [f"`{kernel}`", what, reached, dtypes, reference, error, *generations, *times, hardware]


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
