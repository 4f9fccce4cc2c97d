"""Fixes of shapes that do not fit: axes, broadcasts, transfers, indices past the end."""

from __future__ import annotations

import ast

from nkisim.diagnostics import Rewrite
from nkisim.source import expression, indices, literal_integer
from nkisim.spec import INSTRUCTIONS
from nkisim.suggestions.staging import PARTITIONS
from nkisim.suggestions.statement import Case, NoFixError, expect, fixes, only_if, required
from nkisim.suggestions.tiling import COLUMNWISE


def along_columns(case: Case) -> Rewrite:
    """Return a reduction of each row, if its result is one column, and no axis says otherwise."""
    dst, data = case.known("dst"), case.known("data")
    only_if(case.function == "tensor_reduce", case.is_bare)
    only_if(len(data.shape) == 2 and dst.shape == (data.shape[0], 1))
    return case.rewrite(case.with_arguments(axis="1"))


@fixes("S044")
def _reduced_axis(case: Case) -> Rewrite:
    """Partitions are reduced by another instruction; a tile of two dimensions has axis 1."""
    dst, data = case.known("dst"), case.known("data")
    rows = literal_integer(case.arguments.get("axis")) != 0
    if rows or not case.is_bare or dst.shape != (1, *data.shape[1:]):
        return along_columns(case)
    given = {name: case.text(name) for name in ("dst", "op", "data")}
    return case.rewrite(case.isa("tensor_partition_reduce", **given))


_OPERATORS = {"sum": "add", "max": "maximum"}
"""Reductions of ``nki.language`` that ``tensor_partition_reduce`` has."""


@fixes("S039", "S046", "S054")
def _allocated(case: Case) -> Rewrite:
    """A tile is made with the shape that the instruction writes."""
    name, wanted = case.name(case.finding.operand), required(case.finding.data.get("shape"))
    maker = case.at(required(case.maker(name)))
    only_if(case.variable(name) is not None, maker.function == "ndarray")
    shape = required(maker.arguments.get("shape"))
    return maker.rewrite(maker.with_expression(shape, str(wanted)))


@fixes("S062")
def _over_partitions(case: Case) -> Rewrite:
    """A sum over the partitions becomes a row."""
    name, op = case.name("x"), required(_OPERATORS.get(case.function))
    only_if(case.target, case.value is case.call)
    only_if(len(required(case.variable(name)).shape) == 2)
    only_if(literal_integer(case.arguments.get("axis")) == 0)
    made = case.tile(case.target, name, shape=f"(1, {name}.shape[1])")
    given = {"dst": case.target, "op": f"{case.nl}.{op}", "data": name}
    return case.rewrite(made, case.isa("tensor_partition_reduce", **given))


@fixes("S008")
def _broadcast(case: Case) -> Rewrite:
    """An operand of one row or column is repeated; a softmax does so with its maxima and sums."""
    if case.function == "softmax":
        return _softmax(case)
    path = f"nki.language.{case.function}"
    calls = case.tree.within(case.statement, ast.Call)
    called = [call for call in calls if case.path(call.func) == path and len(call.args) == 2]
    shapes = required(case.finding.data.get("shapes"))
    only_if(len(called) == 1)
    for wide, narrow in ((0, 1), (1, 0)):
        pairs = zip(shapes[narrow], shapes[wide], strict=False)  # S064 has other ranks
        if all(n in (1, w) for n, w in pairs):
            whole, part = called[0].args[wide], called[0].args[narrow]
            text = ast.unparse(whole)
            shape = f"{text}.shape" if isinstance(whole, ast.Name) else str(shapes[wide])
            repeated = f"{case.nl}.broadcast_to({ast.unparse(part)}, {shape})"
            return case.rewrite(case.with_expression(part, repeated))
    raise NoFixError


