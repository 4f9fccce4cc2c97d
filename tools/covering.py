"""Pytest plugin that records the functions that each test calls.

    PYTHONPATH=tools pytest -p covering --covering calls.jsonl tests/trnblas

One line per test that passed: its name, its seconds, the functions of ``src`` that it called, each
as ``path:qualified name``, and whether it started a process, whose calls are not recorded. Cached
computations are attributed to the first test that needs them.

A recording statement is inserted into each function when its module is imported: tracing would slow
the interpreter down five times. Functions that numba compiles are not changed.
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
# Files with functions that numba compiles, also for loops in other files.
COMPILED = re.compile(r"compiled|trnrand/(engines|_stream/series)\.py$")

called: set[str] = set()


def note(function: str) -> None:
    """Record a call."""
    called.add(function)


# torch calls this at trace time only, without guards.
note._dynamo_marked_constant = True  # type: ignore[attr-defined]


def noting(tree: ast.Module, module: str) -> ast.Module:
    """Insert a recording statement into every function of a module's tree."""

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
    """Return whether the functions of a file record their calls."""
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
# pytest itself compiles packages that have a plugin.
_rewrite_asserts = rewrite.rewrite_asserts
rewrite.rewrite_asserts = _noting_asserts  # type: ignore[assignment]
builtins.__called__ = note  # type: ignore[attr-defined]
# Bytecode compiled without the recording statements must not be used.
sys.pycache_prefix, sys.dont_write_bytecode = "/nonexistent", True


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--covering", metavar="FILE", help="append the functions that each test calls")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Covering(Path(config.getoption("--covering"))))


class Covering:
    """Appends the recorded calls of every passing test to a file."""

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
