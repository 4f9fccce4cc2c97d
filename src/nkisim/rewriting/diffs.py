"""Unified diffs of source files."""

from __future__ import annotations

import difflib
import re
from pathlib import Path


def unified_diff(path: Path, before: str, after: str) -> str:
    """Return the unified diff of two texts of a file, empty where they are equal."""
    name = path.as_posix().lstrip("/")
    rows = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}")
    ends = (row if row.endswith("\n") else row + "\n\\ No newline at end of file\n" for row in rows)
    return "".join(ends)


def _lines(text: str) -> list[str]:
    """Return the lines of a text with their ends; unlike ``splitlines``, at line feeds only."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
