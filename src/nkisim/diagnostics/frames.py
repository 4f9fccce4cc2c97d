"""Where in the user's code something happened: file, line and loop indices."""

from __future__ import annotations

import ast
import linecache
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType

__all__ = [
    "Place",
    "caught_by_own",
    "user_line",
    "user_place",
    "user_stacklevel",
    "users_traceback",
]

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep


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


def user_line(own: int = 1) -> tuple[str, int]:
    """Return file and line of the innermost line outside this package; cheaper than a place.

    ``own`` is how many of the nearest frames, this one included, surely are of this package.
    """
    frame = sys._getframe(own)  # every allocation asks, so no call more than needed
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _user_frame() -> FrameType:
    frame = sys._getframe(2)
    while _is_own(frame) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def user_stacklevel() -> int:
    """Return the ``stacklevel`` with which the caller's warning stands at the user's line."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and _is_own(frame):
        frame = frame.f_back
        level += 1
    return level


def users_traceback(error: BaseException, entry: str, *, to_the_end: bool) -> TracebackType | None:
    """Return an exception's traceback without the frames of this package that ran the kernel.

    Args:
        error: The exception, as it was caught.
        entry: The file whose functions were called by the user and called the kernel.
        to_the_end: Whether the frames that the kernel's code called in this package go too.
    """
    steps = list(_steps(error.__traceback__))
    users = [step for step in steps if not _is_own(step.tb_frame)]
    if not to_the_end:
        # A fault of this package is found by its frames, also where no code of a user ran yet.
        entries = [i for i, s in enumerate(steps) if s.tb_frame.f_code.co_filename == entry]
        users = steps[steps.index(users[0]) if users else max(entries, default=-1) + 1 :]
    traceback: TracebackType | None = None
    for step in reversed(users):
        traceback = TracebackType(traceback, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return traceback


def caught_by_own(error: BaseException | None) -> bool:
    """Tell whether an exception was caught by this package, so that it says nothing to a user."""
    caught = None if error is None else error.__traceback__
    return caught is not None and _is_own(caught.tb_frame)


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_own(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_PACKAGE)


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
