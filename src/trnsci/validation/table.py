"""The validation table: one row for each kernel, computed from the records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill
from typing import Literal

from trnsci.core.evidence import KernelSource, kernels_of
from trnsci.libraries import LIBRARIES
from trnsci.page import PageRow, page
from trnsci.validation.record import (
    Record,
    Unreadable,
    fingerprint,
    hardware_records,
    read_records,
)
from trnsci.validation.running import GENERATIONS, reach_text

FORMATS = ("text", "md", "html", "json")
Status = Literal["passed", "failed", "stale", "unreadable", "not run"]

_SIGNS = {"passed": "ok", "failed": "FAILED", "stale": "stale", "unreadable": "unreadable"}
_COLOURS = {"failed": 31, "unreadable": 31, "stale": 33, "not run": 33}
_HEADINGS = (
    "library",
    "kernel",
    "what",
    "reached by",
    "simulator",
    "dtypes",
    "reference",
    "rel. error",
    *GENERATIONS,
    "instructions",
    "HBM bytes",
    *(f"time {generation}" for generation in GENERATIONS),
    "hardware",
)

_DISPENSABLE = (
    *(f"time {generation}" for generation in reversed(GENERATIONS)),
    "HBM bytes",
    "instructions",
    "dtypes",
    "reference",
    "reached by",
    "what",
    "hardware",
    "rel. error",
)
"""Columns to leave out on a narrow terminal, in this order."""

_STYLE = """
td:nth-child(6), td:nth-child(7) { white-space: normal; min-width: 11rem; }
td:nth-child(n+12):nth-child(-n+13) { text-align: right; font-variant-numeric: tabular-nums; }
tr.passed td:nth-child(5) { color: var(--ok); font-weight: 600; }
tr.failed td:nth-child(5), tr.unreadable td:nth-child(5) { color: var(--bad); font-weight: 600; }
tr.failed { background: #cf222e18; }
tr.stale td:nth-child(5), tr.not-run td:nth-child(5) { color: var(--old); }
"""
"""Rules of the HTML page: by the number of the column."""


@dataclass(frozen=True)
class Row:
    """One row of the table: a kernel and its records.

    Attributes:
        library, kernel, title, module, lever: Its names, module and hardware feature.
        status: Status of its record: ``"stale"`` if sources have changed since.
        record: The record, or None.
        hardware: Date, instance and SDK of a run on a NeuronCore; ``"pending"`` without one.
    """

    library: str
    kernel: str
    title: str
    module: str
    lever: str
    status: Status
    record: Record | None
    hardware: str

    @property
    def reached(self) -> str:
        """How it was launched: through the public interface, directly, or not at all."""
        if self.record is None or not self.record.launches:
            return "-"
        return "set_backend" if self.record.public else "itself"

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the row."""
        record = self.record
        head = (self.library, self.kernel, self.title, self.reached)
        state = _SIGNS.get(self.status, self.status)
        if record is None:
            return (*head, state, *["-"] * (len(_HEADINGS) - 6), self.hardware)
        clean = (_clean(record, generation) for generation in GENERATIONS)
        error = (
            "-" if record.error is None else "exact" if not record.error else f"{record.error:.1e}"
        )
        when = record.stamp.get("date", "")[:10]
        return (
            *head,
            f"{state} {when}".strip(),
            reach_text(record.dtypes),
            record.reference or "-",
            error,
            *clean,
            f"{record.instructions:,}",
            f"{record.hbm_bytes:,}",
            *(_speed(record, generation) for generation in GENERATIONS),
            self.hardware,
        )


def _clean(record: Record, generation: str) -> str:
    found = record.generations.get(generation)
    return "-" if found is None else "clean" if not found else " ".join(found)


def _speed(record: Record, generation: str) -> str:
    """Return predicted time, what binds it, and the bound as a share of the time."""
    found = record.speed.get(generation)
    if found is None:
        return "-"
    if "refused" in found:
        return "refused"
    return f"{found['us']:,.1f} us, {found['bound_by']} {found['bound_share']:.0%}"


def rows(folder: Path, libraries: Iterable[str] = LIBRARIES) -> tuple[list[Row], list[Unreadable]]:
    """Return a row for each kernel, and the files without a valid record."""
    records, bad = read_records(folder)
    broken = {entry.path.stem for entry in bad}
    hardware = hardware_records()
    found = []
    for library in libraries:
        for source in kernels_of(library):
            record = records.get((library, source.name))
            unreadable = f"{library}.{source.name}" in broken
            found.append(_row(source, record, unreadable, hardware.get((library, source.name))))
    return found, bad


def _row(
    source: KernelSource, record: Record | None, unreadable: bool, hardware: Record | None
) -> Row:
    status: Status
    if record is None:
        status = "unreadable" if unreadable else "not run"
    elif record.fingerprint != fingerprint(source.library):
        status = "stale"
    else:
        status = record.status
    return Row(
        source.library,
        source.name,
        record.title if record else source.name,
        source.module,
        source.lever,
        status,
        record,
        _hardware(hardware),
    )


def _hardware(record: Record | None) -> str:
    if record is None:
        return "pending"
    made = record.stamp
    where = ", ".join(
        filter(None, (made.get("date", "")[:10], made.get("instance"), made.get("sdk")))
    )
    return f"{record.status} {where}".strip()


def summary(found: Sequence[Row]) -> str:
    """Return a one-line summary of all kernels."""
    counts = {status: sum(row.status == status for row in found) for status in (*_SIGNS, "not run")}
    details = ", ".join(f"{number} {status}" for status, number in counts.items() if number)
    on_device = sum(row.hardware.startswith("passed") for row in found)
    return f"{len(found)} kernels: {details or 'none'}; {on_device} with a hardware record"


def render(
    found: Sequence[Row],
    bad: Sequence[Unreadable],
    form: str,
    *,
    width: int | None = None,
    colour: bool = False,
) -> str:
    """Return the table as ``"text"``, ``"md"``, ``"html"`` or ``"json"``.

    Args:
        found: The rows.
        bad: Files without a valid record.
        form: The format.
        width: Maximum characters of a text line; columns that do not fit are left out and listed,
            notes are wrapped. None for no limit.
        colour: Whether text shows failed kernels in red and unknown ones in yellow.
    """
    if form == "json":
        content = {
            "rows": [asdict(row) | {"reached": row.reached} for row in found],
            "unreadable": [{"path": str(entry.path), "why": entry.why} for entry in bad],
        }
        return json.dumps(content, indent=1) + "\n"
    if form == "html":
        return _html(found, bad)
    table = [_HEADINGS, *(row.cells() for row in found)]
    widths = [max(len(line[i]) for line in table) for i in range(len(_HEADINGS))]
    shown = _fitting(widths, width) if form == "text" else range(len(widths))
    lines = [[line[i].ljust(widths[i]) for i in shown] for line in table]
    lines.insert(1, ["-" * widths[i] for i in shown])
    if form == "md":
        text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    else:
        ruled = ["  ".join(line).rstrip() for line in lines]
        if colour:
            painted = zip(ruled[2:], found, strict=True)
            ruled[2:] = [_painted(line, row.status) for line, row in painted]
        text = "\n".join(ruled)
    left_out = [name for i, name in enumerate(_HEADINGS) if i not in shown]
    notes = []
    if left_out:
        notes.append(f"not shown, the line is too narrow: {', '.join(left_out)}; --wide shows all")
    notes += [
        f"{row.library}.{row.kernel}: {row.record.message}"
        for row in found
        if row.record is not None and row.record.status == "failed"
    ]
    notes += [f"{entry.path}: {entry.why}; `trnsci validate` writes a new one" for entry in bad]
    if form == "text" and width is not None:
        notes = [
            fill(note, width, subsequent_indent="  ", break_on_hyphens=False) for note in notes
        ]
    return "\n".join([text, "", *notes, summary(found)]) + "\n"


def _fitting(widths: Sequence[int], width: int | None) -> list[int]:
    """Return the columns that fit; mandatory columns are always included."""
    shown = list(range(len(widths)))
    for name in _DISPENSABLE:
        if width is None or sum(widths[i] + 2 for i in shown) - 2 <= width:
            break
        shown.remove(_HEADINGS.index(name))
    return shown


def _painted(line: str, status: Status) -> str:
    colour = _COLOURS.get(status)
    return f"\x1b[{colour}m{line}\x1b[0m" if colour else line


def _html(found: Sequence[Row], bad: Sequence[Unreadable]) -> str:
    """Return the table as one self-contained page."""
    return page(
        "Validation of the kernels",
        f"{summary(found)}. A row opens with a click: what of the hardware the kernel uses, what "
        f"failed, and what the record was made with.",
        _HEADINGS,
        map(_page_row, found),
        filtered="library, kernel or reference",
        style=_STYLE,
        notes=[(str(entry.path), entry.why) for entry in bad],
    )


def _page_row(row: Row) -> PageRow:
    details = [("lever", row.lever or "not named")]
    if row.record is not None:
        if row.record.message:
            details.append(("fault", row.record.message))
        made = ", ".join(f"{name} {value}" for name, value in row.record.stamp.items())
        details.append(("made", made))
    return PageRow(row.status.replace(" ", "-"), row.cells(), details)
