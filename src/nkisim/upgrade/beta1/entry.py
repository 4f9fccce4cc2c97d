"""How Beta 1 marks and launches kernels: decorators, entry points, outputs that were arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.rewriting import Edit, before
from nkisim.source import Function, base_name, string
from nkisim.upgrade.beta1.allocators import without_decorator
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import NISA, NKI, NL, Source

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


_ISA, _LANGUAGE = "nki.isa", "nki.language"


@rule("MG-132", "outputs that are arguments", "partial")
def _mutable_arguments(source: Source) -> Iterator[Match]:
    for function in source.kernels():
        if any(r.value is not None for r in source.within(function.body, ast.Return)):
            continue
        written = _written(source, function)
        if not written:
            continue
        edits = _returned(source, function, list(written))
        if edits is not None:
            review = "remove the dma_copy of the old content if the kernel writes all elements"
            names = ", ".join(written)
            yield Match(function, f"{names}: allocated in the kernel and returned", edits, review)
            continue
        for name, call in written.items():
            yield Match(call, f"allocate {name} in nl.shared_hbm inside the kernel and return it")


def _written(source: Source, function: Function) -> dict[str, ast.AST]:
    """Return the parameters that a kernel writes to, in their order, and where it does."""
    found: dict[str, ast.AST] = {}
    calls = (*source.calls(_LANGUAGE, "store"), *source.calls(_ISA, "dma_copy"))
    for call in calls:
        dst = source.arguments(call, ("dst", "value")).get("dst")
        name = None if dst is None else base_name(dst)
        if name is not None and source.function_of(call) is function:
            found.setdefault(name.id, call)
    parameters = source.parameters(function)
    return {name: found[name] for name in parameters if name in found}


def _returned(source: Source, function: Function, outputs: list[str]) -> tuple[Edit, ...] | None:
    """Return the edits of a kernel and of all its launches, or None if one is not understood."""
    body = function.body
    launches = _launches(source, function, outputs)
    first = _first_line(body)
    if not launches or first is None or source.within(body, ast.Return):
        return None
    if not source.begins_line(body[0]):
        return None
    rows, names = [], {}
    for name in outputs:
        new = names[name] = source.fresh(f"{name}_result")
        memory = f"dtype={name}.dtype, buffer={NL}.shared_hbm"
        rows.append(f"{new} = {NL}.ndarray({name}.shape, {memory})")
        rows.append(f"{NISA}.dma_copy(dst={new}, src={name})")
    edits = [before(source, first, rows)]
    for node in source.within(body, ast.Name):
        if node.id not in names:
            continue
        if not all(isinstance(a.node, ast.arg) for a in source.bound(node)):
            return None
        edits.append(source.replaced(node, names[node.id]))
    edits.append(_after(source, body, f"return {', '.join(names.values())}"))
    return (*edits, *launches)


def _first_line(body: list[ast.stmt]) -> ast.stmt | None:
    """Return the first statement of a function behind its docstring."""
    for statement in body:
        if not isinstance(statement, ast.Expr) or string(statement.value) is None:
            return statement
    return None


def _after(source: Source, body: list[ast.stmt], row: str) -> Edit:
    """Return the edit that adds a statement at the end of a block."""
    indent = source.indent(body[0])
    end = source.data.find(b"\n", source.span(body[-1])[1])
    if end < 0:
        return Edit(len(source.data), len(source.data), f"{source.newline}{indent}{row}")
    return Edit(end + 1, end + 1, f"{indent}{row}{source.newline}")


def _launches(source: Source, function: Function, outputs: list[str]) -> tuple[Edit, ...] | None:
    """Return the edits that assign what the launches return, or None if one is not a launch."""
    uses = source.scope(function).assignments[function.name]
    if len(uses) != 1:
        return None
    edits = []
    for name in uses[0].references:
        call = _launch(source, name)
        line = None if call is None else source.statement(call)
        if call is None or line is None or not source.is_bare(line, call):
            return None
        parameters = source.parameters(function)
        skipped = 1 if call.args and call.args[0] is name else 0
        given = source.arguments(call, [""] * skipped + parameters)
        targets = [given.get(output) for output in outputs]
        if any(not isinstance(t, ast.Name | ast.Attribute) for t in targets):
            return None
        text = ", ".join(f"{source.code(t)}[...]" for t in targets if t is not None)
        start = source.span(call)[0]
        edits.append(Edit(start, start, f"{text} = "))
    return tuple(edits) or None


def _launch(source: Source, name: ast.Name) -> ast.Call | None:
    """Return the call that launches a kernel: ``k(x)``, ``k[2](x)``, ``nki.simulate(k)(x)``."""
    above = source.parent(name)
    if isinstance(above, ast.Subscript) and above.value is name:
        name_or_grid: ast.AST = above
        above = source.parent(above)
    else:
        name_or_grid = name
    if isinstance(above, ast.Call) and above.func is name_or_grid:
        return above
    call = source.call_of(name_or_grid)
    if call is None or not call.args or call.args[0] is not name_or_grid:
        return None
    entry = source.name(call.func)
    if entry == "nki.simulate_kernel":
        return call
    outer = source.parent(call)
    if entry in ("nki.simulate", "nki.baremetal", "nki.jit") and isinstance(outer, ast.Call):
        return outer if outer.func is call else None
    return None


@rule(
    "MG-132a", "outputs that are arguments of functions without decorator", "report", certain=False
)
def _undecorated_outputs(source: Source) -> Iterator[Match]:
    """A function of Beta 1 may be compiled by its caller; helpers of this file are none."""
    known = source.device_functions()
    called = {call.func.id for call in source.all(ast.Call) if isinstance(call.func, ast.Name)}
    for call in source.calls(_LANGUAGE, "store"):
        function = source.function_of(call)
        dst = source.arguments(call, ("dst", "value")).get("dst")
        name = None if dst is None else base_name(dst)
        if function is None or name is None or function in known or function.name in called:
            continue
        parameters = set(source.parameters(function))
        if name.id in parameters and not source.within(function.body, ast.Return):
            place = f"allocate {name.id} in nl.shared_hbm inside and return it"
            yield Match(call, f"decorate {function.name} with @nki.jit, {place}")
