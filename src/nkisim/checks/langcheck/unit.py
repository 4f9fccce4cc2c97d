"""One definition that the compiler would translate: its syntax, names, references and kinds.

Annotations, decorators and defaults are excluded: Python evaluates them at definition time, and the
compiler does not. The bodies of nested definitions are excluded too; body functions of device loops
are units of their own. A rule that a node of a unit violates is a ``Found``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, overload

from nkisim.diagnostics import Finding, Place, Rule, Severity
from nkisim.source import (
    Definition,
    File,
    Globals,
    Kinds,
    Meaning,
    Scope,
    called,
    indices,
    meaning_of,
)
from nkisim.versions import has, in_force

A = TypeVar("A", bound=ast.AST)
B = TypeVar("B", bound=ast.AST)

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(eq=False)
class Unit:
    """A function, a method or a class that a kernel reaches, or the kernel itself.

    Attributes:
        tree: The file.
        node: The definition.
        scope: The global names that it reads.
        is_kernel: Whether it is the entry point of the compiler.
        owner: The class of a method.
        outer: The unit around the body function of a device loop.
        loop: The loop of a body function: ``"fori_loop"``, ``"while_loop"`` or empty.
        live: The object, where there is one.
        found: Results of the checks that ran, by NKI version.
    """

    tree: File
    node: Definition
    scope: Globals
    is_kernel: bool = False
    _: KW_ONLY
    owner: ast.ClassDef | None = None
    outer: Unit | None = None
    loop: str = ""
    live: object = None
    found: dict[str, list[Any]] = field(default_factory=dict, init=False)
    _globals: dict[str, Meaning] = field(default_factory=dict, init=False)
    _meanings: dict[ast.AST, Meaning] = field(default_factory=dict, init=False)
    _kinds: dict[str, Kinds] = field(default_factory=dict, init=False)

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

    def enclosing(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the ancestors of a syntax node, from its parent to the definition."""
        for above in self.tree.ancestors(node):
            yield above
            if above is self.node:
                return

    @cached_property
    def parameters(self) -> list[ast.arg]:
        """The parameters of a function, in order."""
        if isinstance(self.node, ast.ClassDef):
            return []
        given = self.node.args
        starred = [a for a in (given.vararg, given.kwarg) if a is not None]
        return [*given.posonlyargs, *given.args, *given.kwonlyargs, *starred]

    @cached_property
    def _outer_scopes(self) -> set[Scope]:
        """The scopes of the enclosing functions."""
        return {scope for scope in self.tree.body(self.node).around() if scope.parent is not None}

    def is_captured(self, name: ast.Name) -> bool:
        """Return whether a name is bound in an enclosing function."""
        outer = self._outer_scopes
        return bool(outer) and any(one.scope in outer for one in self.tree.bound(name))

    def is_own(self, name: ast.Name) -> bool:
        """Return whether a name is bound in the definition itself."""
        return self.tree.is_local(name) and not self.is_captured(name)

    def meaning(self, node: ast.AST) -> Meaning:
        """Return the meaning of a dotted name where it is written; unknown for local ones."""
        known = self._meanings.get(node)
        if known is None:
            known = self._meanings[node] = meaning_of(node, self.tree.scope(node), self._global)
        return known

    def _global(self, name: str) -> Meaning:
        if name not in self._globals:
            self._globals[name] = self.scope.meaning(name)
        return self._globals[name]

    def of_decorator(self, node: ast.expr) -> Meaning:
        """Return the meaning of a decorator, called or not."""
        return self.meaning(called(node))

    @property
    def kinds(self) -> Kinds:
        """The kinds of its values in the version in force."""
        version = in_force()
        if version not in self._kinds:
            self._kinds[version] = Kinds(self.tree, self._path, beta1=False)
        return self._kinds[version]

    def _path(self, node: ast.AST) -> str:
        return self.meaning(node).path

    @cached_property
    def calls(self) -> list[tuple[ast.Call, Meaning]]:
        """The calls, with the meaning of the called name."""
        return [(call, self.meaning(call.func)) for call in self.of(ast.Call)]

    @cached_property
    def references(self) -> list[tuple[ast.expr, Meaning]]:
        """The longest dotted names that begin with a global one."""
        return [
            (node, self.meaning(node))
            for node in self.of(ast.Name, ast.Attribute)
            if isinstance(node.ctx, ast.Load)
            and not isinstance(self.tree.parent(node), ast.Attribute)
        ]

    @property
    def shared_names(self) -> set[str]:
        """The local names of the kernel that the body function of a loop may use."""
        if self.outer is None:
            return set()
        return {*self.tree.body(self.outer.node).assignments, *self.outer.shared_names}

    @property
    def bodies(self) -> list[Unit]:
        """The functions defined here that are bodies of device loops, where a version has these."""
        return self._bodies if has(in_force(), "nki.language", "fori_loop") else []

    @cached_property
    def _bodies(self) -> list[Unit]:
        return [
            Unit(self.tree, node, self.scope, outer=self, loop=loop)
            for node in self.of(ast.FunctionDef)
            if (loop := self.kinds.loop_of(node))
        ]

    @cached_property
    def reached(self) -> list[Unit]:
        """The user's definitions that this one refers to, and the methods of a class."""
        named = [m for _, m in self.references if m.kind == "definition"]
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
        if isinstance(node, (*_DEFINITIONS, ast.Name, ast.Constant)):
            continue
        children = [c for c in ast.iter_child_nodes(node) if not isinstance(c, ast.expr_context)]
        if isinstance(node, ast.AnnAssign):
            children = [node.target] + ([node.value] if node.value else [])
        waiting.extend(reversed(children))


