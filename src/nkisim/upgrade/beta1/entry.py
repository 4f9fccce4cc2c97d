"""How kernels are marked and launched: decorators, entry points, outputs that were arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.rewriting import Edit
from nkisim.source import Function
from nkisim.upgrade.beta1.allocators import without_decorator
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import NKI, Source

_ISA, _LANGUAGE = "nki.isa", "nki.language"
_TIMED = ("nki.baremetal", "nki.benchmark", "nki.profile")


def _marked(source: Source, node: ast.expr) -> str | None:
    """Return the full name of a decorator that is written out or imported, not an alias."""
    function = node.func if isinstance(node, ast.Call) else node
    return None if source.is_alias(function) else source.name(function)


def _launched(source: Source) -> set[str]:
    """Return the names of the functions that are launched as kernels, not called by one."""
    names = set()
    for call in source.calls("nki"):
        given = source.given(call)
        if given and isinstance(given[0].value, ast.Name):
            names.add(given[0].value.id)
    for call in source.all(ast.Call):
        grid = call.func
        if isinstance(grid, ast.Subscript) and isinstance(grid.value, ast.Name):
            names.add(grid.value.id)
    return names


@rule("MG-111", "decorators on helpers", "safe")
def _helpers(source: Source) -> Iterator[Match]:
    launched = _launched(source)
    for node, function in source.decorators():
        name = _marked(source, node)
        mode = source.keyword(node, "mode") if isinstance(node, ast.Call) else None
        traced = mode is not None and source.code(mode.value).strip("\"'") == "trace"
        if name != "nki.trace" and not (name == "nki.jit" and traced):
            continue
        edit = without_decorator(source, node)
        if isinstance(function, Function) and function.name in launched:
            edit = source.replaced(node, f"{NKI}.jit")
            yield Match(node, "a function that is launched is a kernel", (edit,))
        elif edit is None:
            yield Match(node, "remove the decorator of the helper")
        else:
            yield Match(node, "helpers are plain functions", (edit,))


_ENTRY = {
    "baremetal": "use @nki.jit",
    "benchmark": "use @nki.jit and the profiler",
    "profile": "use @nki.jit and the profiler",
    "simulate_kernel": "use nki.simulate(kernel)(*arguments)",
    "trace": "use @nki.jit",
}


@rule("MG-126", "removed entry points", "partial")
def _entry_points(source: Source) -> Iterator[Match]:
    done: set[ast.AST] = set()
    for call in source.calls("nki", "simulate_kernel"):
        given = source.given(call)
        first = given[0] if given else None
        if first is None or not isinstance(first.node, ast.Name):
            continue
        done.add(call.func)
        start, stop = source.span(first.node)
        stop = source.span(given[1].node)[0] if len(given) > 1 else stop
        edits = (
            source.replaced(call.func, f"{NKI}.simulate"),
            Edit(start, stop, source.code(first.node) + ")("),
        )
        yield Match(call, "nki.simulate wraps the kernel", edits)
    for node, _ in source.decorators():
        if _marked(source, node) in _TIMED:
            done.add(node.func if isinstance(node, ast.Call) else node)
            review = "the function returns its outputs; measure with the profiler"
            edit = source.replaced(node, f"{NKI}.jit")
            yield Match(node, "the kernel is marked with nki.jit", (edit,), review)
    yield from _other_names(source, done)
    for used in (*source.all(ast.Attribute), *source.all(ast.Name)):
        name = source.nki_name(used, "nki")
        if name in _ENTRY and used not in done and not _is_part(source, used):
            yield Match(used, f"nki.{name} was removed: {_ENTRY[name]}")


def _other_names(source: Source, done: set[ast.AST]) -> Iterator[Match]:
    """Change ``mark = nki.trace`` and remove ``run = nki.simulate_kernel`` once it is unused."""
    for statement in source.all(ast.Assign):
        target, value = statement.targets[0], statement.value
        line, name = source.statement(statement), source.name(value)
        if not isinstance(target, ast.Name) or not source.is_alias(target) or line is None:
            continue
        known = source.scope(target).assignments[target.id]
        uses = [use for one in known for use in one.references]
        done.add(target)
        if name in ("nki.trace", "nki.baremetal"):
            done.update((value, *uses))
            edit = source.replaced(value, f"{NKI}.jit")
            yield Match(statement, "kernels are marked with nki.jit", (edit,))
        elif name == "nki.simulate_kernel" and not uses:
            done.add(value)
            yield Match(statement, "the name is not used any more", (source.emptied(line),))


def _is_part(source: Source, node: ast.AST) -> bool:
    """Return whether a name is in a longer one, or in the call that decorates a function."""
    return not source.is_decorator(node) and any(
        isinstance(above, ast.Attribute) or source.is_decorator(above)
        for above in source.ancestors(node)
    )
