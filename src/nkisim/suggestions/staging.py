"""Fixes that stage an operand in a new tile: at another address, of another type or memory."""

from __future__ import annotations

import ast
from collections.abc import Callable

from nkisim.diagnostics import Fact, Rewrite
from nkisim.source import base_name
from nkisim.spec import INSTRUCTIONS
from nkisim.suggestions.statement import Case

_PARTITIONS = 128


def new_tile(
    case: Case, operand: str, suffix: str, fact: Fact, dtype: str = "", buffer: str = "sbuf"
) -> tuple[str, str]:
    """Return the name of a new tile for an operand, and the line that makes it."""
    node = case.arguments[operand]
    base = base_name(node)
    name = case.fresh(f"{operand if base is None else base.id}_{suffix}")
    shape = f"{ast.unparse(node)}.shape" if isinstance(node, ast.Name) else str(fact.shape)
    made = f"{case.nl}.ndarray({shape}, dtype={case.nl}.{dtype or fact.dtype}, "
    return name, f"{name} = {made}buffer={case.nl}.{buffer})"


def with_arguments(case: Case, **named: str) -> str:
    """Return the statement with other arguments in its call."""
    call = case.call
    assert call is not None
    given = {name: named.get(name, case.text(name)) for name in case.arguments}
    for name, text in named.items():
        given.setdefault(name, text)
    order = [n for n in INSTRUCTIONS[case.function].parameters if n in given]
    parts = ", ".join(f"{name}={given[name]}" for name in order)
    return case.with_call(f"{ast.unparse(call.func)}({parts})")


def _is_bare(case: Case) -> bool:
    """Return whether the statement is one call of an instruction, and nothing else."""
    return (
        isinstance(case.statement, ast.Expr)
        and case.statement.value is case.call
        and case.function in INSTRUCTIONS
    )


def _staged(case: Case, operand: str, suffix: str, move: str, *, dtype: str = "") -> Rewrite | None:
    """Copy an operand to a tile of its own before the call, or back from one behind it."""
    fact = case.fact(operand)
    known = INSTRUCTIONS.get(case.function)
    if fact is None or known is None or operand not in known.operands or not _is_bare(case):
        return None
    if fact.shape[0] > _PARTITIONS or operand not in case.arguments:
        return None
    tile, made = new_tile(case, operand, suffix, fact, dtype)
    text = case.text(operand)
    if known.operands[operand].writes:
        if known.operands[operand].reads:
            return None
        back = f"{case.nisa}.{move}(dst={text}, src={tile})"
        return case.rewrite(made, with_arguments(case, **{operand: tile}), back)
    there = f"{case.nisa}.{move}(dst={tile}, src={text})"
    return case.rewrite(made, there, with_arguments(case, **{operand: tile}))


def _other_start(case: Case) -> Rewrite | None:
    """Rows that begin at a partition without a port are moved by DMA."""
    fact = case.fact(case.finding.operand)
    if fact is None or fact.buffer != "sbuf":
        return None
    return _staged(case, case.finding.operand, "rows", "dma_copy")


def _float32(case: Case) -> Rewrite | None:
    """An operand is converted to float32 first."""
    return _staged(case, case.finding.operand, "f32", "tensor_copy", dtype="float32")


def _one_width(case: Case) -> Rewrite | None:
    """Of two operands of a matmul, the narrow one is converted to float32."""
    for operand in ("stationary", "moving"):
        fact = case.fact(operand)
        if fact is not None and fact.dtype != "float32" and "x4" not in fact.dtype:
            return _staged(case, operand, "f32", "tensor_copy", dtype="float32")
    return None


def _to_sbuf(case: Case) -> Rewrite | None:
    """An operand in PSUM is copied to SBUF first."""
    operand = case.finding.operand
    fact = case.fact(operand)
    if fact is None or fact.buffer != "psum":
        operand = "data2"
        fact = case.fact(operand)
    if fact is None or fact.buffer != "psum":
        return None
    return _staged(case, operand, "sbuf", "tensor_copy")


