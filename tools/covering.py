"""Which functions each test calls, found by running the tests once.

    PYTHONPATH=tools pytest -p covering --covering calls.jsonl tests/trnblas

One line per test that passed: its name, its seconds, the functions of ``src`` that it called, each
as ``path:qualified name``, and whether it started a process, in which it may call anything. What
is computed once and kept is ascribed to the first test that needs it.

Each function notes its call in a first statement of its own, put there when its module is imported:
tracing would slow the interpreter five times. Functions that numba compiles are left as they are.
"""

import ast
import builtins
import json
import re
import subprocess
import sys
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite

ROOT = Path.cwd()
SOURCES = str(ROOT / "src") + "/"
# Files with functions that numba compiles, be it for a loop of another file.
COMPILED = re.compile(r"compiled|trnrand/engines\.py$")

called: set[str] = set()


def note(function: str) -> None:
    """Note a call."""
    called.add(function)


# torch notes when it traces a function, and neither guards the notes nor repeats them.
note._dynamo_marked_constant = True  # type: ignore[attr-defined]


def noting(tree: ast.Module, module: str) -> ast.Module:
    """The tree of a module whose functions note that they are called."""

    def visit(node: ast.AST, path: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = path
            if isinstance(child, ast.ClassDef):
                inner = f"{path}{child.name}."
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{path}{child.name}"
                inner = f"{name}.<locals>."
                note = ast.parse(f"__called__({module + ':' + name!r})").body[0]
                documented = ast.get_docstring(child) is not None
                first = child.body[documented] if len(child.body) > documented else child.body[0]
                for part in ast.walk(note):
                    ast.copy_location(part, first)
                child.body.insert(documented, note)
            visit(child, inner)

    visit(tree, "")
    return tree


def watched(path: str) -> bool:
    """Whether the functions of a file note their calls."""
    return path.startswith(SOURCES) and not COMPILED.search(path)


_plainly = SourceFileLoader.source_to_code


def _noting(loader: SourceFileLoader, data: Any, path: Any, **options: Any) -> Any:
    if not watched(str(path)):
        return _plainly(loader, data, path, **options)
    tree = noting(ast.parse(data), str(Path(path).relative_to(ROOT)))
    return compile(tree, path, "exec", dont_inherit=True)


def _noting_asserts(tree: ast.Module, source: bytes, module: str, *rest: Any) -> None:
    _rewrite_asserts(tree, source, module, *rest)
    if watched(module):
        noting(tree, str(Path(module).relative_to(ROOT)))


SourceFileLoader.source_to_code = _noting  # type: ignore[assignment]
# Packages with a plugin are compiled by pytest itself.
_rewrite_asserts = rewrite.rewrite_asserts
rewrite.rewrite_asserts = _noting_asserts  # type: ignore[assignment]
builtins.__called__ = note  # type: ignore[attr-defined]
# What was compiled without the notes is not to be used.
sys.pycache_prefix, sys.dont_write_bytecode = "/nonexistent", True


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--covering", metavar="FILE", help="append which functions each test calls")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Covering(Path(config.getoption("--covering"))))


class Covering:
    """Writes down what a test called when it has passed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.passed = False
        begin = subprocess.Popen.__init__

        def noted(*arguments: Any, **options: Any) -> None:
            called.add("process")
            begin(*arguments, **options)

        subprocess.Popen.__init__ = noted  # type: ignore[method-assign]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        called.clear()
        self.passed, begun = False, time.perf_counter()
        result = yield
        if self.passed:
            seconds = round(time.perf_counter() - begun, 4)
            line = {"test": item.nodeid, "seconds": seconds, "process": "process" in called}
            with self.path.open("a") as file:
                calls = sorted(called - {"process"})
                file.write(json.dumps(line | {"calls": calls}) + "\n")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.passed = report.passed
