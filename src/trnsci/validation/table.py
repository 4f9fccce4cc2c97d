"""The validation table: one row for each kernel in the tree, computed from the records."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from trnsci.core.evidence import KernelSource, kernels_of
from trnsci.validation.campaign import LIBRARIES
from trnsci.validation.record import (
    Record,
    Unreadable,
    fingerprint,
    hardware_records,
    read_records,
)
from trnsci.validation.running import GENERATIONS

__all__ = ["FORMATS", "Row", "Status", "render", "rows", "summary"]

FORMATS = ("text", "md", "html", "json")
Status = Literal["passed", "failed", "stale", "unreadable", "not run"]

_SIGNS = {"passed": "ok", "failed": "FAILED", "stale": "stale", "unreadable": "unreadable"}
_HEADINGS = (
    "library",
    "kernel",
    "what",
    "reached by",
    "simulator",
    "reference",
    "rel. error",
    *GENERATIONS,
    "instructions",
    "HBM bytes",
    "hardware",
)


@dataclass(frozen=True)
class Row:
    """What is known of one kernel.

    Attributes:
        library, kernel, title, module, lever: Which, where, and what of the hardware it uses.
        status: Of its record: ``"stale"`` if sources have changed since it was made.
        record: The record, if there is one.
        hardware: Of a run on a NeuronCore: when, where, with which SDK; ``"pending"`` without one.
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
        """How it was launched: by the public interface, by itself, or not at all."""
        if self.record is None or not self.record.launches:
            return "-"
        return "set_backend" if self.record.public else "itself"

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the table."""
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
            record.reference or "-",
            error,
            *clean,
            f"{record.instructions:,}",
            f"{record.hbm_bytes:,}",
            self.hardware,
        )


def _clean(record: Record, generation: str) -> str:
    found = record.generations.get(generation)
    return "-" if found is None else "clean" if not found else " ".join(found)


def rows(folder: Path, libraries: Iterable[str] = LIBRARIES) -> tuple[list[Row], list[Unreadable]]:
    """Return a row for each kernel in the tree, and the files that hold no record."""
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
    """Return one line on all kernels."""
    counts = {status: sum(row.status == status for row in found) for status in (*_SIGNS, "not run")}
    said = ", ".join(f"{number} {status}" for status, number in counts.items() if number)
    on_device = sum(row.hardware.startswith("passed") for row in found)
    return f"{len(found)} kernels: {said or 'none'}; {on_device} with a hardware record"


def render(found: Sequence[Row], bad: Sequence[Unreadable], form: str) -> str:
    """Return the table as ``"text"``, ``"md"``, ``"html"`` or ``"json"``."""
    if form == "json":
        content = {
            "rows": [asdict(row) | {"reached": row.reached} for row in found],
            "unreadable": [{"path": str(entry.path), "why": entry.why} for entry in bad],
        }
        return json.dumps(content, indent=1) + "\n"
    if form == "html":
        return _html(found, bad)
    lines = [_HEADINGS, *(row.cells() for row in found)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEADINGS))]
    padded = [[cell.ljust(w) for cell, w in zip(line, widths, strict=True)] for line in lines]
    padded.insert(1, ["-" * width for width in widths])
    if form == "md":
        text = "\n".join("| " + " | ".join(line) + " |" for line in padded)
    else:
        text = "\n".join("  ".join(line).rstrip() for line in padded)
    notes = [
        f"{row.library}.{row.kernel}: {row.record.message}"
        for row in found
        if row.record is not None and row.record.status == "failed"
    ]
    notes += [f"{entry.path}: {entry.why}; `trnsci validate` makes it anew" for entry in bad]
    return "\n".join([text, "", *notes, summary(found)]) + "\n"


def _html(found: Sequence[Row], bad: Sequence[Unreadable]) -> str:
    """Return one self-contained page."""
    template = files("trnsci.validation").joinpath("status.html").read_text(encoding="utf-8")
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in _HEADINGS)
    body = "".join(_html_row(row) for row in found)
    notes = "".join(
        f"<li><code>{html.escape(str(entry.path))}</code>: {html.escape(entry.why)}</li>"
        for entry in bad
    )
    return (
        template.replace("{{summary}}", html.escape(summary(found)))
        .replace("{{heads}}", heads)
        .replace("{{rows}}", body)
        .replace("{{unreadable}}", f"<ul>{notes}</ul>" if notes else "")
    )


def _html_row(row: Row) -> str:
    cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row.cells())
    kind = row.status.replace(" ", "-")
    said = [f"<b>lever</b> {html.escape(row.lever or 'not named')}"]
    if row.record is not None:
        if row.record.message:
            said.append(f"<b>fault</b> {html.escape(row.record.message)}")
        made = ", ".join(f"{name} {value}" for name, value in row.record.stamp.items())
        said.append(f"<b>made</b> {html.escape(made)}")
    more = f'<tr class="more"><td colspan="{len(_HEADINGS)}">{"<br>".join(said)}</td></tr>'
    return f'<tr class="{kind}" tabindex="0">{cells}</tr>{more}'