def _divided(case: Case) -> Rewrite | None:
    """A quotient is a product with a reciprocal."""
    if not _is_bare(case):
        return None
    multiply = f"{case.nl}.multiply"
    if case.function == "tensor_tensor":
        fact = case.fact("data2")
        if fact is None:
            return None
        tile, made = new_tile(case, "data2", "inverse", fact, "float32")
        inverse = f"{case.nisa}.reciprocal(dst={tile}, data={case.text('data2')})"
        return case.rewrite(made, inverse, with_arguments(case, data2=tile, op=multiply))
    if case.function != "tensor_scalar" or {"reverse0", "op1"} & set(case.arguments):
        return None
    node, fact = case.arguments.get("operand0"), case.fact("operand0")
    if isinstance(node, ast.Constant):
        return case.rewrite(
            with_arguments(case, op0=multiply, operand0=f"1.0 / {ast.unparse(node)}")
        )
    if fact is None:
        return None
    tile, made = new_tile(case, "operand0", "inverse", fact, "float32")
    inverse = f"{case.nisa}.reciprocal(dst={tile}, data={case.text('operand0')})"
    return case.rewrite(made, inverse, with_arguments(case, op0=multiply, operand0=tile))


def _bias(case: Case) -> Rewrite | None:
    """A number becomes a column; what the engine does not add is added by ``tensor_scalar``."""
    fact = case.fact("data")
    if fact is None or not _is_bare(case) or not {"op", "bias"} <= case.arguments.keys():
        return None
    op = case.path(case.arguments["op"]).rpartition(".")[2]
    dst, data, bias = (case.text(name) for name in ("dst", "data", "bias"))
    added = f"{case.nisa}.tensor_scalar(dst={{}}, data={data}, op0={case.nl}.add, operand0={bias})"
    column = case.fact("bias")
    if op == "copy" and len(case.arguments) == 4:
        return case.rewrite(added.format(dst))
    if column is None:
        tile = case.fresh("bias")
        column_of = f"({fact.shape[0]}, 1), {bias}, dtype={case.nl}.float32, buffer={case.nl}.sbuf"
        made = f"{tile} = {case.nl}.full({column_of})"
        return case.rewrite(made, with_arguments(case, bias=tile))
    if column.dtype == "tfloat32":
        return _float32(case)
    if op != "reciprocal" or len(case.arguments) != 4:
        return None
    tile, made = new_tile(case, "data", "biased", fact, "float32")
    function = ast.unparse(case.arguments["op"])
    rest = f"{case.nisa}.{case.function}(dst={dst}, op={function}, data={tile})"
    return case.rewrite(made, added.format(tile), rest)


def _filled_part(case: Case) -> Rewrite | None:
    """Operands are sliced as the loads that fill them are."""
    changed = _filled(case)
    return case.rewrite(with_arguments(case, **changed)) if changed and _is_bare(case) else None


def _filled(case: Case) -> dict[str, str]:
    """Return the operands that one earlier load of the block fills in part, with that part."""
    slices: dict[str, str] = {}
    for statement in case.block[: case.block.index(case.statement)]:
        for target in _written_by(statement):
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                name = target.value.id
                if slices.setdefault(name, ast.unparse(target)) != ast.unparse(target):
                    return {}  # two loads fill it in parts
    return {
        operand: slices[node.id]
        for operand, node in case.arguments.items()
        if isinstance(node, ast.Name) and node.id in slices
    }


def _written_by(statement: ast.stmt) -> list[ast.expr]:
    """Return the operand that a statement writes, if it is a call."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return []
    return [k.value for k in call.keywords if k.arg == "dst"] or call.args[:1]


def written_part(case: Case) -> Rewrite | None:
    """Return the fix that reads only the part of a tile that was written.

    Only if nothing else writes the tile before, and if the same slice of every operand was written.
    The result of a reduction is exempt: its shape differs.
    """
    changed, known = _filled(case), INSTRUCTIONS.get(case.function)
    tile = case.arguments.get(case.finding.operand)
    if case.finding.operand not in changed or known is None or not isinstance(tile, ast.Name):
        return None
    before = [s for block in case.blocks() for s in block if s.lineno < case.statement.lineno]
    targets = [target for s in before for target in _written_by(s)]
    texts = {ast.unparse(t) for t in targets if (b := base_name(t)) and b.id == tile.id}
    if texts != {changed[case.finding.operand]}:
        return None
    rest = {
        name
        for name, node in case.arguments.items()
        if name in known.operands and name not in changed and not isinstance(node, ast.Constant)
    }
    parts = {text.partition("[")[2] for text in changed.values()}
    reduces = case.function == "tensor_reduce" and rest == {"dst"}
    return _filled_part(case) if len(parts) == 1 and (not rest or reduces) else None


STAGING_FIXES: dict[str, Callable[[Case], Rewrite | None]] = {
    "D002": _float32,
    "D003": _one_width,
    "D013": _divided,
    "D023": _bias,
    "D036": _float32,
    "M019": _to_sbuf,
    "M023": _to_sbuf,
    "S004": _other_start,
    "S067": _filled_part,
    "S068": _filled_part,
}
