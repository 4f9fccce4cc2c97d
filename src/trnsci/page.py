"""A table as one self-contained HTML page, with a filter and rows that open with a click."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import NamedTuple


class PageRow(NamedTuple):
    """A row of the table.

    Attributes:
        kind: Class of the row, for the style.
        cells: Texts; a pair is a text and its class.
        details: Headings and texts that are shown when the row opens.
    """

    kind: str
    cells: Sequence[str | tuple[str, str]]
    details: Sequence[tuple[str, str]]


def page(
    title: str,
    text: str,
    heads: Sequence[str],
    rows: Iterable[PageRow],
    *,
    filtered: str,
    style: str = "",
    notes: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the page.

    Args:
        title: Title.
        text: Text above the table.
        heads: Headings of the columns.
        rows: The rows.
        filtered: What the filter finds, shown in its field.
        style: Further CSS rules.
        notes: Codes and texts, listed below the table.
    """
    template = files("trnsci").joinpath("page.html").read_text(encoding="utf-8")
    listed = "".join(f"<li><code>{_text(code)}</code>: {_text(why)}</li>" for code, why in notes)
    parts = {
        "style": style,
        "title": _text(title),
        "text": _text(text),
        "filter": _text(filtered),
        "heads": "".join(f"<th>{_text(head)}</th>" for head in heads),
        "rows": "".join(_row(row, len(heads)) for row in rows),
        "notes": f"<ul>{listed}</ul>" if listed else "",
    }
    for name, part in parts.items():
        template = template.replace(f"{{{{{name}}}}}", part)
    return template


def _row(row: PageRow, columns: int) -> str:
    cells = "".join(map(_cell, row.cells))
    details = "<br>".join(f"<b>{_text(head)}</b> {_text(text)}" for head, text in row.details)
    more = f'<tr class="more"><td colspan="{columns}">{details}</td></tr>'
    return f'<tr class="{_text(row.kind)}" tabindex="0">{cells}</tr>{more}'


def _cell(cell: str | tuple[str, str]) -> str:
    if isinstance(cell, str):
        return f"<td>{_text(cell)}</td>"
    return f'<td class="{_text(cell[1])}">{_text(cell[0])}</td>'


def _text(text: str) -> str:
    return html.escape(text)
