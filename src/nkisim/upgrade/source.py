"""A module with the edits that rules make in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property

from nkisim.rewriting import Edit
from nkisim.source import OLD_PACKAGE, SHORT_NAMES, Argument, Kinds, Names

NKI, NISA, NL = (f"\0{module}\0" for module in ("nki", "nki.isa", "nki.language"))
"""The modules in texts that rules write; the engine puts in their names, and imports them."""

PLACEHOLDER = re.compile("\0([a-z.]+)\0")


class Source(Names):
    """One module, parsed once for all rules."""

    @cached_property
    def kinds(self) -> Kinds:
        """The kinds of its values."""
        return Kinds(self, self.path, beta1=True)

    def replaced(self, node: ast.AST, text: str) -> Edit:
        """Return the edit that replaces a node."""
        return Edit(*self.span(node), text)

    def renamed(self, node: ast.Attribute | ast.keyword, text: str) -> Edit:
        """Return the edit that replaces the name of an attribute or a keyword."""
        start, stop = self.own_span(node)
        if isinstance(node, ast.Attribute):
            return Edit(stop - len(node.attr.encode()), stop, text)
        return Edit(start, start + len((node.arg or "").encode()), text)

    def cuts_format_string(self, edit: Edit) -> bool:
        """Return whether an edit changes code in a format string whose place is not known."""
        return any(
            edit.start < stop
            and start < edit.stop
            and not (edit.start <= start and stop <= edit.stop)
            for start, stop in self.hidden
        )

    # -- imports -----------------------------------------------------------------------------

    def import_of(self, module: str) -> tuple[str, list[Edit]] | None:
        """Return an expression for a module of NKI and the edits that import it.

        None if its usual short name already means something else in this file.
        """
        known = self.alias(module)
        if known is not None:
            return known, []
        short = SHORT_NAMES[module]
        if self.is_used(short):
            return None
        text = "import nki" if module == "nki" else f"import {module} as {short}"
        start = self._first_import
        return None if start is None else (short, [Edit(start, start, text + self.newline)])

    @cached_property
    def _first_import(self) -> int | None:
        """The start of the first line that imports anything of NKI at the top of the file."""
        first = 0
        for statement in self.module.body:
            if self.begins_line(statement):
                first = self.span(statement)[0]
            imports = isinstance(statement, ast.Import | ast.ImportFrom)
            if imports and re.search(r"\bnki\b", self.code(statement)):
                return first
        return None

    def without_import(self, item: ast.alias) -> Edit | None:
        """Return the edit that removes one name from a ``from`` import, or its statement."""
        statement = self.parent(item)
        if not isinstance(statement, ast.ImportFrom):
            return None
        names = statement.names
        index = names.index(item)
        if len(names) == 1:
            line = self.statement(statement)
            return None if line is None else self.emptied(line)
        if index + 1 < len(names):
            return Edit(self.span(item)[0], self.span(names[index + 1])[0], "")
        return Edit(self.span(names[index - 1])[1], self.span(item)[1], "")

    def unused_imports(self, *modules: str) -> Iterator[ast.stmt]:
        """Yield the lines that import only modules of these packages, which nothing uses."""
        for statement in (*self.all(ast.Import), *self.all(ast.ImportFrom)):
            if not self.is_alone(statement):
                continue
            scope = self.scope(statement)
            made = () if scope is None else scope.assignments.values()
            bound = [one for several in made for one in several if one.node is statement]
            heads = tuple(f"{module}." for module in modules)
            if bound and not any(
                one.references or not f"{one.imported.removeprefix(OLD_PACKAGE)}.".startswith(heads)
                for one in bound
            ):
                yield statement

    # -- statements and arguments ------------------------------------------------------------

    def without(self, line: ast.stmt) -> Edit | None:
        """Return the edit that removes a line, or None where that would lose something.

        A line with a comment behind it, and the only line of a block, stay.
        """
        if self.comment_behind(line) is not None or len(self.siblings(line)) < 2:
            return None
        start, stop = self.span(line)
        start = self.data.rfind(b"\n", 0, start) + 1
        stop = self.data.find(b"\n", stop) + 1 or len(self.data)
        return Edit(start, stop, "")

    def emptied(self, line: ast.stmt) -> Edit:
        """Return the edit that removes a line; a comment behind it and its block stay."""
        whole = self.without(line)
        if whole is not None:
            return whole
        start, stop = self.span(line)
        comment = self.comment_behind(line)
        nested = not isinstance(self.parent(line), ast.Module)
        if comment is None or (nested and len(self.siblings(line)) < 2):
            return Edit(start, stop, "pass")
        return Edit(start, comment[0], "")

    def without_argument(self, call: ast.Call, argument: Argument) -> Edit:
        """Return the edit that removes an argument and its comma."""
        given = self.given(call)
        index = given.index(argument)
        start, stop = self.span(argument.node)
        if index + 1 < len(given):
            return Edit(start, self.span(given[index + 1].node)[0], "")
        if index > 0:
            return Edit(self.span(given[index - 1].node)[1], stop, "")
        rest = re.match(rb"\s*,", self.data[stop:])
        return Edit(start, stop + (rest.end() if rest else 0), "")
