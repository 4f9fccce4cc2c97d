"""Fixes of results that are on chip, parts of tensors, or not returned."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable

from nkisim.diagnostics import Rewrite
from nkisim.suggestions.statement import Case


def _returned(case: Case) -> Rewrite | None:
    """A kernel returns whole tensors in HBM."""
    if isinstance(case.statement, ast.FunctionDef):
        return _output(case, case.statement)
    made = _targets(case.statement)
    on_chip = case.finding.data.get("buffer") in ("sbuf", "psum")
    found = [
        (Case(case.finding, case.source, statement), value)
        for block in case.blocks()
        for statement in block
        if isinstance(statement, ast.Return)
        for value in _values(statement)
        if isinstance(value, ast.Name if on_chip else ast.Subscript)
        and ast.unparse(value).partition("[")[0] in made
    ]
    if len(found) != 1:
        return None
    there, value = found[0]
    return _stored(there, value) if on_chip else _copied(there, value)


def _values(statement: ast.Return) -> list[ast.expr]:
    if isinstance(statement.value, ast.Tuple):
        return statement.value.elts
    return [] if statement.value is None else [statement.value]


def _stored(case: Case, tile: ast.expr) -> Rewrite | None:
    """What is returned from the chip is stored, and the tensor in HBM returned."""
    name = source = ast.unparse(tile)
    lines = []
    if case.finding.data["buffer"] == "psum":
        source = case.fresh(f"{name}_sbuf")
        lines += [
            f"{source} = {case.nl}.ndarray({name}.shape, dtype={name}.dtype, "
            f"buffer={case.nl}.sbuf)",
            f"{case.nisa}.tensor_copy(dst={source}, src={name})",
        ]
    return _in_hbm(case, tile, "out", name, source, lines)


def _copied(case: Case, part: ast.expr) -> Rewrite | None:
    """A returned part of a tensor is copied to a tensor of its own."""
    whole = ast.unparse(part).partition("[")[0]
    name = case.fresh(f"{whole}_part")
    return _in_hbm(case, part, f"{whole}_copy", name, name, [f"{name} = {ast.unparse(part)}"])


def _in_hbm(
    case: Case, value: ast.expr, wish: str, like: str, source: str, lines: list[str]
) -> Rewrite | None:
    """Return statements that copy a tensor to HBM, and return the copy in its place."""
    out = case.fresh(wish)
    return case.rewrite(
        *lines,
        f"{out} = {case.nl}.ndarray({like}.shape, dtype={like}.dtype, buffer={case.nl}.shared_hbm)",
        f"{case.nisa}.dma_copy(dst={out}, src={source})",
        case.with_expression(value, out),
    )


def _targets(statement: ast.stmt) -> set[str]:
    if not isinstance(statement, ast.Assign):
        return set()
    return {target.id for target in statement.targets if isinstance(target, ast.Name)}


def _output(case: Case, function: ast.FunctionDef) -> Rewrite | None:
    """The only output that a function makes is returned at its end."""
    inside = [node for statement in function.body for node in ast.walk(statement)]
    if any(isinstance(node, (ast.Return, ast.Yield, ast.FunctionDef)) for node in inside):
        return None
    made = [
        node
        for node in inside
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and any(case.path(k.value) == "nki.language.shared_hbm" for k in node.value.keywords)
    ]
    if len(made) != 1 or made[0] not in function.body:
        return None
    stored = [n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    names = _targets(made[0])
    last = function.body[-1]
    if len(names) != 1 or stored.count(name := names.pop()) != 1:
        return None
    first, end = last.lineno, last.end_lineno or last.lineno
    old = [linecache.getline(case.finding.file, n).rstrip("\r\n") for n in range(first, end + 1)]
    indent = old[0][: len(old[0]) - len(old[0].lstrip())]
    code = "\n".join([*old, f"{indent}return {name}"])
    return Rewrite(case.finding.file, first, end, code) if len(indent) == last.col_offset else None


RESULT_FIXES: dict[str, Callable[[Case], Rewrite | None]] = {"L060": _returned}
