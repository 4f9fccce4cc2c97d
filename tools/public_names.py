"""Contract: the sources use public interfaces only, and every exception has a reason next to it.

Reported are private names of other packages (``torch._C``, ``from numba._x import y``,
``getattr(os.environ, "_data")``), ``ctypes``, and source text that is assembled and executed
(``exec``, ``eval``, ``compile``). ``sys._getframe`` and ``sys.getrefcount`` count as private.

An exception is allowed only in the modules that ``[tool.public-names]`` in ``pyproject.toml``
lists, and only with a comment ``# private: REASON`` on its line or directly above it. The comment
gives the reason and what happens where the name is missing.

    python tools/public_names.py           # print the exceptions with their reasons; fail on others
    python tools/public_names.py --counts  # print totals per package too
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTED = frozenset({"_replace", "_asdict", "_fields", "_make", "_field_defaults", "_exit"})
"""Public names with an underscore: those of ``collections.namedtuple``, and ``os._exit``."""
BUILTINS = frozenset({"exec", "eval", "compile"})
FRAME_AND_COUNT = frozenset({"_getframe", "_current_frames", "getrefcount", "f_lasti"})
MARK = "# private:"


@dataclass(frozen=True)
class Use:
    """One use of an interface that is not public."""

    file: Path
    line: int
    name: str
    reason: str

    def __str__(self) -> str:
        place = f"{self.file.relative_to(ROOT)}:{self.line}"
        return f"{place}  {self.name}" + (f"\n    {self.reason}" if self.reason else "")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--counts", action="store_true", help="print totals per package")
    options = parser.parse_args(arguments)
    uses = list(all_uses(ROOT / "src"))
    allowed = {ROOT / path for path in settings()}
    refused = [use for use in uses if use.file not in allowed or not use.reason]
    for use in (use for use in uses if use not in refused):
        print(use)
    for use in refused:
        print(f"not public: {use}", file=sys.stderr)
    if options.counts:
        for package, count in sorted(Counter(_package(use.file) for use in uses).items()):
            print(f"{package:<10} {count}")
    files = len({use.file for use in uses})
    print(f"{len(uses)} uses of private interfaces in {files} files, {len(refused)} not allowed")
    return 1 if refused else 0


def settings() -> list[str]:
    """Return the modules that may use private interfaces, from ``pyproject.toml``."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"].get("public-names", {})
    return list(table.get("modules", ()))


def all_uses(source: Path) -> Iterator[Use]:
    """Yield every use of a private interface in the packages below a folder."""
    for package in sorted(path for path in source.iterdir() if path.is_dir()):
        files = {path: path.read_text() for path in sorted(package.rglob("*.py"))}
        nodes = {path: [*ast.walk(ast.parse(text))] for path, text in files.items()}
        own = {name for each in nodes.values() for name in _defined(each)}
        ours = frozenset(path.name for path in source.iterdir() if path.is_dir())
        for path, each in nodes.items():
            lines = files[path].splitlines()
            for line, name in sorted(set(_uses(each, own, ours))):
                yield Use(path, line, name, _reason(lines, line))


def _uses(nodes: list[ast.AST], own: set[str], ours: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield line and name of every use in a module, of which all nodes are given, parents first."""
    foreign = _foreign_names(nodes, ours)
    inner: set[ast.expr] = set()  # parts of an attribute chain that is reported as a whole
    for node in nodes:
        if isinstance(node, ast.Attribute) and (node in inner or _hidden(_chain(node))):
            inner.add(node.value)
        if node in inner:
            continue
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if _foreign(alias.name, ours) and _hidden(alias.name):
                        yield node.lineno, alias.name
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for alias in names:
                    name = f"{module}.{alias.name}"
                    if _foreign(module, ours) and (_hidden(name) or alias.name in FRAME_AND_COUNT):
                        yield node.lineno, name
            case ast.Call(func=ast.Name(id=name)) if name in BUILTINS:
                yield node.lineno, f"{name}()"
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "hasattr"),
                args=[base, ast.Constant(value=str(name)), *_],
            ) if _private(name) and not _is_self(base):
                yield node.lineno, f"{ast.unparse(base)}.{name}"
            case ast.Attribute(value=base, attr=name) if _hidden(_chain(node)):
                root = _chain(node).partition(".")[0]
                if root in foreign or (_private(name) and name not in own and not _is_self(base)):
                    yield node.lineno, ast.unparse(node)
            case ast.Attribute(value=base, attr=name) if name in FRAME_AND_COUNT:
                yield node.lineno, f"{ast.unparse(base)}.{name}"


def _reason(lines: list[str], line: int) -> str:
    """Return the reason in the comment on a line, or in the comment block above it."""
    here = lines[line - 1].partition(MARK)[2]
    if here:
        return here.strip()
    above: list[str] = []
    for text in reversed(lines[: line - 1]):
        if not text.strip().startswith("#"):
            break
        above.insert(0, text.strip().removeprefix("#").strip())
    return " ".join(above).partition(MARK.removeprefix("# "))[2].strip()


def _defined(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the attributes that the classes of a module define: methods, variables, slots."""
    for kind in (node for node in nodes if isinstance(node, ast.ClassDef)):
        for node in ast.walk(kind):
            match node:
                case ast.FunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                    yield name
                case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                    yield name
                case ast.Assign(targets=[ast.Name(id="__slots__")], value=value):
                    yield from (n.value for n in ast.walk(value) if isinstance(n, ast.Constant))


def _foreign_names(nodes: list[ast.AST], ours: frozenset[str]) -> set[str]:
    """Return the names that a module binds to something of another package."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(
                (alias.asname or alias.name).partition(".")[0]
                for alias in node.names
                if _foreign(alias.name, ours)
            )
        elif isinstance(node, ast.ImportFrom) and node.module and _foreign(node.module, ours):
            found.update(alias.asname or alias.name for alias in node.names)
    return found


def _foreign(module: str, ours: frozenset[str]) -> bool:
    return module.partition(".")[0] not in ours


def _hidden(name: str) -> bool:
    parts = name.split(".")
    return parts[0] == "ctypes" or any(map(_private, parts))


def _private(name: str) -> bool:
    dunder = name.startswith("__") and name.endswith("__")
    return name.startswith("_") and name != "_" and not dunder and name not in DOCUMENTED


def _is_self(base: ast.expr) -> bool:
    return isinstance(base, ast.Name) and base.id in ("self", "cls")


def _chain(node: ast.expr) -> str:
    """Return the dotted name of an attribute; parts that are not names are omitted."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return ".".join([node.id if isinstance(node, ast.Name) else "", *names])


def _package(file: Path) -> str:
    return file.relative_to(ROOT / "src").parts[0]


if __name__ == "__main__":
    sys.exit(main())
