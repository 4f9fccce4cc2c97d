"""Byte positions of syntax trees, and the parentheses around expressions."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator

EXACT_IN_FORMAT_STRINGS = sys.version_info >= (3, 12)
"""Whether Python gives the positions of code in format strings; before 3.12 they are wrong."""


class Lines:
    """The lines of a source text.

    Attributes:
        data: The text in UTF-8.
        newline: Its line ending.
    """

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self._ends = [m.span() for m in re.finditer(rb"\r\n|\n|\r|\Z", self.data)]
        self._starts = [0, *(stop for _, stop in self._ends)]
        first = re.search(rb"\r\n|\n|\r", self.data)
        self.newline = first.group().decode() if first else "\n"

    def line_start(self, line: int) -> int:
        """Return the position of the first byte of a line, counted from 1."""
        return self._starts[line - 1]

    def line_end(self, line: int) -> int:
        """Return the position behind the last byte of a line, before its line ending."""
        return self._ends[line - 1][0]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the first byte of a node and the byte behind its last one.

        The parentheses around an expression are not part of it, except those of a tuple.
        """
        first, last = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        return (
            self._starts[first - 1] + node.col_offset,  # type: ignore[attr-defined]
            self._starts[last - 1] + node.end_col_offset,  # type: ignore[attr-defined]
        )


class Parentheses:
    """The pairs of parentheses of a text; those in string literals do not count."""

    def __init__(self, data: bytes, strings: Iterable[tuple[int, int]]) -> None:
        self._closed: dict[int, int] = {}
        self._opened_before: dict[int, int] = {}
        self._ended_before: dict[int, int] = {}
        text = bytearray(data)
        for start, stop in strings:
            text[start:stop] = b"s" * (stop - start)
        stack: list[int] = []
        opened, end = -1, 0
        for token in re.finditer(rb"[()]|#[^\r\n]*|[^()#\s\\]+", text):
            first = token[0][:1]
            if first == b"#":
                continue
            start = token.start()
            if opened >= 0:
                self._opened_before[start], opened = opened, -1
            if first == b"(":
                stack.append(start)
                opened = start
            elif first == b")" and stack:
                self._closed[stack.pop()] = start
                self._ended_before[start] = end
            end = token.end()

    def are_pair(self, start: int, stop: int) -> bool:
        """Return whether the first and the last byte of a range are one pair of parentheses."""
        return self._closed.get(start) == stop - 1

    def around(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the pairs that contain only a range, the innermost first."""
        while start in self._opened_before:
            start, before = self._opened_before[start], stop
            close = self._closed.get(start)
            if close is None or self._ended_before[close] != before:
                return
            stop = close + 1
            yield start, stop
