"""Edits of a source text: replaced ranges of bytes, moved line numbers, and unified diffs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nkisim.diagnostics.syntax import module_of


class NotPythonError(ValueError):
    """Edits would leave a text that is not valid Python; the message is the reason."""


class Edit(NamedTuple):
    """The bytes from ``start`` to ``stop`` of the UTF-8 text are replaced by ``text``."""

    start: int
    stop: int
    text: str


def disjoint(edits: Sequence[Edit], taken: Sequence[Edit]) -> bool:
    """Return whether no edit shares a byte with one of ``taken``.

    Two insertions at one place are disjoint; they are applied in the order in which they came.
    """
    return not any(
        a.start < b.stop and b.start < a.stop
        if a.start != a.stop and b.start != b.stop
        else min(a.stop, b.stop) > max(a.start, b.start) or _strictly_inside(a, b)
        for a in edits
        for b in taken
    )


def _strictly_inside(a: Edit, b: Edit) -> bool:
    inner, outer = (a, b) if a.start == a.stop else (b, a)
    return outer.start < inner.start < outer.stop


def loses_comment(data: bytes, edits: Sequence[Edit]) -> bool:
    """Return whether a comment in the replaced bytes is missing in the new text."""
    return any(
        comment.decode().rstrip() not in edit.text
        for edit in edits
        for comment in re.findall(rb"#[^\r\n]*", data[edit.start : edit.stop])
    )


def edited(text: str, edits: Sequence[Edit], lines: Sequence[int]) -> tuple[str, list[int]]:
    """Return the text after disjoint edits, and the original line of each of its lines.

    Raises:
        NotPythonError: The new text would not be valid Python.
    """
    new, origin = applied(text, edits, lines)
    try:
        module_of(new)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotPythonError(str(error)) from error
    return new, origin


def applied(text: str, edits: Sequence[Edit], lines: Sequence[int]) -> tuple[str, list[int]]:
    """Return what ``edited`` does for disjoint edits; the new text need not be valid Python."""
    data = text.encode()
    parts: list[bytes] = []
    origin: list[int] = []
    position = 0

    def add(piece: bytes, first: int, moves: bool) -> None:
        parts.append(piece)
        for number in range(piece.count(b"\n")):
            row = first + number if moves else first
            origin.append(lines[min(row, len(lines) - 1)])

    for edit in sorted(edits, key=lambda e: (e.start, e.stop)):
        add(data[position : edit.start], data.count(b"\n", 0, position), True)
        add(edit.text.encode(), data.count(b"\n", 0, edit.start), False)
        position = edit.stop
    add(data[position:], data.count(b"\n", 0, position), True)
    origin.append(lines[-1])
    return b"".join(parts).decode(), origin


def unified_diff(path: Path, before: str, after: str) -> str:
    """Return the unified diff of two texts of a file, empty where they are equal."""
    import difflib  # only diffs need it

    name = path.as_posix().lstrip("/")
    rows = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}")
    ends = (row if row.endswith("\n") else row + "\n\\ No newline at end of file\n" for row in rows)
    return "".join(ends)


def _lines(text: str) -> list[str]:
    """Return the lines of a text with their ends; unlike ``splitlines``, at line feeds only."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
