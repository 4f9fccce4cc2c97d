"""The step from 0.5.0 to 0.6.0: deprecated names, registers in Python, transposes by hardware."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import NISA, Source
from nkisim.upgrade.tiles import shape_of
from nkisim.versions import parameter_names

_ISA, _LANGUAGE = "nki.isa", "nki.language"
RANGES = ("affine_range", "sequential_range", "static_range")


def is_register(source: Source, node: ast.AST) -> bool:
    """Return whether every value of a name is a register.

    Every assignment calls ``register_alloc``, or the name is a parameter that its function passes
    as destination to ``register_load`` or ``register_move``.
    """
    values = source.values(node)
    if values is None:
        return isinstance(node, ast.Name) and any(
            (given := source.given(call))
            and source.code(given[0].value) == node.id
            and source.function_of(call) is source.function_of(node)
            for call in source.calls(_ISA, "register_load", "register_move")
        )
    return all(
        isinstance(value, ast.Call) and source.name(value.func) == f"{_ISA}.register_alloc"
        for value in values
    )


@rule(
    "MG-603", "affine_range, sequential_range and static_range are range", "safe", deprecated=True
)
def ranges(source: Source) -> Iterator[Match]:
    """Find the ranges of NKI that are Python's."""
    for call in source.calls(_LANGUAGE, *RANGES):
        name = source.nki_name(call.func, _LANGUAGE)
        arguments = source.arguments(call, ("start", "stop", "step"))
        bounds = _bounds({key: source.code(value) for key, value in arguments.items()})
        if bounds is None or not is_builtin(source, "range"):
            yield Match(call, f"nl.{name} is deprecated: write range")
        elif all(argument.keyword is None for argument in source.given(call)):
            edit = source.replaced(call.func, "range")
            yield Match(call, f"nl.{name} is range", (edit,))
        else:
            edit = source.replaced(call, f"range({', '.join(bounds)})")
            yield Match(call, f"nl.{name} is range", (edit,))


def _bounds(given: dict[str, str]) -> list[str] | None:
    """Return the arguments of ``range`` for those of a range of NKI, or None for others."""
    if "start" not in given or not set(given) <= {"start", "stop", "step"}:
        return None
    if "step" in given and "stop" not in given:
        return ["0", given["start"], given["step"]]
    return [given[key] for key in ("start", "stop", "step") if key in given]


def is_builtin(source: Source, name: str) -> bool:
    """Return whether a file binds a name nowhere, so that it means Python's own function."""
    return not any(scope.assignments[name] for scope in source.scopes)


@rule("MG-604", "names of engines in nki.isa", "safe", deprecated=True)
def _engines(source: Source) -> Iterator[Match]:
    for node in (*source.all(ast.Attribute), *source.all(ast.Name)):
        engine = (source.nki_name(node, _ISA) or "").removesuffix("_engine")
        if engine not in ("gpsimd", "scalar", "tensor", "unknown", "vector"):
            continue
        edit = source.replaced(node, f"{NISA}.engine.{engine}")
        yield Match(node, f"{engine}_engine is engine.{engine}", (edit,))


@rule("MG-605", "a register decides nothing in Python", "report")
def _registers(source: Source) -> Iterator[Match]:
    fix = "decide with a Python value, or loop with nl.while_loop or nl.fori_loop"
    operations = source.all(ast.BoolOp)
    for node in (
        *(statement.test for statement in source.all(ast.If)),
        *(choice.test for choice in source.all(ast.IfExp)),
        *(side for operation in operations for side in operation.values),
        *(argument.value for call in _python_ranges(source) for argument in source.given(call)),
    ):
        if is_register(source, node):
            yield Match(node, f"{source.code(node)} is a register, which has no truth: {fix}")


def _python_ranges(source: Source) -> Iterator[ast.Call]:
    for call in source.all(ast.Call) if is_builtin(source, "range") else ():
        if isinstance(call.func, ast.Name) and call.func.id == "range":
            yield call


@rule("MG-610", "dma_transpose by hardware descriptors takes 128 columns", "report")
def _columns(source: Source) -> Iterator[Match]:
    for call in source.calls(_ISA, "dma_transpose"):
        names = parameter_names("0.5.0", _ISA, "dma_transpose")
        arguments = source.arguments(call, names)
        mode, src = arguments.get("dge_mode"), arguments.get("src")
        if mode is None or src is None or source.name(mode) != f"{_ISA}.dge_mode.hwdge":
            continue
        last = (shape_of(source, src) or ["0"])[-1]
        if last.isdecimal() and int(last) > 128:
            yield Match(call, f"src has {last} columns: transpose at most 128 at a time")
