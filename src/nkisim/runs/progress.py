"""Progress of a long run on a terminal: instructions, and the time that the outermost loop needs.

A thread writes the line. Where the kernel is, only the kernel's own thread can read: once for each
line, a watcher reads it at the next instruction. Short runs have neither.
"""

from __future__ import annotations

import ast
import operator
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from nkisim.diagnostics import outermost_loop
from nkisim.machine import CORE, Core, Event

AFTER, EVERY = 2.0, 0.5
"""Seconds before the first line, and between lines."""

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


@contextmanager
def shown_progress(name: str, cores: Sequence[Core]) -> Iterator[None]:
    """Show the progress of a kernel while a context lasts, if stderr is a terminal.

    Args:
        name: The kernel.
        cores: The cores of the run, which may be created later.
    """
    stream = sys.stderr
    if stream is not sys.__stderr__ or stream is None or not stream.isatty():
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(name, cores, stream, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show(name: str, cores: Sequence[Core], stream: TextIO, ended: threading.Event) -> None:
    """Write a line again and again, and clear it at the end."""
    begin, loop, shown = time.monotonic(), _Loop(), False
    while not ended.wait(EVERY):
        for core in cores[:1]:
            loop.ask(core)
        seconds = time.monotonic() - begin
        if seconds < AFTER or sys.stderr is not stream:  # or something else shows a progress
            continue
        count = sum(core.clock for core in cores)
        stream.write(f"\r{name}: {count:,} instructions in {seconds:.0f} s{loop.left()}\x1b[K")
        stream.flush()
        shown = True
    if shown:
        stream.write("\r\x1b[K")
        stream.flush()


class _Loop:
    """The outermost loop of a kernel, and the share of its iterations that are done."""

    def __init__(self) -> None:
        self._loop: ast.For | None = None
        self._first = self._last = (0.0, 0.0)  # time and share

    def ask(self, core: Core) -> None:
        """Read the loop at the next instruction of a core, in the thread of the kernel."""
        if self._read not in core.watchers:
            core.watchers = (*core.watchers, self._read)

    def _read(self, _: Event) -> None:
        core = CORE.get()
        assert core is not None
        core.watchers = tuple(w for w in core.watchers if w != self._read)
        found = outermost_loop()
        share = None if found is None else done(*found)
        if found is None or share is None:
            self._loop = None
            return
        self._last = (time.monotonic(), share)
        if self._loop is not found[0]:
            self._loop, self._first = found[0], self._last

    def left(self) -> str:
        """Return the time that the loop needs, once its share has changed; else an empty text."""
        (begin, before), (now, share) = self._first, self._last
        if self._loop is None or share <= before:
            return ""
        seconds = (now - begin) * (1 - share) / (share - before)
        return f", {share:.0%} of the loop at line {self._loop.lineno}, about {seconds:.0f} s left"


def done(loop: ast.For, names: Mapping[str, Any]) -> float | None:
    """Return the share of a loop's iterations that are done; None if its range is not readable."""
    with suppress(Exception):  # attributes of the user's objects may raise anything
        if not isinstance(loop.iter, ast.Call) or not ast.unparse(loop.iter.func).endswith("range"):
            return None
        bounds = [_value(bound, names) for bound in loop.iter.args]
        values = range(*bounds)
        return values.index(_value(loop.target, names)) / len(values)
    return None


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return the value of a number, a name, an attribute, an item, or whole-number arithmetic.

    Raises:
        KeyError: The expression is another one, or a name has no value.
    """
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return names[node.id]
        case ast.Attribute():
            return getattr(_value(node.value, names), node.attr)
        case ast.Subscript():
            return _value(node.value, names)[_value(node.slice, names)]
        case ast.BinOp():
            left, right = _value(node.left, names), _value(node.right, names)
            return _OPERATORS[type(node.op)](left, right)
    raise KeyError(ast.unparse(node))
