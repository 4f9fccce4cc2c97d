"""Loops that are never left, and functions that call themselves on every path."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from nkisim.checks.langcheck.unit import Found, Unit, unit_of
from nkisim.diagnostics import Finding, Place, declare

ENDLESS = declare(
    "L038",
    "endless-loop",
    "A while loop on a constant is never left, or a function calls itself, directly or through "
    "others, without end.",
    "the compiler unrolls until it hangs or its stack overflows",
    meaningless=True,
)


def check_endless(unit: Unit) -> Iterator[Found]:
    """Find loops on a constant that nothing leaves."""
    for loop in unit.of(ast.While):
        always = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
        leaves = (ast.Break, ast.Return, ast.Raise)
        if always and not any(isinstance(n, leaves) for s in loop.body for n in ast.walk(s)):
            message = f"`while {ast.unparse(loop.test)}` is never left"
            yield Found(ENDLESS, loop, message, "write a for loop with a bound")


class Step(NamedTuple):
    """A function and the line at which it makes the next call of a recursion."""

    name: str
    place: Place


def recursion(steps: Sequence[Step]) -> Finding:
    """Return the finding of a cycle of calls, at the call that closes it.

    The cycle begins with the function that is written first, wherever a kernel entered it.
    """
    first = min(range(len(steps)), key=lambda i: (steps[i].place.file, steps[i].place.line))
    steps = [*steps[first:], *steps[:first]]
    names = [step.name for step in steps] + [steps[0].name]
    through = f" through {' and '.join(names[1:-1])}" if len(steps) > 1 else ""
    return Finding(
        ENDLESS,
        f"{names[0]} calls itself{through} without end",
        steps[-1].place,
        operand=names[0],
        seen=" -> ".join(names),
        fix="write a loop with a bound, or return before the call once an integer that is known "
        "at compile time is reached",
        notes=tuple(
            f"{step.name} calls {called} at {step.place.file}:{step.place.line}"
            for step, called in zip(steps, names[1:], strict=True)
            if len(steps) > 1
        ),
    )


# -- in the source ---------------------------------------------------------------------------------


def endless_recursion(units: Iterable[Unit]) -> Iterator[Finding]:
    """Find cycles of calls that are made on every path, each cycle once.

    A call behind a condition, or after a statement that may return, may be a recursion that ends,
    which only a run can decide.
    """
    calls = _AlwaysCalled(units)
    seen: set[frozenset[ast.AST]] = set()
    done: set[ast.AST] = set()
    for unit in calls.units:
        path: list[tuple[Unit, Iterator[tuple[ast.Call, Unit]], ast.Call | None]] = []
        if unit.node not in done:
            path.append((unit, calls.of(unit), None))
        while path:
            current, rest, _ = path[-1]
            call, called = next(rest, (None, None))
            if call is None or called is None:
                done.add(current.node)
                path.pop()
                continue
            path[-1] = (current, rest, call)
            nodes = [inner.node for inner, *_ in path]
            if called.node in nodes:
                cycle = path[nodes.index(called.node) :]
                members = frozenset(inner.node for inner, *_ in cycle)
                if members not in seen:
                    seen.add(members)
                    yield recursion([_step(inner, at) for inner, _, at in cycle])
            elif called.node not in done:
                path.append((called, calls.of(called), None))


def _step(unit: Unit, call: ast.Call | None) -> Step:
    assert call is not None
    return Step(unit.tree.qualified(unit.node), Place(unit.tree.file, call.lineno))


class _AlwaysCalled:
    """The calls of the user's functions that each function makes on every path."""

    def __init__(self, units: Iterable[Unit]) -> None:
        self.units = list(units)
        self._by_node = {unit.node: unit for unit in self.units}

    def of(self, unit: Unit) -> Iterator[tuple[ast.Call, Unit]]:
        """Yield the calls of a function in order, with the functions that they call."""
        if isinstance(unit.node, ast.ClassDef):
            return
        for call in _always(unit.node.body):
            called = self._called(unit, call.func)
            if called is not None:
                yield call, called

    def _called(self, unit: Unit, function: ast.expr) -> Unit | None:
        own = unit.tree.outer(unit.node)
        if isinstance(own, ast.ClassDef) and _is_method_of_self(unit, function):
            assert isinstance(function, ast.Attribute)
            return self._method(unit, own, function.attr)
        meaning = unit.meaning(function)
        if meaning.kind != "definition":
            return None
        found = unit_of(meaning)
        if isinstance(found.node, ast.ClassDef):
            return self._method(found, found.node, "__init__")
        return self._by_node.setdefault(found.node, found)

    def _method(self, unit: Unit, owner: ast.ClassDef, name: str) -> Unit | None:
        """Return a method of a class, unless the file has a subclass that may replace it."""
        for other in unit.tree.definitions:
            bases = other.bases if isinstance(other, ast.ClassDef) else []
            if any(ast.unparse(base).split(".")[-1] == owner.name for base in bases):
                return None
        for child in owner.body:
            if isinstance(child, ast.FunctionDef) and child.name == name:
                made = Unit(unit.tree, child, unit.scope, owner=owner)
                return self._by_node.setdefault(child, made)
        return None


def _is_method_of_self(unit: Unit, function: ast.expr) -> bool:
    first = unit.parameters[0].arg if unit.parameters else ""
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == first
    )


_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Assert)


def _always(body: list[ast.stmt]) -> Iterator[ast.Call]:
    """Yield the calls that statements make on every path, in order."""
    for statement in body:
        for part in ast.iter_child_nodes(statement):
            if isinstance(part, ast.expr):
                yield from _evaluated(part)
            elif isinstance(part, ast.withitem):
                yield from _evaluated(part.context_expr)
        if isinstance(statement, ast.With):
            yield from _always(statement.body)
        if isinstance(statement, (ast.Try, ast.Match, *_LEAVES)) or (
            hasattr(statement, "body")
            and any(isinstance(inner, _LEAVES) for inner in ast.walk(statement))
        ):
            return


def _evaluated(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that are made whenever an expression is evaluated, inner ones first."""
    parts: list[ast.AST]
    match node:
        case ast.Lambda():
            parts = []
        case ast.BoolOp():
            parts = [node.values[0]]
        case ast.IfExp():
            parts = [node.test]
        case ast.Compare():
            parts = [node.left, node.comparators[0]]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            parts = [node.generators[0].iter]
        case _:
            parts = list(ast.iter_child_nodes(node))
    for part in parts:
        yield from _evaluated(part)
    if isinstance(node, ast.Call):
        yield node
