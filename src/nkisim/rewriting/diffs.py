"""Unified diffs of source files."""

from __future__ import annotations

import difflib
from pathlib import Path

__all__ = ["unified_diff"]


def unified_diff(path: Path, before: str, after: str) -> str:
    """Return the unified diff of two texts of a file, empty where they are equal."""
    name = path.as_posix().lstrip("/")
    rows = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"a/{name}",
        f"b/{name}",
    )
    ends = (row if row.endswith("\n") else row + "\n\\ No newline at end of file\n" for row in rows)
    return "".join(ends)
