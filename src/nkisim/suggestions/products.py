"""Fixes of products and transposes: operators, NumPy's order of operands, contractions."""

from __future__ import annotations

import ast

from nkisim.diagnostics import Fact, Rewrite
from nkisim.suggestions.staging import PARTITIONS
from nkisim.suggestions.statement import Case, expect, fixes, only_if, required

_COLUMNS = 512
"""Columns of a bank of PSUM, in float32."""


def product(case: Case, left: ast.expr, right: ast.expr) -> Rewrite:
    """Return the product of two matrices, as NumPy means it, in the variable of the statement.

    Only if the shapes are known to fit, and one instruction computes it.
    """
    first, second = (required(case.named(node)) for node in (left, right))
    only_if(case.target, first.dtype == second.dtype)
    only_if(len(first.shape) == len(second.shape) == 2 and first.shape[1] == second.shape[0])
    only_if(max(first.shape) <= PARTITIONS, second.shape[1] <= _COLUMNS)
    lines, turned = _turned(case, first)
    moving = second.name
    if "hbm" in second.buffer:
        moving = case.fresh(f"{second.name}_tile")
        lines.append(f"{moving} = {case.nl}.load({second.name})")
    made, acc = case.target, case.fresh(f"{case.target}_psum")
    shape = f"({first.name}.shape[0], {second.name}.shape[1])"
    return case.rewrite(
        *lines,
        case.tile(acc, shape=shape, dtype=f"{case.nl}.float32", buffer="psum"),
        case.isa("nc_matmul", dst=acc, stationary=turned, moving=moving),
        case.tile(made, first.name, shape=shape),
        case.isa("tensor_copy", dst=made, src=acc),
    )


def transposed(case: Case, operand: ast.expr) -> Rewrite:
    """Return the transpose of a matrix in the variable of the statement."""
    fact = required(case.named(operand))
    only_if(case.target, len(fact.shape) == 2 and max(fact.shape) <= PARTITIONS)
    lines, _ = _turned(case, fact, case.target)
    return case.rewrite(*lines)


def _turned(case: Case, fact: Fact, name: str = "") -> tuple[list[str], str]:
    """Return the statements that transpose a matrix in any memory, and the name of the tile."""
    if "hbm" not in fact.buffer:
        return _transpose(case, fact.name, name)
    name = name or case.fresh(f"{fact.name}_t")
    return [f"{name} = {case.nl}.load_transpose2d({fact.name})"], name


@fixes("L026")
def _operator(case: Case) -> Rewrite:
    """``a @ b`` is a product."""
    value = expect(ast.BinOp, case.value)
    expect(ast.MatMult, value.op)
    return product(case, value.left, value.right)


@fixes("S061")
def _of_language(case: Case) -> Rewrite:
    """``nl.matmul`` with the operands of NumPy."""
    given = case.arguments
    only_if(case.function == "matmul", {"x", "y"} <= set(given), case.value is case.call)
    return product(case, given["x"], given["y"])


def added_product(case: Case, name: str, added: ast.expr) -> Rewrite:
    """Return ``nl.matmul`` that adds to a tile in PSUM, which no vector instruction does."""
    call = expect(ast.Call, added)
    maker = case.maker(name)
    fact, made = case.variable(name), "" if maker is None else ast.unparse(maker)
    only_if("psum" in made if fact is None else fact.buffer == "psum")
    only_if(case.path(call.func) == "nki.language.matmul", len(call.args) == 2)
    flags = [ast.unparse(keyword) for keyword in call.keywords]
    only_if(flags == ["transpose_x=True"])
    stationary, moving = map(ast.unparse, call.args)
    return case.rewrite(case.isa("nc_matmul", dst=name, stationary=stationary, moving=moving))


def transposed_operand(case: Case, keyword: str) -> Rewrite:
    """Return a product without the flag that an operand is transposed: it is, before."""
    operand, flag = keyword.removeprefix("transpose_"), case.arguments[keyword]
    only_if(case.fact(operand) is not None)
    turned = (operand,) if expect(ast.Constant, flag).value else ()
    return _matmul(case, turned, without=keyword)


def _matmul(case: Case, turned: tuple[str, ...], without: str = "") -> Rewrite:
    """Return a product of which some operands, which are names, are transposed before."""
    given = {name: case.text(name) for name in case.arguments if name != without}
    lines: list[str] = []
    for operand in turned:
        only_if(case.name(operand))
        more, given[operand] = _transpose(case, case.name(operand))
        lines += more
    return case.rewrite(*lines, case.isa("nc_matmul", **given))


def _transpose(case: Case, name: str, made: str = "") -> tuple[list[str], str]:
    """Return the statements that transpose a tile, and the name of the new one."""
    in_psum, transposed = case.fresh(f"{name}_psum"), made or case.fresh(f"{name}_t")
    shape = f"({name}.shape[1], {name}.shape[0])"
    lines = [
        case.tile(in_psum, name, shape=shape, buffer="psum"),
        case.isa("nc_transpose", dst=in_psum, data=name),
        case.tile(transposed, name, shape=shape),
        case.isa("tensor_copy", dst=transposed, src=in_psum),
    ]
    return lines, transposed


@fixes("S028", "S031")
def _contraction(case: Case) -> Rewrite:
    """Operands with the contraction in their columns are transposed.

    Only if the shape of the result leaves no other possibility.
    """
    facts = {name: case.fact(name) for name in ("dst", "stationary", "moving")}
    shapes = {n: f.shape for n, f in facts.items() if f is not None and len(f.shape) == 2}
    only_if(len(shapes) == 3, case.is_plain(*facts, "accumulate", "name"))
    (k, m), (j, n) = shapes["stationary"], shapes["moving"]
    readings = {
        ("stationary",): m == j and shapes["dst"] == (k, n),
        ("moving",): k == n and shapes["dst"] == (m, j),
        ("stationary", "moving"): m == n and shapes["dst"] == (k, j),
    }
    fitting = [names for names, fits in readings.items() if fits]
    only_if(len(fitting) == 1, shapes["dst"] != (m, n))
    return _matmul(case, fitting[0])
