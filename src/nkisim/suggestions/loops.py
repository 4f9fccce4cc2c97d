"""Fixes of loops and blocks: order, lost tails, sums without initial value, wide products."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from nkisim.diagnostics import Rewrite
from nkisim.source import expression, extent_of, indices
from nkisim.suggestions.staging import written_part
from nkisim.suggestions.statement import Case, fixes

_NEUTRAL = {"add": "0.0", "multiply": "1.0"}
"""Values that an operation leaves as they are."""

_UNROLLED = ("affine_range", "range", "sequential_range", "static_range")
"""Loops whose index is a number."""

_MAKES_TILES = {"ndarray", "zeros", "ones", "full", "zeros_like", "empty_like", "arange", "iota"}
"""Functions whose result has a shape of its own."""


@fixes("R003")
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


@fixes("S030")
def _by_columns(case: Case) -> Rewrite | None:
    """A product with too many columns is computed for some of them at a time."""
    dst, moving = case.fact("dst"), case.fact("moving")
    known = {"dst", "stationary", "moving", "accumulate"}
    if dst is None or moving is None or not case.is_bare or set(case.arguments) - known:
        return None
    if not case.name("dst") or not case.name("moving"):
        return None
    if len(dst.shape) != 2 or len(moving.shape) != 2 or dst.shape[1] != moving.shape[1]:
        return None
    first, last, step = case.fresh("c"), case.fresh("c1"), f"{case.nl}.tile_size.gemm_moving_fmax"
    extent = f"{case.text('moving')}.shape[1]"
    given = {name: case.text(name) for name in case.arguments}
    given |= {name: f"{given[name]}[:, {first}:{last}]" for name in ("dst", "moving")}
    return case.rewrite(
        f"for {first} in range(0, {extent}, {step}):",
        f"    {last} = min({first} + {step}, {extent})",
        f"    {case.with_given(**given)}",
    )


# -- what nothing has written ----------------------------------------------------------------------


@fixes("M001", "M002")
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
    maker = _maker(case, tile)
    if maker is None:
        return None
    around = [loop for loop in case.loops() if maker.lineno < loop.lineno]
    # A sum that the loop uses elsewhere may begin in each iteration.
    alone = around and _uses(case, tile, around[0]) == _uses(case, tile, case.statement)
    return _filled(case, tile, value) if (alone if around else maker in case.block) else None


def _accumulator(case: Case) -> str | None:
    """Return the name of the tile that an addition or a product accumulates in."""
    parameters = {"tensor_tensor": ("data1", "data2"), "scalar_tensor_tensor": ("operand1",)}
    dst, operand = case.name("dst"), case.finding.operand
    named = [name for name in case.arguments if dst and case.name(name) == dst]
    taken = operand in parameters.get(case.function, ()) and operand in named
    return dst if taken and len(named) == 2 else None


def _last_operator(case: Case) -> str:
    op = case.arguments.get("op1" if case.function == "scalar_tensor_tensor" else "op")
    return "" if op is None else case.path(op).removeprefix("nki.language.")


def _maker(case: Case, name: str) -> ast.Assign | None:
    """Return the statement that assigns the tile's variable; None unless there is exactly one."""
    makers = [s for s in case.all(ast.Assign) if ast.unparse(s.targets[0]) == name]
    return makers[0] if len(makers) == 1 else None


def _filled(case: Case, name: str, value: str) -> Rewrite | None:
    """Fill a tile with a number, of its type, where it is made."""
    maker, fact = _maker(case, name), case.variable(name)
    if maker is None or fact is None:
        return None
    if "int" in fact.dtype:
        value = value.removesuffix(".0")
    filled = case.isa("memset", dst=name, value=value)
    return case.at(maker).rewrite(ast.unparse(maker), filled)


@fixes("M037")
def _skipped(case: Case) -> Rewrite | None:
    """A tile of which a transfer skips rows, and that nothing else has written, holds zeros."""
    dst, before = case.name("dst"), case.block[: case.block.index(case.statement)]
    if not dst or _maker(case, dst) not in before or _uses(case, dst, before) > 1:
        return None
    return _filled(case, dst, "0.0")


def _uses(case: Case, name: str, outer: ast.AST | list[ast.stmt]) -> int:
    return sum(node.id == name for node in case.tree.within(outer, ast.Name))


# -- tails -----------------------------------------------------------------------------------------


@fixes("M006")
def _tail(case: Case) -> Rewrite | None:
    """A loop over whole blocks of an output gets an iteration for the rest.

    Only if the extent is known to be that of the output, and every statement of the loop works on
    blocks of tensors and on what it loads from them.
    """
    found = [blocks for loop in case.all(ast.For) if (blocks := _Blocks.of(case, loop))]
    writes = [(blocks, axes) for blocks in found if (axes := blocks.axes(case.target))]
    if len(writes) != 1:
        return None
    blocks, (axis, *others) = writes[0]
    spans = case.finding.data["unwritten_box"]
    if others or axis >= len(spans) or not blocks.covers_body(case):
        return None
    start, stop = spans[axis]
    whole = start == stop // blocks.size * blocks.size
    if not whole or not _is_extent(case, blocks.extent, axis, stop):
        return None
    return case.at(blocks.loop).rewrite(ast.unparse(blocks.clipped()))


def _is_extent(case: Case, extent: ast.expr, axis: int, stop: int) -> bool:
    """Return whether an expression is the extent of the tensor that the statement makes."""
    if isinstance(extent, ast.Constant):
        return extent.value == stop
    return extent_of(case.arguments.get("shape"), axis) == ast.unparse(extent)


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
        new.iter.args = [expression(count)]
        for cut in _Blocks(new, self.index, self.extent, size)._cut():
            for part in filter(self._is_block, indices(cut)):
                assert isinstance(part, ast.Slice)
                assert part.upper is not None
                text = f"min({ast.unparse(part.upper)}, {extent})"
                part.upper = expression(text)
        return new
