"""One definition that the compiler would translate: its syntax, names and references.

Annotations, decorators and defaults are excluded: Python evaluates them at definition time, and the
compiler does not. The bodies of nested definitions are excluded too; body functions of device loops
are units of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, TypeVar, overload

from nkisim.checks.langcheck.meaning import UNKNOWN, Meaning, Scope
from nkisim.checks.langcheck.source import Definition, Tree
from nkisim.versions import has, in_force

__all__ = ["LOOPS", "Unit", "reached_from", "unit_of"]

A = TypeVar("A", bound=ast.AST)
B = TypeVar("B", bound=ast.AST)

LOOPS = {
    "nki.language.fori_loop": ("fori_loop", 2),
    "nki.language.while_loop": ("while_loop", 1),
}
"""Loops with body functions by path: the name, and the position of the body."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Unit:
    """A function, a method or a class that a kernel reaches, or the kernel itself.

    Attributes:
        tree: The file.
        node: The definition.
        scope: Scope that resolves its global names.
        is_kernel: Whether it is the entry point of the compiler.
        owner: The class of a method.
        outer: The unit around the body function of a device loop.
        loop: The loop of a body function: ``"fori_loop"``, ``"while_loop"`` or empty.
        live: The object, where there is one.
        found: Results of the checks that ran, by NKI version.
    """

    def __init__(
        self,
        tree: Tree,
        node: Definition,
        scope: Scope,
        is_kernel: bool = False,
        *,
        owner: ast.ClassDef | None = None,
        outer: Unit | None = None,
        loop: str = "",
        live: object = None,
    ) -> None:
        self.tree = tree
        self.node = node
        self.scope = scope
        self.is_kernel = is_kernel
        self.owner = owner
        self.outer = outer
        self.loop = loop
        self.live = live
        self.found: dict[str, list[Any]] = {}
        self._meanings: dict[str, Meaning] = {}

    @property
    def name(self) -> str:
        """Name in the user's source."""
        return self.node.name if self.owner is None else f"{self.owner.name}.{self.node.name}"

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All syntax nodes inside, in source order."""
        return list(_traced(self.node.body))

    @cached_property
    def _by_type(self) -> dict[type, list[ast.AST]]:
        found: dict[type, list[ast.AST]] = {}
        for node in self.nodes:
            found.setdefault(type(node), []).append(node)
        return found

    @overload
    def of(self, kind: type[A], /) -> Iterator[A]: ...
    @overload
    def of(self, kind: type[A], other: type[B], /) -> Iterator[A | B]: ...
    @overload
    def of(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]: ...
    def of(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """Yield the syntax nodes of the given types."""
        for kind in kinds:
            yield from self._by_type.get(kind, [])

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Parent of each syntax node."""
        inside = {child: node for node in self.nodes for child in _children(node)}
        return inside | dict.fromkeys(self.node.body, self.node)

    def enclosing(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the ancestors of a syntax node, from its parent to the definition."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    @cached_property
    def parameters(self) -> list[ast.arg]:
        """The parameters of a function, in order."""
        if isinstance(self.node, ast.ClassDef):
            return []
        given = self.node.args
        starred = [a for a in (given.vararg, given.kwarg) if a is not None]
        return [*given.posonlyargs, *given.args, *given.kwonlyargs, *starred]

    @cached_property
    def own_names(self) -> set[str]:
        """The local names of the function: its parameters and the names it binds."""
        if isinstance(self.node, ast.ClassDef):
            return set()
        return _bound_names(self.node, self.nodes) - self.declared_global

    @cached_property
    def declared_global(self) -> set[str]:
        """Names of ``global`` statements."""
        return {name for node in self.of(ast.Global) for name in node.names}

    @cached_property
    def outer_names(self) -> set[str]:
        """The local names of enclosing functions."""
        found: set[str] = set()
        outer = self.tree.outer(self.node)
        while outer is not None:
            if not isinstance(outer, ast.ClassDef):
                found |= _bound_names(outer, _traced(outer.body))
            outer = self.tree.outer(outer)
        return found - self.own_names

    def meaning(self, node: ast.AST) -> Meaning:
        """Return the meaning of a dotted name in the definition; unknown for local ones."""
        if isinstance(node, ast.Name):
            if node.id in self.own_names or node.id in self.outer_names:
                return UNKNOWN
            known = self._meanings.get(node.id)
            if known is None:
                known = self._meanings[node.id] = self.scope.meaning(node.id)
            return known
        if isinstance(node, ast.Attribute):
            return self.meaning(node.value).attribute(node.attr)
        return UNKNOWN

    def scope_meaning(self, node: ast.AST) -> Meaning:
        """Return the meaning of a dotted name at module level, ignoring local names."""
        if isinstance(node, ast.Name):
            return self.scope.meaning(node.id)
        if isinstance(node, ast.Attribute):
            return self.scope_meaning(node.value).attribute(node.attr)
        return UNKNOWN

    def of_decorator(self, node: ast.expr) -> Meaning:
        """Return the meaning of a decorator, called or not, in the enclosing scope."""
        if isinstance(node, ast.Call):
            return self.of_decorator(node.func)
        if isinstance(node, ast.Name):
            return UNKNOWN if node.id in self.outer_names else self.scope.meaning(node.id)
        if isinstance(node, ast.Attribute):
            return self.of_decorator(node.value).attribute(node.attr)
        return UNKNOWN

    def calls(self) -> Iterator[tuple[ast.Call, Meaning]]:
        """Yield the calls, with the meaning of the called name."""
        yield from self._calls

    @cached_property
    def _calls(self) -> list[tuple[ast.Call, Meaning]]:
        return [(call, self.meaning(call.func)) for call in self.of(ast.Call)]

    def references(self) -> Iterator[tuple[ast.expr, Meaning]]:
        """Yield the longest dotted names that begin with a global one."""
        for node in self.of(ast.Name, ast.Attribute):
            inner = self.parents.get(node)
            if isinstance(node.ctx, ast.Load) and not isinstance(inner, ast.Attribute):
                yield node, self.meaning(node)

    @property
    def shared_names(self) -> set[str]:
        """The local names of the kernel that the body function of a loop may use."""
        return set() if self.outer is None else self.outer.own_names | self.outer.shared_names

    @property
    def bodies(self) -> list[Unit]:
        """The functions defined here that are bodies of device loops, where a version has these."""
        return self._bodies if has(in_force(), "nki.language", "fori_loop") else []

    @cached_property
    def _bodies(self) -> list[Unit]:
        loops: dict[str, str] = {}
        for call in ast.walk(self.node):  # also in other bodies
            if not isinstance(call, ast.Call):
                continue
            name, position = LOOPS.get(self.meaning(call.func).path, ("", 0))
            given = [k.value for k in call.keywords if k.arg == "body_fun"]
            given += call.args[position : position + 1] if name else []
            loops |= {body.id: name for body in given if name and isinstance(body, ast.Name)}
        return [
            Unit(self.tree, node, self.scope, outer=self, loop=loops[node.name])
            for node in self.of(ast.FunctionDef)
            if node.name in loops
        ]

    @cached_property
    def reached(self) -> list[Unit]:
        """The user's definitions that this one refers to, and the methods of a class."""
        named = [m for _, m in self.references() if m.kind == "definition"]
        units = [unit_of(meaning) for meaning in named]
        if isinstance(self.node, ast.ClassDef):
            for child in self.node.body:
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    units.append(Unit(self.tree, child, self.scope, owner=self.node))
        return units


def unit_of(meaning: Meaning) -> Unit:
    """Return the unit of a definition, cached until its file changes."""
    assert meaning.tree is not None and meaning.node is not None and meaning.scope is not None
    key = (meaning.node, meaning.scope.key)
    known: Unit | None = meaning.tree.units.get(key)
    if known is None:
        live = meaning.value
        known = Unit(meaning.tree, meaning.node, meaning.scope, meaning.is_kernel, live=live)
        meaning.tree.units[key] = known
    return known


def reached_from(kernel: Unit) -> Iterator[Unit]:
    """Yield a kernel and every definition that it reaches, each once."""
    seen: set[ast.AST] = set()
    waiting = [kernel]
    while waiting:
        unit = waiting.pop()
        if unit.node in seen:
            continue
        seen.add(unit.node)
        yield unit
        waiting.extend((*unit.reached, *unit.bodies))


def _traced(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield syntax nodes in source order, without the bodies of nested definitions."""
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, _DEFINITIONS):
            continue
        if isinstance(node, (ast.Name, ast.Constant)):
            continue
        children = list(_children(node))
        if isinstance(node, ast.AnnAssign):
            children = [node.target] + ([node.value] if node.value else [])
        waiting.extend(reversed(children))


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the child nodes of a syntax node, except its load or store context."""
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            yield from (item for item in value if isinstance(item, ast.AST))
        elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
            yield value


def _bound_names(node: ast.AST, inside: Iterable[ast.AST]) -> set[str]:
    """Return the parameters of a function and the names that its own statements bind."""
    names = {a.arg for a in ast.walk(getattr(node, "args", node)) if isinstance(a, ast.arg)}
    for inner in inside:
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, (ast.Store, ast.Del)):
            names.add(inner.id)
        elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(inner.name)
        elif isinstance(inner, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in inner.names}
        elif isinstance(inner, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and inner.name:
            names.add(inner.name)
    return names
