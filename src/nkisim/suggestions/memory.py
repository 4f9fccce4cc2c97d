"""Fixes of tiles with an illegal shape, or in a memory that the instruction cannot access."""

from __future__ import annotations

import ast
from collections.abc import Callable

from nkisim.diagnostics import Rewrite
from nkisim.spec import INSTRUCTIONS
from nkisim.suggestions.statement import Case, Simple

__all__ = ["MEMORY_MENDS"]

_PARTITIONS = 128


def _rank(case: Case) -> Rewrite | None:
    """A tile of one dimension has its elements on the partitions, if there are enough."""
    shape = case.arguments.get("shape")
    call = case.call
    if call is None or not isinstance(shape, ast.Tuple) or len(shape.elts) != 1:
        return None
    extent = ast.unparse(shape.elts[0])
    few = isinstance(shape.elts[0], ast.Constant) and int(shape.elts[0].value) <= _PARTITIONS  # type: ignore[arg-type]
    new = f"({extent}, 1)" if few else f"(1, {extent})"
    text = ast.unparse(call).replace(ast.unparse(shape), new, 1)
    return case.rewrite(case.with_call(text))


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
            if text:
                named[name] = text
            continue
        if len(fact.shape) != 2 or fact.shape[0] > _PARTITIONS:
            return None
        tile = staged.get(text)
        node = case.arguments[name]
        if tile is None:
            tile = staged[text] = case.fresh(
                f"{node.id}_tile" if isinstance(node, ast.Name) else f"{name}_tile"
            )
            shape = f"{text}.shape" if isinstance(node, ast.Name) else str(fact.shape)
            before.append(
                f"{tile} = {case.nl}.ndarray({shape}, dtype={case.nl}.{fact.dtype}, "
                f"buffer={case.nl}.sbuf)"
            )
        if known.operands[name].writes:
            after.append(f"{case.nisa}.dma_copy(dst={text}, src={tile})")
        else:
            before.append(f"{case.nisa}.dma_copy(dst={tile}, src={text})")
        named[name] = tile
    if not staged:
        return None
    rest = {name: case.text(name) for name in case.arguments if name not in named}
    order = [n for n in known.parameters if n in named or n in rest]
    call = ", ".join(f"{n}={named.get(n) or rest[n]}" for n in order)
    return case.rewrite(*before, f"{case.nisa}.{case.function}({call})", *after)


def _through_psum(case: Case) -> Rewrite | None:
    """A matmul writes PSUM; its result is copied to where it is wanted."""
    fact, node = case.fact("dst"), case.arguments.get("dst")
    if fact is None or fact.buffer != "sbuf" or not isinstance(case.statement, ast.Expr):
        return None
    if case.function not in ("nc_matmul", "nc_transpose") or node is None:
        return None
    text = ast.unparse(node)
    tile = case.fresh(f"{node.id}_psum" if isinstance(node, ast.Name) else "dst_psum")
    shape = f"{text}.shape" if isinstance(node, ast.Name) else str(fact.shape)
    dtype = "float32" if case.function == "nc_matmul" else fact.dtype
    rest = [f"{n}={case.text(n)}" for n in case.arguments if n != "dst"]
    return case.rewrite(
        f"{tile} = {case.nl}.ndarray({shape}, dtype={case.nl}.{dtype}, buffer={case.nl}.psum)",
        f"{case.nisa}.{case.function}(dst={tile}, {', '.join(rest)})",
        f"{case.nisa}.tensor_copy(dst={text}, src={tile})",
    )


def _out_of_psum(case: Case) -> Rewrite | None:
    """A PSUM tile is copied to SBUF before it is stored."""
    node = case.arguments.get("value") or case.arguments.get("src")
    if not isinstance(node, ast.Name) or case.variable(node.id) is None:
        return None
    nl, tile = case.nl, case.fresh(f"{node.id}_sbuf")
    new = ast.parse(tile, mode="eval").body
    return case.rewrite(
        f"{tile} = {nl}.ndarray({node.id}.shape, dtype={node.id}.dtype, buffer={nl}.sbuf)",
        f"{case.nisa}.tensor_copy(dst={tile}, src={node.id})",
        case.replaced(lambda n: new if isinstance(n, ast.Name) and n.id == node.id else None),
    )


# -- more rows than partitions ---------------------------------------------------------------------


