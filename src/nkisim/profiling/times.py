"""Measured times beside predictions, and the assumptions that explain the differences."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from nkisim.profiling.model.ranges import alternatives_of
from nkisim.profiling.shown import Profile
from nkisim.profiling.text import duration

TIME = "us"
"""The column of the times."""

_MOST = 1000
"""Ratio of a measured and a predicted time from which on the unit is another one."""


class MeasuredTime(NamedTuple):
    """A row of a table.

    Attributes:
        line: Its line in the file.
        arguments: The arguments in the form of ``--shapes``.
        us: The measured time.
    """

    line: int
    arguments: str
    us: float


class ComparedTime(NamedTuple):
    """A measured time and the profile of its arguments."""

    measured: MeasuredTime
    profile: Profile


def read_times(text: str) -> tuple[list[MeasuredTime], list[str]]:
    """Return the rows of a CSV table, and what is wrong with others, by line.

    The first line names the columns: arguments of the kernel, and ``us``. A cell is what follows
    the ``=`` in ``--shapes``; shapes with commas are in quotes.
    """
    lines = csv.reader(io.StringIO(text), skipinitialspace=True)
    head = [name.strip() for name in next(lines, [])]
    if head.count(TIME) != 1 or len(head) < 2 or len(set(head)) < len(head):
        names = ", ".join(head) or "nothing"
        return [], [f"line 1: got {names}; columns are arguments and {TIME}, each once"]
    rows, faults = list[MeasuredTime](), list[str]()
    known: dict[str, int] = {}
    for cells in lines:
        line = lines.line_num
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(head):
            faults.append(f"line {line}: {len(cells)} cells, the first line has {len(head)}")
            continue
        by_name = dict(zip(head, map(str.strip, cells), strict=True))
        us = _number(by_name.pop(TIME))
        arguments = " ".join(f"{name}={cell}" for name, cell in by_name.items() if cell)
        if us is None:
            cell = cells[head.index(TIME)].strip()
            faults.append(f"line {line}: {TIME} is {cell!r}; accepted: a positive number of us")
        elif arguments in known:
            faults.append(f"line {line}: the arguments of line {known[arguments]} again")
        else:
            known[arguments] = line
            rows.append(MeasuredTime(line, arguments, us))
    if not rows and not faults:
        faults.append("line 2: no times")
    return rows, faults


def _number(cell: str) -> float | None:
    try:
        found = float(cell)
    except ValueError:
        return None
    return found if math.isfinite(found) and found > 0 else None


def implausible(found: ComparedTime) -> str:
    """Return why a time cannot be one of this kernel in microseconds; "" if it can."""
    us, profile = found.measured.us, found.profile
    if us < profile.bound_us / 2:
        return f"{us:g} us is less than half of what its engines need, {profile.bound_us:.3g} us"
    if us > _MOST * profile.latency_us:
        return f"{us:g} us is more than {_MOST} times the predicted {profile.latency_us:.3g} us"
    return ""


def times_beside(rows: Sequence[ComparedTime]) -> dict[str, Any]:
    """Return measured times beside predictions, as plain data.

    ``explains`` has the alternatives of assumptions that would reduce the median error, tried one
    at a time, the best first.
    """
    ratios = [row.profile.latency_us / row.measured.us for row in rows]
    error = _error(ratios)
    others = [alternatives_of(row.profile.assumptions) for row in rows]
    explains: list[tuple[float, str, object]] = []
    for name, value in dict.fromkeys(key for found in others for key in found):
        changed = [
            found.get((name, value), row.profile.latency_us) / row.measured.us
            for row, found in zip(rows, others, strict=True)
        ]
        if _error(changed) < error:
            explains.append((_error(changed), name, value))
    explains.sort(key=lambda found: found[0])
    data = [_row(row) for row in rows]
    return {
        "kernel": rows[0].profile.kernel,
        "target": rows[0].profile.target,
        "nki": rows[0].profile.nki,
        "rows": data,
        "inside": sum(row["inside"] for row in data) / len(rows),
        "median_error": error,
        "bias": statistics.median(ratios) - 1,
        "explains": [
            {"assumption": name, "value": value, "median_error": left}
            for left, name, value in explains
        ],
    }


def _error(ratios: Sequence[float]) -> float:
    return statistics.median(abs(ratio - 1) for ratio in ratios)


def _row(found: ComparedTime) -> dict[str, Any]:
    low, high = found.profile.interval_us
    return {
        **found.measured._asdict(),
        "predicted_us": found.profile.latency_us,
        "ratio": found.profile.latency_us / found.measured.us,
        "interval_us": (low, high),
        "widest": found.profile.widest,
        "inside": low <= found.measured.us <= high,
    }


def times_text(found: dict[str, Any]) -> str:
    """Return measured times beside predictions as a table."""
    rows = [("measured", "predicted", "ratio", "range", "", "arguments")]
    for row in found["rows"]:
        low, high = row["interval_us"]
        rows.append(
            (
                duration(row["us"]),
                duration(row["predicted_us"]),
                f"{row['ratio']:.2f}",
                f"{duration(low)} - {duration(high)}",
                "inside" if row["inside"] else "outside",
                row["arguments"],
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"{found['kernel']} on {found['target']}, NKI {found['nki']}"]
    for *cells, arguments in rows:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths, strict=False))
        lines.append("  ".join((*padded, arguments)).rstrip())
    lines.append(
        f"{found['inside']:.0%} inside the range; median error {found['median_error']:.1%}, "
        f"bias {found['bias']:+.1%}"
    )
    for best in found["explains"][:3]:
        lines.append(
            f"{best['assumption']} = {best['value']} alone: median error {best['median_error']:.1%}"
        )
    if not found["explains"]:
        lines.append("no assumption alone reduces the median error")
    return "\n".join(lines) + "\n"
