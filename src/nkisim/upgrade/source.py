"""A parsed module: spans, parents, the NKI names that expressions stand for, arguments of calls."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from nkisim.diagnostics.syntax import SYNTAX_LOCK
from nkisim.rewriting import EXACT_IN_FORMAT_STRINGS, Edit, Lines, Parentheses
from nkisim.upgrade.scopes import Assignment, Function, Scope, Tree

__all__ = ["Argument", "Source", "is_none", "is_simple", "literal_integer", "number", "string"]

_OLD = "neuronxcc."
_SHORT = {"nki.isa": "nisa", "nki.language": "nl", "nki": "nki"}
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_STRINGS = (ast.Constant, ast.JoinedStr)

N = TypeVar("N", bound=ast.AST)


@dataclass(frozen=True)
class Argument:
    """One argument of a call.

    Attributes:
        node: The argument as it is written, with its keyword or stars.
        value: The expression.
        keyword: Its keyword, if it has one.
        star: ``"*"`` or ``"**"`` in front of it, else empty.
    """

    node: ast.expr | ast.keyword
    value: ast.expr
    keyword: str | None = None
    star: str = ""


class Source:
    """One module, parsed once for all rules.

    Raises:
        SyntaxError: The text is not valid Python.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        with SYNTAX_LOCK:
            self.module = ast.parse(text)
        self._lines = Lines(text)
        self.data = self._lines.data
        self._tree = Tree(self.module, self._is_parenthesised)
        self._starts: dict[type[ast.AST], list[int]] = {}
        self._bounds: dict[ast.AST, tuple[int, int]] = {}
        self._names: dict[ast.AST, str | None] = {}
        self._calls: dict[str, list[tuple[str, ast.Call]]] = {}
        self._aliases: dict[str, str | None] = {}
        self._given: dict[ast.Call, list[Argument]] = {}
        self._kernels: list[Function] | None = None
        self._device: list[Function] | None = None
        for nodes in self._tree.nodes.values():
            if hasattr(nodes[0], "lineno"):
                nodes.sort(key=self._place)

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

    # -- nodes --------------------------------------------------------------------------------

    def all(self, kind: type[N]) -> Sequence[N]:
        """Return the nodes of one type, in the order of the text."""
        return self._tree.nodes.get(kind, [])  # type: ignore[return-value]

    @cached_property
    def functions(self) -> list[Function]:
        """The functions of the file, in the order of the text."""
        both: list[Function] = [*self.all(ast.FunctionDef), *self.all(ast.AsyncFunctionDef)]
        return sorted(both, key=self._place)

    @cached_property
    def annotations(self) -> list[ast.expr]:
        """The annotations of parameters, results and variables, in the order of the text."""
        return sorted(self._tree.annotations, key=self._place)

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

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the first byte of a node and the byte behind its last one, with parentheses.

        Where Python does not know the places of code in a format string, it is what is between the
        first and the last byte of the string.
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
            return self._stripped(bounds[0] + 1, end - 1)  # f(x for x in y): those of the call
        if isinstance(call, ast.ClassDef) and node in call.bases:
            return bounds
        for pair in self._parentheses.around(*bounds):
            if pair[1] == end:
                break
            bounds = pair
        return bounds

    def _stripped(self, start: int, stop: int) -> tuple[int, int]:
        text = self.data[start:stop]
        return start + len(text) - len(text.lstrip()), start + len(text.rstrip())

    def bare(self, node: ast.expr) -> str:
        """Return the text of an expression without the parentheses around it."""
        if self.is_formatted(node):
            return self.code(node)
        start, stop = self._lines.span(node)
        return self.data[start:stop].decode()

    def is_formatted(self, node: ast.AST) -> bool:
        """Return whether a node is in a format string and its own place is not known."""
        return not EXACT_IN_FORMAT_STRINGS and node in self._tree.formatted

    def cuts_format_string(self, edit: Edit) -> bool:
        """Return whether an edit changes code in a format string whose place is not known."""
        return any(
            edit.start < stop
            and start < edit.stop
            and not (edit.start <= start and stop <= edit.stop)
            for start, stop in self._hidden
        )

    @cached_property
    def _hidden(self) -> set[tuple[int, int]]:
        strings = () if EXACT_IN_FORMAT_STRINGS else self._tree.formatted.values()
        return {self._lines.span(string) for string in strings}

    def code(self, node: ast.AST) -> str:
        """Return the text of a node as it is written."""
        if self.is_formatted(node):
            return ast.unparse(node)
        start, stop = self.span(node)
        return self.data[start:stop].decode()

    def line(self, node: ast.AST) -> int:
        """Return the line of a node, counted from 1."""
        return self.data.count(b"\n", 0, self.span(node)[0]) + 1

    def replaced(self, node: ast.AST, text: str) -> Edit:
        """Return the edit that replaces a node."""
        return Edit(*self.span(node), text)

    def renamed(self, node: ast.Attribute | ast.keyword, text: str) -> Edit:
        """Return the edit that replaces the name of an attribute or a keyword."""
        if self.is_formatted(node):
            return self.replaced(node, text)
        start, stop = self._lines.span(node)
        if isinstance(node, ast.Attribute):
            return Edit(stop - len(node.attr.encode()), stop, text)
        return Edit(start, start + len((node.arg or "").encode()), text)

    # -- names --------------------------------------------------------------------------------

    @cached_property
    def scopes(self) -> set[Scope]:
        """All scopes of the file."""
        return set(self._tree.scopes.values())

    def scope(self, node: ast.AST) -> Scope | None:
        """Return the scope in which a node is evaluated."""
        return self._tree.scopes.get(node)

    def name(self, node: ast.AST) -> str | None:
        """Return the full name (``"nki.language.load"``) that an expression imports, or None.

        The namespace of Beta 1 counts as ``nki``. A name that is also bound to anything else in
        its scope has no full name: nothing is known about it.
        """
        if node not in self._names:
            self._names[node] = self._name(node)
        return self._names[node]

    def _name(self, node: ast.AST) -> str | None:
        base, tail = node, ""
        while isinstance(base, ast.Attribute):
            tail, base = f".{base.attr}{tail}", base.value
        scope = self.scope(base)
        if not isinstance(base, ast.Name) or scope is None:
            return None
        bound = scope.lookup(base.id)
        names = {one.imported and one.imported + tail for one in bound}
        full = names.pop() if len(names) == 1 else ""
        if len(bound) == 1 and not full:
            full = self._aliased(bound[0]) + tail
            full = full if full.startswith("nki.") else ""
        return full.removeprefix(_OLD) or None

    def _aliased(self, bound: Assignment) -> str:
        """Return the full name in ``run = nki.simulate_kernel`` at the top of a file, or ""."""
        statement = self.parent(bound.node)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return ""
        value, outermost = statement.value, bound.scope.parent is None
        return (self.name(value) or "") if outermost and isinstance(value, ast.Attribute) else ""

    def imported_names(self) -> Iterator[str]:
        """Yield the full names that imports bind a name to, and nothing else binds it."""
        for item in self.all(ast.alias):
            scope, name = self.scope(item), item.asname or item.name.split(".")[0]
            full = {one.imported for one in scope.lookup(name)} if scope is not None else set()
            if len(full) == 1:
                yield full.pop().removeprefix(_OLD)

    def is_alias(self, node: ast.AST) -> bool:
        """Return whether a name stands for one of NKI because it is assigned to it."""
        scope = self.scope(node)
        if not isinstance(node, ast.Name) or scope is None or self.name(node) is None:
            return False
        return not any(one.imported for one in scope.lookup(node.id))

    def nki_name(self, node: ast.AST, module: str) -> str | None:
        """Return ``"load"`` for ``nl.load`` if ``module`` is ``"nki.language"``, else None."""
        full = self.name(node)
        head = module + "."
        if full is None or not full.startswith(head) or "." in full[len(head) :]:
            return None
        return full[len(head) :]

    def calls(self, module: str, *names: str) -> Iterator[ast.Call]:
        """Yield the calls of functions of a module of NKI; of all of them without ``names``."""
        if module not in self._calls:
            named = ((self.nki_name(call.func, module), call) for call in self.all(ast.Call))
            self._calls[module] = [(name, call) for name, call in named if name is not None]
        for name, call in self._calls[module]:
            if not names or name in names:
                yield call

    def alias(self, module: str) -> str | None:
        """Return the expression for a module of NKI at the top of the file, if it is imported."""
        if module not in self._aliases:
            self._aliases[module] = self._alias(module)
        return self._aliases[module]

    def _alias(self, module: str) -> str | None:
        wanted = {module, _OLD + module}
        scope = self.scope(self.module)
        if scope is None:
            return None
        bound = {name: {one.imported for one in made} for name, made in scope.assignments.items()}
        for name in sorted(bound, key=lambda n: (n != _SHORT.get(module), n)):
            if bound[name] <= wanted:
                return name
        if module != "nki" and "nki" in bound:
            written = {self.code(a) for a in self.all(ast.Attribute) if self.name(a) == module}
            if module in written or (bound["nki"] == {"nki"} and module in self._imported):
                return module
        return None

    @cached_property
    def _imported(self) -> set[str]:
        """The modules that imports name, with the packages that they are in."""
        names = {item.name for one in self.all(ast.Import) for item in one.names}
        names |= {one.module or "" for one in self.all(ast.ImportFrom) if not one.level}
        return {name[: dot.start()] for name in names for dot in re.finditer(r"\.|\Z", name)}

    def import_of(self, module: str) -> tuple[str, list[Edit]] | None:
        """Return an expression for a module of NKI and the edits that import it.

        None if its usual short name already means something else in this file.
        """
        known = self.alias(module)
        if known is not None:
            return known, []
        short = _SHORT[module]
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

    @property
    def newline(self) -> str:
        """The line ending of the file."""
        return self._lines.newline

    # -- functions ----------------------------------------------------------------------------

    def function_of(self, node: ast.AST) -> Function | None:
        """Return the innermost function that contains a node."""
        for above in self.ancestors(node):
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
                return above
        return None

    def kernels(self) -> list[Function]:
        """Return the functions decorated with ``nki.jit`` and the ones passed to it by name."""
        if self._kernels is None:
            passed = {
                given[0].value.id
                for call in self.calls("nki", "jit", "simulate")
                if (given := self.given(call)) and isinstance(given[0].value, ast.Name)
            }
            self._kernels = [
                function
                for function in self.functions
                if function.name in passed
                or any(
                    self.name(d.func if isinstance(d, ast.Call) else d)
                    in ("nki.jit", "nki.trace", "nki.baremetal", "nki.benchmark", "nki.profile")
                    for d in function.decorator_list
                )
            ]
        return self._kernels

    def device_functions(self) -> list[Function]:
        """Return the kernels and the functions of the file that they call."""
        if self._device is not None:
            return self._device
        wanted = list(self.kernels())
        by_name: dict[str, list[Function]] = {}
        for function in self.functions:
            by_name.setdefault(function.name, []).append(function)
        for function in wanted:
            for call in self.within(function.body, ast.Call):
                if isinstance(call.func, ast.Name):
                    for callee in by_name.get(call.func.id, []):
                        if callee not in wanted:
                            wanted.append(callee)
        self._device = wanted
        return wanted

    def in_device_code(self, node: ast.AST) -> bool:
        """Return whether a node is in the body of a kernel or of a function that one calls."""
        function = self.function_of(node)
        return function is not None and function in self.device_functions()

    # -- statements ---------------------------------------------------------------------------

    def block(self, statement: ast.AST) -> tuple[ast.AST, str] | None:
        """Return the node and the field with the list that a statement is in."""
        return self._tree.blocks.get(statement)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """Return the simple statement around ``node`` if no other one is on its lines."""
        for above in (node, *self.ancestors(node)):
            if isinstance(above, ast.stmt):
                return above if is_simple(above) and self._is_alone(above) else None
            if isinstance(above, ast.Lambda | _Comprehension):
                return None
        return None

    def begins_line(self, statement: ast.stmt) -> bool:
        """Return whether only white space is in front of a statement on its line."""
        start = self.span(statement)[0]
        line = self.data.rfind(b"\n", 0, start) + 1
        continued = self.data[max(0, line - 3) : line].rstrip(b"\r\n").endswith(b"\\")
        return not continued and not self.data[line:start].strip()

    def _is_alone(self, statement: ast.stmt) -> bool:
        """Return whether a simple statement is the only one on its lines."""
        owner, name = self._tree.blocks[statement]
        block: list[ast.stmt] = getattr(owner, name)
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

    def before(self, line: ast.stmt, *statements: str) -> Edit:
        """Return the edit that inserts statements in front of a line."""
        start, indent = self.span(line)[0], self.indent(line)
        return Edit(start, start, "".join(s + self.newline + indent for s in statements))

    def without(self, line: ast.stmt) -> Edit | None:
        """Return the edit that removes a line, or None where that would lose something.

        A line with a comment behind it, and the only line of a block, stay.
        """
        owner, name = self._tree.blocks[line]
        if self.comment_behind(line) is not None or len(getattr(owner, name)) < 2:
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
        owner, name = self._tree.blocks[line]
        alone = not isinstance(owner, ast.Module) and len(getattr(owner, name)) < 2
        if comment is None or alone:
            return Edit(start, stop, "pass")
        return Edit(start, comment[0], "")

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

    def fresh(self, wish: str) -> str:
        """Return a name that the file does not use yet."""
        used = self.words(self.module)
        number, name = 2, wish
        while name in used:
            name, number = f"{wish}_{number}", number + 1
        return name

    # -- values -------------------------------------------------------------------------------

    def values(self, name: ast.AST) -> list[ast.expr] | None:
        """Return the expressions that a name is assigned, or None if something else binds it.

        Tuples on the left, loop variables, parameters and augmented assignments are others.
        """
        scope = self.scope(name)
        if not isinstance(name, ast.Name) or scope is None:
            return None
        found = []
        for assignment in scope.lookup(name.id):
            statement = self.parent(assignment.node)
            if isinstance(statement, ast.AugAssign):
                continue
            if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
                return None
            found.append(statement.value)
        return found or None

    def arguments(self, call: ast.Call, parameters: Sequence[str]) -> dict[str, ast.expr] | None:
        """Return the arguments of a call by parameter, or None if they cannot be told apart."""
        found: dict[str, ast.expr] = {}
        for position, argument in enumerate(self.given(call)):
            if argument.star:
                return None
            if argument.keyword is not None:
                key = argument.keyword
            elif position < len(parameters):
                key = parameters[position]
            else:
                return None
            if key in found:
                return None
            found[key] = argument.value
        return found

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
            if not self._is_alone(statement):
                continue
            scope = self.scope(statement)
            made = () if scope is None else scope.assignments.values()
            bound = [one for several in made for one in several if one.node is statement]
            heads = tuple(f"{module}." for module in modules)
            if bound and not any(
                one.references or not f"{one.imported.removeprefix(_OLD)}.".startswith(heads)
                for one in bound
            ):
                yield statement

    def given(self, call: ast.Call) -> list[Argument]:
        """Return the arguments of a call, in the order of the text."""
        if call not in self._given:
            found = [
                Argument(a, a.value, star="*") if isinstance(a, ast.Starred) else Argument(a, a)
                for a in call.args
            ]
            found += [Argument(k, k.value, k.arg, "" if k.arg else "**") for k in call.keywords]
            self._given[call] = sorted(found, key=lambda a: self.span(a.node)[0])
        return self._given[call]

    def call_of(self, value: ast.AST) -> ast.Call | None:
        """Return the call that an expression is an argument of, if it is one."""
        call = self.parent(value)
        if isinstance(call, ast.keyword | ast.Starred):
            value, call = call, self.parent(call)
        return call if isinstance(call, ast.Call) and call.func is not value else None

    def keyword(self, call: ast.Call, name: str) -> Argument | None:
        """Return the argument that is passed to a call by this keyword."""
        for argument in self.given(call):
            if argument.keyword == name:
                return argument
        return None

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

    def parameters(self, function: Function) -> list[str]:
        """Return the names of the parameters that are passed by position."""
        return [p.arg for p in (*function.args.posonlyargs, *function.args.args)]

    def indices(self, node: ast.Subscript) -> list[ast.expr]:
        """Return the indices and slices of a subscript."""
        group = node.slice
        known = self.parent(group) is node or not isinstance(group, ast.Tuple)
        return [group] if known else group.elts  # type: ignore[attr-defined]


_COMPOUND = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.For, ast.AsyncFor, ast.While, ast.If, ast.Match),
    *(ast.With, ast.AsyncWith, ast.Try, ast.TryStar),
)


def is_simple(node: ast.AST) -> bool:
    """Return whether a node is a statement that contains no other statements."""
    return isinstance(node, ast.stmt) and not isinstance(node, _COMPOUND)


def is_none(node: ast.AST | None) -> bool:
    """Return whether an expression is ``None``."""
    return isinstance(node, ast.Constant) and node.value is None


def string(node: ast.AST | None) -> str | None:
    """Return the value of a string literal."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def number(node: ast.AST | None) -> int | float | None:
    """Return the value of a literal number without sign."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def literal_integer(node: ast.AST | None) -> int | None:
    """Return the value of an integer literal, also of a negative one."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = literal_integer(node.operand)
        return None if inner is None else -inner
    value = number(node)
    return value if isinstance(value, int) else None
