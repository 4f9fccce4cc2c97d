"""Locations in user code: file, line and loop indices."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
from collections.abc import Iterator
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple

from nkisim.diagnostics.syntax import tree_of

TRACEBACK_VARIABLE = "NKISIM_TRACEBACK"

_Loops = tuple[tuple[int, int, int, str], ...]
"""Header line, first and last body line, and target of loops."""

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_OWN: tuple[str, ...] = (_PACKAGE,)
"""Paths of code that is not the user's: this package, and what calls kernels for a framework."""


def add_own_paths(*paths: str) -> None:
    """Count files whose paths begin with one of these as code of this package."""
    global _OWN
    _OWN = (*_OWN, *paths)


class Place(NamedTuple):
    """A line of the user's code, with the loop indices at the time."""

    file: str
    line: int
    loops: tuple[tuple[str, int], ...] = ()

    @property
    def text(self) -> str:
        """The source line, stripped; empty when the source is not available."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        if self.loops:
            where += " (" + ", ".join(f"{name}={value}" for name, value in self.loops) + ")"
        return where


class Position(NamedTuple):
    """Where a kernel's code is.

    Attributes:
        place: The innermost line outside this package.
        around: The loops that it is in, as ``loops_around`` yields them.
    """

    place: Place
    around: tuple[tuple[str, int, str, int], ...] = ()


REPLAYED: ContextVar[Position | None] = ContextVar("nkisim_replayed", default=None)
"""The position of the recorded operation that is replayed in this context.

It takes the place of the frames of the user's code, which a replay does not have.
"""


def user_place() -> Place:
    """Return the innermost line outside this package, with its loop indices."""
    if (replayed := REPLAYED.get()) is not None:
        return replayed.place
    frame = _user_frame()
    return Place(frame.f_code.co_filename, frame.f_lineno, _loop_indices(frame, frame.f_lineno))


def user_position() -> Position:
    """Return the innermost line outside this package, and the loops around it."""
    if (replayed := REPLAYED.get()) is not None:
        return replayed
    frame: FrameType | None = _user_frame()
    assert frame is not None
    file, line, loops = frame.f_code.co_filename, frame.f_lineno, None
    around: list[tuple[str, int, str, int]] = []
    while frame is not None and not _is_own(frame):
        name = frame.f_code.co_filename
        if enclosing := _loops_at(name, frame.f_lineno):
            values = frame.f_locals  # each access copies all variables
            for header, _, _, target in reversed(enclosing):
                if isinstance(value := values.get(target), int):
                    around.append((name, header, target, int(value)))
        if loops is None:
            loops = tuple((target, value) for *_, target, value in reversed(around))
        frame = frame.f_back
    return Position(Place(file, line, loops or ()), tuple(around))


def raised_at(error: BaseException) -> Place | None:
    """Return the innermost line of an exception's traceback, None if it is in this package."""
    *_, last = _steps(error.__traceback__)
    frame = last.tb_frame
    if _is_own(frame):
        return None
    return Place(frame.f_code.co_filename, last.tb_lineno, _loop_indices(frame, last.tb_lineno))


def user_line() -> tuple[str, int]:
    """Return file and line of the innermost line outside this package; faster than a place."""
    if (replayed := REPLAYED.get()) is not None:
        return replayed.place[:2]
    frame = inspect.currentframe()  # inlined _user_frame: called for every allocation
    while frame is not None and (file := frame.f_code.co_filename).startswith(_OWN):
        frame = frame.f_back
    return ("", 0) if frame is None else (file, frame.f_lineno)


def _user_frame() -> FrameType:
    frame = inspect.currentframe()
    assert frame is not None, "this Python does not show its frames"
    while _is_own(frame) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def user_locals() -> dict[str, Any]:
    """Return the variables of the user's function that is running; none in a replay."""
    return {} if REPLAYED.get() is not None else dict(_user_frame().f_locals)


def assigned_name(file: str, line: int) -> str:
    """Return the variable to which a line assigns the result of its one call of a module function.

    Empty for any other line.
    """
    return _assigned(_text(file)).get(line, "")


_TEXTS: dict[str, tuple[list[str], str]] = {}
"""Cached texts by file, with the lines they were joined from."""


def _text(file: str) -> str:
    """Return the text of a file, the same object until it changes.

    Caches have the text as key, and Python stores the hash of a string in the object. A new object
    would be hashed again for every watched instruction and every allocation.
    """
    lines = linecache.getlines(file)
    known = _TEXTS.get(file)
    if known is None or known[0] is not lines:
        known = _TEXTS[file] = (lines, "".join(lines))
    return known[1]


@lru_cache(maxsize=4)
def _nodes(source: str) -> tuple[ast.AST, ...]:
    """Return all syntax nodes of a source; none if it is not valid Python."""
    tree = tree_of(source)
    return () if tree is None else tuple(ast.walk(tree))


@lru_cache(maxsize=64)
def _assigned(source: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for node in _nodes(source):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        calls = [n for n in ast.walk(node.value) if isinstance(n, ast.Call)]
        outer = [n for n in calls if isinstance(n.func, ast.Attribute)]
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name) and outer == [node.value]:
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                found[line] = target.id
    return found


def decides(place: Place) -> bool:
    """Return whether a line is part of a condition of ``if``, ``while``, ``assert`` or ``else``."""
    kinds = (ast.If, ast.While, ast.Assert, ast.IfExp)
    return place.line in _conditions(_text(place.file), kinds)


