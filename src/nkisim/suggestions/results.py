"""Fixes of results that are on chip, parts of tensors, or not returned."""

from __future__ import annotations

import ast

from nkisim.diagnostics import Rewrite
from nkisim.suggestions.statement import Case, fixes


@fixes("L060")
def _returned(case: Case) -> Rewrite | None:
    """A kernel returns whole tensors in HBM."""
    if isinstance(case.statement, ast.FunctionDef):
        return _output(case, case.statement)
    on_chip = case.finding.data.get("buffer") in ("sbuf", "psum")
    found = [
        (case.at(statement), value)
        for statement in case.all(ast.Return)
        for value in _values(statement)
        if isinstance(value, ast.Name if on_chip else ast.Subscript)
        and ast.unparse(value).partition("[")[0] == case.target
    ]
    return (_stored if on_chip else _copied)(*found[0]) if len(found) == 1 else None


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
        lines = [case.tile(source, name), case.isa("tensor_copy", dst=source, src=name)]
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
        case.tile(out, like, buffer="shared_hbm"),
        case.isa("dma_copy", dst=out, src=source),
        case.with_expression(value, out),
    )


def _output(case: Case, function: ast.FunctionDef) -> Rewrite | None:
    """The only output that a function makes is returned at its end."""
    tree = case.tree
    if any(tree.within(function.body, kind) for kind in (ast.Return, ast.Yield, ast.FunctionDef)):
        return None
    made = [
        node
        for node in tree.within(function.body, ast.Assign)
        if isinstance(node.value, ast.Call)
        and any(case.path(k.value) == "nki.language.shared_hbm" for k in node.value.keywords)
    ]
    name = case.at(made[0]).target if len(made) == 1 and made[0] in function.body else ""
    if len(tree.body(function).assignments[name]) != 1:
        return None
    last = function.body[-1]
    first, end = last.lineno, last.end_lineno or last.lineno
    code = [*tree.text.splitlines()[first - 1 : end], f"{tree.indent(last)}return {name}"]
    made_of = Rewrite(case.finding.file, first, end, "\n".join(code))
    return made_of if tree.begins_line(last) else None
