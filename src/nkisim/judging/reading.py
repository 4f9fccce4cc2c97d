"""What a kernel's file does besides defining things, read off its text before anything runs.

A text can be written so that no reading sees what it does. What passes here is watched in the
child: by a hook of the interpreter, and by a seal on the functions of nkisim and NumPy.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nkisim.diagnostics.syntax import SYNTAX_LOCK


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MODULES = _words(
    "__future__ abc cmath collections copy dataclasses enum fractions functools itertools math "
    "ml_dtypes neuronxcc nki nkisim numbers numpy operator string textwrap types typing "
    "typing_extensions warnings"
)
_OF_NKISIM = _words("nkisim collectives isa language typing jit")
_NAMES = _words(
    "open exec eval compile __import__ globals locals vars setattr delattr input breakpoint "
    "memoryview __builtins__ __loader__ __spec__"
)
_OF_NUMPY = _words(
    "load save savez savez_compressed loadtxt savetxt genfromtxt fromfile memmap ctypeslib lib "
    "f2py testing core _core distutils DataSource frombuffer fromregex open_memmap"
)
_ATTRIBUTES = _words(
    "os sys ctypes ctypeslib subprocess builtins importlib inspect gc modules socket shutil "
    "pathlib linecache f_back f_globals f_locals f_builtins f_code tb_frame gi_frame cr_frame "
    "ag_frame gi_code cr_code tofile dump _array _elements _storage _owner _slices"
)
_DUNDERS = _words(
    "__init__ __name__ __qualname__ __doc__ __post_init__ __version__ __enter__ __exit__ "
    "__call__ __getitem__ __len__ __annotations__"
)


class Hazard(NamedTuple):
    """Something that a definition of a kernel does not need, and its line."""

    text: str
    file: str
    line: int


def read_file(file: Path, reference: Path | None = None) -> tuple[list[Path], list[Hazard]]:
    """Return a file with those of its own folder that it imports, and what is hazardous in them.

    Args:
        file: The kernel's file.
        reference: The reference's file, which it must not import.

    Raises:
        SyntaxError: A file is not valid Python.
        OSError: One cannot be read.
    """
    waiting, read, hazards = [file.resolve()], [], []
    while waiting:
        current = waiting.pop()
        if current in read:
            continue
        read.append(current)
        with SYNTAX_LOCK:
            tree = ast.parse(current.read_bytes(), str(current))
        reader = _Reader(current, _without_main(tree))
        hazards += reader.hazards
        for found, line in reader.siblings:
            if reference is not None and found == reference.resolve():
                hazards.append(Hazard("imports the reference's file", str(current), line))
            else:
                waiting.append(found)
    return read, sorted(set(hazards), key=lambda hazard: (hazard.file, hazard.line))


def _without_main(tree: ast.Module) -> ast.Module:
    """Return a module without what runs only as a script."""
    text = "__name__ == '__main__'"
    body = [s for s in tree.body if not (isinstance(s, ast.If) and ast.unparse(s.test) == text)]
    return ast.Module(body, tree.type_ignores)


class _Reader:
    """The hazards of one file.

    Attributes:
        hazards: What it does.
        siblings: The files of its folder that it imports, with the lines.
    """

    def __init__(self, file: Path, tree: ast.Module) -> None:
        self._file = file
        self._tree = tree
        self.hazards: list[Hazard] = []
        self.siblings: list[tuple[Path, int]] = []
        self._imported: set[str] = set()
        self._numpy: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._read_import(node)
        self._follow_names()
        for node in ast.walk(tree):
            for text in self._of(node):
                self.hazards.append(Hazard(text, str(file), getattr(node, "lineno", 1)))

    def _read_import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            asked = [(alias.name, alias) for alias in node.names]
        else:
            module = "." * node.level + (node.module or "")
            asked = [(module, alias) for alias in node.names]
        for name, alias in asked:
            root = name.partition(".")[0]
            bound = alias.asname or alias.name.partition(".")[0]
            self._imported.add(bound)
            if root == "numpy":
                self._numpy.add(bound)
                parts = {*name.split(".")[1:], *({alias.name} if name != alias.name else ())}
                if parts & (_OF_NUMPY | _ATTRIBUTES):
                    self._add(f"imports {sorted(parts & (_OF_NUMPY | _ATTRIBUTES))[0]}", node)
            elif root in _MODULES:
                whole = name if isinstance(node, ast.Import) else f"{name}.{alias.name}"
                below = whole.split(".")[1:2]
                if root == "nkisim" and below and below[0] not in _OF_NKISIM:
                    self._add(f"imports {whole}", node)
            elif (found := self._sibling(name, alias.name)) is not None:
                self.siblings.append((found, node.lineno))
            else:
                self._add(f"imports {name or alias.name}", node)

    def _sibling(self, name: str, alias: str) -> Path | None:
        """Return the file of a module beside this one, or in a package below its folder."""
        folder = self._file.parent
        level = len(name) - len(name.lstrip("."))
        for _ in range(level - 1):
            folder = folder.parent
        parts = [part for part in name.lstrip(".").split(".") if part]
        for path in (folder.joinpath(*parts), folder.joinpath(*parts, alias)):
            for found in (path.with_suffix(".py"), path / "__init__.py"):
                if path != folder and found.is_file():
                    return found.resolve()
        return None

    def _follow_names(self) -> None:
        """Add the names that are only other names of something imported."""
        changed = True
        while changed:
            changed = False
            for node in ast.walk(self._tree):
                if isinstance(node, ast.Assign) and _root(node.value) in self._imported:
                    new = {t.id for t in node.targets if isinstance(t, ast.Name)} - self._imported
                    self._imported |= new
                    changed = changed or bool(new)

    def _of(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Name) and node.id in _NAMES:
            yield f"uses {node.id}"
        elif isinstance(node, ast.Attribute):
            yield from self._of_attribute(node)
        elif isinstance(node, ast.Call) and _root(node.func) == "getattr":
            name = node.args[1] if len(node.args) > 1 else None
            if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
                yield "reads an attribute whose name is computed"
            elif _is_hidden(name.value):
                yield f"reads {name.value}"

    def _of_attribute(self, node: ast.Attribute) -> Iterator[str]:
        of_numpy = isinstance(node.value, ast.Name) and node.value.id in self._numpy
        if _is_hidden(node.attr) or (of_numpy and node.attr in _OF_NUMPY):
            yield f"reads {ast.unparse(node)}"[:80]
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            root = _root(node)
            if root in self._imported:
                yield f"sets {ast.unparse(node)}, which another module defines"[:120]
            elif root == "type":
                yield f"sets {ast.unparse(node)}, an attribute of a class"[:120]

    def _add(self, text: str, node: ast.stmt) -> None:
        self.hazards.append(Hazard(text, str(self._file), node.lineno))


def _is_hidden(name: str) -> bool:
    dunder = name.startswith("__") and name.endswith("__")
    return name in _ATTRIBUTES or (dunder and name not in _DUNDERS)


def _root(node: ast.AST) -> str:
    """Return the name that attributes, subscripts and calls begin with; empty without one."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
