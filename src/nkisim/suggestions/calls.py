"""Fixes of calls that do not exist: invented names and arguments, and a missing ``dst``."""

from __future__ import annotations

import ast

from nkisim.diagnostics import Rewrite
from nkisim.intents import argument_meant
from nkisim.source import expression, number
from nkisim.spec import INSTRUCTIONS
from nkisim.spec.signatures import parameters_of
from nkisim.suggestions.arguments import with_keyword
from nkisim.suggestions.axes import along_columns
from nkisim.suggestions.invented import base_of, invented, method
from nkisim.suggestions.products import transposed_operand
from nkisim.suggestions.statement import Case, fixes

_ALIKE = {
    "activation": "data",
    "dma_copy": "src",
    "reciprocal": "data",
    "scalar_tensor_tensor": "data",
    "tensor_copy": "src",
    "tensor_scalar": "data",
    "tensor_tensor": "data1",
}
"""Instructions whose result has the shape of one operand, and that operand."""


@fixes("A025")
def _bad_call(case: Case) -> Rewrite | None:
    """A name, an argument or a value that does not exist."""
    data = case.finding.data
    if data.get("module") in ("nki.isa", "nki.language"):
        return invented(case, case.finding.operand)
    if data.get("module") == "NkiTensor":
        return method(case, case.finding.operand)
    if data.get("is_none"):
        return _nothing_returned(case)
    return _argument(case, data["keyword"]) if "keyword" in data else along_columns(case)


def _argument(case: Case, keyword: str) -> Rewrite | None:
    """An argument under another name, or a flag for what is an instruction of its own."""
    call = case.call
    if call is None or case.function not in INSTRUCTIONS:
        return None
    parameters = parameters_of(case.function)
    if case.function == "nc_matmul" and keyword in ("transpose_moving", "transpose_stationary"):
        return transposed_operand(case, keyword)
    taken = {*parameters[: len(call.args)], *(k.arg for k in call.keywords)}
    meant = argument_meant(keyword, [p for p in parameters if p not in taken])
    return with_keyword(case, keyword, case.text(keyword), called=meant) if meant else None


@fixes("A037")
def _nothing_returned(case: Case) -> Rewrite | None:
    """``y = nisa.f(dst=t)`` leaves None in y; the result is in t."""
    name = case.name(case.finding.operand or "value")
    for statement in case.block if name else ():
        made = getattr(statement, "value", None)
        if isinstance(made, ast.Call) and case.at(statement).target == name:
            for named in (k.value for k in made.keywords if k.arg == "dst"):
                return case.rewrite(case.with_name(name, ast.unparse(named)))
    return None


@fixes("A004")
def _fill(case: Case) -> Rewrite | None:
    """A fill of an integer tile is an integer."""
    value = number(case.arguments.get("value"))
    if value is None or value != int(value):
        return None
    return case.rewrite(case.with_arguments(value=str(int(value))))


@fixes("A026")
def _no_destination(case: Case) -> Rewrite | None:
    """An instruction is given a tile for its result."""
    call, new, nl = case.call, case.target, case.nl
    if call is None or not new or case.function not in INSTRUCTIONS:
        return None
    if case.tree.parent(call) is not case.statement:
        return None
    names = [p for p in parameters_of(case.function) if p != "dst"]
    given = dict(zip(names, map(ast.unparse, call.args), strict=False))
    given |= {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg is not None}
    if case.function == "nc_matmul" and {"stationary", "moving"} <= set(given):
        shape = f"({given['stationary']}.shape[1], {given['moving']}.shape[1])"
        made = case.tile(new, shape=shape, dtype=f"{nl}.float32", buffer="psum")
    elif case.function == "tensor_reduce" and given.get("axis") in ("1", "-1"):
        made = case.tile(new, given["data"], shape=f"({given['data']}.shape[0], 1)")
    elif case.function == "nc_transpose":
        shape = f"({given['data']}.shape[1], {given['data']}.shape[0])"
        made = case.tile(new, given["data"], shape=shape, buffer="psum")
    elif (like := given.get(_ALIKE.get(case.function, ""), "")) and case.variable(
        base_of(expression(like))
    ):
        made = case.tile(new, like)
    else:
        return None
    return case.rewrite(made, case.isa(case.function, dst=new, **given))
