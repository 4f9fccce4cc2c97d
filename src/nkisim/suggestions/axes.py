"""Fixes of shapes that do not fit: axes of reductions, and operands to be broadcast."""

from __future__ import annotations

import ast

from nkisim.diagnostics import Rewrite
from nkisim.source import base_name, expression, literal_integer
from nkisim.suggestions.statement import Case, fixes


def along_columns(case: Case) -> Rewrite | None:
    """Return a reduction of each row, if its result is one column, and no axis says otherwise."""
    dst, data = case.fact("dst"), case.fact("data")
    if case.function != "tensor_reduce" or dst is None or data is None or not case.is_bare:
        return None
    rows = dst.shape == (data.shape[0], 1) and len(data.shape) == 2
    return case.rewrite(case.with_arguments(axis="1")) if rows else None


@fixes("S044")
def _reduced_axis(case: Case) -> Rewrite | None:
    """Partitions are reduced by another instruction; a tile of two dimensions has axis 1."""
    dst, data = case.fact("dst"), case.fact("data")
    if dst is None or data is None or literal_integer(case.arguments.get("axis")) != 0:
        return along_columns(case)
    if not case.is_bare or dst.shape != (1, *data.shape[1:]):
        return along_columns(case)
    given = {name: case.text(name) for name in ("dst", "op", "data")}
    return case.rewrite(case.isa("tensor_partition_reduce", **given))


_OPERATORS = {"sum": "add", "max": "maximum"}
"""Reductions of ``nki.language`` that ``tensor_partition_reduce`` has."""


@fixes("S039", "S046", "S054")
def _allocated(case: Case) -> Rewrite | None:
    """A tile is made with the shape that the instruction writes."""
    name, wanted = case.name(case.finding.operand), case.finding.data.get("shape")
    made = [s for s in case.all(ast.Assign) if ast.unparse(s.targets[0]) == name]
    fact = case.variable(name)
    if len(made) != 1 or fact is None or wanted is None:
        return None
    maker = case.at(made[0])
    if maker.function != "ndarray" or "shape" not in maker.arguments:
        return None
    return maker.rewrite(maker.with_expression(maker.arguments["shape"], str(wanted)))


@fixes("S062")
def _over_partitions(case: Case) -> Rewrite | None:
    """A sum over the partitions becomes a row."""
    name, op = case.name("x"), _OPERATORS.get(case.function, "")
    fact, axis = case.variable(name), literal_integer(case.arguments.get("axis"))
    whole = getattr(case.statement, "value", None) is case.call
    if not case.target or not whole or not op or fact is None or len(fact.shape) != 2 or axis != 0:
        return None
    made = case.tile(case.target, name, shape=f"(1, {name}.shape[1])")
    given = {"dst": case.target, "op": f"{case.nl}.{op}", "data": name}
    return case.rewrite(made, case.isa("tensor_partition_reduce", **given))


@fixes("S008")
def _broadcast(case: Case) -> Rewrite | None:
    """An operand of one row or column is repeated; a softmax does so with its maxima and sums."""
    if case.function == "softmax":
        return _softmax(case)
    path = f"nki.language.{case.function}"
    calls = [n for n in ast.walk(case.statement) if isinstance(n, ast.Call)]
    called = [call for call in calls if case.path(call.func) == path and len(call.args) == 2]
    shapes = case.finding.data.get("shapes")
    if len(called) != 1 or shapes is None:
        return None
    for wide, narrow in ((0, 1), (1, 0)):
        pairs = zip(shapes[narrow], shapes[wide], strict=False)  # S064 has other ranks
        if all(n in (1, w) for n, w in pairs):
            whole, part = called[0].args[wide], called[0].args[narrow]
            text = ast.unparse(whole)
            shape = f"{text}.shape" if isinstance(whole, ast.Name) else str(shapes[wide])
            repeated = f"{case.nl}.broadcast_to({ast.unparse(part)}, {shape})"
            return case.rewrite(case.with_expression(part, repeated))
    return None


def _softmax(case: Case) -> Rewrite | None:
    name, nl, z = case.name("x"), case.nl, case.target
    axis = literal_integer(case.arguments.get("axis")) if "axis" in case.arguments else -1
    fact, whole = case.variable(name), getattr(case.statement, "value", None) is case.call
    if not z or not whole or fact is None or len(fact.shape) != 2 or axis not in (1, -1):
        return None
    if not {"x", "axis"}.issuperset(case.arguments):
        return None
    terms = case.fresh(f"{z}_exp")
    shift = f"{nl}.broadcast_to({nl}.max({name}, axis=1), {name}.shape)"
    total = f"{nl}.broadcast_to({nl}.reciprocal({nl}.sum({terms}, axis=1)), {name}.shape)"
    return case.rewrite(
        f"{terms} = {nl}.exp({nl}.subtract({name}, {shift}))",
        f"{z} = {nl}.multiply({terms}, {total})",
    )


@fixes("M049")
def _loaded(case: Case) -> Rewrite | None:
    """What lies in HBM is loaded where a function of ``nki.language`` takes it."""
    path = f"nki.language.{case.function}"

    def change(node: ast.expr) -> ast.expr | None:
        if not isinstance(node, ast.Call) or case.path(node.func) != path:
            return None
        node.args = [_load(case, argument) for argument in node.args]
        return node

    return case.rewrite(case.replaced(change))


def _load(case: Case, node: ast.expr) -> ast.expr:
    """Return an operand, loaded if it is a tensor in HBM or a part of one."""
    base = base_name(node)
    fact = None if base is None else case.variable(base.id)
    if fact is None or "hbm" not in fact.buffer:
        return node
    return expression(f"{case.nl}.load({ast.unparse(node)})")
