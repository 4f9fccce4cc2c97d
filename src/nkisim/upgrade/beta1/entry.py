"""How kernels are marked and launched: decorators, entry points, outputs that were arguments."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from nkisim.rewriting import Edit
from nkisim.upgrade.beta1.allocators import without_decorator
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source

__all__: list[str] = []

_ISA, _LANGUAGE = "nki.isa", "nki.language"
_TIMED = ("nki.baremetal", "nki.benchmark", "nki.profile")


def _marked(source: Source, decorator: cst.Decorator) -> str | None:
    """Return the full name of a decorator that is written out or imported, not an alias."""
    node = decorator.decorator
    function = node.func if isinstance(node, cst.Call) else node
    return None if source.is_alias(function) else source.name(function)


def _launched(source: Source) -> set[str]:
    """Return the names of the functions that are launched as kernels, not called by one."""
    names = set()
    for call in source.calls("nki"):
        first = call.args[0].value if call.args else None
        if isinstance(first, cst.Name):
            names.add(first.value)
    for call in source.all(cst.Call):
        grid = call.func
        if isinstance(grid, cst.Subscript) and isinstance(grid.value, cst.Name):
            names.add(grid.value.value)
    return names


@rule(
    "MG-111",
    "decorators on helpers",
    since="beta1",
    kind="safe",
    before="@nki.trace\ndef helper(x):\n    return x",
    after="def helper(x):\n    return x",
)
def _helpers(source: Source) -> Iterator[Match]:
    launched = _launched(source)
    for decorator in source.all(cst.Decorator):
        node, function = decorator.decorator, source.parent(decorator)
        name = _marked(source, decorator)
        mode = source.keyword(node, "mode") if isinstance(node, cst.Call) else None
        traced = mode is not None and source.code(mode.value).strip("\"'") == "trace"
        if name != "nki.trace" and not (name == "nki.jit" and traced):
            continue
        nki = source.import_of("nki")
        if isinstance(function, cst.FunctionDef) and function.name.value in launched:
            if nki is not None:
                edits = (*nki[1], source.replaced(node, f"{nki[0]}.jit"))
                yield Match(decorator, "a function that is launched is a kernel", edits)
            continue
        edit = without_decorator(source, decorator)
        if edit is None:
            yield Match(decorator, "remove the decorator of the helper")
            continue
        yield Match(decorator, "helpers are plain functions", (edit,))


_ENTRY = {
    "baremetal": "use @nki.jit",
    "benchmark": "use @nki.jit and the profiler",
    "profile": "use @nki.jit and the profiler",
    "simulate_kernel": "use nki.simulate(kernel)(*arguments)",
    "trace": "use @nki.jit",
}


@rule(
    "MG-126",
    "removed entry points",
    since="beta1",
    kind="partial",
    before="@nki.benchmark(warmup=10, iters=100)\ndef kernel(x):\n    return x\n\n"
    "y = nki.simulate_kernel(kernel, x)",
    after="@nki.jit\ndef kernel(x):\n    return x\n\ny = nki.simulate(kernel)(x)",
)
def _entry_points(source: Source) -> Iterator[Match]:
    done: set[cst.CSTNode] = set()
    nki = source.import_of("nki")
    for call in source.calls("nki", "simulate_kernel"):
        first = call.args[0] if call.args else None
        if first is None or first.keyword is not None or first.star or nki is None:
            continue
        if not isinstance(first.value, cst.Name):
            continue
        done.add(call.func)
        start = source.span(first)[0]
        stop = source.span(call.args[1])[0] if len(call.args) > 1 else source.span(first)[1]
        edits = (
            *nki[1],
            source.replaced(call.func, f"{nki[0]}.simulate"),
            Edit(start, stop, source.code(first.value) + ")("),
        )
        yield Match(call, "nki.simulate wraps the kernel", edits)
    for decorator in source.all(cst.Decorator):
        node = decorator.decorator
        if nki is not None and _marked(source, decorator) in _TIMED:
            done.add(node.func if isinstance(node, cst.Call) else node)
            review = "the function returns its outputs; measure with the profiler"
            edits = (*nki[1], source.replaced(node, f"{nki[0]}.jit"))
            yield Match(decorator, "the kernel is marked with nki.jit", edits, review)
    yield from _other_names(source, nki, done)
    for node in (*source.all(cst.Attribute), *source.all(cst.Name)):
        name = source.nki_name(node, "nki")
        if name in _ENTRY and node not in done and not _imports(source, node):
            yield Match(node, f"nki.{name} was removed: {_ENTRY[name]}")


def _other_names(
    source: Source, nki: tuple[str, list[Edit]] | None, done: set[cst.CSTNode]
) -> Iterator[Match]:
    """Change ``mark = nki.trace`` and remove ``run = nki.simulate_kernel`` once it is unused."""
    for statement in source.all(cst.Assign):
        target, value = statement.targets[0].target, statement.value
        line, name = source.statement(statement), source.name(value)
        if not isinstance(target, cst.Name) or not source.is_alias(target) or line is None:
            continue
        scope = source.scope(target)
        known = [] if scope is None else scope.assignments[target.value]
        uses = [use for one in known for use in one.references]
        done.add(target)
        if name in ("nki.trace", "nki.baremetal") and nki is not None:
            done.update((value, *uses))
            edits = (*nki[1], source.replaced(value, f"{nki[0]}.jit"))
            yield Match(statement, "kernels are marked with nki.jit", edits)
        elif name == "nki.simulate_kernel" and not uses:
            done.add(value)
            yield Match(statement, "the name is not used any more", (source.emptied(line),))


def _imports(source: Source, node: cst.CSTNode) -> bool:
    above = (cst.Import, cst.ImportFrom, cst.Attribute, cst.Decorator)
    return any(isinstance(a, above) for a in source.ancestors(node)) and not isinstance(
        source.parent(node), cst.Decorator
    )
