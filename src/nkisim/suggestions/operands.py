"""Fixes of operands of unequal size: broadcasts, transfers, indices past the end."""

from __future__ import annotations

import ast

from nkisim.diagnostics import Rewrite
from nkisim.source import expression, indices
from nkisim.spec import INSTRUCTIONS
from nkisim.suggestions.statement import Case, fixes
from nkisim.suggestions.tiling import COLUMNWISE


@fixes("S007")
def _column(case: Case) -> Rewrite | None:
    """``tensor_tensor`` with a (P, 1) operand is ``tensor_scalar``."""
    given = case.arguments
    if case.function != "tensor_tensor" or not {"dst", "data1", "data2", "op"} <= set(given):
        return None
    dst = case.fact("dst")
    facts = {name: case.fact(name) for name in ("data1", "data2")}
    narrow = [n for n, f in facts.items() if f is not None and f.shape[1:] == (1,)]
    if dst is None or len(narrow) != 1 or dst.shape[1:] == (1,):
        return None
    column, whole = narrow[0], "data2" if narrow[0] == "data1" else "data1"
    wide = facts[whole]
    if wide is None or wide.shape != dst.shape:
        return None
    names = {"dst": "dst", "data": whole, "op0": "op", "operand0": column}
    parts = {name: case.text(old) for name, old in names.items()}
    parts |= {"reverse0": "True"} if column == "data1" else {}
    parts |= {name: case.text(name) for name in ("engine", "name") if name in given}
    return case.rewrite(case.with_call(case.isa("tensor_scalar", **parts)))


@fixes("S005", "S006")
def _row(case: Case) -> Rewrite | None:
    """A (1, F) operand is repeated over the partitions first."""
    dst = case.fact("dst")
    for name, node in case.arguments.items():
        fact = case.fact(name)
        if fact is None or dst is None or name == "dst" or fact.shape == dst.shape:
            continue
        if case.function not in INSTRUCTIONS or name not in INSTRUCTIONS[case.function].operands:
            continue
        fits = len(fact.shape) == len(dst.shape) and fact.shape[0] == 1
        if not fits or not all(a in (1, b) for a, b in zip(fact.shape, dst.shape, strict=True)):
            continue
        wide = case.fresh(f"{node.id}_rows" if isinstance(node, ast.Name) else f"{name}_rows")
        known = INSTRUCTIONS[case.function].operands[name]
        shape = f"{case.text('dst')}.shape"
        if not isinstance(case.arguments["dst"], ast.Name):
            shape = str(dst.shape)
        if known.column:
            if fact.shape != (1, 1):
                continue
            shape = f"({dst.shape[0]}, 1)"
        repeated = f"{wide} = {case.nl}.broadcast_to({case.text(name)}, {shape})"
        return case.rewrite(repeated, case.with_arguments(**{name: wide}))
    return None


@fixes("S058")
def _unequal_copy(case: Case) -> Rewrite | None:
    """Both sides of a transfer get the extents of the smaller one."""
    if not {"dst", "src"} <= set(case.arguments) or case.function not in INSTRUCTIONS:
        return None
    dst, src = case.fact("dst"), case.fact("src")
    if dst is None or src is None or len(dst.shape) != len(src.shape):
        return None
    pairs = list(zip(dst.shape, src.shape, strict=True))
    large, small, extents = "dst", "src", src.shape
    if any(d < s for d, s in pairs):
        large, small, extents = "src", "dst", dst.shape
    mixed = large == "src" and any(d > s for d, s in pairs)
    if mixed or not case.name(large):
        return None
    widths = _widths(case.arguments[small], extents)
    index = ", ".join(f"0:{width}" for width in widths)
    return case.rewrite(case.with_arguments(**{large: f"{case.text(large)}[{index}]"}))


def _widths(node: ast.expr, extents: tuple[int, ...]) -> list[str]:
    """Return the extents of an operand, as expressions where it is sliced by expressions."""
    found = [str(extent) for extent in extents]
    if isinstance(node, ast.Subscript):
        for axis, part in enumerate(indices(node)[: len(found)]):
            if not isinstance(part, ast.Slice) or part.upper is None or part.step is not None:
                continue
            upper = ast.unparse(part.upper)
            if part.lower is None or ast.unparse(part.lower) == "0":
                found[axis] = upper
            elif not isinstance(part.upper, ast.Constant):
                found[axis] = f"{upper} - {ast.unparse(part.lower)}"
    return found


@fixes("S009")
def _past_the_end(case: Case) -> Rewrite | None:
    """A slice past the end, and equal slices of the statement, are clipped to the tensor.

    Only if something is left of each, and no instruction has operands of several sizes.
    """
    data = case.finding.data
    if "start" not in data or not 0 <= data["start"] < data["extent"]:
        return None
    if case.function and case.function not in COLUMNWISE:
        return None
    ends: dict[str, str] = {}
    for node in ast.walk(case.statement):
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            continue
        fact = case.variable(node.value.id)
        if fact is None:
            continue
        for axis, part in enumerate(indices(node)[: len(fact.shape)]):
            if not isinstance(part, ast.Slice) or part.upper is None:
                continue
            upper = ast.unparse(part.upper)
            if isinstance(part.upper, ast.Constant):
                if isinstance(part.upper.value, int) and part.upper.value > fact.shape[axis]:
                    known = int(ends.get(upper, part.upper.value))
                    ends[upper] = str(min(known, fact.shape[axis]))
            elif fact.name == case.finding.operand or upper in ends:
                ends.setdefault(upper, f"min({upper}, {fact.name}.shape[{axis}])")
    if not ends or any(_is_emptied(node, ends) for node in ast.walk(case.statement)):
        return None

    def change(node: ast.expr) -> ast.expr | None:
        if isinstance(node, ast.Slice) and node.upper is not None:
            end = ends.get(ast.unparse(node.upper))
            if end is not None:
                node.upper = expression(end)
        return None

    return case.rewrite(case.replaced(change))


def _is_emptied(node: ast.AST, ends: dict[str, str]) -> bool:
    """Return whether a slice by numbers starts at its new end or behind it."""
    if not isinstance(node, ast.Slice) or node.upper is None:
        return False
    end = ends.get(ast.unparse(node.upper), "")
    start = node.lower.value if isinstance(node.lower, ast.Constant) else None
    return end.isdigit() and isinstance(start, int) and start >= int(end)
