"""The nodes of a module by type, the parent of each, and the scopes of its names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(eq=False)
class Assignment:
    """One binding of a name.

    Attributes:
        name: The name.
        scope: The scope in which it is bound.
        node: The name that is assigned, or the parameter, function, class, import statement,
            handler of exceptions or pattern.
        imported: The full name that an import binds the name to; empty for other bindings.
        references: The names that read it.
    """

    name: str
    scope: Scope
    node: ast.AST
    imported: str = ""
    references: list[ast.Name] = field(default_factory=list)


class _Assignments(dict[str, list[Assignment]]):
    def __missing__(self, name: str) -> list[Assignment]:
        return []


class Scope:
    """A module, function, class or comprehension: the names that are bound in it.

    Attributes:
        parent: The scope around it; None for that of the module.
        node: The function, class or comprehension.
        assignments: The bindings of each name.
    """

    def __init__(self, parent: Scope | None, node: ast.AST) -> None:
        self.parent = parent
        self.node = node
        self.assignments = _Assignments()
        self._elsewhere: dict[str, Scope] = {}

    def bind(self, name: str, node: ast.AST, imported: str = "") -> None:
        """Record that a node binds a name."""
        target = self._elsewhere.get(name, self)
        made = Assignment(name, target, node, imported)
        target.assignments.setdefault(name, []).append(made)

    def declare(self, name: str, everywhere: bool) -> None:
        """Record a ``global`` (``everywhere``) or a ``nonlocal`` statement."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
            if not everywhere and scope.assignments[name]:
                break
        self._elsewhere[name] = scope

    def lookup(self, name: str) -> list[Assignment]:
        """Return the bindings that a name may stand for when it is read in this scope."""
        scope: Scope | None = self._elsewhere.get(name, self)
        while scope is not None:
            if scope.assignments[name] and (
                scope is self or not isinstance(scope.node, ast.ClassDef)
            ):
                return scope.assignments[name]
            scope = scope.parent
        return []

    def around(self) -> Iterator[Scope]:
        """Yield the scopes around this one, the innermost first."""
        scope = self.parent
        while scope is not None:
            yield scope
            scope = scope.parent

    def is_local(self, name: str) -> bool:
        """Return whether a name that is read here is bound in a definition, not in the module."""
        return any(one.scope.parent is not None for one in self.lookup(name))


_MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NAMING = (ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping)