def _tiled(case: Case) -> Rewrite | None:
    """Work on all rows becomes a loop over 128 rows at a time.

    Only for a run of plain statements that treats every row alike: the tiles made in it have the
    same rows, and tensors in HBM with so many rows are used whole.
    """
    rows = _rows(case)
    start = case.block.index(case.statement)
    if rows is None:
        return None
    text, count = rows
    hoisted: list[str] = []
    body: list[ast.stmt] = []
    tiles: set[str] = set()
    end = start
    for at in range(start, len(case.block)):
        statement = case.block[at]
        if not isinstance(statement, Simple) or isinstance(statement, ast.Return):
            break
        made = _made_in(statement, case.nl)
        if made == "hbm":
            hoisted.append(ast.unparse(statement))
            continue
        if made == "chip" and isinstance(statement, ast.Assign):
            target = statement.targets[0]
            if not isinstance(target, ast.Name):
                return None
            tiles.add(target.id)
        used = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
        if made != "chip" and not used & tiles:
            break
        body.append(statement)
        end = at
    later = [n.id for s in case.block[end + 1 :] for n in ast.walk(s) if isinstance(n, ast.Name)]
    if not body or tiles & set(later):
        return None
    first, last = case.fresh("r"), case.fresh("r1")
    lines = [_sliced(s, case, tiles, text, count, first, last) for s in body]
    return case.rewrite(
        *hoisted,
        f"for {first} in range(0, {text}, {_PARTITIONS}):",
        f"    {last} = min({first} + {_PARTITIONS}, {text})",
        *(f"    {line}" for new in lines for line in new.splitlines()),
        upto=case.block[end],
    )


def _rows(case: Case) -> tuple[str, int] | None:
    """Return the number of rows, as it is written and as it is."""
    count = int(case.finding.seen) if case.finding.seen.isdigit() else 0
    shape = case.arguments.get("shape")
    if isinstance(shape, ast.Attribute) and shape.attr == "shape":
        return f"{ast.unparse(shape)}[0]", count
    if isinstance(shape, ast.Tuple) and shape.elts:
        return ast.unparse(shape.elts[0]), count
    src = case.arguments.get("src")
    if isinstance(src, ast.Name):
        return f"{src.id}.shape[0]", count
    return None


def _made_in(statement: ast.stmt, nl: str) -> str:
    """Return the kind of memory, HBM or on chip, of the tensor that a statement makes, if any."""
    call = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ""
    if ast.unparse(call.func.value) != nl:
        return ""
    text = ast.unparse(call)
    return "hbm" if "hbm" in text and call.func.attr in ("ndarray", "zeros") else "chip"


def _sliced(
    statement: ast.stmt,
    case: Case,
    tiles: set[str],
    rows: str,
    count: int,
    first: str,
    last: str,
) -> str:
    """Return a statement for the rows of one step."""

    class Slicer(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
            whole = ast.unparse(node)
            if f"{whole}[0]" == rows:
                fact = case.variable(node.value.id) if isinstance(node.value, ast.Name) else None
                width = len(fact.shape) if fact else 2
                parts = [f"{last} - {first}", *(f"{whole}[{i}]" for i in range(1, width))]
                return ast.parse(f"({', '.join(parts)})", mode="eval").body
            return node  # x.shape and x.dtype are no uses of x's elements

        def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
            self.generic_visit(node)
            if node.elts and ast.unparse(node.elts[0]) == rows:
                node.elts[0] = ast.parse(f"{last} - {first}", mode="eval").body
            return node

        def visit_Name(self, node: ast.Name) -> ast.AST:
            fact = case.variable(node.id)
            if fact is not None and "hbm" in fact.buffer and fact.shape[0] == count:
                return ast.parse(f"{node.id}[{first}:{last}]", mode="eval").body
            return node

        def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
            return node if f"{ast.unparse(node)}" == rows else self.generic_visit(node)

    return ast.unparse(Slicer().visit(ast.parse(ast.unparse(statement)).body[0]))


MEMORY_MENDS: dict[str, Callable[[Case], Rewrite | None]] = {
    "A001": _out_of_psum,
    "M020": _through_psum,
    "M021": _through_sbuf,
    "M025": _out_of_psum,
    "S001": _tiled,
    "S002": _rank,
    "S018": _reshape,
}
