"""Global names, classes and decorators that the compiler cannot resolve."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import numpy as np

from nkisim.checks.langcheck.unit import Found, Unit
from nkisim.diagnostics import declare
from nkisim.source import Meaning

CLASS_BASE = declare(
    "L004",
    "class-base",
    "A class that a kernel uses has another base than NKIObject, Enum or NamedTuple, several "
    "bases, or keywords.",
    "the compiler does not import such a class",
)
DECORATOR = declare(
    "L005",
    "decorator",
    "A function or class that a kernel reaches has a decorator other than nki.jit, dataclass or "
    "staticmethod.",
    "the compiler refuses the decorator, or drops its effect",
)
CLOSURE = declare(
    "L040",
    "closure",
    "A kernel, or a function that it reaches, uses a variable of an enclosing function.",
    "the compiler resolves the names of modules only",
)
CHANGEABLE_GLOBAL = declare(
    "L041",
    "changeable-global",
    "A mutable global, such as a list or an array, is read in a kernel.",
    "a compiled kernel uses the value from compile time",
    severity="warning",
)
HOST_STATE = declare(
    "L042",
    "host-state",
    "A kernel changes state outside itself, or reads the environment of the process.",
    "it happens once, when the kernel is compiled, and not when it runs",
    severity="warning",
)
OBJECT_FIELDS = declare(
    "L058",
    "object-fields",
    "An NKIObject has __slots__ or properties.",
    "the compiler copies the instance's dictionary only",
    severity="warning",
)

_BASES = {"enum.Enum", "typing.NamedTuple", "object"}
_DECORATORS = {"dataclasses.dataclass", "nki.jit", "staticmethod", "typing.overload"}
_CHANGING = {"append", "clear", "extend", "insert", "pop", "remove", "setdefault", "update"}
_ENVIRONMENT = {"os.environ", "sys.argv", "sys.path"}


def check_names(unit: Unit) -> Iterator[Found]:
    """Find names, classes and decorators that the compiler cannot resolve."""
    if isinstance(unit.node, ast.ClassDef):
        yield from _class(unit, unit.node)
    yield from _decorators(unit)
    yield from _captured(unit)
    changed = set()
    for name, found in _changes(unit):
        changed.add(name)
        yield found
    for node, meaning in unit.references:
        if meaning.path in _ENVIRONMENT:
            fix = "read it on the host and pass it as an argument"
            yield Found(HOST_STATE, node, f"{unit.name} reads {meaning.path}", fix)
        elif isinstance(node, ast.Name) and meaning.kind == "value" and node.id not in changed:
            kind = _changeable(meaning)
            if kind:
                message = f"{unit.name} reads the global {kind} {node.id}"
                fix = f"pass {node.id} as an argument, or make it a tuple"
                yield Found(CHANGEABLE_GLOBAL, node, message, fix, operand=node.id)


def _is_nki_object(path: str) -> bool:
    return path.startswith("nki.") and path.endswith(".NKIObject")


def _class(unit: Unit, node: ast.ClassDef) -> Iterator[Found]:
    paths = [_path(unit, base) for base in node.bases]
    for base, path in zip(node.bases, paths, strict=True):
        if path is not None and path not in _BASES and not _is_nki_object(path):
            message = f"class {node.name} has base {ast.unparse(base)}"
            fix = "derive it from nl.NKIObject only"
            yield Found(CLASS_BASE, node, message, fix, operand=node.name)
    if len(node.bases) > 1 or node.keywords:
        what = "several bases" if len(node.bases) > 1 else "keywords"
        message = f"class {node.name} has {what}"
        fix = "derive it from nl.NKIObject only"
        yield Found(CLASS_BASE, node, message, fix, operand=node.name)
    if not any(path is not None and _is_nki_object(path) for path in paths):
        return
    for part in node.body:
        targets = part.targets if isinstance(part, ast.Assign) else []
        if any(isinstance(t, ast.Name) and t.id == "__slots__" for t in targets):
            fix = "remove __slots__"
            yield Found(OBJECT_FIELDS, part, f"class {node.name} has __slots__", fix)
        if isinstance(part, ast.FunctionDef):
            for decorator in part.decorator_list:
                if unit.of_decorator(decorator).path == "property":
                    message = f"{node.name}.{part.name} is a property"
                    fix = f"make {part.name} a field, or a method that is called"
                    yield Found(OBJECT_FIELDS, decorator, message, fix)


def _path(unit: Unit, base: ast.expr) -> str | None:
    """Return the full name of a base class; of a class of the user, its name in the source.

    None where the class is not known.
    """
    meaning = unit.meaning(base)
    if meaning.kind == "definition":
        return ast.unparse(base)
    return meaning.path or None


def _decorators(unit: Unit) -> Iterator[Found]:
    fix = "remove it; do its work on the host, or in the function"
    for decorator in unit.node.decorator_list:
        path = unit.of_decorator(decorator).path
        text = ast.unparse(decorator)
        if path in _DECORATORS or path == "property":
            continue
        refused = path == "classmethod" or unit.of_decorator(decorator).kind == "foreign"
        if refused and not path.startswith("neuronxcc"):
            yield Found(DECORATOR, decorator, f"{unit.name} is decorated with {text}", fix)
    # Decorators above ``nki.jit`` run on the host and are allowed.
    paths = [unit.of_decorator(decorator).path for decorator in unit.node.decorator_list]
    inside = paths.index("nki.jit") + 1 if "nki.jit" in paths else 0
    live = unit.live
    is_wrapped = hasattr(live, "__wrapped__") and isinstance(live, FunctionType)
    for decorator in unit.node.decorator_list[inside:]:
        meaning = unit.of_decorator(decorator)
        if meaning.kind == "definition" and (is_wrapped or _wraps(meaning.node)):
            text = ast.unparse(decorator)
            yield Found(DECORATOR, decorator, f"{unit.name} is wrapped by {text}", fix)
            break


def _wraps(decorator: ast.AST | None) -> bool:
    """Return whether the source of a decorator has a function with ``functools.wraps``."""
    inside = ast.walk(decorator) if decorator is not None else ()
    functions = [n for n in inside if isinstance(n, ast.FunctionDef) and n is not decorator]
    names = [ast.unparse(d).partition("(")[0] for n in functions for d in n.decorator_list]
    return any(name in ("wraps", "functools.wraps") for name in names)


def _captured(unit: Unit) -> Iterator[Found]:
    reported: set[str] = set()
    for node in unit.of(ast.Name):
        read = isinstance(node.ctx, ast.Load) and unit.is_captured(node)
        if read and node.id not in unit.shared_names | reported:
            reported.add(node.id)
            message = f"{unit.name} uses {node.id} of an enclosing function"
            fix = f"pass {node.id} as an argument, or make it a constant of the module"
            yield Found(CLOSURE, node, message, fix, operand=node.id)


def _changes(unit: Unit) -> Iterator[tuple[str, Found]]:
    """Yield the globals that a function changes."""
    for subscript in unit.of(ast.Subscript):
        if isinstance(subscript.ctx, ast.Store):
            yield from _change(unit, subscript.value, subscript)
    for call in unit.of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in _CHANGING:
            yield from _change(unit, call.func.value, call)


def _change(unit: Unit, name: ast.expr, node: ast.AST) -> Iterator[tuple[str, Found]]:
    meaning = unit.meaning(name)
    if not isinstance(name, ast.Name) or meaning.kind != "value":
        return
    value = meaning.value
    if isinstance(value, (list, dict, set, ast.List, ast.Dict, ast.Set)):
        message = f"{unit.name} changes the global {name.id}"
        fix = "return the value, or do it on the host"
        yield name.id, Found(HOST_STATE, node, message, fix, operand=name.id)


def _changeable(meaning: Meaning) -> str:
    """Return the kind of a mutable global, empty for an immutable or unknown one."""
    value: Any = meaning.value
    if isinstance(value, (list, ast.List, ast.ListComp)):
        return "list"
    if isinstance(value, (set, ast.Set, ast.SetComp)):
        return "set"
    if isinstance(value, np.ndarray):
        return "array"
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        return "dictionary"
    if isinstance(value, ast.Dict):
        keys = [key.value for key in value.keys if isinstance(key, ast.Constant)]
        return "dictionary" if any(not isinstance(key, str) for key in keys) else ""
    return ""
