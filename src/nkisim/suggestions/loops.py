"""Fixes of loops and blocks: order, lost tails, sums without initial value, wide products."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from nkisim.diagnostics import Rewrite
from nkisim.source import (
    Statement,
    base_name,
    expression,
    extent_of,
    indices,
    names_in,
    number,
    range_of,
    rewritten,
)
from nkisim.suggestions.staging import written_part
from nkisim.suggestions.statement import Case, expect, fixes, one_of, only_if, required

_NEUTRAL = {"add": "0.0", "multiply": "1.0"}
"""Values that an operation leaves as they are."""

_ACCUMULATING = {
    "tensor_tensor": (("data1", "data2"), "op"),
    "scalar_tensor_tensor": (("operand1",), "op1"),
}
"""By instruction, the operands that can be a sum so far, and the parameter of the operator."""

_MAKES_TILES = {"ndarray", "zeros", "ones", "full", "zeros_like", "empty_like", "arange", "iota"}
"""Functions whose result has a shape of its own."""


@fixes("R003")
def _in_order(case: Case) -> Rewrite:
    """A loop whose iterations depend on each other is sequential.

    Only if one loop around the statement is unordered: of several, any could be meant.
    """
    loop, call = case.loop_over("affine_range")
    source = ast.unparse(call).replace("affine_range", "sequential_range", 1)
    return case.head(loop, ast.unparse(loop.target), source)


# -- what nothing has written ----------------------------------------------------------------------


@fixes("M001", "M002")
def _unwritten(case: Case) -> Rewrite:
    """A sum begins with zeros, a product with ones; of a partly filled tile that part is read."""
    return one_of(case, _beginning, written_part)


def _beginning(case: Case) -> Rewrite:
    """A tile that is added to, and that nothing has written, is filled where it is made.

    That is in front of the loop that adds to it, or in the same block.
    """
    operands, op = required(_ACCUMULATING.get(case.function))
    tile, operand = case.name("dst"), case.finding.operand
    named = [name for name in case.arguments if tile and case.name(name) == tile]
    only_if(operand in operands, operand in named, len(named) == 2)
    path = case.path(required(case.arguments.get(op)))
    value = required(_NEUTRAL.get(path.removeprefix("nki.language.")))
    only_if(case.finding.data["unwritten"] >= case.finding.data["elements"])
    maker = required(case.maker(tile))
    around = [loop for loop in case.loops() if maker.lineno < loop.lineno]
    # A sum that the loop uses elsewhere may begin in each iteration.
    alone = around and _uses(case, tile, around[0]) == _uses(case, tile, case.statement)
    only_if(alone if around else maker in case.block)
    return _filled(case, tile, value)


def _filled(case: Case, name: str, value: str) -> Rewrite:
    """Fill a tile with a number, of its type, where it is made."""
    maker = required(case.maker(name))
    if "int" in required(case.variable(name)).dtype:
        value = value.removesuffix(".0")
    filled = case.isa("memset", dst=name, value=value)
    return case.at(maker).rewrite(ast.unparse(maker), filled)


@fixes("M037")
def _skipped(case: Case) -> Rewrite:
    """A tile of which a transfer skips rows, and that nothing else has written, holds zeros."""
    dst, before = case.name("dst"), case.block[: case.block.index(case.statement)]
    only_if(dst, case.maker(dst) in before, _uses(case, dst, before) < 2)
    return _filled(case, dst, "0.0")


def _uses(case: Case, name: str, outer: ast.AST | list[ast.stmt]) -> int:
    return sum(node.id == name for node in case.tree.within(outer, ast.Name))


# -- sums ------------------------------------------------------------------------------------------


@fixes("M003", "M004", "M043", "W001")
def _first_step_overwrites(case: Case) -> Rewrite:
    """The first step of the loop over the contraction begins the sum, the others add to it."""
    dst = required(case.arguments.get("dst"))
    base = required(base_name(dst))
    only_if(case.rule != "M004" or _is_cleared(case, base.id))
    used, steps = names_in(dst), []
    for loop in case.loops():
        inside = case.tree.within(loop.body, ast.Name)
        makes = any(n.id == base.id and isinstance(n.ctx, ast.Store) for n in inside)
        if isinstance(loop.target, ast.Name) and loop.target.id not in used and not makes:
            steps.append(loop)
    only_if(len(steps) < 2)  # else it is not clear which loop is the contraction
    text = _not_first(case, steps[0]) if steps else "False"
    given = {name: case.text(name) for name in case.arguments if name != "accumulate"}
    return case.rewrite(case.with_given(**given, accumulate=text))


def _not_first(case: Case, loop: ast.For) -> str:
    """Return a condition that is true in all iterations of a range but the first."""
    call = expect(ast.Call, loop.iter)
    only_if(case.path(call.func).endswith("range"))
    start = "0" if len(call.args) == 1 else ast.unparse(call.args[0])
    return f"({ast.unparse(loop.target)} > {start})"


def _is_cleared(case: Case, name: str) -> bool:
    """Return whether a tile is filled with zeros, so that beginning a sum means the same."""
    made = [Statement(case.source, s) for s in (*case.all(ast.Assign), *case.all(ast.Expr))]
    filled = [one for one in made if one.function == "memset" and one.name("dst") == name]
    zeros = any(number(one.arguments.get("value")) == 0 for one in filled)
    return zeros or any(one.function == "zeros" and one.target == name for one in made)


# -- tails -----------------------------------------------------------------------------------------


@fixes("M006")
def _tail(case: Case) -> Rewrite:
    """A loop over whole blocks of an output gets an iteration for the rest.

    Only if the extent is known to be that of the output, and every statement of the loop works on
    blocks of tensors and on what it loads from them.
    """
    found = [blocks for loop in case.all(ast.For) if (blocks := _Blocks.of(case, loop))]
    writes = [(blocks, axes) for blocks in found if (axes := blocks.axes(case.target))]
    only_if(len(writes) == 1)
    blocks, (axis, *others) = writes[0]
    spans = case.finding.data["unwritten_box"]
    only_if(not others, axis < len(spans), blocks.covers_body(case))
    start, stop = spans[axis]
    only_if(start == stop // blocks.size * blocks.size)
    only_if(_is_extent(case, blocks.extent, axis, stop))
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
        start, stop, step = range_of(loop, case.path) or ("", "None", "")
        match expression(stop):
            case ast.BinOp(extent, ast.FloorDiv(), ast.Constant(int(size))) if start == "0":
                return cls(loop, ast.unparse(loop.target), extent, size) if step == "1" else None
        return None

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
        extent, size = ast.unparse(self.extent), self.size

        def change(part: ast.expr) -> ast.expr | None:
            if isinstance(part, ast.Slice) and part.upper is not None and self._is_block(part):
                part.upper = expression(f"min({ast.unparse(part.upper)}, {extent})")
            return None

        new = rewritten(self.loop, change)
        expect(ast.Call, new.iter).args = [expression(f"({extent} + {size - 1}) // {size}")]
        return new
