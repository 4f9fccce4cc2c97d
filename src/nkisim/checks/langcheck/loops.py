"""Device loops: their index, early exits, and names used after them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.checks.langcheck.unit import Found, Unit, is_dynamic_loop
from nkisim.diagnostics import RULES, declare
from nkisim.source import LOOPS, Kinds, is_none, nki_arguments
from nkisim.versions import at, in_force, is_traced

LEAVES_DYNAMIC_LOOP = declare(
    "L032",
    "leaves-dynamic-loop",
    "break, continue or return is used inside a dynamic loop.",
    "the loop runs on the device, which cannot leave it early",
)
DYNAMIC_STATE = declare(
    "L037",
    "dynamic-loop-state",
    "Dynamic loops are nested around a register, or a dynamic loop binds a name that is read after "
    "it.",
    "the body is compiled once; what it binds in Python is not what the device has after the loop",
)

BODY_EFFECT = declare(
    "L073",
    "body-effect",
    "The body of a device loop prints, or changes a list or a dictionary from around the loop.",
    "the body is traced once, so it happens once; a simulation calls the body in each iteration",
    severity="warning",
)

_CHANGING = (".append", ".clear", ".extend", ".insert", ".pop", ".remove", ".update")
_REGISTER_INDEX = {"0.4.0": True}
"""Versions in which the index of a device loop is a register, which is an offset."""
_REGISTER_WRITES = ("nki.isa.register_load", "nki.isa.register_move")


def check_loops(unit: Unit) -> Iterator[Found]:
    """Find constructs that a device loop does not support."""
    loops = [loop for loop in unit.of(ast.For) if is_dynamic_loop(unit, loop)]
    if is_traced():
        loops = []  # refused as a whole
    calls = [(call, LOOPS[m.path][0]) for call, m in unit.calls if m.path in LOOPS]
    for call, name in calls:
        yield from _header(unit, call, call, f"nl.{name}")
    yield from _results(unit)
    if unit.loop and is_traced():
        yield from _effects(unit)
    if not (loops or unit.outer):
        return
    kinds = unit.kinds
    yield from _index_arithmetic(unit, kinds)
    yield from _written_index(unit, kinds)
    for loop in loops:
        assert isinstance(loop.iter, ast.Call)
        yield from _header(unit, loop, loop.iter, "nl.dynamic_range")
        yield from _dynamic(unit, kinds, loop)


def _results(unit: Unit) -> Iterator[Found]:
    """Find the body function of a loop that returns a value, or no condition."""
    returned = [node for node in unit.of(ast.Return) if node.value and not is_none(node.value)]
    if unit.loop == "fori_loop" and returned:
        message = f"{unit.name} returns `{ast.unparse(returned[0].value or returned[0])}`"
        fix = "write results into tensors made before the loop"
        yield Found(RULES["L070"], returned[0], message, fix, operand=unit.name)
    elif unit.loop == "while_loop" and not returned:
        message = f"{unit.name} returns no register for the next condition"
        fix = "end the body with: return register"
        yield Found(RULES["L070"], unit.node, message, fix, operand=unit.name)


def _written_index(unit: Unit, kinds: Kinds) -> Iterator[Found]:
    """Find instructions that write the index of a loop, where it is a register."""
    if not at(in_force(), False, _REGISTER_INDEX):
        return
    for call, meaning in unit.calls:
        dst = nki_arguments(call, meaning.path).get("dst")
        if meaning.path not in _REGISTER_WRITES or dst is None:
            continue
        if kinds.of(dst) in ("index", "counter"):
            name = ast.unparse(dst)
            message = f"`{ast.unparse(call)}` writes to the index {name} of its loop"
            yield Found(RULES["L035"], call, message, "use a register of your own")


def _header(unit: Unit, loop: ast.AST, call: ast.Call, name: str) -> Iterator[Found]:
    """Find a step that is not a positive number, and a region around the loop."""
    step = nki_arguments(call, f"nki.language.{name.removeprefix('nl.')}").get("step")
    if step is not None:
        negative = isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)
        constant = step.value if isinstance(step, ast.Constant) else 1
        if negative or type(constant) is not int or constant < 1:
            message = f"{name}: step {ast.unparse(step)} is not a positive integer"
            yield Found(RULES["L034"], loop, message, "use a constant step", operand="step")
    for outer in unit.enclosing(loop):
        calls = [item.context_expr for item in getattr(outer, "items", [])]
        names = [unit.meaning(c.func).path for c in calls if isinstance(c, ast.Call)]
        if isinstance(outer, ast.With) and "nki.language.no_reorder" in names:
            message = f"{name} runs inside nl.no_reorder()"
            fix = "end the region before the loop, or open it inside the body"
            notes = (f"the region begins at line {outer.lineno}",)
            yield Found(RULES["L036"], loop, message, fix, notes=notes)


def _index_arithmetic(unit: Unit, kinds: Kinds) -> Iterator[Found]:
    registers = at(in_force(), False, _REGISTER_INDEX)
    if is_traced() and not _counts_in_register(unit):
        yield from _scalar_operators(unit, kinds)
        return
    refused = ("counter",) if registers else ("index",)
    for operation in unit.of(ast.BinOp):
        for side in (operation.left, operation.right):
            if kinds.of(side) in refused:
                yield _on_index(operation, ast.unparse(side), ast.unparse(operation))
    for part in unit.of(ast.Slice):
        for bound in (part.lower, part.upper, part.step):
            if bound is not None and kinds.of(bound) in refused:
                yield _on_index(bound, ast.unparse(bound), ast.unparse(part))
    for call in unit.of(ast.Call) if not registers else ():
        for keyword in call.keywords:
            if keyword.arg == "scalar_offset" and kinds.of(keyword.value) == "index":
                yield _on_index(call, ast.unparse(keyword.value), ast.unparse(keyword))


def _counts_in_register(unit: Unit) -> bool:
    """Return whether a bound of the loop around a body is a register, so that its index is one."""
    for call, meaning in unit.outer.calls if unit.outer else ():
        given = nki_arguments(call, meaning.path) if meaning.path in LOOPS else {}
        body = given.get("body_fun")
        if isinstance(body, ast.Name) and body.id == unit.node.name and unit.outer:
            kinds = unit.outer.kinds
            return any(kinds.of(given.get(name)) == "register" for name in ("lower", "upper"))
    return False


def _scalar_operators(unit: Unit, kinds: Kinds) -> Iterator[Found]:
    """Find operators that the index of a loop, a scalar, does not have."""
    for operation in unit.of(ast.BinOp):
        sides = [side for side in (operation.left, operation.right) if kinds.of(side) == "counter"]
        if sides and not isinstance(operation.op, (ast.Add, ast.Sub, ast.Mult)):
            message = f"`{ast.unparse(operation)}`: scalars have + - * only"
            fix = "calculate in a tile and load the result with nisa.scalar_load"
            yield Found(RULES["L071"], operation, message, fix, operand=ast.unparse(sides[0]))


def _effects(unit: Unit) -> Iterator[Found]:
    """Find Python effects in a body, which happen once and not in each iteration."""
    for call, meaning in unit.calls:
        name = call.func.value if isinstance(call.func, ast.Attribute) else None
        changes = isinstance(name, ast.Name) and unit.is_captured(name)
        changes = changes and unit.kinds.of(name) in ("list", "dict")
        if meaning.path == "print" or (changes and ast.unparse(call.func).endswith(_CHANGING)):
            text = ast.unparse(call)
            message = f"`{text}` happens once, when the body of the loop is traced"
            fix = "do it outside the loop, or write to a tile"
            yield Found(BODY_EFFECT, call, message, fix, seen=text, operand=unit.name)


def _on_index(node: ast.AST, name: str, text: str) -> Found:
    return Found(
        RULES["L033"],
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
                yield Found(RULES["L035"], node, message, "use a register of your own")
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
    reported: set[str] = set()
    for node in unit.nodes:
        if not isinstance(node, ast.Name) or node.lineno <= end or node.id in reported:
            continue
        if node.id not in bound:
            continue
        if _excluded(unit, loop, node):
            continue
        reported.add(node.id)
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