def _softmax(case: Case) -> Rewrite:
    name, nl, z = case.name("x"), case.nl, case.target
    axis = literal_integer(case.arguments.get("axis")) if "axis" in case.arguments else -1
    only_if(z, case.value is case.call, set(case.arguments) <= {"x", "axis"}, axis in (1, -1))
    only_if(len(required(case.variable(name)).shape) == 2)
    terms = case.fresh(f"{z}_exp")
    shift = f"{nl}.broadcast_to({nl}.max({name}, axis=1), {name}.shape)"
    total = f"{nl}.broadcast_to({nl}.reciprocal({nl}.sum({terms}, axis=1)), {name}.shape)"
    return case.rewrite(
        f"{terms} = {nl}.exp({nl}.subtract({name}, {shift}))",
        f"{z} = {nl}.multiply({terms}, {total})",
    )


@fixes("S002")
def _rank(case: Case) -> Rewrite:
    """A tile of one dimension has its elements on the partitions, if there are enough."""
    call, shape = required(case.call), expect(ast.Tuple, case.arguments.get("shape"))
    only_if(len(shape.elts) == 1 and not _is_one_of_several(case, shape.elts[0]))
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


@fixes("S007")
def _column(case: Case) -> Rewrite:
    """``tensor_tensor`` with a (P, 1) operand is ``tensor_scalar``."""
    given = case.arguments
    only_if(case.function == "tensor_tensor", {"dst", "data1", "data2", "op"} <= set(given))
    dst = case.known("dst")
    facts = {name: case.fact(name) for name in ("data1", "data2")}
    narrow = [n for n, f in facts.items() if f is not None and f.shape[1:] == (1,)]
    only_if(len(narrow) == 1, dst.shape[1:] != (1,))
    column, whole = narrow[0], "data2" if narrow[0] == "data1" else "data1"
    only_if(required(facts[whole]).shape == dst.shape)
    names = {"dst": "dst", "data": whole, "op0": "op", "operand0": column}
    parts = {name: case.text(old) for name, old in names.items()}
    parts |= {"reverse0": "True"} if column == "data1" else {}
    parts |= {name: case.text(name) for name in ("engine", "name") if name in given}
    return case.rewrite(case.with_call(case.isa("tensor_scalar", **parts)))


@fixes("S005", "S006")
def _row(case: Case) -> Rewrite:
    """A (1, F) operand is repeated over the partitions first."""
    dst = case.known("dst")
    only_if(case.function in INSTRUCTIONS)
    for name in case.arguments:
        fact, known = case.fact(name), INSTRUCTIONS[case.function].operands.get(name)
        if fact is None or known is None or name == "dst" or fact.shape == dst.shape:
            continue
        fits = len(fact.shape) == len(dst.shape) and fact.shape[0] == 1
        if not fits or not all(a in (1, b) for a, b in zip(fact.shape, dst.shape, strict=True)):
            continue
        if known.column and fact.shape != (1, 1):
            continue
        wide = case.fresh(f"{case.name(name) or name}_rows")
        shape = f"({dst.shape[0]}, 1)" if known.column else case.shape("dst")
        repeated = f"{wide} = {case.nl}.broadcast_to({case.text(name)}, {shape})"
        return case.rewrite(repeated, case.with_arguments(**{name: wide}))
    raise NoFixError


@fixes("S058")
def _unequal_copy(case: Case) -> Rewrite:
    """Both sides of a transfer get the extents of the smaller one."""
    only_if({"dst", "src"} <= set(case.arguments), case.function in INSTRUCTIONS)
    dst, src = case.known("dst"), case.known("src")
    only_if(len(dst.shape) == len(src.shape))
    pairs = list(zip(dst.shape, src.shape, strict=True))
    large, small, extents = "dst", "src", src.shape
    if any(d < s for d, s in pairs):
        large, small, extents = "src", "dst", dst.shape
    mixed = large == "src" and any(d > s for d, s in pairs)
    only_if(not mixed, case.name(large))
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
def _past_the_end(case: Case) -> Rewrite:
    """A slice past the end, and equal slices of the statement, are clipped to the tensor.

    Only if something is left of each, and no instruction has operands of several sizes.
    """
    data = case.finding.data
    only_if("start" in data and 0 <= data["start"] < data["extent"])
    only_if(not case.function or case.function in COLUMNWISE)
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
    only_if(ends, not any(_is_emptied(node, ends) for node in ast.walk(case.statement)))

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
