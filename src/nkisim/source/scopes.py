"""The nodes of a module by type, the parent of each, and the scopes of its names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

__all__ = ["Assignment", "Function", "Scope", "Tree"]

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
    """A module, function, class or comprehension: the names that are bound in it."""

    def __init__(self, parent: Scope | None, is_class: bool = False) -> None:
        self.parent = parent
        self.is_class = is_class
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
            if scope.assignments[name] and (scope is self or not scope.is_class):
                return scope.assignments[name]
            scope = scope.parent
        return []


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
        blocks: The node and the field with the list that a statement is in.
        annotations: The annotations of parameters, results and variables.
        formatted: The format string around a node.
        words: The identifiers that are no names: of attributes, keywords, parameters,
            definitions, imports, handlers and patterns, with the node that they are a part of.
    """

    def __init__(self, module: ast.Module, is_parenthesised: Callable[[ast.Tuple], bool]) -> None:
        self.nodes: dict[type[ast.AST], list[ast.AST]] = {}
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {}
        self.blocks: dict[ast.AST, tuple[ast.AST, str]] = {}
        self.annotations: list[ast.expr] = []
        self.formatted: dict[ast.AST, ast.JoinedStr] = {}
        self.words: list[tuple[ast.AST, str]] = []
        self._is_parenthesised = is_parenthesised
        self._format: ast.JoinedStr | None = None
        self._reads: list[tuple[ast.Name, Scope]] = []
        self._walk(module, Scope(None))
        for name, scope in self._reads:
            for assignment in scope.lookup(name.id):
                assignment.references.append(name)

    def _walk(self, node: ast.AST, scope: Scope) -> None:
        """Add a node and what is in it."""
        self.nodes.setdefault(type(node), []).append(node)
        self.scopes[node] = scope
        if self._format is not None:
            self.formatted[node] = self._format
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                scope.bind(node.id, node)
            else:
                self._reads.append((node, scope))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            self._walk_definition(node, scope)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._walk_import(node, scope)
        elif isinstance(node, _COMPREHENSIONS):
            self._walk_comprehension(node, scope)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            for name in node.names:
                scope.declare(name, isinstance(node, ast.Global))
        elif isinstance(node, ast.JoinedStr) and self._format is None:
            self._format = node
            self._each(node, scope)
            self._format = None
        else:
            self._walk_words(node, scope)
            self._each(node, scope)

    def _walk_words(self, node: ast.AST, scope: Scope) -> None:
        """Record the identifiers in a node, and bind those that handlers and patterns bind."""
        if isinstance(node, ast.Attribute):
            self.words.append((node, node.attr))
        elif isinstance(node, ast.keyword) and node.arg is not None:
            self.words.append((node, node.arg))
        elif isinstance(node, ast.AnnAssign):
            self.annotations.append(node.annotation)
        elif isinstance(node, _NAMING):
            name = node.rest if isinstance(node, ast.MatchMapping) else node.name
            if name is not None:
                self.words.append((node, name))
                scope.bind(name, node)
        elif type(node).__name__ in ("ParamSpec", "TypeVar", "TypeVarTuple"):
            scope.bind(node.name, node)  # type: ignore[attr-defined]

    def _children(self, node: ast.AST) -> Iterator[ast.AST]:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                for item in value:
                    if isinstance(item, ast.stmt):
                        self.blocks[item] = node, name
                    if isinstance(item, ast.AST) and not isinstance(item, _MARKS):
                        yield item
            elif isinstance(value, ast.Tuple) and isinstance(node, ast.Subscript):
                yield from [value] if self._is_parenthesised(value) else value.elts
            elif isinstance(value, ast.AST) and not isinstance(value, _MARKS):
                yield value

    def _each(self, node: ast.AST, scope: Scope) -> None:
        for child in self._children(node):
            self.parents[child] = node
            self._walk(child, scope)

    def _walk_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, scope: Scope
    ) -> None:
        """Only what the first loop goes over is evaluated outside of the comprehension."""
        inner, first = Scope(scope), node.generators[0]
        self.parents[first.iter] = first
        self._walk(first.iter, scope)
        for child in self._children(node):
            self.parents[child] = node
            if child is not first:
                self._walk(child, inner)
                continue
            self.nodes.setdefault(ast.comprehension, []).append(first)
            self.scopes[first] = inner
            for part in (first.target, *first.ifs):
                self.parents[part] = first
                self._walk(part, inner)

    def _walk_definition(self, node: Function | ast.Lambda | ast.ClassDef, scope: Scope) -> None:
        inner = Scope(scope, isinstance(node, ast.ClassDef))
        if not isinstance(node, ast.Lambda):
            scope.bind(node.name, node)
            self.words.append((node, node.name))
        if isinstance(node, Function) and node.returns is not None:
            self.annotations.append(node.returns)
        body = {node.body} if isinstance(node, ast.Lambda) else set(node.body)
        for child in self._children(node):
            self.parents[child] = node
            if isinstance(child, ast.arguments):
                self._walk_parameters(child, inner, scope)
            else:
                self._walk(child, inner if child in body else scope)

    def _walk_parameters(self, node: ast.arguments, inner: Scope, outer: Scope) -> None:
        """Defaults and annotations of parameters are evaluated outside of the function."""
        self.scopes[node] = inner
        for child in self._children(node):
            self.parents[child] = node
            if not isinstance(child, ast.arg):
                self._walk(child, outer)
                continue
            self.nodes.setdefault(ast.arg, []).append(child)
            self.scopes[child] = inner
            self.words.append((child, child.arg))
            inner.bind(child.arg, child)
            if child.annotation is not None:
                self.annotations.append(child.annotation)
                self.parents[child.annotation] = child
                self._walk(child.annotation, outer)

    def _walk_import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        module = ""
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            module += "" if module.endswith(".") else "."
            self.words += [(node, word) for word in (node.module or "").split(".")]
        for item in node.names:
            self.nodes.setdefault(ast.alias, []).append(item)
            self.parents[item] = node
            self.scopes[item] = scope
            self.words += [(item, word) for word in (*item.name.split("."), item.asname or "")]
            if item.name == "*":
                continue
            full = module + item.name
            if item.asname is not None:
                scope.bind(item.asname, node, full)
            elif isinstance(node, ast.ImportFrom):
                scope.bind(item.name, node, full)
            else:
                first = full.split(".")[0]
                scope.bind(first, node, first)
