"""The coverage table as text, Markdown, HTML or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from textwrap import fill, wrap

from trnsci.core.backend.precision import LEVELS
from trnsci.core.examples import DTYPES, public_functions
from trnsci.coverage.survey import BASE, Cell, Line
from trnsci.page import PageRow, page

FORMATS = ("text", "md", "html", "json")
WIDTH = 120
WORDS = {
    "kernel": "kernels compute the call",
    "partly": "kernels compute a part of the call and refused the rest, which torch computes",
    "refused": "the kernel does not accept the operands, and torch computes; the call warns under "
    "the backends nki and simulator, and raises if kernels are required",
    "torch": "the function has no kernel, and torch computes",
    "error": "the call raises",
}
"""The words of the table, and their meaning."""

_STYLE = """
td.kernel { color: var(--ok); font-weight: 600; }
td.partly, td.refused { color: var(--old); }
td.error { color: var(--bad); }
td:nth-child(2), th:nth-child(2) { position: sticky; left: 0; background: Canvas; }
td:nth-child(2) { white-space: normal; overflow-wrap: anywhere; min-width: 8rem; }
@media (max-width: 40rem) { td:nth-child(2) { max-width: 8rem; } }
tr.level td:nth-child(2) { padding-left: 1.4rem; }
"""


@dataclass(frozen=True)
class _Shown:
    """One printed row: the lines of an example that have the same cells.

    Attributes:
        library: Import name.
        label: The example at the default level; else ``"at "`` and the levels.
        cells: By dtype.
    """

    library: str
    label: str
    cells: dict[str, Cell]

    @property
    def of_level(self) -> bool:
        """Whether this is the row of another level than the default."""
        return self.label.startswith("at ")

    @property
    def kernels(self) -> str:
        """The kernels of all cells."""
        return ", ".join(sorted({name for cell in self.cells.values() for name in cell.kernels}))


@dataclass
class _Notes:
    """Numbered reasons."""

    texts: list[str] = field(default_factory=list)

    def numbers(self, cell: Cell, dtype: str) -> str:
        """Return the numbers of a cell's reasons, such as ``"1,3"``."""
        short = sorted({_short(reason, dtype) for reason in cell.reasons})
        self.texts += [reason for reason in short if reason not in self.texts]
        return ",".join(str(self.texts.index(reason) + 1) for reason in short)


def _short(reason: str, dtype: str) -> str:
    """Return a reason without the name of the function or operation, the dtype and values."""
    reason = re.sub(r"^[\w.]+: |, got tensor\(.*", "", reason)
    return reason.replace(f"torch.{dtype}", "this dtype")


def render(found: Sequence[Line], form: str) -> str:
    """Return the table as ``"text"``, ``"md"``, ``"html"`` or ``"json"``.

    JSON has all lines. The other formats have a row for each example at the default level, and one
    for other levels only where they differ.
    """
    if form == "json":
        return json.dumps(_content(found), indent=1) + "\n"
    rows = _rows(found)
    if form == "html":
        return _html(rows)
    make = _text if form == "text" else _markdown
    parts = [make(library, list(group)) for library, group in groupby(rows, lambda r: r.library)]
    meanings = [f"{word}: {meaning}" for word, meaning in WORDS.items()]
    if form == "md":
        return "\n\n".join([*parts, summary(found)]) + "\n"
    folded = [fill(line, WIDTH, subsequent_indent="  ") for line in (*meanings, summary(found))]
    return "\n\n".join([*parts, "\n".join(folded)]) + "\n"


def summary(found: Sequence[Line]) -> str:
    """Return a one-line summary."""
    functions = {(line.library, line.function) for line in found}
    reached = [line for line in found if any(cell.kernels for cell in line.cells.values())]
    with_kernel = {(line.library, line.function) for line in reached}
    kernels = {name for line in reached for cell in line.cells.values() for name in cell.kernels}
    return f"{len(functions)} functions, {len(with_kernel)} of them reach {len(kernels)} kernels"


def _rows(found: Sequence[Line]) -> list[_Shown]:
    rows = []
    for _, group in groupby(found, lambda line: (line.library, line.function, line.case)):
        base, *others = sorted(group, key=lambda line: line.level != BASE)
        label = f"{base.function}, {base.case}" if base.case else base.function
        rows.append(_Shown(base.library, label, base.cells))
        differing: list[tuple[dict[str, Cell], list[str]]] = []
        for line in others:
            if line.cells == base.cells:
                continue
            same = next((levels for cells, levels in differing if cells == line.cells), None)
            if same is None:
                differing.append((line.cells, [line.level]))
            else:
                same.append(line.level)
        rows += [
            _Shown(base.library, f"at {', '.join(levels)}", cells) for cells, levels in differing
        ]
    return rows


