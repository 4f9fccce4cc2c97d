"""Fixes of tiles with an illegal shape, or in a memory that the instruction cannot access."""

from __future__ import annotations

import ast

from nkisim.diagnostics import Rewrite
from nkisim.spec import INSTRUCTIONS
from nkisim.suggestions.staging import PARTITIONS, new_tile
from nkisim.suggestions.statement import Case, fixes


@fixes("S002")
def _rank(case: Case) -> Rewrite | None:
    """A tile of one dimension has its elements on the partitions, if there are enough."""
    shape = case.arguments.get("shape")
    call = case.call
    if call is None or not isinstance(shape, ast.Tuple) or len(shape.elts) != 1:
        return None
    if _is_one_of_several(case, shape.elts[0]):
        return None
    extent = ast.unparse(shape.elts[0])
    few = isinstance(shape.elts[0], ast.Constant) and int(shape.elts[0].value) <= PARTITIONS  # type: ignore[arg-type]
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


@fixes("S018")
def _reshape(case: Case) -> Rewrite | None:
    """A reshape that moves data across partitions goes through HBM."""
    call, new = getattr(case.statement, "value", None), case.target
    if not new or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    tile, shape = call.func.value, call.args[0] if call.args else None
    if call.func.attr != "reshape" or not isinstance(tile, ast.Name) or shape is None:
        return None
    scratch, to = case.fresh(f"{tile.id}_hbm"), ast.unparse(shape)
    return case.rewrite(
        case.tile(scratch, tile.id, buffer="hbm"),
        case.isa("dma_copy", dst=scratch, src=tile.id),
        case.tile(new, tile.id, shape=to),
        case.isa("dma_copy", dst=new, src=f"{scratch}.reshape({to})"),
    )


@fixes("M021")
def _through_sbuf(case: Case) -> Rewrite | None:
    """Operands in HBM are loaded before the instruction, and results stored behind it."""
    if not case.is_bare:
        return None
    before, after = list[str](), list[str]()
    named, staged = dict[str, str](), dict[str, str]()
    for name, known in INSTRUCTIONS[case.function].operands.items():
        fact, text = case.fact(name), case.text(name)
        if fact is None or "hbm" not in fact.buffer:
            continue
        if len(fact.shape) != 2 or fact.shape[0] > PARTITIONS:
            return None
        if text not in staged:
            staged[text], made = new_tile(case, name, "tile", fact)
            before.append(made)
        tile = named[name] = staged[text]
        if known.writes:
            after.append(case.isa("dma_copy", dst=text, src=tile))
        else:
            before.append(case.isa("dma_copy", dst=tile, src=text))
    if not staged:
        return None
    return case.rewrite(*before, case.with_arguments(**named), *after)


@fixes("M020")
def _through_psum(case: Case) -> Rewrite | None:
    """A matmul writes PSUM; its result is copied to where it is wanted."""
    fact = case.fact("dst")
    if fact is None or fact.buffer != "sbuf" or not case.is_bare:
        return None
    if case.function not in ("nc_matmul", "nc_transpose") or "dst" not in case.arguments:
        return None
    dtype = "float32" if case.function == "nc_matmul" else fact.dtype
    tile, made = new_tile(case, "dst", "psum", fact, dtype, "psum")
    back = case.isa("tensor_copy", dst=case.text("dst"), src=tile)
    return case.rewrite(made, case.with_arguments(dst=tile), back)


@fixes("A001", "M025")
def _out_of_psum(case: Case) -> Rewrite | None:
    """A PSUM tile is copied to SBUF before it is stored."""
    name = case.name("value") or case.name("src")
    if case.variable(name) is None:
        return None
    tile = case.fresh(f"{name}_sbuf")
    copy = case.isa("tensor_copy", dst=tile, src=name)
    return case.rewrite(case.tile(tile, name), copy, case.with_name(name, tile))
