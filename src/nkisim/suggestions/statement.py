"""The statement of a finding, parsed, and the registry of fixes."""

from __future__ import annotations

import ast
import copy
import textwrap
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from nkisim.diagnostics import Fact, Finding, Rewrite
from nkisim.diagnostics.syntax import parsed
from nkisim.rewriting import code_with_comments
from nkisim.source import FileGlobals, Statement, expression, file_globals, rewritten
from nkisim.spec import INSTRUCTIONS

N = TypeVar("N", bound=ast.AST)
T = TypeVar("T")


class NoFixError(Exception):
    """No fix of a finding is certain; it is reported without code."""


def only_if(*conditions: object) -> None:
    """Raise a NoFixError unless all conditions hold."""
    if not all(conditions):
        raise NoFixError


def expect(kind: type[N], node: object) -> N:
    """Return a node; raise a NoFixError if it is not of a type."""
    if isinstance(node, kind):
        return node
    raise NoFixError


def required(thing: T | None) -> T:
    """Return a thing; raise a NoFixError if it is None."""
    if thing is None:
        raise NoFixError
    return thing


class Case(Statement):
    """A finding with its statement.

    Attributes:
        finding: The finding.
    """

    def __init__(self, finding: Finding, source: FileGlobals, statement: ast.stmt) -> None:
        super().__init__(source, statement, finding.instruction.rpartition(".")[2])
        self.finding = finding

    @property
    def rule(self) -> str:
        """The rule of the finding."""
        return self.finding.rule.id

    def at(self, statement: ast.stmt) -> Case:
        """Return the finding with another statement of its file."""
        return Case(self.finding, self.source, statement)

    def fresh(self, wish: str) -> str:
        """Return a name that the function of the statement does not use, nor any other defines."""
        tree = self.tree
        used = {d.name for d in tree.definitions if tree.parent(d) is tree.module}
        for around in self.functions():
            used |= {name.id for name in tree.within(around, ast.Name)}
            used |= {parameter.arg for parameter in tree.within(around, ast.arg)}
        name, number = wish, 2
        while name in used:
            name, number = f"{wish}{number}", number + 1
        return name

    @property
    def is_bare(self) -> bool:
        """Whether the statement is one call of an instruction, and nothing else."""
        called = self.call is not None and self.tree.is_bare(self.statement, self.call)
        return called and self.function in INSTRUCTIONS

    def fact(self, argument: str) -> Fact | None:
        """Return the properties of the tensor passed for a parameter."""
        for fact in self.finding.facts:
            if fact.argument == argument:
                return fact
        node = self.arguments.get(argument)
        return None if node is None else self.named(node)

    def variable(self, name: str) -> Fact | None:
        """Return the properties of the tensor in a variable."""
        found = [f for f in self.finding.facts if not f.argument and f.name == name]
        return found[0] if found else None

    def named(self, node: ast.expr) -> Fact | None:
        """Return the properties of the tensor that a node is the variable of."""
        return self.variable(node.id) if isinstance(node, ast.Name) else None

    def known(self, argument: str) -> Fact:
        """Return the properties of the tensor passed for a parameter, or raise a NoFixError."""
        return required(self.fact(argument))

    def shape(self, argument: str) -> str:
        """Return the shape of the tensor passed for a parameter as an expression."""
        name = self.name(argument)
        return f"{name}.shape" if name else str(self.known(argument).shape)

    def is_plain(self, *parameters: str) -> bool:
        """Return whether the statement is one instruction, with no other arguments than these."""
        return self.is_bare and set(self.arguments) <= set(parameters)

    def loop_over(self, function: str) -> tuple[ast.For, ast.Call]:
        """Return the only loop at or around the statement over a range of ``nki.language``."""
        around = [node for node in (*self.loops(), self.statement) if isinstance(node, ast.For)]
        calls = [(loop, loop.iter) for loop in around if isinstance(loop.iter, ast.Call)]
        path = f"nki.language.{function}"
        found = [(loop, call) for loop, call in calls if self.path(call.func) == path]
        only_if(len(found) == 1)
        return found[0]

    def operand_span(self) -> tuple[int, int, int, int] | None:
        """Return the source span of the finding's operand."""
        operand = self.finding.operand
        node = self.arguments.get(operand) if self.finding.instruction else None
        if node is None:
            named = [n for n in self.tree.within(self.statement, ast.Name) if n.id == operand]
            node = named[0] if len(named) == 1 else None
        return None if node is None else self.tree.columns(node)

    # -- rewrites ----------------------------------------------------------------------------------

    def rewrite(self, *lines: str, upto: ast.stmt | None = None) -> Rewrite:
        """Return lines in place of the statement, or of all up to another one.

        Raises:
            NoFixError: Nothing would change, a comment would be lost, or others share these lines.
        """
        tree, end = self.tree, upto or self.statement
        only_if(tree.begins_line(self.statement), tree.is_alone(end))
        code = textwrap.indent("\n".join(lines), tree.indent(self.statement))
        new = parsed(textwrap.dedent(code))
        only_if(new is None or list(map(ast.dump, new.body)) != [ast.dump(self.statement)])
        last = end.end_lineno or end.lineno
        made = Rewrite(self.finding.file, self.statement.lineno, last, code)
        if b"#" not in tree.data[tree.span(self.statement)[0] : tree.span(end)[1]]:
            return made
        return required(code_with_comments(tree.text, made))

    def head(self, loop: ast.For, target: str, source: str, begins: Iterable[str] = ()) -> Rewrite:
        """Return another head of a loop, with statements that its body begins with."""
        body = loop.body[0]
        only_if(body.lineno > loop.lineno)
        indent, inside = self.tree.indent(loop), " " * body.col_offset
        code = [f"{indent}for {target} in {source}:", *(f"{inside}{text}" for text in begins)]
        return Rewrite(self.finding.file, loop.lineno, body.lineno - 1, "\n".join(code))

    def with_call(self, text: str) -> str:
        """Return the statement with another call in place of the one it makes."""
        assert self.call is not None
        return self.with_expression(self.call, text)

    def with_given(self, **given: str) -> str:
        """Return the statement with these arguments in its call."""
        assert self.call is not None
        parts = ", ".join(f"{name}={text}" for name, text in given.items())
        return self.with_call(f"{ast.unparse(self.call.func)}({parts})")

    def with_arguments(self, **named: str) -> str:
        """Return the statement with other arguments in its call, in the order of its parameters."""
        given = {name: self.text(name) for name in self.arguments} | named
        order = [name for name in INSTRUCTIONS[self.function].parameters if name in given]
        return self.with_given(**{name: given[name] for name in order})

    def with_expression(self, old: ast.expr, text: str) -> str:
        """Return the statement with another expression in place of one of its own."""
        # The memo of ``deepcopy`` maps the id of the old node to the new one, which it inserts.
        return ast.unparse(copy.deepcopy(self.statement, {id(old): expression(text)}))

    def with_name(self, name: str, text: str) -> str:
        """Return the statement with an expression in place of a variable."""
        new = expression(text)
        return self.replaced(lambda n: new if isinstance(n, ast.Name) and n.id == name else None)

    def replaced(
        self, change: Callable[[ast.expr], ast.expr | None], part: ast.expr | None = None
    ) -> str:
        """Return the statement, or a part, with some expressions replaced; inner ones first."""
        return ast.unparse(rewritten(part or self.statement, change))


