"""A twin kernel as a standalone file: imports, helpers, decorator, kernel.

Twins in ``tests/kernels`` share imports and helpers. A page shows one twin, so its dependencies are
collected from its module and from the test modules that this module imports.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from kernels.forms import DECLARATIONS, declares, form_lines

INLINED = ("kernels", "tiles")
"""Test modules: their definitions are shown, not imported."""


@dataclass(frozen=True)
class Example:
    """A kernel as a file.

    Attributes:
        text: The file.
        lines: Line numbers in the file, by stem of the test file and line number.
    """

    text: str
    lines: dict[tuple[str, int], int]


def example_of(functions: Sequence[Callable[..., Any]], *, decorated: bool = True) -> Example:
    """Return the file that contains the functions, in their order.

    Args:
        functions: Functions and classes of the tests; the last one is the kernel.
        decorated: Whether the last one is a kernel; host code is not decorated.
    """
    collected = _Collected("bad" if functions[-1].__name__.startswith("bad_") else "good")
    for function in functions:
        collected.add(sys.modules[function.__module__], function.__name__)
    return collected.file(functions[-1].__name__ if decorated else "")


class _Collected:
    """Top-level statements in the order in which they must run."""

    def __init__(self, form: str) -> None:
        self.form = form
        self.imports: set[str] = set()
        self.statements: list[tuple[ModuleType, ast.stmt]] = []
        self._seen: set[tuple[str, str]] = set()

    def add(self, module: ModuleType, name: str) -> None:
        """Add the statement that binds a name, after its dependencies."""
        bound = _bound(module, self.form)
        if (module.__name__, name) in self._seen or name not in bound:
            return
        self._seen.add((module.__name__, name))
        statement = bound[name]
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(INLINED):
            self.add(sys.modules[str(statement.module)], name)
            return
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            self.imports.add(_import_line(statement, name))
            return
        for used in _used(statement):
            self.add(module, used)
        if (module, statement) not in self.statements:
            self.statements.append((module, statement))

    def file(self, kernel: str) -> Example:
        """Return the file, with ``@nki.jit`` on the kernel of this name."""
        if kernel:
            self.imports.add("import nki")
        text = _sorted_imports(self.imports)
        lines: dict[tuple[str, int], int] = {}
        apart = False
        for module, statement in self.statements:
            before, apart = apart, isinstance(statement, (ast.FunctionDef, ast.ClassDef))
            text += ["", ""] if before or apart else [""]
            if isinstance(statement, ast.FunctionDef) and statement.name == kernel:
                text.append("@nki.jit")
            kept = [d for d in getattr(statement, "decorator_list", ()) if not _declares(d)]
            first = kept[0].lineno if kept else statement.lineno
            for number in range(first, int(statement.end_lineno or 0) + 1):
                line = _source(module, self.form)[number - 1]
                if line is not None:
                    line = re.sub(rf"@({'|'.join(DECLARATIONS)})\(.*", "@nki.jit", line)
                    text.append(line.replace("nkisim.", "nki."))
                    lines[module.__name__.rpartition(".")[2], number] = len(text)
        return Example("\n".join(text), lines)


@cache
def _source(module: ModuleType, form: str) -> list[str | None]:
    return form_lines(inspect.getsource(module), form)


@cache
def _bound(module: ModuleType, form: str) -> dict[str, ast.stmt]:
    """Return the top-level statement that binds each name of a module."""
    found: dict[str, ast.stmt] = {}
    for statement in ast.parse("\n".join(line or "" for line in _source(module, form))).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = statement
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {
                    (alias.asname or alias.name).partition(".")[0]: statement for alias in names
                }
            case ast.Assign() | ast.AnnAssign() | ast.Try():
                stored = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
                found |= {n.id: statement for n in stored if isinstance(n.ctx, ast.Store)}
                if isinstance(statement, ast.Try):
                    for inner in ast.walk(statement):
                        if isinstance(inner, ast.Import):
                            found |= {str(alias.asname): statement for alias in inner.names}
    return found


@cache
def _used(statement: ast.stmt) -> tuple[str, ...]:
    """Return the module-level names that a statement reads, without declarations."""
    hidden = {
        node
        for part in ast.walk(statement)
        for decorator in getattr(part, "decorator_list", ())
        if _declares(decorator)
        for node in ast.walk(decorator)
    }
    nodes = [node for node in ast.walk(statement) if node not in hidden]
    local = {node.arg for node in nodes if isinstance(node, ast.arg)}
    if isinstance(statement, ast.FunctionDef):
        local |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    names = [node for node in nodes if isinstance(node, ast.Name)]
    local |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return tuple(node.id for node in names if node.id not in local)


def _declares(decorator: ast.expr) -> bool:
    """Return whether a decorator declares a twin or a guard; it is not part of the kernel."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return declares(decorator) or (isinstance(called, ast.Name) and called.id == "guard")


def _import_line(statement: ast.Import | ast.ImportFrom, name: str) -> str:
    """Return the import of one name; imports from nkisim are written as ``nki``."""
    for alias in statement.names:
        if (alias.asname or alias.name).partition(".")[0] == name:
            single = type(statement)(**{**vars(statement), "names": [alias]})
            return (
                ast.unparse(single)
                .replace("nkisim.", "nki.")
                .replace("import nkisim", "import nki")
            )
    raise AssertionError(name)


def _sorted_imports(lines: set[str]) -> list[str]:
    """Return import lines as isort orders them: standard library, other packages, ``nki``."""
    groups: tuple[list[str], ...] = ([], [], [])
    for line in sorted(lines):
        root = line.split()[1].partition(".")[0]
        groups[0 if root in sys.stdlib_module_names else 2 if root == "nki" else 1].append(line)
    filled = [group for group in groups if group]
    return [line for i, group in enumerate(filled) for line in ([""] if i else []) + group]
