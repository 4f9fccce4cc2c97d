"""The nodes of a module by type, the parent of each, and the scopes of its names.

libcst has metadata providers for this; they visit the tree five times with a general visitor. One
plain walk over the fields of the nodes is about ten times as fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

import libcst as cst

__all__ = ["Assignment", "Scope", "Tree"]

_LAYOUT = ("whitespace", "leading_", "trailing_", "lines_")
# fmt: off
_TOKENS = frozenset(
    (
        "colon", "comma", "dot", "empty_lines", "equal", "first_colon", "first_line", "footer",
        "header", "indent", "last_line", "lbrace", "lbracket", "lpar", "newline", "operator",
        "posonly_ind", "rbrace", "rbracket", "relative", "rpar", "second_colon", "semicolon",
        "separator",
    )
)
# fmt: on


@dataclass(eq=False)
class Assignment:
    """One binding of a name.

    Attributes:
        name: The name.
        scope: The scope in which it is bound.
        node: The name that is assigned, or the parameter, function, class or import statement.
        imported: The full name that an import binds the name to; empty for other bindings.
        references: The names that read it.
    """

    name: str
    scope: Scope
    node: cst.CSTNode
    imported: str = ""
    references: list[cst.Name] = field(default_factory=list)


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

    def bind(self, name: str, node: cst.CSTNode, imported: str = "") -> None:
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


_FIELDS: dict[type[cst.CSTNode], tuple[str, ...]] = {}


def _children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the nodes inside a node, without layout and punctuation."""
    kind = type(node)
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(
            f.name for f in fields(node) if f.name not in _TOKENS and not f.name.startswith(_LAYOUT)
        )
    for name in _FIELDS[kind]:
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, list | tuple):
            yield from value


_GROUPS = (cst.Tuple, cst.List, cst.Element, cst.StarredElement)
_TARGETS = {
    cst.AnnAssign: "target",
    cst.AsName: "name",
    cst.AssignTarget: "target",
    cst.AugAssign: "target",
    cst.CompFor: "target",
    cst.For: "target",
    cst.MatchAs: "name",
    cst.MatchMapping: "rest",
    cst.MatchStar: "name",
    cst.NamedExpr: "target",
    cst.ParamSpec: "name",
    cst.TypeAlias: "name",
    cst.TypeVar: "name",
    cst.TypeVarTuple: "name",
}
_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


class Tree:
    """The nodes of a module.

    Attributes:
        nodes: All nodes by type, without layout and punctuation.
        parents: The node that contains a node directly.
        scopes: The scope in which a node is evaluated; none for attributes and keywords.
    """

    def __init__(self, module: cst.Module) -> None:
        self.nodes: dict[type[cst.CSTNode], list[cst.CSTNode]] = {}
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.scopes: dict[cst.CSTNode, Scope] = {}
        self._reads: list[tuple[cst.Name, Scope]] = []
        self._walk(module, Scope(None), False)
        for name, scope in self._reads:
            for assignment in scope.lookup(name.value):
                assignment.references.append(name)

    def _add(self, node: cst.CSTNode) -> None:
        self.nodes.setdefault(type(node), []).append(node)

    def _walk(self, node: cst.CSTNode, scope: Scope, store: bool) -> None:
        """Add a node and what is in it; ``store`` tells that names in it are assigned to."""
        self._add(node)
        self.scopes[node] = scope
        if isinstance(node, cst.Name):
            if store:
                scope.bind(node.value, node)
            else:
                self._reads.append((node, scope))
        elif isinstance(node, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            self._walk_definition(node, scope)
        elif isinstance(node, cst.Import | cst.ImportFrom):
            self._walk_import(node, scope)
        elif isinstance(node, _COMPREHENSIONS):
            inner = Scope(scope)
            self.parents[node.for_in.iter] = node.for_in
            self._walk(node.for_in.iter, scope, False)
            self._each(node, inner, done=node.for_in.iter)
        elif isinstance(node, cst.Global | cst.Nonlocal):
            for item in node.names:
                scope.declare(item.name.value, isinstance(node, cst.Global))
        else:
            stored = _TARGETS.get(type(node))
            target = None if stored is None else getattr(node, stored)
            group = store and isinstance(node, _GROUPS)
            for child in _children(node):
                self.parents[child] = node
                if isinstance(node, cst.Attribute | cst.Arg) and child is not node.value:
                    self._add(child)  # an attribute or a keyword is no name
                elif child not in self.scopes:
                    self._walk(child, scope, group or child is target)

    def _each(self, node: cst.CSTNode, scope: Scope, done: cst.CSTNode | None = None) -> None:
        for child in _children(node):
            self.parents[child] = node
            if child is not done:
                self._walk(child, scope, False)

    def _walk_definition(
        self, node: cst.FunctionDef | cst.Lambda | cst.ClassDef, scope: Scope
    ) -> None:
        inner = Scope(scope, isinstance(node, cst.ClassDef))
        if not isinstance(node, cst.Lambda):
            scope.bind(node.name.value, node)
        for child in _children(node):
            self.parents[child] = node
            if child is node.body:
                self._walk(child, inner, False)
            elif isinstance(child, cst.Parameters):
                self._walk_parameters(child, inner, scope)
            elif not isinstance(node, cst.Lambda) and child is node.name:
                self._add(child)
                self.scopes[child] = scope
            else:
                self._walk(child, scope, False)

    def _walk_parameters(self, node: cst.CSTNode, inner: Scope, outer: Scope) -> None:
        """Defaults and annotations of parameters are evaluated outside of the function."""
        self._add(node)
        self.scopes[node] = inner
        for child in _children(node):
            self.parents[child] = node
            if isinstance(child, cst.Param | cst.ParamStar):
                self._walk_parameters(child, inner, outer)
            elif isinstance(node, cst.Param) and child is node.name:
                inner.bind(node.name.value, node)
                self._add(child)
                self.scopes[child] = inner
            else:
                self._walk(child, outer, False)

    def _walk_import(self, node: cst.Import | cst.ImportFrom, scope: Scope) -> None:
        module = ""
        if isinstance(node, cst.ImportFrom):
            module = "." * len(node.relative) + _dotted(node.module)
            module += "" if module.endswith(".") else "."
        names = () if isinstance(node.names, cst.ImportStar) else node.names
        for item in names:
            full = module + _dotted(item.name)
            if item.asname is not None and isinstance(item.asname.name, cst.Name):
                scope.bind(item.asname.name.value, node, full)
            elif isinstance(node, cst.ImportFrom):
                scope.bind(_dotted(item.name), node, full)
            else:
                first = full.split(".")[0]
                scope.bind(first, node, first)
        self._each_import(node, scope)

    def _each_import(self, node: cst.CSTNode, scope: Scope) -> None:
        """Add the nodes of an import: its names are neither read nor assigned to."""
        for child in _children(node):
            self.parents[child] = node
            self._add(child)
            self.scopes[child] = scope
            self._each_import(child, scope)


def _dotted(node: cst.CSTNode | None) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""
