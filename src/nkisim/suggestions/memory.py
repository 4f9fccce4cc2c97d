"""Fixes of tiles with an illegal shape, or in a memory that the instruction cannot access."""

from __future__ import annotations

import ast
from collections.abc import Callable

from nkisim.diagnostics import Rewrite
from nkisim.spec import INSTRUCTIONS
from nkisim.suggestions.staging import new_tile, with_arguments
from nkisim.suggestions.statement import Case

_PARTITIONS = 128


def _rank(case: Case) -> Rewrite | None:
    """A tile of one dimension has its elements on the partitions, if there are enough."""
    shape = case.arguments.get("shape")
    call = case.call
    if call is None or not isinstance(shape, ast.Tuple) or len(shape.elts) != 1:
        return None
    if _is_one_of_several(case, shape.elts[0]):
        return None
    extent = ast.unparse(shape.elts[0])
    few = isinstance(shape.elts[0], ast.Constant) and int(shape.elts[0].value) <= _PARTITIONS  # type: ignore[arg-type]
    new = f"({extent}, 1)" if few else f"(1, {extent})"
    text = ast.unparse(call).replace(ast.unparse(shape), new, 1)
    return case.rewrite(case.with_call(text))


def _is_one_of_several(case: Case, extent: ast.expr) -> bool:
    """Return whether an extent is that of one dimension of several: the others may be missing."""
    shape = extent.value if isinstance(extent, ast.Subscript) else None
    if not isinstance(shape, ast.Attribute) or not isinstance(shape.value, ast.Name):
        return False
    fact = case.variable(shape.value.id)
    return fact is not None and len(fact.shape) > 1


def _reshape(case: Case) -> Rewrite | None:
    """A reshape that moves data across partitions goes through HBM."""
    statement = case.statement
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return None
    call = statement.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    tile, shape = call.func.value, call.args[0] if call.args else None
    if call.func.attr != "reshape" or not isinstance(tile, ast.Name) or shape is None:
        return None
    nl, nisa, new = case.nl, case.nisa, statement.targets[0].id
    scratch = case.fresh(f"{tile.id}_hbm")
    to = ast.unparse(shape)
    return case.rewrite(
        f"{scratch} = {nl}.ndarray({tile.id}.shape, dtype={tile.id}.dtype, buffer={nl}.hbm)",
        f"{nisa}.dma_copy(dst={scratch}, src={tile.id})",
        f"{new} = {nl}.ndarray({to}, dtype={tile.id}.dtype, buffer={nl}.sbuf)",
        f"{nisa}.dma_copy(dst={new}, src={scratch}.reshape({to}))",
    )


def _through_sbuf(case: Case) -> Rewrite | None:
    """Operands in HBM are loaded before the instruction, and results stored behind it."""
    known = INSTRUCTIONS.get(case.function)
    if known is None or not isinstance(case.statement, ast.Expr):
        return None
    before: list[str] = []
    after: list[str] = []
    named: dict[str, str] = {}
    staged: dict[str, str] = {}
    for name in known.operands:
        fact, text = case.fact(name), case.text(name)
        if fact is None or "hbm" not in fact.buffer:
            continue
        if len(fact.shape) != 2 or fact.shape[0] > _PARTITIONS:
            return None
        tile = staged.get(text, "")
        if not tile:
            tile, made = new_tile(case, name, "tile", fact)
            staged[text] = tile
            before.append(made)
        if known.operands[name].writes:
            after.append(f"{case.nisa}.dma_copy(dst={text}, src={tile})")
        else:
            before.append(f"{case.nisa}.dma_copy(dst={tile}, src={text})")
        named[name] = tile
    if not staged:
        return None
    return case.rewrite(*before, with_arguments(case, **named), *after)


def _through_psum(case: Case) -> Rewrite | None:
    """A matmul writes PSUM; its result is copied to where it is wanted."""
    fact, node = case.fact("dst"), case.arguments.get("dst")
    if fact is None or fact.buffer != "sbuf" or not isinstance(case.statement, ast.Expr):
        return None
    if case.function not in ("nc_matmul", "nc_transpose") or node is None:
        return None
    dtype = "float32" if case.function == "nc_matmul" else fact.dtype
    tile, made = new_tile(case, "dst", "psum", fact, dtype, "psum")
    back = f"{case.nisa}.tensor_copy(dst={ast.unparse(node)}, src={tile})"
    return case.rewrite(made, with_arguments(case, dst=tile), back)


def _out_of_psum(case: Case) -> Rewrite | None:
    """A PSUM tile is copied to SBUF before it is stored."""
    node = case.arguments.get("value") or case.arguments.get("src")
    if not isinstance(node, ast.Name) or case.variable(node.id) is None:
        return None
    nl, tile = case.nl, case.fresh(f"{node.id}_sbuf")
    return case.rewrite(
        f"{tile} = {nl}.ndarray({node.id}.shape, dtype={node.id}.dtype, buffer={nl}.sbuf)",
        f"{case.nisa}.tensor_copy(dst={tile}, src={node.id})",
        case.with_name(node.id, tile),
    )


MEMORY_FIXES: dict[str, Callable[[Case], Rewrite | None]] = {
    "A001": _out_of_psum,
    "M020": _through_psum,
    "M021": _through_sbuf,
    "M025": _out_of_psum,
    "S002": _rank,
    "S018": _reshape,
}
