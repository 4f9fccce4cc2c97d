"""Code to paste as edits: comments and the formatting of unchanged parts stay.

A rewrite replaces whole lines. Its edits are found by comparing the statement before and after; the
result must have the syntax tree that pasting the lines gives.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator

from nkisim.diagnostics import Rewrite
from nkisim.diagnostics.syntax import SYNTAX_LOCK, parsed, tree_of
from nkisim.rewriting.edits import Edit, NotPythonError, edited, loses_comment
from nkisim.rewriting.trees import SourceTree, same_program


class NotPastedError(ValueError):
    """A rewrite cannot be applied to a text; the message is the reason."""


def edits_of(text: str, rewrite: Rewrite) -> list[Edit]:
    """Return the edits that apply a rewrite to the text of its file.

    Raises:
        NotPastedError: They would lose a comment, or the result would not be valid Python.
    """
    with SYNTAX_LOCK:
        first, last = _definition(text, rewrite)
        if not last:
            return _Pasting(text, rewrite).edits()
        whole = SourceTree(text)
        start, stop = whole.line_start(first), whole.line_end(last)
        stop += len(re.match(rb"\r\n|\n|\r|", whole.data[stop:])[0])  # type: ignore[index]
        part = whole.data[start:stop].decode()
        moved = rewrite._replace(first=rewrite.first - first + 1, last=rewrite.last - first + 1)
        edits = _Pasting(part, moved).edits()
        return [Edit(edit.start + start, edit.stop + start, edit.text) for edit in edits]


def _definition(text: str, rewrite: Rewrite) -> tuple[int, int]:
    """Return the lines of the definition of a module that a rewrite is in; (0, 0) for none.

    It is edited apart from the rest of the file, which is compared faster.
    """
    module = tree_of(text)
    for node in () if module is None else module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            last = node.end_lineno or first
            if first <= rewrite.first <= rewrite.last <= last:
                return first, last
    return 0, 0


def code_with_comments(text: str, rewrite: Rewrite) -> Rewrite | None:
    """Return a rewrite whose lines keep the comments of those that they replace, if any can."""
    try:
        edits = edits_of(text, rewrite)
    except NotPastedError:
        return None
    tree = SourceTree(text)
    start, stop = tree.line_start(rewrite.first), tree.line_end(rewrite.last)
    if any(edit.start < start or edit.stop > stop for edit in edits):
        return None
    longer = sum(len(edit.text.encode()) - (edit.stop - edit.start) for edit in edits)
    new, _ = edited(text, edits, [1])
    code = new.encode()[start : stop + longer].decode()
    return rewrite._replace(code="\n".join(re.split(r"\r\n|\n|\r", code)))


class _Pasting:
    """One rewrite of one text."""

    def __init__(self, text: str, rewrite: Rewrite) -> None:
        self.text, self.rewrite = text, rewrite
        self.tree = SourceTree(text)
        self.lines = rewrite.code.split("\n")
        module = tree_of(text)
        if module is None:
            raise NotPastedError("the file is not valid Python")
        self.module = module

    def edits(self) -> list[Edit]:
        wanted = tree_of(self._pasted())
        if wanted is None:
            raise NotPastedError("the result would not be valid Python")
        lost = False
        for edits in self._ways():
            if loses_comment(self.tree.data, edits):
                lost = True
                continue
            try:
                new, _ = edited(self.text, edits, [1])
            except NotPythonError:
                continue
            made = tree_of(new)
            if made is not None and same_program(made, wanted):
                return edits
        raise NotPastedError(
            "a comment in the statement would be lost"
            if lost
            else "the lines are not whole statements"
        )

    def _pasted(self) -> str:
        """Return the text with the lines replaced."""
        start = self.tree.line_start(self.rewrite.first)
        stop = self.tree.line_end(self.rewrite.last)
        code = self.tree.newline.join(self.lines).encode()
        return (self.tree.data[:start] + code + self.tree.data[stop:]).decode()

    def _ways(self) -> Iterator[list[Edit]]:
        """Yield lists of edits, those that replace the least text first."""
        code = textwrap.dedent(self.rewrite.code)
        loop = self._loop()
        if loop is not None:
            yield from self._head(loop, parsed(f"{code}\n    pass") or parsed(code))
            return
        new, old = parsed(code), self._statements()
        if new is None or not old:
            return
        if len(old) == 1:
            few = self._changed(old[0], new.body)
            if few is not None:
                yield few
        around = self._inside_a_loop(old, new.body)
        if around is not None:
            yield around
        first, last = self.tree.span(old[0])[0], self.tree.span(old[-1])[1]
        yield [Edit(first, last, self._joined(0, len(self.lines)))]

    def _statements(self) -> list[ast.stmt]:
        """Return the statements of the replaced lines, empty if others share these lines."""
        first, last = self.rewrite.first, self.rewrite.last
        for node in ast.walk(self.module):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if not isinstance(block, list):
                    continue
                found = [s for s in block if s.lineno >= first and (s.end_lineno or 0) <= last]
                if found and (found[0].lineno, found[-1].end_lineno) == (first, last):
                    return found if self._has_own_lines(found) else []
        return []

    def _has_own_lines(self, statements: list[ast.stmt]) -> bool:
        start, stop = self.tree.span(statements[0])[0], self.tree.span(statements[-1])[1]
        before = self.tree.data[self.tree.line_start(self.rewrite.first) : start]
        behind = self.tree.data[stop : self.tree.line_end(self.rewrite.last)].strip()
        return not before.strip() and (not behind or behind.startswith(b"#"))

    def _changed(self, old: ast.stmt, new: list[ast.stmt]) -> list[Edit] | None:
        """Return edits that turn ``old`` into one of ``new``, and insert the others around it.

        The statement of ``new`` with the fewest changed bytes is chosen; None if there is none.
        """
        found = [
            (sum(edit.stop - edit.start for edit in edits), i, edits)
            for i, statement in enumerate(new)
            if (edits := self.tree.changes(old, statement)) is not None
        ]
        if not found:
            return None
        _, index, edits = min(found, key=lambda option: option[:2])
        rows = [0, *(s.lineno - 1 for s in new[1:]), len(self.lines)]
        start = self.tree.span(old)[0]
        if index > 0:
            before = self._joined(0, rows[index]) + self.tree.newline + _indent(self.lines[0])
            edits = [Edit(start, start, before), *edits]
        if index + 1 < len(new):
            end = self.tree.line_end(old.end_lineno or old.lineno)
            behind = self.tree.newline + _indent(self.lines[0])
            edits.append(Edit(end, end, behind + self._joined(rows[index + 1], len(self.lines))))
        return edits

    def _joined(self, first: int, last: int) -> str:
        """Return lines of the new code without the indentation of the first of them."""
        return self.tree.newline.join(self.lines[first:last]).lstrip(" \t")

    def _inside_a_loop(self, old: list[ast.stmt], new: list[ast.stmt]) -> list[Edit] | None:
        """Return the edits that put statements into a loop, where the new code does that."""
        loop = new[-1]
        if not isinstance(loop, ast.For) or len(loop.body) < len(old) or loop.orelse:
            return None
        nodes = [node for statement in old for node in ast.walk(statement)]
        strings = [n for n in nodes if isinstance(n, (ast.Constant, ast.JoinedStr))]
        if any(node.lineno != node.end_lineno for node in strings):
            return None  # indentation would change the string
        bodies = loop.body[-len(old) :]
        changes = [self.tree.changes(a, b) for a, b in zip(old, bodies, strict=True)]
        if None in changes:
            return None
        edits = [edit for part in changes for edit in part or ()]
        outer, inner = _indent(self.lines[0]), _indent(self.lines[bodies[0].lineno - 1])
        head = self._joined(0, bodies[0].lineno - 1) + self.tree.newline + inner
        start = self.tree.span(old[0])[0]
        edits.append(Edit(start, start, head))
        for line in range(old[0].lineno + 1, (old[-1].end_lineno or 0) + 1):
            at = self.tree.line_start(line)
            inside = any(edit.start < at < edit.stop for edit in edits)
            if at < self.tree.line_end(line) and not inside:
                edits.append(Edit(at, at, inner.removeprefix(outer)))
        return edits

    # -- heads of loops ----------------------------------------------------------------------------

    def _loop(self) -> ast.For | None:
        """Return the loop of which only the head is replaced."""
        for node in ast.walk(self.module):
            if isinstance(node, ast.For) and node.lineno == self.rewrite.first:
                return node if node.body[0].lineno > self.rewrite.last else None
        return None

    def _head(self, old: ast.For, new: ast.Module | None) -> Iterator[list[Edit]]:
        """Yield edits of the head of a loop, with statements that its body then begins with."""
        loop = new.body[0] if new is not None and len(new.body) == 1 else None
        if not isinstance(loop, ast.For):
            return
        begins = []
        texts = [ast.unparse(s) for s in loop.body if not isinstance(s, ast.Pass)]
        if texts:
            start = self.tree.span(old.body[0])[0]
            indent = self.tree.data[self.tree.line_start(old.body[0].lineno) : start].decode()
            lines = "".join(f"{text}{self.tree.newline}{indent}" for text in texts)
            begins = [Edit(start, start, lines)]
        target = self.tree.changes(old.target, loop.target)
        source = self.tree.changes(old.iter, loop.iter)
        if target is not None and source is not None:
            yield [*target, *source, *begins]
        first, last = self.tree.span(old.target)[0], self.tree.span(old.iter)[1]
        text = f"{ast.unparse(loop.target)} in {ast.unparse(loop.iter)}"
        yield [Edit(first, last, text), *begins]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