def one_of(case: Case, *fixes: Fix) -> Rewrite:
    """Return the fix of the first of some functions that has one."""
    *others, last = fixes
    for fix in others:
        with suppress(NoFixError):
            return fix(case)
    return last(case)


def case_of(finding: Finding) -> Case | None:
    """Return a finding with its statement, None if the source is unavailable."""
    source = file_globals(finding.file)
    if source is None:
        return None
    statement = source.tree.statement_at(finding.line)
    return None if statement is None else Case(finding, source, statement)


def compound_case_of(finding: Finding) -> Case | None:
    """Return a finding with the function or condition that begins at its line, or None."""
    source = file_globals(finding.file)
    if source is not None:
        for node in source.tree.all(ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first <= finding.line < node.body[0].lineno:
                return Case(finding, source, node)
        for condition in source.tree.all(ast.If):
            if condition.lineno == finding.line:
                return Case(finding, source, condition)
    return None


Fix = Callable[[Case], Rewrite]

FIXES: dict[str, Fix] = {}
"""By rule, the function that returns the fix of its findings as code, or raises a NoFixError."""


def fixes(*rules: str) -> Callable[[Fix], Fix]:
    """Declare that a function fixes the findings of rules."""

    def declared(fix: Fix) -> Fix:
        FIXES.update(dict.fromkeys(rules, fix))
        return fix

    return declared
