"""Device loops: their index, early exits, and names used after them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.checks.langcheck.found import Found
from nkisim.checks.langcheck.kinds import Kinds, is_dynamic_loop
from nkisim.checks.langcheck.unit import Unit
from nkisim.diagnostics import RULES, declare

__all__ = ["check_loops"]

LEAVES_DYNAMIC_LOOP = declare(
    "L032",
    "leaves-dynamic-loop",
    "error",
    "break, continue or return is used inside a dynamic loop.",
    "the loop runs on the device, which cannot leave it early",
)
INDEX_ARITHMETIC = declare(
    "L033",
    "index-arithmetic",
    "error",
    "The index of a dynamic loop is used in arithmetic, in a slice or as scalar_offset.",
    "0.3.0 fails to compile it; the index alone may select a row of a tensor in HBM",
)
DYNAMIC_STATE = declare(
    "L037",
    "dynamic-loop-state",
    "error",
    "Dynamic loops are nested around a register, or a dynamic loop binds a name that is read after "
    "it.",
    "the body is compiled once; what it binds in Python is not what the device has after the loop",
)


def check_loops(unit: Unit) -> Iterator[Found]:
    """Find constructs that a device loop does not support."""
    loops = [loop for loop in unit.of(ast.For) if is_dynamic_loop(unit, loop)]
    if not loops:
        return
    kinds = Kinds(unit)
    yield from _index_arithmetic(unit, kinds)
    for loop in loops:
        yield from _header(unit, loop)
        yield from _dynamic(unit, kinds, loop)


def _header(unit: Unit, loop: ast.For) -> Iterator[Found]:
    """Find a step that is not a positive number, and a region around the loop."""
    assert isinstance(loop.iter, ast.Call)
    steps = [*loop.iter.args[2:3], *(k.value for k in loop.iter.keywords if k.arg == "step")]
    for step in steps:
        negative = isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)
        constant = step.value if isinstance(step, ast.Constant) else 1
        if negative or type(constant) is not int or constant < 1:
            message = f"nl.dynamic_range: step {ast.unparse(step)} is not a positive integer"
            yield Found(RULES["L034"], loop, message, "use a constant step", operand="step")
    for outer in unit.enclosing(loop):
        calls = [item.context_expr for item in getattr(outer, "items", [])]
        names = [unit.meaning(c.func).path for c in calls if isinstance(c, ast.Call)]
        if isinstance(outer, ast.With) and "nki.language.no_reorder" in names:
            message = "nl.dynamic_range runs inside nl.no_reorder()"
            fix = "end the region before the loop, or open it inside the body"
            notes = (f"the region begins at line {outer.lineno}",)
            yield Found(RULES["L036"], loop, message, fix, notes=notes)


def _index_arithmetic(unit: Unit, kinds: Kinds) -> Iterator[Found]:
    for operation in unit.of(ast.BinOp):
        for side in (operation.left, operation.right):
            if kinds.of(side) == "index":
                yield _on_index(operation, ast.unparse(side), ast.unparse(operation))
    for part in unit.of(ast.Slice):
        for bound in (part.lower, part.upper, part.step):
            if bound is not None and kinds.of(bound) == "index":
                yield _on_index(bound, ast.unparse(bound), ast.unparse(part))
    for call in unit.of(ast.Call):
        for keyword in call.keywords:
            if keyword.arg == "scalar_offset" and kinds.of(keyword.value) == "index":
                yield _on_index(call, ast.unparse(keyword.value), ast.unparse(keyword))


def _on_index(node: ast.AST, name: str, text: str) -> Found:
    return Found(
        INDEX_ARITHMETIC,
        node,
        f"`{text}` calculates with the index {name} of a dynamic loop",
        "count in a register of your own, which register instructions advance, or use range",
        operand=name,
    )


def _dynamic(unit: Unit, kinds: Kinds, loop: ast.For) -> Iterator[Found]:
    inside = [node for part in loop.body for node in _without_definitions(part)]
    for node in inside:
        own_loop = isinstance(node, ast.Return) or _loop_of(unit, node) is loop
        if isinstance(node, (ast.Break, ast.Continue, ast.Return)) and own_loop:
            word = type(node).__name__.lower()
            fix = "put the condition into the loop's bound, or into a mask"
            yield Found(LEAVES_DYNAMIC_LOOP, node, f"{word} inside a dynamic loop", fix)
    if isinstance(loop.target, ast.Name) and loop.target.id != "_":
        for node in inside:
            if (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Store)
                and node.id == loop.target.id
            ):
                message = f"loop index {node.id} is assigned inside its loop"
                yield Found(LOOP_VARIABLE, node, message, "use a register of your own")
    yield from _nested(unit, kinds, loop, inside)
    yield from _escaping(unit, loop, inside)


def _nested(unit: Unit, kinds: Kinds, loop: ast.For, inside: list[ast.AST]) -> Iterator[Found]:
    """Find a dynamic loop inside another that uses a register, or an index, from around it."""
    for inner in inside:
        if not (isinstance(inner, ast.For) and is_dynamic_loop(unit, inner)):
            continue
        within = set(ast.walk(inner)) - {inner.target}
        made = {
            n.id for n in within if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        } | {ast.unparse(inner.target)}
        used = [
            n.id
            for n in within
            if isinstance(n, ast.Name) and n.id not in made and kinds.of(n) in ("register", "index")
        ]
        if used:
            yield Found(
                DYNAMIC_STATE,
                inner,
                f"a dynamic loop inside another uses {sorted(used)[0]} from outside it",
                "keep one dynamic loop and make the other static; keep state in a tile",
                notes=(f"the outer loop begins at line {loop.lineno}",),
            )


def _escaping(unit: Unit, loop: ast.For, inside: list[ast.AST]) -> Iterator[Found]:
    """Find names that the body binds and that are first read after the loop."""
    bound = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    end = loop.end_lineno or loop.lineno
    said: set[str] = set()
    for node in unit.nodes:
        if not isinstance(node, ast.Name) or node.lineno <= end or node.id in said:
            continue
        if node.id not in bound:
            continue
        if _excluded(unit, loop, node):
            continue
        said.add(node.id)
        if isinstance(node.ctx, ast.Load):
            yield Found(
                DYNAMIC_STATE,
                node,
                f"{node.id} is bound inside a dynamic loop and read after it",
                f"make {node.id} before the loop and write into it, with dst=",
                operand=node.id,
                notes=(f"the loop begins at line {loop.lineno}",),
            )


def _excluded(unit: Unit, first: ast.AST, second: ast.AST) -> bool:
    """Whether two places are in different branches of one ``if``, so that only one of them runs."""
    above = list(unit.enclosing(second))
    for outer in unit.enclosing(first):
        if isinstance(outer, ast.If) and outer in above:
            inside = {node for part in outer.body for node in ast.walk(part)}
            return (first in inside) != (second in inside)
    return False


def _loop_of(unit: Unit, node: ast.AST) -> ast.AST | None:
    return next((n for n in unit.enclosing(node) if isinstance(n, (ast.For, ast.While))), None)


def _without_definitions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        for child in ast.iter_child_nodes(node):
            yield from _without_definitions(child)
