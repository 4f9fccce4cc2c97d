"""Fixes of loops and blocks: order, lost tails, sums without initial value, wide products."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import dataclass

from nkisim.diagnostics import Rewrite
from nkisim.source import indices
from nkisim.suggestions.staging import written_part
from nkisim.suggestions.statement import Case

_NEUTRAL = {"add": "0.0", "multiply": "1.0"}
"""Values that an operation leaves as they are."""

_UNROLLED = ("affine_range", "range", "sequential_range", "static_range")
"""Loops whose index is a number."""

_MAKES_TILES = {"ndarray", "zeros", "ones", "full", "zeros_like", "empty_like", "arange", "iota"}
"""Functions whose result has a shape of its own."""


def _in_order(case: Case) -> Rewrite | None:
    """A loop whose iterations depend on each other is sequential.

    Only if one loop around the statement is unordered: of several, any could be meant.
    """
    unordered = [
        loop
        for loop in case.loops()
        if isinstance(loop.iter, ast.Call)
        and case.path(loop.iter.func) == "nki.language.affine_range"
    ]
    if len(unordered) != 1:
        return None
    (loop,) = unordered
    source = ast.unparse(loop.iter).replace("affine_range", "sequential_range", 1)
    return case.head(loop, ast.unparse(loop.target), source)


# -- products --------------------------------------------------------------------------------------


def _by_columns(case: Case) -> Rewrite | None:
    """A product with too many columns is computed for some of them at a time."""
    dst, moving = case.fact("dst"), case.fact("moving")
    operands = {name: case.arguments.get(name) for name in ("dst", "moving")}
    known = {"dst", "stationary", "moving", "accumulate"}
    if dst is None or moving is None or case.call is None or set(case.arguments) - known:
        return None
    if not all(isinstance(node, ast.Name) for node in operands.values()):
        return None
    if len(dst.shape) != 2 or len(moving.shape) != 2 or dst.shape[1] != moving.shape[1]:
        return None
    if not isinstance(case.statement, ast.Expr) or case.statement.value is not case.call:
        return None
    first, last, step = case.fresh("c"), case.fresh("c1"), f"{case.nl}.tile_size.gemm_moving_fmax"
    extent = f"{case.text('moving')}.shape[1]"
    given = {name: case.text(name) for name in case.arguments}
    given |= {name: f"{given[name]}[:, {first}:{last}]" for name in operands}
    call = ", ".join(f"{name}={text}" for name, text in given.items())
    return case.rewrite(
        f"for {first} in range(0, {extent}, {step}):",
        f"    {last} = min({first} + {step}, {extent})",
        f"    {ast.unparse(case.call.func)}({call})",
    )


# -- what nothing has written ----------------------------------------------------------------------


def _unwritten(case: Case) -> Rewrite | None:
    """A sum begins with zeros, a product with ones; of a partly filled tile that part is read."""
    return _beginning(case) or written_part(case)


def _beginning(case: Case) -> Rewrite | None:
    """A tile that is added to, and that nothing has written, is filled where it is made.

    That is in front of the loop that adds to it, or in the same block.
    """
    tile, value = _accumulator(case), _NEUTRAL.get(_last_operator(case))
    data = case.finding.data
    if tile is None or value is None or data["unwritten"] < data["elements"]:
        return None
    block, maker = _maker(case, tile)
    if maker is None:
        return None
    around = [loop for loop in case.loops() if maker.lineno < loop.lineno]
    if _is_used_besides(case, around[0], tile) if around else block is not case.block:
        return None
    return _filled(case, tile, value)


def _accumulator(case: Case) -> str | None:
    """Return the name of the tile that an addition or a product accumulates in."""
    parameters = {"tensor_tensor": ("data1", "data2"), "scalar_tensor_tensor": ("operand1",)}
    operand = case.finding.operand
    dst, tile = case.arguments.get("dst"), case.arguments.get(operand)
    if operand not in parameters.get(case.function, ()):
        return None
    if not isinstance(dst, ast.Name) or not isinstance(tile, ast.Name) or dst.id != tile.id:
        return None
    named = [n for n in case.arguments.values() if isinstance(n, ast.Name) and n.id == dst.id]
    return dst.id if len(named) == 2 else None


def _last_operator(case: Case) -> str:
    op = case.arguments.get("op1" if case.function == "scalar_tensor_tensor" else "op")
    return "" if op is None else case.path(op).removeprefix("nki.language.")


def _maker(case: Case, name: str) -> tuple[list[ast.stmt], ast.Assign | None]:
    """Return the statement that makes a tile, and its block; None if there is not just one."""
    makers = [
        (block, statement)
        for block in case.blocks()
        for statement in block
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name
    ]
    return makers[0] if len(makers) == 1 else ([], None)


def _filled(case: Case, name: str, value: str) -> Rewrite | None:
    """Fill a tile with a number, of its type, where it is made."""
    _, maker = _maker(case, name)
    fact = case.variable(name)
    if maker is None or fact is None:
        return None
    if "int" in fact.dtype:
        value = value.removesuffix(".0")
    there = Case(case.finding, case.source, maker)
    return there.rewrite(ast.unparse(maker), f"{case.nisa}.memset(dst={name}, value={value})")


def _skipped(case: Case) -> Rewrite | None:
    """A tile of which a transfer skips rows, and that nothing else has written, holds zeros."""
    dst = case.arguments.get("dst")
    if not isinstance(dst, ast.Name) or _maker(case, dst.id)[0] is not case.block:
        return None
    before = case.block[: case.block.index(case.statement)]
    uses = [n for s in before for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == dst.id]
    return _filled(case, dst.id, "0.0") if len(uses) == 1 else None


def _is_used_besides(case: Case, loop: ast.For, name: str) -> bool:
    """Return whether a loop uses a tile elsewhere: the sum may then begin in each iteration."""
    own = {id(node) for node in ast.walk(case.statement)}
    nodes = (node for node in ast.walk(loop) if isinstance(node, ast.Name))
    return any(node.id == name and id(node) not in own for node in nodes)


# -- tails -----------------------------------------------------------------------------------------


def _tail(case: Case) -> Rewrite | None:
    """A loop over whole blocks of an output gets an iteration for the rest.

    Only if the extent is known to be that of the output, and every statement of the loop works on
    blocks of tensors and on what it loads from them.
    """
    statement = case.statement
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return None
    found = [
        (loop, blocks)
        for block in case.blocks()
        for loop in block
        if isinstance(loop, ast.For) and (blocks := _Blocks.of(case, loop)) is not None
    ]
    name = statement.targets[0].id
    writes = [entry for entry in found if entry[1].axes(name)]
    if len(writes) != 1:
        return None
    loop, blocks = writes[0]
    spans = case.finding.data["unwritten_box"]
    axis = min(blocks.axes(name))
    if len(blocks.axes(name)) != 1 or axis >= len(spans) or not blocks.covers_body(case):
        return None
    start, stop = spans[axis]
    if start != stop // blocks.size * blocks.size or not _is_extent(
        case, blocks.extent, axis, stop
    ):
        return None
    there = Case(case.finding, case.source, loop)
    return there.rewrite(ast.unparse(blocks.clipped()))


def _is_extent(case: Case, extent: ast.expr, axis: int, stop: int) -> bool:
    """Return whether an expression is the extent of the tensor that the statement makes."""
    if isinstance(extent, ast.Constant):
        return extent.value == stop
    shape = case.arguments.get("shape")
    if isinstance(shape, ast.Tuple) and len(shape.elts) > axis:
        return ast.unparse(shape.elts[axis]) == ast.unparse(extent)
    return shape is not None and f"{ast.unparse(shape)}[{axis}]" == ast.unparse(extent)


@dataclass(frozen=True)
class _Blocks:
    """A loop over the whole blocks of an extent: ``for i in range(extent // size)``.

    Attributes:
        loop: The loop.
        index: Name of its variable.
        extent: The extent.
        size: The size of a block.
    """

    loop: ast.For
    index: str
    extent: ast.expr
    size: int

    @classmethod
    def of(cls, case: Case, loop: ast.For) -> _Blocks | None:
        """Return a loop as one over blocks, None if it is another one."""
        call = loop.iter
        if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
            return None
        count = call.args[0]
        if not isinstance(loop.target, ast.Name) or not isinstance(count, ast.BinOp):
            return None
        if not isinstance(count.op, ast.FloorDiv) or not isinstance(count.right, ast.Constant):
            return None
        size = count.right.value
        if case.path(call.func).rpartition(".")[2] not in _UNROLLED or type(size) is not int:
            return None
        return cls(loop, loop.target.id, count.left, size)

    def axes(self, name: str) -> set[int]:
        """Return the dimensions in which the loop goes through a tensor by blocks."""
        return {
            axis
            for node in self._cut()
            if isinstance(node.value, ast.Name) and node.value.id == name
            for axis, part in enumerate(indices(node))
            if self._is_block(part)
        }

    def _cut(self) -> list[ast.Subscript]:
        nodes = [node for statement in self.loop.body for node in ast.walk(statement)]
        return [
            node
            for node in nodes
            if isinstance(node, ast.Subscript) and any(map(self._is_block, indices(node)))
        ]

    def _is_block(self, part: ast.expr) -> bool:
        if not isinstance(part, ast.Slice) or part.lower is None or part.upper is None:
            return False
        i, size = self.index, self.size
        lower, upper = ast.unparse(part.lower), ast.unparse(part.upper)
        starts = {f"{i} * {size}", f"{size} * {i}"}
        stops = {f"({i} + 1) * {size}", *(f"{start} + {size}" for start in starts)}
        return part.step is None and lower in starts and upper in stops

    def covers_body(self, case: Case) -> bool:
        """Return whether the body uses blocks and values made of them only."""
        allowed = {id(n) for cut in self._cut() for n in ast.walk(cut)}
        known = {case.nl, case.nisa}
        for statement in self.loop.body:
            value = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
            if not isinstance(value, ast.Call):
                return False
            if case.path(value.func).rpartition(".")[2] in _MAKES_TILES:
                return False
            for node in ast.walk(value):
                if isinstance(node, ast.Name) and id(node) not in allowed and node.id not in known:
                    return False
            if isinstance(statement, ast.Assign):
                known |= {ast.unparse(target) for target in statement.targets}
        return not self.loop.orelse

    def clipped(self) -> ast.For:
        """Return the loop with an iteration for the rest, and blocks that end with the extent."""
        new = copy.deepcopy(self.loop)
        extent, size = ast.unparse(self.extent), self.size
        assert isinstance(new.iter, ast.Call)
        count = f"({extent} + {size - 1}) // {size}"
        new.iter.args = [ast.parse(count, mode="eval").body]
        for cut in _Blocks(new, self.index, self.extent, size)._cut():
            for part in filter(self._is_block, indices(cut)):
                assert isinstance(part, ast.Slice)
                assert part.upper is not None
                text = f"min({ast.unparse(part.upper)}, {extent})"
                part.upper = ast.parse(text, mode="eval").body
        return new


LOOP_FIXES: dict[str, Callable[[Case], Rewrite | None]] = {
    "M001": _unwritten,
    "M006": _tail,
    "M037": _skipped,
    "R003": _in_order,
    "S030": _by_columns,
}
