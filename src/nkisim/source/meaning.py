"""Resolution of names: NKI, another package, a definition of the user, or a value.

Global names of a live kernel are resolved in its module, those of a file in its source. Both give
the same ``Meaning``. Where the source is not sufficient the meaning is unknown.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol

from nkisim.diagnostics import is_own_file
from nkisim.source.files import Definition, File, definition_of, read_file
from nkisim.source.names import SHORT_NAMES
from nkisim.source.scopes import Assignment, Scope

Kind = Literal["nki", "foreign", "builtin", "definition", "module", "value", "unknown"]

# Not part of NKI, and not source that a compiler of kernels could follow.
_FOREIGN = {
    *("jax", "ml_dtypes", "numpy", "pandas", "scipy"),
    *("tensorflow", "torch", "torch_neuronx", "torch_xla"),
    *sys.stdlib_module_names,
}
_NKI = ("nki", "nkisim")
_NAMESPACES = ("language", "isa", "collectives", "typing")
_USUAL = {short: module for module, short in SHORT_NAMES.items()}
"""Modules by their usual short names; for imports from a module that binds them at run time."""


@dataclass(frozen=True, slots=True, eq=False)
class Meaning:
    """The object that a name refers to.

    Attributes:
        kind: ``"nki"``, ``"foreign"`` (numpy, the standard library, neuronxcc) and ``"builtin"``
            have a ``path``; ``"definition"`` a function or class of the user; ``"module"`` one of
            the user's modules; ``"value"`` anything else.
        path: Dotted name, such as ``"nki.language.ndarray"`` or ``"numpy.exp"``.
        tree: File of a definition.
        node: The definition.
        scope: The global names that it reads, or those of a module.
        value: The object, or the expression that makes it.
        is_kernel: Whether a definition is a kernel.
        assumed: Whether it is inferred from the usual spelling alone, as in ``from package import
            nl``.
    """

    kind: Kind
    path: str = ""
    tree: File | None = None
    node: Definition | None = None
    scope: Globals | None = None
    value: Any = None
    is_kernel: bool = False
    assumed: bool = False

    def attribute(self, name: str) -> Meaning:
        """Return the meaning of an attribute; unknown where the object has to be known."""
        if self.kind in ("nki", "foreign"):
            return Meaning(self.kind, f"{self.path}.{name}", assumed=self.assumed)
        if self.kind == "module" and self.scope is not None:
            return self.scope.meaning(name)
        return UNKNOWN


UNKNOWN = Meaning("unknown")


class Globals(Protocol):
    """The global names of a module; ``key`` identifies the module."""

    key: int

    def meaning(self, name: str) -> Meaning:
        """Return the meaning of a global name."""
        ...


def _dotted(path: str) -> Meaning:
    """Return the meaning of a name imported from a package that is not the user's."""
    root, _, rest = path.partition(".")
    if root in _NKI:
        return Meaning("nki", f"nki.{rest}" if rest else "nki")
    return Meaning("foreign", path)


def _is_foreign(path: str) -> bool:
    root = path.partition(".")[0]
    return root in _FOREIGN or root == "neuronxcc"


def called(node: ast.expr) -> ast.expr:
    """Return what an expression calls, or itself; a decorator may be called or not."""
    while isinstance(node, ast.Call):
        node = node.func
    return node


def meaning_of(
    node: ast.AST, scope: Scope | None, global_meaning: Callable[[str], Meaning]
) -> Meaning:
    """Return the meaning of a dotted name that is read in a scope; unknown for local ones."""
    if isinstance(node, ast.Attribute):
        return meaning_of(node.value, scope, global_meaning).attribute(node.attr)
    if not isinstance(node, ast.Name) or (scope is not None and scope.is_local(node.id)):
        return UNKNOWN
    return global_meaning(node.id)


# -- live modules ----------------------------------------------------------------------------------


