"""What a kernel's file does besides defining things, read off its text before anything runs.

A text can be written so that no reading sees what it does. What passes here is watched in the
child: by a hook of the interpreter, and by a seal on the functions of nkisim and NumPy.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nkisim.diagnostics.syntax import module_of
from nkisim.rewriting import SourceText, read_source


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LIBRARIES = _words(
    "__future__ abc cmath collections copy dataclasses enum fractions functools itertools math "
    "ml_dtypes numbers numpy operator string textwrap types typing typing_extensions warnings"
)
"""Modules that a kernel's file may import."""
_TAKEN = frozenset({*sys.stdlib_module_names, "threadpoolctl"})
"""Modules that are imported from the library although a file of their name is in the folder."""
_PACKAGE = "__init__.py"
_NKI = _words("neuronxcc nki nkisim")
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


def read_file(
    file: Path, reference: Path | None = None
) -> tuple[dict[Path, SourceText], list[Hazard]]:
    """Return the texts that an import of a file runs, and what is hazardous in them.

    These are the file, the files of its own folder that it imports, and those of the packages that
    either is in.

    Args:
        file: The kernel's file.
        reference: The reference's file, which it must not import.

    Raises:
        SyntaxError: A file is not valid Python.
        SourceError: One cannot be read.
    """
    root, waiting = file.parent, [file]
    while (root / _PACKAGE).is_file():
        waiting.append(root / _PACKAGE)
        root = root.parent
    texts: dict[Path, SourceText] = {}
    hazards: list[Hazard] = []
    while waiting:
        current = waiting.pop()
        if current in texts:
            continue
        texts[current] = read_source(current)
        try:
            tree = module_of(texts[current].text)
        except (ValueError, RecursionError, MemoryError) as error:
            raise SyntaxError(str(error), (str(current), 1, None, None)) from None
        reader = _Reader(current, root, _without_main(tree))
        hazards += reader.hazards
        for found, line in reader.siblings:
            if reference is not None and found.resolve() == reference.resolve():
                hazards.append(Hazard("imports the reference's file", str(current), line))
            else:
                waiting.append(found)
    return texts, sorted(set(hazards), key=lambda hazard: (hazard.file, hazard.line))


def _without_main(tree: ast.Module) -> ast.Module:
    """Return a module without what runs only as a script."""
    text = "__name__ == '__main__'"
    body = [s for s in tree.body if not (isinstance(s, ast.If) and ast.unparse(s.test) == text)]
    return ast.Module(body, tree.type_ignores)


class _Reader:
    """The hazards of one file.

    Attributes:
        hazards: What it does.
        siblings: The files below the folder of the kernel that it imports, with the lines.
    """

    def __init__(self, file: Path, root: Path, tree: ast.Module) -> None:
        self._file = file
        self._root = root
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
            elif root in LIBRARIES or root in _NKI:
                whole = name if isinstance(node, ast.Import) else f"{name}.{alias.name}"
                below = whole.split(".")[1:2]
                if root == "nkisim" and below and below[0] not in _OF_NKISIM:
                    self._add(f"imports {whole}", node)
            elif root not in _TAKEN and (found := self._siblings(name, alias.name)):
                self.siblings += ((file, node.lineno) for file in found)
            else:
                self._add(f"imports {name}", node)

    def _siblings(self, name: str, alias: str) -> list[Path]:
        """Return the files of a module below the kernel's folder, with those of its packages."""
        level = len(name) - len(name.lstrip("."))
        around = [self._root, *self._file.parents][level : level + 1]
        files = [folder / _PACKAGE for folder in around if level]
        for part in filter(None, [*name.lstrip(".").split("."), alias]):
            files += [folder / f"{part}.py" for folder in around]
            around = [folder / part for folder in around]
            files += [folder / _PACKAGE for folder in around]
        return [file for file in files if file.is_file()]

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
