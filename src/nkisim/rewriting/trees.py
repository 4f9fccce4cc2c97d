"""Edits that turn one syntax tree into another: only the text of changed parts is replaced.

Positions of syntax trees are trusted up to parentheses and format strings. The caller therefore
parses the result and compares it with the tree it wants.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from nkisim.rewriting.edits import Edit
from nkisim.source import Lines

_Argument = ast.expr | ast.keyword

_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_OPERATIONS = (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.UnaryOp)
_BINDS_TIGHTLY = (*_OPERATIONS, ast.Attribute, ast.Starred)
"""Expressions whose parts need parentheses where they are operations."""


def same_tree(a: ast.AST, b: ast.AST) -> bool:
    """Return whether two syntax trees are equal, wherever their parts are written."""
    return type(a) is type(b) and ast.dump(a) == ast.dump(b)


def same_program(a: ast.Module, b: ast.Module) -> bool:
    """Return whether two modules are equal up to the order of keyword arguments."""
    calls = [node for node in (*ast.walk(a), *ast.walk(b)) if isinstance(node, ast.Call)]
    as_written = [call.keywords for call in calls]
    for call in calls:
        call.keywords = sorted(call.keywords, key=lambda k: k.arg or "")
    same = same_tree(a, b)
    for call, keywords in zip(calls, as_written, strict=True):
        call.keywords = keywords  # a tree serves all who parse its text
    return same


class SourceTree(Lines):
    """A source text, with the edits that change parts of its syntax tree."""

    def changes(self, old: ast.AST, new: ast.AST) -> list[Edit] | None:
        """Return the edits that turn a node of the text into another node.

        None if all of its text changes, or if the changed part has no position.
        """
        if same_tree(old, new):
            return []
        if type(old) is not type(new) or isinstance(old, ast.JoinedStr):
            return None
        if isinstance(old, ast.Call) and isinstance(new, ast.Call):
            return self._call(old, new)
        if isinstance(old, ast.keyword) and isinstance(new, ast.keyword):
            return self._keyword(old, new)
        if isinstance(old, ast.Attribute) and isinstance(new, ast.Attribute):
            edits = self._part(old.value, new.value, old)
            stop = self.span(old)[1]
            return [*edits, Edit(stop - len(old.attr.encode()), stop, new.attr)]
        if isinstance(old, ast.BinOp) and isinstance(new, ast.BinOp):
            return self._operation(old, new)
        edits = []
        for name, before in ast.iter_fields(old):
            found = self._field(before, getattr(new, name), old)
            if found is None:
                return None
            edits += found
        return edits

    def _field(self, old: object, new: object, inside: ast.AST) -> list[Edit] | None:
        """Return the edits of one field of a node; None if it has no position of its own."""
        if isinstance(old, list) and isinstance(new, list):
            if len(old) != len(new):
                return None
            edits: list[Edit] = []
            for a, b in zip(old, new, strict=True):
                found = self._field(a, b, inside)
                if found is None:
                    return None
                edits += found
            return edits
        if isinstance(old, ast.AST) and isinstance(new, ast.AST):
            if same_tree(old, new):
                return []
            if isinstance(old, ast.expr) and isinstance(new, ast.expr):
                return self._part(old, new, inside)
            return self.changes(old, new) if isinstance(old, ast.stmt) else None
        return [] if old == new else None

    def _part(self, old: ast.expr, new: ast.expr, inside: ast.AST) -> list[Edit]:
        """Return the edits of an expression; all of its text is replaced where they are unknown."""
        edits = self.changes(old, new)
        if edits is not None:
            return edits
        start, stop = self.span(old)
        text = ast.unparse(new)
        around = self.data[start - 1 : start] + self.data[stop : stop + 1]
        if isinstance(inside, _BINDS_TIGHTLY) and isinstance(new, _OPERATIONS) and around != b"()":
            text = f"({text})"
        return [Edit(start, stop, text)]

    def _operation(self, old: ast.BinOp, new: ast.BinOp) -> list[Edit] | None:
        edits = [*self._part(old.left, new.left, old), *self._part(old.right, new.right, old)]
        if type(old.op) is type(new.op):
            return edits
        symbol, wanted = _SYMBOLS.get(type(old.op)), _SYMBOLS.get(type(new.op))
        start, stop = self.span(old.left)[1], self.span(old.right)[0]
        between = self.data[start:stop].decode()
        if symbol is None or wanted is None or between.count(symbol) != 1:
            return None
        at = start + between.index(symbol)
        return [*edits, Edit(at, at + len(symbol), wanted)]

    # -- calls -------------------------------------------------------------------------------------

    def _call(self, old: ast.Call, new: ast.Call) -> list[Edit] | None:
        edits = self._part(old.func, new.func, old)
        mine: list[_Argument] = [*old.args, *old.keywords]
        theirs: list[_Argument] = [*new.args, *_in_order(old, new)]
        if not mine:
            at = self.span(old)[1] - 1
            return [*edits, Edit(at, at, ", ".join(map(_text, theirs)))] if theirs else edits
        from difflib import SequenceMatcher

        matcher = SequenceMatcher(None, [ast.dump(a) for a in mine], [ast.dump(a) for a in theirs])
        for kind, first, last, to_first, to_last in matcher.get_opcodes():
            if kind == "equal":
                continue
            paired = min(last - first, to_last - to_first)
            for i in range(paired):
                edits += self._argument(mine[first + i], theirs[to_first + i], old)
            if first + paired < last:
                edits.append(self._without(mine, first + paired, last))
            elif to_first + paired < to_last:
                texts = [_text(a) for a in theirs[to_first + paired : to_last]]
                edits.append(self._inserted(mine, first + paired, texts))
        return edits

    def _argument(self, old: _Argument, new: _Argument, call: ast.Call) -> list[Edit]:
        if isinstance(old, ast.expr) and isinstance(new, ast.expr):
            return self._part(old, new, call)
        if isinstance(old, ast.keyword) and isinstance(new, ast.keyword):
            edits = self._keyword(old, new)
            return [Edit(*self.span(old), _text(new))] if edits is None else edits
        if isinstance(old, ast.expr) and isinstance(new, ast.keyword) and new.arg is not None:
            start = self.span(old)[0]
            return [Edit(start, start, f"{new.arg}="), *self._part(old, new.value, call)]
        return [Edit(*self.span(old), _text(new))]

    def _keyword(self, old: ast.keyword, new: ast.keyword) -> list[Edit] | None:
        if old.arg is None or new.arg is None:
            return None
        edits = self._part(old.value, new.value, old)
        if old.arg != new.arg:
            start = self.span(old)[0]
            edits.insert(0, Edit(start, start + len(old.arg.encode()), new.arg))
        return edits

    def _without(self, items: Sequence[_Argument], first: int, last: int) -> Edit:
        """Return the edit that removes arguments and their commas."""
        if last < len(items):
            return Edit(self.span(items[first])[0], self.span(items[last])[0], "")
        if first > 0:
            return Edit(self.span(items[first - 1])[1], self.span(items[last - 1])[1], "")
        stop = self.span(items[last - 1])[1]
        comma = re.match(rb"\s*,", self.data[stop:])
        return Edit(self.span(items[0])[0], stop + (comma.end() if comma else 0), "")

    def _inserted(self, items: Sequence[_Argument], index: int, texts: Sequence[str]) -> Edit:
        """Return the edit that inserts arguments in front of one of those of a call."""
        starts = [self.span(item)[0] for item in items]
        separator = ", "
        lines = {item.lineno for item in items}
        if len(lines) == len(items) > 1:  # each on a line of its own
            row = self.line_start(items[-1].lineno)
            separator = f",{self.newline}{self.data[row : starts[-1]].decode()}"
        if index == len(items):
            at = self.span(items[-1])[1]
            return Edit(at, at, "".join(separator + text for text in texts))
        return Edit(starts[index], starts[index], "".join(text + separator for text in texts))


def _text(argument: _Argument) -> str:
    if isinstance(argument, ast.expr):
        return ast.unparse(argument)
    value = ast.unparse(argument.value)
    return f"**{value}" if argument.arg is None else f"{argument.arg}={value}"


def _in_order(old: ast.Call, new: ast.Call) -> list[ast.keyword]:
    """Return the keyword arguments of a call in the order of those that they replace.

    An argument replaces the one of its name, else one of its value: comments stay at their values.
    """
    if old.args or new.args or any(k.arg is None for k in (*old.keywords, *new.keywords)):
        return new.keywords
    left = list(new.keywords)
    places: list[ast.keyword | None] = [None] * len(old.keywords)
    for same in (lambda a, b: a.arg == b.arg, lambda a, b: same_tree(a.value, b.value)):
        for i, keyword in enumerate(old.keywords):
            found = [k for k in left if places[i] is None and same(k, keyword)]
            if found:
                places[i] = found[0]
                left.remove(found[0])
    taken = [place or (left.pop(0) if left else None) for place in places]
    return [*(keyword for keyword in taken if keyword is not None), *left]
