"""The statement of a finding, parsed."""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from nkisim.diagnostics import Fact, Finding, Rewrite
from nkisim.diagnostics.syntax import parsed
from nkisim.rewriting import code_with_comments
from nkisim.source import FileGlobals, Function, file_globals, nki_arguments

Simple = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
"""Statements without a body."""


@dataclass(frozen=True)
class Case:
    """A finding with its statement.

    Attributes:
        finding: The finding.
        source: The names of the file.
        statement: The innermost statement at the line.
    """

    finding: Finding
    source: FileGlobals
    statement: ast.stmt

    @property
    def module(self) -> ast.Module:
        """The whole file."""
        return self.source.tree.module

    @property
    def block(self) -> list[ast.stmt]:
        """The list of statements that contains the statement."""
        return self.source.tree.siblings(self.statement)

    # -- names -------------------------------------------------------------------------------------

    @cached_property
    def nisa(self) -> str:
        """Name of ``nki.isa`` in the file."""
        return self.source.alias("nki.isa")

    @cached_property
    def nl(self) -> str:
        """Name of ``nki.language`` in the file."""
        return self.source.alias("nki.language")

    def path(self, node: ast.AST) -> str:
        """Return the full name of a dotted name of the statement or of a copy of it, if known."""
        return self.source.of(node, self.source.tree.scope(self.statement)).path

    def fresh(self, wish: str) -> str:
        """Return a name that the function of the statement does not use, nor any other defines."""
        inside = [node for around in self._functions() for node in ast.walk(around)]
        used = {n.id for n in inside if isinstance(n, ast.Name)}
        used |= {a.arg for a in inside if isinstance(a, ast.arg)}
        used |= {n.name for n in self.module.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        name, number = wish, 2
        while name in used:
            name, number = f"{wish}{number}", number + 1
        return name

    # -- the call ----------------------------------------------------------------------------------

    @cached_property
    def call(self) -> ast.Call | None:
        """The call that the finding names, or the statement's outermost one."""
        calls = [n for n in ast.walk(self.statement) if isinstance(n, ast.Call)]
        wanted = self.finding.instruction.rpartition(".")[2]
        for node in calls:
            if wanted and self._called(node)[1] == wanted:
                return node
        return calls[0] if calls and not wanted else None

    def _called(self, call: ast.Call) -> tuple[str, str]:
        """Return the module and the name of a called function; no module where it is unknown."""
        module, _, name = self.path(call.func).rpartition(".")
        return module, name or (call.func.attr if isinstance(call.func, ast.Attribute) else "")

    @cached_property
    def function(self) -> str:
        """Name of the called function, without its module."""
        return "" if self.call is None else self._called(self.call)[1]

    @cached_property
    def arguments(self) -> dict[str, ast.expr]:
        """The arguments of the call, by parameter; empty where they are not plain."""
        if self.call is None:
            return {}
        module, name = self._called(self.call)
        modules = [module] if module else ["nki.isa", "nki.language"]
        found = (nki_arguments(self.call, f"{module}.{name}") for module in modules)
        return next(filter(None, found), {})

    def text(self, argument: str) -> str:
        """Return an argument as it is written; empty where it is not given."""
        node = self.arguments.get(argument)
        return "" if node is None else ast.unparse(node)

    def fact(self, argument: str) -> Fact | None:
        """Return the properties of the tensor passed for a parameter."""
        for fact in self.finding.facts:
            if fact.argument == argument:
                return fact
        node = self.arguments.get(argument)
        return self.variable(node.id) if isinstance(node, ast.Name) else None

    def variable(self, name: str) -> Fact | None:
        """Return the properties of the tensor in a variable."""
        found = [f for f in self.finding.facts if not f.argument and f.name == name]
        return found[0] if found else None

    def operand_span(self) -> tuple[int, int, int, int] | None:
        """Return the source span of the finding's operand."""
        node: ast.expr | None = None
        if self.finding.instruction:
            node = self.arguments.get(self.finding.operand)
        if node is None:
            named = [
                n
                for n in ast.walk(self.statement)
                if isinstance(n, ast.Name) and n.id == self.finding.operand
            ]
            node = named[0] if len(named) == 1 else None
        if node is None:
            return None
        last = node.end_lineno or node.lineno
        # Columns of syntax trees count bytes.
        first = linecache.getline(self.finding.file, node.lineno).encode()
        end = linecache.getline(self.finding.file, last).encode()
        start = len(first[: node.col_offset].decode(errors="replace"))
        stop = len(end[: node.end_col_offset or 0].decode(errors="replace"))
        return node.lineno, start, last, stop

    def blocks(self) -> Iterator[list[ast.stmt]]:
        """Return the statement lists of the function that contains the statement."""
        for around in self._functions()[-1:]:
            yield from _blocks(ast.walk(around))

    def loops(self) -> list[ast.For]:
        """Return the loops of the function around the statement, outermost first."""
        found: list[ast.For] = []
        for above in self.source.tree.ancestors(self.statement):
            if isinstance(above, Function):
                break
            found += [above] if isinstance(above, ast.For) else []
        return found[::-1]

    def _functions(self) -> list[Function]:
        """Return the functions that contain the statement, outermost first."""
        around = (self.statement, *self.source.tree.ancestors(self.statement))
        return [node for node in around if isinstance(node, Function)][::-1]

    # -- rewrites ----------------------------------------------------------------------------------

    def rewrite(self, *lines: str, upto: ast.stmt | None = None) -> Rewrite | None:
        """Return lines in place of the statement, or of all up to another one.

        None if nothing would change, a comment would be lost, or others share these lines.
        """
        first, end = self.statement.lineno, upto or self.statement
        last = end.end_lineno or end.lineno
        old = [linecache.getline(self.finding.file, n).rstrip() for n in range(first, last + 1)]
        # Columns of syntax trees count bytes.
        before = old[0].encode()[: self.statement.col_offset].decode()
        behind = old[-1].encode()[end.end_col_offset or 0 :].strip()
        if before.strip() or (behind and not behind.startswith(b"#")):
            return None
        code = textwrap.indent("\n".join(lines), before)
        new = parsed(textwrap.dedent(code))
        if upto is None and new is not None and _same(new.body, [self.statement]):
            return None
        made = Rewrite(self.finding.file, first, last, code)
        if any("#" in line for line in old[:-1]):
            return code_with_comments("".join(linecache.getlines(self.finding.file)), made)
        return made

    def head(
        self, loop: ast.For, target: str, source: str, begins: Iterable[str] = ()
    ) -> Rewrite | None:
        """Return another head of a loop, with statements that its body begins with."""
        body = loop.body[0]
        if body.lineno == loop.lineno:
            return None
        line = linecache.getline(self.finding.file, loop.lineno)
        indent = line[: len(line) - len(line.lstrip())]
        inside = " " * body.col_offset
        code = [f"{indent}for {target} in {source}:", *(f"{inside}{text}" for text in begins)]
        return Rewrite(self.finding.file, loop.lineno, body.lineno - 1, "\n".join(code))

    def with_call(self, text: str) -> str:
        """Return the statement with another call in place of the one it makes."""
        call = self.call
        assert call is not None
        new = ast.parse(text, mode="eval").body
        return ast.unparse(_copy(self.statement, {id(call): new}))

    def with_expression(self, old: ast.expr, text: str) -> str:
        """Return the statement with another expression in place of one of its own."""
        return ast.unparse(_copy(self.statement, {id(old): ast.parse(text, mode="eval").body}))

    def with_name(self, name: str, text: str) -> str:
        """Return the statement with an expression in place of a variable."""
        new = ast.parse(text, mode="eval").body
        return self.replaced(lambda n: new if isinstance(n, ast.Name) and n.id == name else None)

    def replaced(
        self, change: Callable[[ast.expr], ast.expr | None], part: ast.expr | None = None
    ) -> str:
        """Return the statement, or a part, with some expressions replaced; inner ones first."""
        twin = ast.parse(ast.unparse(part or self.statement)).body[0]
        return ast.unparse(_Change(change).visit(twin))


def _same(new: list[ast.stmt], old: list[ast.stmt]) -> bool:
    return list(map(ast.dump, new)) == list(map(ast.dump, old))


def _copy(statement: ast.stmt, by: dict[int, ast.expr]) -> ast.stmt:
    """Return a copy of a statement with some of its nodes replaced."""

    def twin(node: object) -> object:
        if id(node) in by:
            return by[id(node)]
        if isinstance(node, list):
            return [twin(part) for part in node]
        if isinstance(node, ast.AST):
            fields = {name: twin(value) for name, value in ast.iter_fields(node)}
            return ast.copy_location(type(node)(**fields), node)
        return node

    made = twin(statement)
    assert isinstance(made, ast.stmt)
    return made


class _Change(ast.NodeTransformer):
    def __init__(self, change: Callable[[ast.expr], ast.expr | None]) -> None:
        self.change = change

    def visit(self, node: ast.AST) -> ast.AST:
        node = self.generic_visit(node)
        if isinstance(node, ast.expr):
            return self.change(node) or node
        return node


def _blocks(nodes: Iterable[ast.AST]) -> Iterator[list[ast.stmt]]:
    for node in nodes:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def case_of(finding: Finding) -> Case | None:
    """Return a finding with its statement, None if the source is unavailable."""
    source = file_globals(finding.file)
    if source is None:
        return None
    statement = _statements(source).get(finding.line)
    return None if statement is None else Case(finding, source, statement)


@lru_cache(maxsize=16)
def _statements(source: FileGlobals) -> dict[int, ast.stmt]:
    """Return the last statement on each line; only the first line of a loop is one of it."""
    kinds: tuple[type[ast.stmt], ...] = (*Simple, ast.For)
    statements = [statement for kind in kinds for statement in source.tree.all(kind)]
    found: dict[int, ast.stmt] = {}
    for statement in sorted(statements, key=lambda s: (s.lineno, s.col_offset)):
        last = statement.lineno if isinstance(statement, ast.For) else statement.end_lineno
        for line in range(statement.lineno, (last or statement.lineno) + 1):
            found[line] = statement
    return found


def function_case_of(finding: Finding) -> Case | None:
    """Return a finding with the function that begins at its line, None if there is none."""
    source = file_globals(finding.file)
    for node in () if source is None else source.tree.all(ast.FunctionDef):
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        if source is not None and first <= finding.line < node.body[0].lineno:
            return Case(finding, source, node)
    return None
