"""Outputs that Beta 1 kernels took as arguments and wrote to."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.rewriting import Edit, before
from nkisim.source import Function, base_name, string
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import NISA, NL, Source

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