class LiveGlobals:
    """The names of a module that Python has loaded."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self.key = id(names)  # cache entries under it keep the names alive

    def meaning(self, name: str) -> Meaning:
        """Return the current meaning of a global name."""
        if name in self._names:
            return _of_object(self._names[name])
        return Meaning("builtin", name) if hasattr(builtins, name) else UNKNOWN


def _text(thing: Any, attribute: str) -> str | None:
    """Return an attribute if it is text; some objects return something for any attribute."""
    found = getattr(thing, attribute, None)
    return found if isinstance(found, str) else None


def _of_object(thing: Any) -> Meaning:
    if isinstance(thing, ModuleType):
        root = thing.__name__.partition(".")[0]
        if root in _NKI or _is_foreign(thing.__name__):
            return _dotted(thing.__name__)
        return Meaning("module", thing.__name__, scope=LiveGlobals(vars(thing)))
    home = _text(thing, "__module__") or type(thing).__module__
    name = _text(thing, "__name__")
    if home == "builtins":
        return Meaning("builtin", name) if name is not None else Meaning("value", value=thing)
    try:
        inner = inspect.unwrap(thing) if callable(thing) else thing
    except ValueError:  # it has every attribute, so unwrapping never ends
        return UNKNOWN
    wraps = type(thing).__module__.partition(".")[0] in _NKI and inner is not thing
    if not wraps and home.partition(".")[0] in _NKI:
        space = next((s for s in _NAMESPACES if home.startswith(f"nkisim.{s}")), "language")
        return Meaning("nki", f"nki.{space}.{name}") if name else Meaning("value", value=thing)
    root = home.partition(".")[0]
    if _is_foreign(root) and (name is None or isinstance(thing, type) or callable(thing)):
        if name is None:
            return Meaning("value", value=thing)
        return Meaning("foreign", f"{home.lstrip('_')}.{name}")
    found = definition_of(inner)
    if found is None:
        return UNKNOWN if callable(thing) else Meaning("value", value=thing)
    names = getattr(inner, "__globals__", None)
    if names is None:
        names = vars(sys.modules.get(inner.__module__, builtins))
    return Meaning("definition", "", *found, LiveGlobals(names), thing, wraps)


# -- files -----------------------------------------------------------------------------------------


class FileGlobals:
    """The names of a file that is parsed, not imported.

    Imports are resolved to files next to it; a package is recognised by its ``__init__.py``.
    """

    def __init__(self, tree: File) -> None:
        self.tree = tree
        self.key = 0
        self._meanings: dict[str, Meaning] = {}

    def meaning(self, name: str) -> Meaning:
        """Return the meaning of a global name according to the file's source."""
        if name not in self._meanings:
            self._meanings[name] = UNKNOWN  # while two files import it from each other
            self._meanings[name] = self._read(name)
        return self._meanings[name]

    def _read(self, name: str) -> Meaning:
        known = self._bindings.get(name)
        if known is None:
            return Meaning("builtin", name) if hasattr(builtins, name) else UNKNOWN
        node = known.node
        if isinstance(node, Definition):
            return self._defined(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            return self._imported(known, node)
        statement = self.tree.parent(node)
        whole = isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value
        return Meaning("value", value=whole) if whole else UNKNOWN

    def kernels(self) -> list[Meaning]:
        """Return the functions decorated with ``nki.jit``, nested ones included."""
        found = [self._defined(node) for node in self.tree.definitions]
        return [meaning for meaning in found if meaning.is_kernel]

    def function(self, name: str) -> Meaning:
        """Return the function or class of a name, at the top or inside another definition.

        A method may be named with its class, as in ``Class.kernel``.
        """
        found = self.meaning(name)
        if found.kind == "definition" or isinstance(found.value, ast.Lambda):
            return found
        inner = [
            node for node in self.tree.definitions if name in (node.name, self.tree.qualified(node))
        ]
        return self._defined(inner[0]) if inner else UNKNOWN

    def of(self, node: ast.AST, scope: Scope | None = None) -> Meaning:
        """Return the meaning of a dotted name where it is written, or in another scope."""
        return meaning_of(node, scope or self.tree.scope(node), self.meaning)

    def alias(self, module: str) -> str:
        """Return the expression for a module of NKI in the file; the usual one if none is bound."""
        usual = SHORT_NAMES[module]
        for name in (usual, *self._bindings):
            if name in self._bindings and self.meaning(name).path == module:
                return name
        dotted = (package + module[3:] for package in _NKI if package in self._bindings)
        return next((name for name in dotted if name in self.tree.imported), usual)

    def _defined(self, node: Definition) -> Meaning:
        paths = [self.of(called(decorator)).path for decorator in node.decorator_list]
        kernel = any(path in ("nki.jit", "neuronxcc.nki.jit") for path in paths)
        return Meaning("definition", "", self.tree, node, self, None, kernel)

    @cached_property
    def _bindings(self) -> dict[str, Assignment]:
        """The binding of each global name that counts: the last one of the module's statements."""
        # Replacements of a missing module come first, so that the import overrides them.
        statements = enumerate(_fallbacks_first(self.tree.module.body))
        order: dict[ast.AST, int] = {
            s: place for place, s in statements if not isinstance(s, ast.AugAssign)
        }
        bound: dict[str, tuple[int, Assignment]] = {}
        for name, made in self.tree.body(self.tree.module).assignments.items():
            for one in made:
                place = order.get(self.tree.statement_of(one.node), -1)
                if place >= bound.get(name, (0,))[0]:
                    bound[name] = place, one
        return {name: one for name, (_, one) in bound.items()}

    def _imported(self, bound: Assignment, node: ast.Import | ast.ImportFrom) -> Meaning:
        module, level, name = bound.imported, 0, ""
        if isinstance(node, ast.ImportFrom):
            module, level = node.module or "", node.level
            name = bound.imported.rpartition(".")[2]
        root = module.partition(".")[0]
        if not level and (root in _NKI or _is_foreign(module)):
            found = _dotted(bound.imported)
            own = self._file_of(root, 0) if root in _NKI else None
            # A folder of the user that is called nki is imported in place of AWS's.
            shadowed = own is not None and not is_own_file(str(own))
            return replace(found, assumed=True) if shadowed else found
        scope = self._scope_of(module, level)
        if not name:
            return _usual(bound.name) if scope is None else Meaning("module", module, scope=scope)
        found = UNKNOWN
        if scope is not None and name in scope._bindings:
            found = scope.meaning(name)
        elif (inner := self._scope_of(f"{module}.{name}" if module else name, level)) is not None:
            found = Meaning("module", name, scope=inner)
        return _usual(name) if found.kind in ("unknown", "value") and name in _USUAL else found

    def _scope_of(self, module: str, level: int) -> FileGlobals | None:
        file = self._file_of(module, level)
        return None if file is None else file_globals(str(file))

    def _file_of(self, module: str, level: int) -> Path | None:
        home = Path(self.tree.file).resolve().parent
        if level:
            for _ in range(level - 1):
                home = home.parent
        else:
            while (home / "__init__.py").exists():
                home = home.parent
        path = home.joinpath(*module.split(".")) if module else home
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return file
        return None


def _usual(name: str) -> Meaning:
    return Meaning("nki", _USUAL[name], assumed=True) if name in _USUAL else UNKNOWN


def _fallbacks_first(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, also of branches; ``else`` and ``except`` come first."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                yield from _fallbacks_first(handler.body)
        for name in ("orelse", "body", "finalbody"):
            if isinstance(statement, (ast.If, ast.Try, ast.With)):
                yield from _fallbacks_first(getattr(statement, name, []))


def file_globals(file: str) -> FileGlobals | None:
    """Return the names of a file, cached until it changes; None if it is not valid Python."""
    tree = read_file(file)
    if tree is None:
        return None
    if tree.globals is None:
        tree.globals = FileGlobals(tree)
    found: FileGlobals = tree.globals
    return found
