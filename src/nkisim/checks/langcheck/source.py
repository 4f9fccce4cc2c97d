"""Parsed source files, and the definitions in them by line."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, TypeAlias

from nkisim.diagnostics.syntax import SYNTAX_LOCK, tree_of

__all__ = ["Definition", "Tree", "definition_of", "raise_if_unreadable", "read_tree"]

_READ: dict[str, tuple[list[str], Tree | None]] = {}

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Tree:
    """A parsed file.

    Attributes:
        file: Its name.
        module: The syntax tree.
        scope: Its names, once resolved.
        units: Units of its definitions, cached as long as the tree.
        constants: The last value that the module assigns to each of its names.
    """

    def __init__(self, file: str, module: ast.Module) -> None:
        self.file = file
        self.module = module
        self.scope: Any = None
        self.units: dict[tuple[ast.AST, int], Any] = {}
        self.constants: dict[str, ast.expr] = dict(_constants(module))
        self._outer: dict[ast.AST, Definition] = {}
        self._by_line: dict[tuple[int, str], Definition] = {}
        for outer, node in _definitions(module, None):
            self._by_line.setdefault((_first_line(node), node.name), node)
            if outer is not None:
                self._outer[node] = outer

    def at(self, line: int, name: str) -> Definition | None:
        """Return the definition of a name whose first line, decorators included, is ``line``."""
        return self._by_line.get((line, name))

    @property
    def definitions(self) -> list[Definition]:
        """All definitions, nested ones included."""
        return list(self._by_line.values())

    def of_class(self, name: str) -> ast.ClassDef | None:
        """Return the class of a dotted name."""
        body: list[ast.stmt] = self.module.body
        found: ast.ClassDef | None = None
        for part in name.split("."):
            found = next((n for n in body if isinstance(n, ast.ClassDef) and n.name == part), None)
            if found is None:
                return None
            body = found.body
        return found

    def qualified(self, node: Definition) -> str:
        """Return the name of a definition with the classes around it, as in ``Class.kernel``."""
        name, outer = node.name, self._outer.get(node)
        while isinstance(outer, ast.ClassDef):
            name, outer = f"{outer.name}.{name}", self._outer.get(outer)
        return name

    def outer(self, node: Definition) -> Definition | None:
        """Return the enclosing definition of a definition."""
        return self._outer.get(node)


def _definitions(
    node: ast.AST, outer: Definition | None
) -> Iterator[tuple[Definition | None, Definition]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield outer, child
            yield from _definitions(child, child)
        elif isinstance(child, (ast.stmt, ast.excepthandler)):
            yield from _definitions(child, outer)


def _constants(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for statement in module.body:
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        value = getattr(statement, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(value, ast.expr):
                yield target.id, value


def _first_line(node: Definition) -> int:
    """Return the first line of a definition; a decorator's, where there is one."""
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def read_tree(file: str) -> Tree | None:
    """Return the tree of a file, or None if its source is unavailable or not valid Python.

    The source is the one used for tracebacks, which notebooks and consoles provide too.
    """
    lines = linecache.getlines(file)
    known = _READ.get(file)
    if known is not None and known[0] is lines:
        return known[1]
    tree: Tree | None = None
    if lines:
        module = tree_of("".join(lines))
        try:
            tree = None if module is None else Tree(file, module)
        except RecursionError:
            tree = None
        # linecache gives the same list until the file is read again.
        _READ[file] = (lines, tree)
    return tree


def raise_if_unreadable(file: str) -> None:
    """Raise a SyntaxError for a file that is not valid Python.

    Python reads the bytes itself, so that encodings and their marks are as in an import.
    """
    with SYNTAX_LOCK:
        try:
            ast.parse(Path(file).read_bytes(), file)
        except (RecursionError, MemoryError):
            raise SyntaxError("too deeply nested", (file, 1, None, None)) from None
        except ValueError as error:
            raise SyntaxError(str(error), (file, 1, None, None)) from None


def definition_of(thing: object) -> tuple[Tree, Definition] | None:
    """Return the definition of a function or class, or None if its source is unavailable."""
    code = getattr(thing, "__code__", None)
    if isinstance(code, CodeType):
        tree = read_tree(code.co_filename)
        node = None if tree is None else tree.at(code.co_firstlineno, code.co_name)
        return None if tree is None or node is None else (tree, node)
    if isinstance(thing, type):
        try:
            file = inspect.getsourcefile(thing)
        except TypeError:
            return None
        tree = None if file is None else read_tree(file)
        node = None if tree is None else tree.of_class(thing.__qualname__)
        return None if tree is None or node is None else (tree, node)
    return None
