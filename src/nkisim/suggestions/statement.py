"""The statement of a finding, parsed."""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from nkisim.diagnostics import Fact, Finding, Rewrite
from nkisim.diagnostics.syntax import parsed, tree_of
from nkisim.rewriting import code_with_comments
from nkisim.source import arguments_of
from nkisim.spec import INSTRUCTIONS
from nkisim.spec.signatures import parameters_of

__all__ = ["Case", "Simple", "case_of", "function_case_of"]

Simple = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
"""Statements without a body."""

_USUAL = {"isa": "nisa", "language": "nl"}


@dataclass(frozen=True)
class Case:
    """A finding with its statement.

    Attributes:
        finding: The finding.
        module: The whole file.
        statement: The innermost statement at the line.
        block: The list of statements that contains it.
    """

    finding: Finding
    module: ast.Module
    statement: ast.stmt
    block: list[ast.stmt]

    # -- names -------------------------------------------------------------------------------------

    @cached_property
    def nisa(self) -> str:
        """Name of ``nki.isa`` in the file."""
        return self._alias("isa")

    @cached_property
    def nl(self) -> str:
        """Name of ``nki.language`` in the file."""
        return self._alias("language")

    def _alias(self, part: str) -> str:
        for node in ast.walk(self.module):
            if isinstance(node, ast.Import):
                for name in node.names:
                    if name.name in (f"nki.{part}", f"nkisim.{part}"):
                        return name.asname or name.name
            if isinstance(node, ast.ImportFrom) and node.module in ("nki", "nkisim"):
                for name in node.names:
                    if name.name == part:
                        return name.asname or part
        return _USUAL[part]

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
            if isinstance(node.func, ast.Attribute) and node.func.attr == wanted:
                return node
        return calls[0] if calls and not wanted else None

    @cached_property
    def function(self) -> str:
        """Name of the called function, without its module."""
        call = self.call
        return call.func.attr if call is not None and isinstance(call.func, ast.Attribute) else ""

    @cached_property
    def arguments(self) -> dict[str, ast.expr]:
        """The arguments of the call, by parameter; empty where they are not plain."""
        call = self.call
        if call is None:
            return {}
        known = self.function in INSTRUCTIONS
        names = parameters_of(self.function) if known else _LANGUAGE.get(self.function, [])
        return arguments_of(call, names) or {}

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
        functions = self._functions()
        return [
            node
            for node in _around(self.module, self.statement.lineno)
            if isinstance(node, ast.For)
            and node is not self.statement
            and (not functions or node.lineno > functions[-1].lineno)
        ]

    def _functions(self) -> list[ast.FunctionDef]:
        """Return the functions that contain the statement, outermost first."""
        around = _around(self.module, self.statement.lineno)
        return [node for node in around if isinstance(node, ast.FunctionDef)]

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

    def replaced(self, change: Callable[[ast.expr], ast.expr | None]) -> str:
        """Return the statement with some expressions replaced; inner ones come first."""
        changer = _Change(change)
        twin = ast.parse(ast.unparse(self.statement)).body[0]
        return ast.unparse(changer.visit(twin))


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


_LANGUAGE = {
    "load": ["src", "dtype"],
    "ndarray": ["shape", "dtype", "buffer", "name", "address"],
    "store": ["dst", "value"],
    "zeros": ["shape", "dtype", "buffer", "name"],
}
"""Parameters of ``nki.language`` functions that findings refer to."""


def _around(module: ast.Module, line: int) -> Iterator[ast.AST]:
    """Return the file and the blocks that contain the line, outermost first.

    Only these blocks are visited, not the whole file.
    """
    nodes: list[ast.AST] = [module]
    for node in nodes:
        yield node
        nodes += [child for child in ast.iter_child_nodes(node) if _holds(child, line)]


def _holds(node: ast.AST, line: int) -> bool:
    if isinstance(node, ast.stmt):
        return node.lineno <= line <= (node.end_lineno or node.lineno)
    return isinstance(node, (ast.ExceptHandler, ast.match_case))


def _blocks(nodes: Iterable[ast.AST]) -> Iterator[list[ast.stmt]]:
    for node in nodes:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def case_of(finding: Finding) -> Case | None:
    """Return a finding with its statement, None if the source is unavailable."""
    module = tree_of("".join(linecache.getlines(finding.file)))
    if module is None:
        return None
    best: Case | None = None
    for block in _blocks(_around(module, finding.line)):
        for statement in block:
            last = statement.end_lineno or statement.lineno
            if statement.lineno <= finding.line <= last and isinstance(
                statement, (*Simple, ast.For)
            ):
                if isinstance(statement, ast.For) and finding.line != statement.lineno:
                    continue
                best = Case(finding, module, statement, block)
    return best


def function_case_of(finding: Finding) -> Case | None:
    """Return a finding with the function that begins at its line, None if there is none."""
    module = tree_of("".join(linecache.getlines(finding.file)))
    for block in () if module is None else _blocks(_around(module, finding.line)):
        for node in block:
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                if first <= finding.line < node.body[0].lineno and module is not None:
                    return Case(finding, module, node, block)
    return None