RUNTIME = {"register": "register", "index": "loop index", "counter": "loop index"}
"""Kinds whose value is known only on the device, with their names in messages."""


def is_dynamic_loop(unit: Unit, loop: ast.AST) -> bool:
    """Return whether a loop runs over ``nl.dynamic_range``."""
    return (
        isinstance(loop, ast.For)
        and isinstance(loop.iter, ast.Call)
        and unit.meaning(loop.iter.func).path == "nki.language.dynamic_range"
    )


def operand_name(value: ast.AST | None) -> str | None:
    """Return the name of an operand, itself or sliced; an element may be that of a list."""
    if isinstance(value, ast.Subscript):
        if not any(isinstance(part, ast.Slice) for part in indices(value)):
            return None
        value = value.value
    return value.id if isinstance(value, ast.Name) else None


class Found(NamedTuple):
    """A rule violated by a syntax node.

    Attributes:
        rule: The rule.
        node: The syntax node.
        message: Description of the fault in one sentence.
        fix: Fix, in words.
        seen: The value or the text that is wrong.
        operand: The name at fault.
        notes: Other places.
        allowed: The legal values.
        instruction: Name of the called instruction.
        level: Severity, where it differs from the rule's.
        data: Values that the texts are made from.
    """

    rule: Rule
    node: ast.AST
    message: str
    fix: str
    seen: str = ""
    operand: str = ""
    notes: tuple[str, ...] = ()
    allowed: str = ""
    instruction: str = ""
    level: Severity | None = None
    data: Mapping[str, Any] = MappingProxyType({})

    def at_level(self, level: Severity | None) -> Found:
        """Return the result with the severity of a version; None leaves it."""
        return self if level is None else self._replace(level=level)

    def finding(self, file: str) -> Finding:
        """Return the finding in a file."""
        return Finding(
            self.rule,
            self.message,
            Place(file, getattr(self.node, "lineno", 0)),
            instruction=self.instruction,
            operand=self.operand,
            seen=self.seen,
            allowed=self.allowed,
            fix=self.fix,
            notes=self.notes,
            level=self.level,
            data=self.data,
        )