def repeats_while() -> bool:
    """Return whether the user's line is the condition of a ``while``; True without source."""
    file, line = user_line()
    source = _text(file)
    return not source or line in _conditions(source, (ast.While,))


def leaves_while() -> bool:
    """Return whether the user's line is the condition of a ``while`` that has a ``break``."""
    file, line = user_line()
    return any(
        isinstance(part, ast.Break)
        for node in _nodes(_text(file))
        if isinstance(node, ast.While) and node.lineno == line
        for part in ast.walk(node)
    )


def called_by_user() -> bool:
    """Return whether the function that calls this one was called by the user's code."""
    frame = inspect.currentframe()
    caller = None if frame is None or frame.f_back is None else frame.f_back.f_back
    return caller is not None and not _is_own(caller)


@lru_cache(maxsize=128)
def _conditions(
    source: str, kinds: tuple[type[ast.If | ast.While | ast.Assert | ast.IfExp], ...]
) -> frozenset[int]:
    """Return the lines of the conditions of statements of these kinds."""
    return frozenset(
        line
        for node in _nodes(source)
        if isinstance(node, kinds)
        for line in range(node.test.lineno, (node.test.end_lineno or node.test.lineno) + 1)
    )


def defined_at(code: CodeType) -> Place:
    """Return the line of a function's ``def``.

    ``co_firstlineno`` is the line of the first decorator; it is returned if there is no source.
    """
    file, first = code.co_filename, code.co_firstlineno
    defs = _decorated(_text(file))
    return Place(file, defs.get((first, code.co_name), first))


@lru_cache(maxsize=64)
def _decorated(source: str) -> dict[tuple[int, str], int]:
    """Return the ``def`` lines of decorated functions, by first decorator's line and name."""
    return {
        (node.decorator_list[0].lineno, node.name): node.lineno
        for node in _nodes(source)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.decorator_list
    }


def user_stacklevel() -> int:
    """Return the ``stacklevel`` that attributes the caller's warning to the user's line."""
    frame = inspect.currentframe()
    level = 0
    while frame is not None and _is_own(frame):
        frame = frame.f_back
        level += 1
    return level


def own_frames_shown() -> bool:
    """Return whether the environment asks for the frames of this package in tracebacks."""
    return os.environ.get(TRACEBACK_VARIABLE) == "1"


def note_if_raised_inside(error: BaseException) -> None:
    """Add a note to an exception that this package raised in code that a kernel called."""
    own = [_is_own(step.tb_frame) for step in _steps(error.__traceback__)]
    if False in own and own[-1]:
        error.add_note(f"raised inside nkisim; {TRACEBACK_VARIABLE}=1 shows its frames")


def hide_own_frames(error: BaseException) -> None:
    """Remove the frames of this package from the tracebacks of an exception and of its causes."""
    seen: set[int] = set()
    chained: list[BaseException | None] = [error]
    while chained:
        part = chained.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        if _caught_by_own(part.__context__) and part.__context__ is not part.__cause__:
            part.__suppress_context__ = True
        chained += [part.__cause__, part.__context__]
        part.__traceback__ = _without_own_frames(part.__traceback__)


def _without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this package."""
    found: TracebackType | None = None
    for step in reversed(list(_steps(traceback))):
        if not _is_own(step.tb_frame):
            found = TracebackType(found, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return found


def _caught_by_own(error: BaseException | None) -> bool:
    """Return whether an exception was caught by this package, so that a user need not see it."""
    caught = None if error is None else error.__traceback__
    return caught is not None and _is_own(caught.tb_frame)


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def is_own_file(file: str) -> bool:
    """Return whether a file is one of this package."""
    return file.startswith(_PACKAGE)


def _is_own(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_OWN)


def loops_around() -> tuple[tuple[str, int, str, int], ...]:
    """Return the loops that the user's code is in, innermost first: file, header, name, value.

    Includes the calling functions of the user, up to the first frame of this package.
    """
    return user_position().around


def outermost_loop() -> tuple[ast.For, dict[str, Any]] | None:
    """Return the outermost loop around the user's code, and the names that its header can read."""
    frame: FrameType | None = _user_frame()
    found = None
    while frame is not None and not _is_own(frame):
        for node in _nodes(_text(frame.f_code.co_filename)):  # outer nodes first
            if isinstance(node, ast.For) and frame.f_lineno in _body_lines(node):
                found = node, {**frame.f_globals, **frame.f_locals}
                break
        frame = frame.f_back
    return found


def _body_lines(loop: ast.For) -> range:
    return range(loop.body[0].lineno, (loop.end_lineno or loop.lineno) + 1)


def _loop_indices(frame: FrameType, line: int) -> tuple[tuple[str, int], ...]:
    """Return the integer targets of the ``for`` loops that enclose a line of the frame's code."""
    around = _loops_at(frame.f_code.co_filename, line)
    if not around:
        return ()
    values = frame.f_locals  # each access copies all variables
    named = ((name, values.get(name)) for *_, name in around)
    return tuple((name, int(value)) for name, value in named if isinstance(value, int))


def _loops_at(file: str, line: int) -> list[tuple[int, int, int, str]]:
    return [loop for loop in _loops(_text(file)) if loop[1] <= line <= loop[2]]


@lru_cache(maxsize=64)
def _loops(source: str) -> _Loops:
    """List header, first body line, last line and target name of every simple ``for``."""
    found = [
        (node.lineno, node.body[0].lineno, node.end_lineno or node.lineno, node.target.id)
        for node in _nodes(source)
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name)
    ]
    return tuple(sorted(found))