class Tree:
    """The nodes of a module.

    Attributes:
        nodes: All nodes by type, without contexts and operators.
        parents: The node that contains a node directly. The indices of ``t[i, j]`` are in the
            subscript: the tuple that Python makes of them is no node here.
        scopes: The scope in which a node is evaluated.
        bodies: The scope that a definition or a comprehension makes.
        blocks: The node and the field with the list that a statement is in.
        formatted: The format string around a node.
    """

    def __init__(self, module: ast.Module, is_parenthesised: Callable[[ast.Tuple], bool]) -> None:
        self.nodes: dict[type[ast.AST], list[ast.AST]] = {}
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {}
        self.bodies: dict[ast.AST, Scope] = {}
        self.blocks: dict[ast.AST, tuple[ast.AST, str]] = {}
        self.formatted: dict[ast.AST, ast.JoinedStr] = {}
        self._is_parenthesised = is_parenthesised
        reads: list[tuple[ast.Name, Scope]] = []
        waiting: list[tuple[ast.AST, Scope, ast.JoinedStr | None]] = []
        waiting.append((module, self._inner(None, module), None))
        while waiting:
            node, scope, text = waiting.pop()
            self.nodes.setdefault(type(node), []).append(node)
            self.scopes[node] = scope
            if text is not None:
                self.formatted[node] = text
            elif isinstance(node, ast.JoinedStr):
                text = node
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Store):
                    scope.bind(node.id, node)
                else:
                    reads.append((node, scope))
                continue
            children = self._children(node)
            for child in children:
                self.parents[child] = node
            children.reverse()
            if isinstance(node, _WITHOUT_SCOPE):
                waiting += [(child, scope, text) for child in children]
            else:
                inner = self._inside(node, scope, children)
                waiting += [(child, there, text) for child, there in inner]
        for name, scope in reads:
            for assignment in scope.lookup(name.id):
                assignment.references.append(name)

    def _inner(self, scope: Scope | None, node: ast.AST) -> Scope:
        self.bodies[node] = made = Scope(scope, node)
        return made

    def _inside(
        self, node: ast.AST, scope: Scope, children: list[ast.AST]
    ) -> list[tuple[ast.AST, Scope]]:
        """Return the children of a node with their scopes, and bind the names that it binds."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            inner = self._inner(scope, node)
            if not isinstance(node, ast.Lambda):
                scope.bind(node.name, node)
            body = [node.body] if isinstance(node, ast.Lambda) else node.body
            own = {*body, getattr(node, "args", None)}
            return [(child, inner if child in own else scope) for child in children]
        if isinstance(node, ast.arguments | ast.arg):
            # Defaults and annotations of parameters are evaluated outside of the function.
            outer = scope.parent or scope
            if isinstance(node, ast.arg):
                scope.bind(node.arg, node)
            return [(c, scope if isinstance(c, ast.arg) else outer) for c in children]
        if isinstance(node, _COMPREHENSIONS):
            inner = self._inner(scope, node)
            return [(child, inner) for child in children]
        if isinstance(node, ast.comprehension):
            # Only what the first loop goes over is evaluated outside of the comprehension.
            first = getattr(scope.node, "generators", (None,))[0] is node
            outer = (scope.parent or scope) if first else scope
            return [(child, outer if child is node.iter else scope) for child in children]
        self._bind(node, scope)
        return [(child, scope) for child in children]

    def _bind(self, node: ast.AST, scope: Scope) -> None:
        """Bind the names that a statement, a handler of exceptions or a pattern binds itself."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name, full in _imports(node):
                scope.bind(name, node, full)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            for name in node.names:
                scope.declare(name, isinstance(node, ast.Global))
        elif not isinstance(node, ast.expr) and (bound := _bound_by(node)):
            scope.bind(bound, node)

    @cached_property
    def words(self) -> list[tuple[ast.AST, str]]:
        """The identifiers that are no names, with the node that they are a part of.

        They are those of attributes, keywords, parameters, definitions, imports, handlers and
        patterns.
        """
        return [
            (node, word)
            for nodes in self.nodes.values()
            for node in nodes
            for word in _words(node)
            if word
        ]

    def _children(self, node: ast.AST) -> list[ast.AST]:
        found: list[ast.AST] = []
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                if isinstance(value, ast.Tuple) and isinstance(node, ast.Subscript):
                    found += [value] if self._is_parenthesised(value) else value.elts
                elif not isinstance(value, _MARKS):
                    found.append(value)
            elif isinstance(value, list):
                for item in value:
                    if isinstance(item, ast.stmt):
                        self.blocks[item] = node, name
                    if isinstance(item, ast.AST) and not isinstance(item, _MARKS):
                        found.append(item)
        return found


_WITHOUT_SCOPE = (
    *(ast.Attribute, ast.Call, ast.Constant, ast.Subscript, ast.BinOp, ast.Tuple, ast.List),
    *(ast.keyword, ast.Slice, ast.Expr, ast.Assign, ast.Compare, ast.UnaryOp),
)
"""The usual nodes that bind nothing themselves."""


def _bound_by(node: ast.AST) -> str | None:
    """Return the name that a handler of exceptions, a pattern or a type parameter binds."""
    if isinstance(node, _NAMING):
        return node.rest if isinstance(node, ast.MatchMapping) else node.name
    is_type = type(node).__name__ in ("ParamSpec", "TypeVar", "TypeVarTuple")
    return node.name if is_type else None  # type: ignore[attr-defined]


def _words(node: ast.AST) -> tuple[str | None, ...]:
    if isinstance(node, ast.Attribute):
        return (node.attr,)
    if isinstance(node, ast.keyword | ast.arg):
        return (node.arg,)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return (node.name,)
    if isinstance(node, ast.alias):
        return (*node.name.split("."), node.asname)
    if isinstance(node, ast.ImportFrom):
        return tuple((node.module or "").split("."))
    return (_bound_by(node),) if isinstance(node, _NAMING) else ()


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, with the full names of what they stand for."""
    module = ""
    if isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        module += "" if module.endswith(".") else "."
    for item in node.names:
        if item.asname is not None or module:
            name = item.asname or item.name
            yield from [(name, module + item.name)] if item.name != "*" else []
        else:
            first = item.name.split(".")[0]
            yield first, first
