"""Fixes by a new tile: an operand at another address, of another type, or in another memory."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from nkisim.diagnostics import Fact, Rewrite
from nkisim.source import Statement, base_name, expression
from nkisim.spec import INSTRUCTIONS
from nkisim.suggestions.statement import Case, NoFixError, expect, fixes, only_if, required

PARTITIONS = 128


def new_tile(
    case: Case, operand: str, suffix: str, fact: Fact, dtype: str = "", buffer: str = "sbuf"
) -> tuple[str, str]:
    """Return the name of a new tile for an operand, and the line that makes it."""
    node = case.arguments[operand]
    base = base_name(node)
    name = case.fresh(f"{operand if base is None else base.id}_{suffix}")
    dtype = f"{case.nl}.{dtype or fact.dtype}"
    return name, case.tile(name, shape=case.shape(operand), dtype=dtype, buffer=buffer)


def _staged(case: Case, operand: str, suffix: str, move: str, *, dtype: str = "") -> Rewrite:
    """Copy an operand to a tile of its own before the call, or back from one behind it."""
    fact = case.known(operand)
    only_if(case.is_bare, operand in case.arguments, fact.shape[0] <= PARTITIONS)
    known = required(INSTRUCTIONS[case.function].operands.get(operand))
    writes, text = known.writes, case.text(operand)
    buffer = "psum" if writes and fact.buffer == "psum" else "sbuf"
    tile, made = new_tile(case, operand, suffix, fact, dtype, buffer)
    if writes:
        only_if(not known.reads)
        back = case.isa(move, dst=text, src=tile)
        return case.rewrite(made, case.with_arguments(**{operand: tile}), back)
    there = case.isa(move, dst=tile, src=text)
    return case.rewrite(made, there, case.with_arguments(**{operand: tile}))


@fixes("S004", "S071")
def _other_start(case: Case) -> Rewrite:
    """Rows that begin at a partition without a port are moved by DMA."""
    only_if(case.known(case.finding.operand).buffer == "sbuf")
    # Either operand of a product may have the wrong rows.
    only_if(case.rule != "S071" or case.function != "nc_matmul")
    return _staged(case, case.finding.operand, "rows", "dma_copy")


@fixes("D002", "D036")
def _float32(case: Case) -> Rewrite:
    """An operand is converted to float32 first."""
    return _staged(case, case.finding.operand, "f32", "tensor_copy", dtype="float32")


@fixes("D004", "D007", "D032")
def _accepted(case: Case) -> Rewrite:
    """An operand is converted to, or its result from, the first dtype that is accepted."""
    accepted = required(case.finding.data.get("dtypes"))
    only_if(accepted and re.fullmatch(r"(float|bfloat|int|uint)\d+", accepted[0]))
    return _staged(case, case.finding.operand, "converted", "tensor_copy", dtype=accepted[0])


@fixes("M030")
def _apart(case: Case) -> Rewrite:
    """A result that overlaps an operand is written to a tile of its own first.

    Only if both are parts of one tensor: of two at one address, the address is wrong (M013).
    """
    only_if(not case.finding.data["by_address"])
    move = "dma_copy" if case.function == "dma_copy" else "tensor_copy"
    return _staged(case, "dst", "new", move)


@fixes("D003")
def _one_width(case: Case) -> Rewrite:
    """Of two operands of a matmul, the narrow one is converted to float32."""
    for operand in ("stationary", "moving"):
        fact = case.fact(operand)
        if fact is not None and fact.dtype != "float32" and "x4" not in fact.dtype:
            return _staged(case, operand, "f32", "tensor_copy", dtype="float32")
    raise NoFixError


@fixes("M019", "M023")
def _to_sbuf(case: Case) -> Rewrite:
    """An operand in PSUM is copied to SBUF first."""
    facts = {operand: case.fact(operand) for operand in (case.finding.operand, "data2")}
    in_psum = [name for name, fact in facts.items() if fact is not None and fact.buffer == "psum"]
    only_if(in_psum)
    return _staged(case, in_psum[0], "sbuf", "tensor_copy")


def divided(case: Case) -> Rewrite:
    """A quotient is a product with a reciprocal."""
    operand, op = ("data2", "op") if case.function == "tensor_tensor" else ("operand0", "op0")
    only_if(case.is_bare, case.function in ("tensor_tensor", "tensor_scalar"))
    only_if(not {"reverse0", "op1"} & set(case.arguments))
    product = {op: f"{case.nl}.multiply"}
    if isinstance(case.arguments.get(operand), ast.Constant):
        product[operand] = f"1.0 / {case.text(operand)}"
        return case.rewrite(case.with_arguments(**product))
    tile, made = new_tile(case, operand, "inverse", case.known(operand), "float32")
    inverse = case.isa("reciprocal", dst=tile, data=case.text(operand))
    return case.rewrite(made, inverse, case.with_arguments(**product, **{operand: tile}))


@fixes("D023")
def _bias(case: Case) -> Rewrite:
    """A number becomes a column; what the engine does not add is added by ``tensor_scalar``."""
    fact = case.known("data")
    only_if(case.is_bare, {"op", "bias"} <= case.arguments.keys())
    op = case.path(case.arguments["op"]).rpartition(".")[2]
    dst, data, bias = (case.text(name) for name in ("dst", "data", "bias"))
    added = {"data": data, "op0": f"{case.nl}.add", "operand0": bias}
    column = case.fact("bias")
    if op == "copy" and len(case.arguments) == 4:
        return case.rewrite(case.isa("tensor_scalar", dst=dst, **added))
    if column is None:
        tile = case.fresh("bias")
        column_of = f"({fact.shape[0]}, 1), {bias}, dtype={case.nl}.float32, buffer={case.nl}.sbuf"
        made = f"{tile} = {case.nl}.full({column_of})"
        return case.rewrite(made, case.with_arguments(bias=tile))
    if column.dtype == "tfloat32":
        return _float32(case)
    only_if(op == "reciprocal", len(case.arguments) == 4)
    tile, made = new_tile(case, "data", "biased", fact, "float32")
    rest = case.isa(case.function, dst=dst, op=case.text("op"), data=tile)
    return case.rewrite(made, case.isa("tensor_scalar", dst=tile, **added), rest)


@fixes("S067", "S068")
def _filled_part(case: Case) -> Rewrite:
    """Operands are sliced as the loads that fill them are."""
    changed = _filled(case)
    only_if(changed, case.is_bare)
    return case.rewrite(case.with_arguments(**changed))


def _filled(case: Case) -> dict[str, str]:
    """Return the operands that one earlier load of the block fills in part, with that part."""
    slices: dict[str, str] = {}
    for target in _written(case, case.block[: case.block.index(case.statement)]):
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            name = target.value.id
            if slices.setdefault(name, ast.unparse(target)) != ast.unparse(target):
                return {}  # two loads fill it in parts
    named = {operand: case.name(operand) for operand in case.arguments}
    return {operand: slices[name] for operand, name in named.items() if name in slices}


def _written(case: Case, statements: Iterable[ast.stmt]) -> list[ast.expr]:
    """Return the operands that statements write, of those that are calls."""
    calls = [Statement(case.source, s) for s in statements if isinstance(s, ast.Expr)]
    return [call.arguments["dst"] for call in calls if "dst" in call.arguments]


def written_part(case: Case) -> Rewrite:
    """Return the fix that reads only the part of a tile that was written.

    Only if nothing else writes the tile before, and if the same slice of every operand was written.
    The result of a reduction is exempt: its shape differs.
    """
    changed, known = _filled(case), required(INSTRUCTIONS.get(case.function))
    tile = case.name(case.finding.operand)
    only_if(case.finding.operand in changed)
    before = [s for s in case.all(ast.Expr) if s.lineno < case.statement.lineno]
    targets = _written(case, before)
    texts = {ast.unparse(t) for t in targets if (b := base_name(t)) and b.id == tile}
    only_if(texts == {changed[case.finding.operand]})
    rest = {
        name
        for name, node in case.arguments.items()
        if name in known.operands and name not in changed and not isinstance(node, ast.Constant)
    }
    parts = {text.partition("[")[2] for text in changed.values()}
    reduces = case.function == "tensor_reduce" and rest == {"dst"}
    only_if(len(parts) == 1, not rest or reduces)
    return _filled_part(case)


@fixes("S018")
def _reshape(case: Case) -> Rewrite:
    """A reshape that moves data across partitions goes through HBM."""
    call, new = expect(ast.Call, case.value), case.target
    method = expect(ast.Attribute, call.func)
    tile = expect(ast.Name, method.value)
    only_if(new, method.attr == "reshape", call.args)
    scratch, to = case.fresh(f"{tile.id}_hbm"), ast.unparse(call.args[0])
    return case.rewrite(
        case.tile(scratch, tile.id, buffer="hbm"),
        case.isa("dma_copy", dst=scratch, src=tile.id),
        case.tile(new, tile.id, shape=to),
        case.isa("dma_copy", dst=new, src=f"{scratch}.reshape({to})"),
    )


@fixes("M021")
def _through_sbuf(case: Case) -> Rewrite:
    """Operands in HBM are loaded before the instruction, and results stored behind it."""
    only_if(case.is_bare)
    before, after = list[str](), list[str]()
    named, staged = dict[str, str](), dict[str, str]()
    for name, known in INSTRUCTIONS[case.function].operands.items():
        fact, text = case.fact(name), case.text(name)
        if fact is None or "hbm" not in fact.buffer:
            continue
        only_if(len(fact.shape) == 2 and fact.shape[0] <= PARTITIONS)
        if text not in staged:
            staged[text], made = new_tile(case, name, "tile", fact)
            before.append(made)
        tile = named[name] = staged[text]
        if known.writes:
            after.append(case.isa("dma_copy", dst=text, src=tile))
        else:
            before.append(case.isa("dma_copy", dst=tile, src=text))
    only_if(staged)
    return case.rewrite(*before, case.with_arguments(**named), *after)


@fixes("M020")
def _through_psum(case: Case) -> Rewrite:
    """A matmul writes PSUM; its result is copied to where it is wanted."""
    fact = case.known("dst")
    only_if(fact.buffer == "sbuf", case.is_bare, "dst" in case.arguments)
    only_if(case.function in ("nc_matmul", "nc_transpose"))
    dtype = "float32" if case.function == "nc_matmul" else fact.dtype
    tile, made = new_tile(case, "dst", "psum", fact, dtype, "psum")
    back = case.isa("tensor_copy", dst=case.text("dst"), src=tile)
    return case.rewrite(made, case.with_arguments(dst=tile), back)


@fixes("A001", "M025")
def _out_of_psum(case: Case) -> Rewrite:
    """A PSUM tile is copied to SBUF before it is stored."""
    name = case.name("value") or case.name("src")
    only_if(case.variable(name) is not None)
    tile = case.fresh(f"{name}_sbuf")
    copy = case.isa("tensor_copy", dst=tile, src=name)
    return case.rewrite(case.tile(tile, name), copy, case.with_name(name, tile))


@fixes("M049")
def _loaded(case: Case) -> Rewrite:
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


@fixes("L060")
def _returned(case: Case) -> Rewrite:
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
    only_if(len(found) == 1)
    return _stored(*found[0])


def _values(statement: ast.Return) -> list[ast.expr]:
    if isinstance(statement.value, ast.Tuple):
        return statement.value.elts
    return [] if statement.value is None else [statement.value]


def _stored(case: Case, value: ast.expr) -> Rewrite:
    """A tile, or a part of a tensor, is copied to a new tensor in HBM, which is returned."""
    name, buffer = ast.unparse(value).partition("[")[0], case.finding.data.get("buffer")
    lines, source, wish = list[str](), name, "out"
    if buffer == "psum":
        source = case.fresh(f"{name}_sbuf")
        lines = [case.tile(source, name), case.isa("tensor_copy", dst=source, src=name)]
    elif buffer != "sbuf":
        name, wish = case.fresh(f"{name}_part"), f"{name}_copy"
        source, lines = name, [f"{name} = {ast.unparse(value)}"]
    out = case.fresh(wish)
    return case.rewrite(
        *lines,
        case.tile(out, name, buffer="shared_hbm"),
        case.isa("dma_copy", dst=out, src=source),
        case.with_expression(value, out),
    )


def _output(case: Case, function: ast.FunctionDef) -> Rewrite:
    """The only output that a function makes is returned at its end."""
    tree = case.tree
    others = (ast.Return, ast.Yield, ast.FunctionDef)
    only_if(not any(tree.within(function.body, kind) for kind in others))
    made = [
        node
        for node in tree.within(function.body, ast.Assign)
        if isinstance(node.value, ast.Call)
        and any(case.path(k.value) == "nki.language.shared_hbm" for k in node.value.keywords)
    ]
    name = case.at(made[0]).target if len(made) == 1 and made[0] in function.body else ""
    last = function.body[-1]
    only_if(len(tree.body(function).assignments[name]) == 1, tree.begins_line(last))
    first, end = last.lineno, last.end_lineno or last.lineno
    code = [*tree.text.splitlines()[first - 1 : end], f"{tree.indent(last)}return {name}"]
    return Rewrite(case.finding.file, first, end, "\n".join(code))