def _dtypes(rows: Sequence[_Shown]) -> list[str]:
    """Return the dtypes that a function of the rows accepts."""
    return [d for d in DTYPES if any(row.cells[d].outcome != "error" for row in rows)]


def _text(library: str, rows: Sequence[_Shown]) -> str:
    dtypes, notes = _dtypes(rows), _Notes()
    table = [["function", *dtypes, "kernels"]]
    for row in rows:
        label = f"  {row.label}" if row.of_level else row.label
        cells = {dtype: row.cells[dtype] for dtype in dtypes}
        words = [f"{c.outcome} {notes.numbers(c, dtype)}".rstrip() for dtype, c in cells.items()]
        table.append([label, *words, row.kernels])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for line in table:
        start = "  ".join(map(str.ljust, line[:-1], widths))
        # Names that do not fit follow on lines of their own, at the right.
        names = wrap(line[-1], WIDTH - len(start) - 2, break_long_words=False) or [""]
        first = names.pop(0) if len(start) + 2 + len(names[0]) <= WIDTH else ""
        lines.append(f"{start}  {first}".rstrip())
        lines += [" " * min(len(start) + 2, WIDTH - len(name)) + name for name in names]
    lines.insert(1, "-" * max(map(len, lines)))
    below = [f"({number}) {text}" for number, text in enumerate(notes.texts, 1)]
    below.append(f"left out: {', '.join(_left_out(library, rows))}")
    folded = (fill(note, WIDTH, subsequent_indent="    ") for note in below)
    return "\n".join([library, "", *lines, "", *folded])


def _markdown(library: str, rows: Sequence[_Shown]) -> str:
    dtypes, notes = _dtypes(rows), _Notes()

    def text_of(cell: Cell, dtype: str) -> str:
        names = ", ".join(f"`{name}`" for name in cell.kernels)
        outcome = "" if cell.outcome == "kernel" else cell.outcome
        return " ".join(filter(None, (names, outcome, notes.numbers(cell, dtype))))

    table = [["function", *dtypes], ["---"] * (len(dtypes) + 1)]
    for row in rows:
        name, _, case = row.label.partition(",")
        label = row.label if row.of_level else f"`{name}`" + (f",{case}" if case else "")
        table.append([label, *(text_of(row.cells[dtype], dtype) for dtype in dtypes)])
    lines = ["| " + " | ".join(line) + " |" for line in table]
    below = [f"{number}. {text}" for number, text in enumerate(notes.texts, 1)]
    names = ", ".join(f"`{name}`" for name in _left_out(library, rows))
    return "\n\n".join([f"## {library}", "\n".join(lines), "\n".join(below), f"Left out: {names}."])


def _left_out(library: str, rows: Sequence[_Shown]) -> list[str]:
    """Return the public functions without an example."""
    shown = {row.label for row in rows}
    return sorted(name for name in public_functions(library) if name not in shown)


def _html(rows: Sequence[_Shown]) -> str:
    words = "; ".join(f"{word}: {meaning}" for word, meaning in WORDS.items())
    return page(
        "Coverage by kernels",
        f"{words}. A row opens with a click: kernels and reasons by dtype.",
        ("library", "function", *DTYPES),
        map(_page_row, rows),
        filtered="library, function or kernel",
        style=_STYLE,
    )


def _page_row(row: _Shown) -> PageRow:
    cells = [
        (", ".join(cell.kernels) if cell.outcome == "kernel" else cell.outcome, cell.outcome)
        for cell in row.cells.values()
    ]
    details = [
        (dtype, f"{cell.outcome} {'; '.join((*cell.kernels, *cell.reasons))}".rstrip())
        for dtype, cell in row.cells.items()
    ]
    return PageRow("level" if row.of_level else "", (row.library, row.label, *cells), details)


def _content(found: Sequence[Line]) -> dict[str, object]:
    libraries = sorted({line.library for line in found})
    shown = {library: {x.function for x in found if x.library == library} for library in libraries}
    return {
        "dtypes": DTYPES,
        "levels": LEVELS,
        "lines": [asdict(line) for line in found],
        "left_out": {
            library: sorted(set(public_functions(library)) - names)
            for library, names in shown.items()
        },
    }
