"""A parsed module: its nodes, their parents, their places with parentheses, its statements."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from nkisim.diagnostics.syntax import module_of
from nkisim.source.expressions import is_simple
from nkisim.source.positions import EXACT_IN_FORMAT_STRINGS, Lines, Parentheses
from nkisim.source.scopes import Assignment, Function, Scope, Tree

_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_STRINGS = (ast.Constant, ast.JoinedStr)

N = TypeVar("N", bound=ast.AST)


class Nodes:
    """The nodes of a module.

    Attributes:
        text: The text of the module.
        data: The text in UTF-8.
        module: The syntax tree.

    Raises:
        SyntaxError: The text is not valid Python.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.module = module_of(text)
        self._lines = Lines(text)
        self.data = self._lines.data
        self._tree = Tree(self.module, self._is_parenthesised)
        self._sorted: dict[type[ast.AST], list[ast.AST]] = {}
        self._starts: dict[type[ast.AST], list[int]] = {}
        self._bounds: dict[ast.AST, tuple[int, int]] = {}

    def _place(self, node: ast.AST) -> int:
        return self._lines.span(self._tree.formatted.get(node, node))[0]

    @cached_property
    def _parentheses(self) -> Parentheses:
        nodes = (node for node in ast.walk(self.module) if isinstance(node, _STRINGS))
        strings = (
            self._lines.span(node)
            for node in nodes
            if isinstance(node, ast.JoinedStr) or isinstance(node.value, str | bytes)
        )
        return Parentheses(self.data, strings)

    def _is_parenthesised(self, group: ast.Tuple) -> bool:
        start, stop = self._lines.span(group)
        return self.data[start : start + 1] == b"(" and self._parentheses.are_pair(start, stop)

    def all(self, kind: type[N]) -> Sequence[N]:
        """Return the nodes of one type, in the order of the text."""
        if kind not in self._sorted:
            found = self._tree.nodes.get(kind, [])
            placed = bool(found) and hasattr(found[0], "lineno")
            self._sorted[kind] = sorted(found, key=self._place) if placed else found
        return self._sorted[kind]  # type: ignore[return-value]

    @cached_property
    def functions(self) -> list[Function]:
        """The functions of the file, in the order of the text."""
        both: list[Function] = [*self.all(ast.FunctionDef), *self.all(ast.AsyncFunctionDef)]
        return sorted(both, key=self._place)

    @cached_property
    def annotations(self) -> list[ast.expr]:
        """The annotations of parameters, results and variables, in the order of the text."""
        found = [function.returns for function in self.functions]
        found += [parameter.annotation for parameter in self.all(ast.arg)]
        found += [statement.annotation for statement in self.all(ast.AnnAssign)]
        return sorted((node for node in found if node is not None), key=self._place)

    def decorators(self) -> Iterator[tuple[ast.expr, ast.AST]]:
        """Yield the decorators of functions and classes, with what they decorate."""
        for node in sorted((*self.functions, *self.all(ast.ClassDef)), key=self._place):
            for decorator in node.decorator_list:
                yield decorator, node

    def is_decorator(self, node: ast.AST) -> bool:
        """Return whether an expression decorates a function or a class."""
        return node in getattr(self.parent(node), "decorator_list", ())

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node that contains ``node`` directly."""
        return self._tree.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes that contain ``node``, the innermost first."""
        above = self.parent(node)
        while above is not None:
            yield above
            above = self.parent(above)

    def function_of(self, node: ast.AST) -> Function | None:
        """Return the innermost function that contains a node."""
        for above in self.ancestors(node):
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
                return above
        return None

    def within(self, outer: ast.AST | Sequence[ast.AST], kind: type[N]) -> list[N]:
        """Return the nodes of one type that lie inside ``outer``, a node or a block."""
        start, stop = self._range(outer)
        nodes = self.all(kind)
        if kind not in self._starts:
            self._starts[kind] = [self.span(node)[0] for node in nodes]
        starts = self._starts[kind]
        inside = nodes[bisect_left(starts, start) : bisect_left(starts, stop)]
        return [node for node in inside if self.span(node)[1] <= stop]

    def _range(self, outer: ast.AST | Sequence[ast.AST]) -> tuple[int, int]:
        if isinstance(outer, ast.Module):
            return 0, len(self.data)
        if isinstance(outer, ast.AST):
            return self.span(outer)
        return self.span(outer[0])[0], self.span(outer[-1])[1]

    def indices(self, node: ast.Subscript) -> list[ast.expr]:
        """Return the indices and slices of a subscript."""
        group = node.slice
        known = self.parent(group) is node or not isinstance(group, ast.Tuple)
        return [group] if known else group.elts  # type: ignore[attr-defined]

    @cached_property
    def scopes(self) -> set[Scope]:
        """All scopes of the file."""
        return set(self._tree.scopes.values())

    def scope(self, node: ast.AST) -> Scope:
        """Return the scope in which a node is evaluated; the module's for one of another text."""
        return self._tree.scopes.get(node) or self.body(self.module)

    def bound(self, name: ast.Name) -> list[Assignment]:
        """Return the bindings that a name may stand for."""
        return self.scope(name).lookup(name.id)

    def is_local(self, name: ast.Name) -> bool:
        """Return whether a name is bound in a definition, not in the module."""
        return any(one.scope.parent is not None for one in self.bound(name))

    def body(self, node: ast.AST) -> Scope:
        """Return the scope of the names in a function, class or comprehension."""
        return self._tree.bodies[node]

    # -- texts -------------------------------------------------------------------------------

    def words(self, outer: ast.AST | Sequence[ast.AST]) -> set[str]:
        """Return the identifiers inside a node or a block, also of attributes and keywords."""
        start, stop = self._range(outer)
        places, words = self._places_of_words
        return {
            *words[bisect_left(places, start) : bisect_left(places, stop)],
            *(name.id for name in self.within(outer, ast.Name)),
        }

    @cached_property
    def _places_of_words(self) -> tuple[list[int], list[str]]:
        places = []
        for node, word in self._tree.words:
            start, stop = self._lines.span(self._tree.formatted.get(node, node))
            places.append((stop - 1 if isinstance(node, ast.Attribute) else start, word))
        places.sort()
        return [place for place, _ in places], [word for _, word in places]

    def is_used(self, name: str) -> bool:
        """Return whether a file has an identifier, not counting parts of imported modules."""
        names = self.all(ast.alias)
        bound = {item.asname or item.name.split(".")[0] for item in names}
        parts: set[ast.AST] = {*names, *self.all(ast.ImportFrom)}
        other = (word for node, word in self._tree.words if node not in parts)
        return name in bound or name in other or any(n.id == name for n in self.all(ast.Name))

    def fresh(self, wish: str) -> str:
        """Return a name that the file does not use yet."""
        used = self.words(self.module)
        number, name = 2, wish
        while name in used:
            name, number = f"{wish}_{number}", number + 1
        return name

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the first byte of a node and the byte behind its last one, with parentheses.

        Where Python has no place for code in a format string, it is the inside of that string.
        """
        known = self._bounds.get(node)
        if known is None:
            known = self._bounds[node] = self._span(node)
        return known

    def _span(self, node: ast.AST) -> tuple[int, int]:
        if self.is_formatted(node):
            start, stop = self._lines.span(self._tree.formatted[node])
            return start + 1, stop - 1
        bounds = self._lines.span(node)
        if not isinstance(node, ast.expr):
            return bounds
        call = self.parent(node)
        end = self._lines.span(call)[1] if isinstance(call, ast.Call) else -1
        if isinstance(node, ast.GeneratorExp) and bounds[1] == end:
            return self._stripped(bounds[0] + 1, end - 1)  # f(x for x in y): they are the call's
        if isinstance(call, ast.ClassDef) and node in call.bases:
            return bounds
        for pair in self._parentheses.around(*bounds):
            if pair[1] == end:
                break
            bounds = pair
        return bounds

    def own_span(self, node: ast.AST) -> tuple[int, int]:
        """Return the place of a node without the parentheses around it."""
        return self.span(node) if self.is_formatted(node) else self._lines.span(node)

    def _stripped(self, start: int, stop: int) -> tuple[int, int]:
        text = self.data[start:stop]
        return start + len(text) - len(text.lstrip()), start + len(text.rstrip())

    def is_formatted(self, node: ast.AST) -> bool:
        """Return whether a node is in a format string and its own place is not known."""
        return not EXACT_IN_FORMAT_STRINGS and node in self._tree.formatted

    @cached_property
    def hidden(self) -> set[tuple[int, int]]:
        """The format strings in which the places of code are not known."""
        strings = () if EXACT_IN_FORMAT_STRINGS else self._tree.formatted.values()
        return {self._lines.span(string) for string in strings}

    def code(self, node: ast.AST) -> str:
        """Return the text of a node as it is written."""
        if self.is_formatted(node):
            return ast.unparse(node)
        start, stop = self.span(node)
        return self.data[start:stop].decode()

    def bare(self, node: ast.expr) -> str:
        """Return the text of an expression without the parentheses around it."""
        if self.is_formatted(node):
            return self.code(node)
        start, stop = self.own_span(node)
        return self.data[start:stop].decode()

    def line(self, node: ast.AST) -> int:
        """Return the line of a node, counted from 1."""
        return self.data.count(b"\n", 0, self.span(node)[0]) + 1

    def end_of_line(self, node: ast.AST) -> int:
        """Return the end of the last line of a node."""
        end = self.data.find(b"\n", self.span(node)[1])
        return len(self.data) if end < 0 else end

    def lines(self, statement: ast.stmt) -> list[str]:
        """Return the lines of a statement without the indentation of its block."""
        indent = self.indent(statement)
        return [line.removeprefix(indent) for line in self.code(statement).splitlines()]

    def texts(self, start: int, statements: Sequence[ast.stmt]) -> list[str]:
        """Return the lines of successive statements, each with the comments in front of it.

        ``start`` is the end of the line before them.
        """
        ends = [start, *map(self.end_of_line, statements)]
        return [self.data[a:b].decode() for a, b in pairwise(ends)]

    def columns(self, node: ast.expr) -> tuple[int, int, int, int]:
        """Return the first line and column of a node and the last ones; columns count from 0."""
        first, last = node.lineno, node.end_lineno or node.lineno
        start, stop = (  # in the text; those of syntax trees count bytes
            len(self.data[self._lines.line_start(line) : place].decode())
            for line, place in zip((first, last), self._lines.span(node), strict=True)
        )
        return first, start, last, stop

    @property
    def newline(self) -> str:
        """The line ending of the file."""
        return self._lines.newline

    # -- statements --------------------------------------------------------------------------

    def block(self, statement: ast.AST) -> tuple[ast.AST, str] | None:
        """Return the node and the field with the list that a statement is in."""
        return self._tree.blocks.get(statement)

    def siblings(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return the statements of the block that a statement is in."""
        owner, name = self._tree.blocks[statement]
        block: list[ast.stmt] = getattr(owner, name)
        return block

    def statement_of(self, node: ast.AST) -> ast.AST:
        """Return the simple statement around a node, or the compound one whose head contains it."""
        return next((a for a in (node, *self.ancestors(node)) if isinstance(a, ast.stmt)), node)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """Return the simple statement around ``node`` if no other one is on its lines."""
        for above in (node, *self.ancestors(node)):
            if isinstance(above, ast.stmt):
                return above if is_simple(above) and self.is_alone(above) else None
            if isinstance(above, ast.Lambda | _Comprehension):
                return None
        return None

    def begins_line(self, statement: ast.stmt) -> bool:
        """Return whether only white space is in front of a statement on its line."""
        start = self.span(statement)[0]
        line = self.data.rfind(b"\n", 0, start) + 1
        continued = self.data[max(0, line - 3) : line].rstrip(b"\r\n").endswith(b"\\")
        return not continued and not self.data[line:start].strip()

    def is_alone(self, statement: ast.stmt) -> bool:
        """Return whether a simple statement is the only one on its lines."""
        block = self.siblings(statement)
        place = block.index(statement)
        last = place + 1 == len(block) or block[place + 1].lineno != statement.end_lineno
        return last and self.begins_line(statement)

    def comment_behind(self, line: ast.stmt) -> tuple[int, int] | None:
        """Return the place of the comment behind a statement on its last line."""
        found = re.compile(rb"[ \t]*;?[ \t]*(#[^\r\n]*)").match(self.data, self.span(line)[1])
        return None if found is None else found.span(1)

    def indent(self, line: ast.stmt) -> str:
        """Return the white space in front of a line."""
        start = self.span(line)[0]
        return self.data[self.data.rfind(b"\n", 0, start) + 1 : start].decode()

    def is_bare(self, line: ast.stmt | None, call: ast.AST) -> bool:
        """Return whether a line is one call and nothing else."""
        return isinstance(line, ast.Expr) and line.value is call

    def unconditional(self, node: ast.AST) -> bool:
        """Return whether a node is always evaluated, and once, by its simple statement."""
        for above in self.ancestors(node):
            if is_simple(above):
                return True
            if isinstance(above, ast.IfExp | ast.BoolOp | ast.Lambda | _Comprehension):
                return False
        return False
