"""Where in the user's code something happened: file, line and loop indices."""

from __future__ import annotations

import ast
import linecache
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType

__all__ = ["Place", "user_line", "user_place"]

_PACKAGE = str(Path(__file__).resolve().parent.parent)


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code, with the loop indices at the time."""

    file: str
    line: int
    loops: tuple[tuple[str, int], ...] = ()

    @property
    def text(self) -> str:
        """The source line, stripped; empty when the source is not at hand."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        if self.loops:
            where += " (" + ", ".join(f"{name}={value}" for name, value in self.loops) + ")"
        return where


def user_place() -> Place:
    """Return the innermost line outside this package, with its loop indices."""
    frame = _user_frame()
    return Place(frame.f_code.co_filename, frame.f_lineno, _loop_indices(frame))


def user_line() -> tuple[str, int]:
    """Return file and line of the innermost line outside this package; cheaper than a place."""
    frame = _user_frame()
    return frame.f_code.co_filename, frame.f_lineno


def _user_frame() -> FrameType:
    frame = sys._getframe(2)
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _loop_indices(frame: FrameType) -> tuple[tuple[str, int], ...]:
    """Read the integer targets of the ``for`` loops that enclose the frame's line."""
    indices = []
    source = "".join(linecache.getlines(frame.f_code.co_filename))
    for first, last, name in _loops(source):
        if first <= frame.f_lineno <= last:
            value = frame.f_locals.get(name)
            if isinstance(value, int):
                indices.append((name, value))
    return tuple(indices)


@lru_cache(maxsize=64)
def _loops(source: str) -> tuple[tuple[int, int, str], ...]:
    """List (first body line, last line, target name) of every simple ``for`` loop of a source."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    found = [
        (node.body[0].lineno, node.end_lineno or node.lineno, node.target.id)
        for node in ast.walk(tree)
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name)
    ]
    return tuple(sorted(found))
