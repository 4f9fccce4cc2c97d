"""Tensors and registers used as if they were Python numbers.

A run finds most of these too; here they are also found in branches that a run does not take, and in
files that are not run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.checks.langcheck.unit import RUNTIME, Found, Unit
from nkisim.diagnostics import RULES, declare
from nkisim.intents import CONDITION
from nkisim.memory.rules import REGISTER_EXTENT
from nkisim.source import Kinds, is_none, nki_arguments, number
from nkisim.versions import at, in_force, is_traced

AUGMENTED = declare(
    "L029",
    "augmented-assignment",
    "A tensor is the target of an augmented assignment such as +=.",
    "the compiler supports operators on numbers only",
)
TENSOR_CONTENTS = declare(
    "L067",
    "tensor-contents",
    "A tensor is printed.",
    "print runs while the kernel is compiled, when the tensor has no contents",
    severity="warning",
)

_LOOPS = (
    "use `while register`, nl.dynamic_range, or an instruction with a mask",
    {"0.6.0": "use nl.while_loop, nl.fori_loop, or an instruction with a mask"},
)
"""What takes the place of a branch on a register, by version."""
_NUMBERS: tuple[tuple[str, ...], dict[str, tuple[str, ...]]] = (
    (),
    {"0.6.0": ("int", "float", "range")},
)
"""Builtins that raise for a register, by version."""
_ALLOCATIONS = {f"nki.language.{name}" for name in ("ndarray", "zeros", "ones", "full", "empty")}
_INSTRUCTIONS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}


def check_tensors(unit: Unit) -> Iterator[Found]:
    """Find tensors and registers that are used as Python values."""
    kinds = unit.kinds
    yield from _operators(unit, kinds)
    yield from _truth(unit, kinds)
    yield from _registers(unit, kinds)
    yield from _extents(unit, kinds)
    yield from _printed(unit, kinds)


def _operators(unit: Unit, kinds: Kinds) -> Iterator[Found]:
    for operation in unit.of(ast.BinOp):
        sides = (operation.left, operation.right)
        tensors = [ast.unparse(side) for side in sides if kinds.of(side) == "tensor"]
        if tensors and isinstance(operation.op, ast.MatMult):
            message = f"`{ast.unparse(operation)}`: no operator @ on tensor {tensors[0]}"
            yield Found(RULES["L026"], operation, message, "use nisa.nc_matmul, with a dst=")
        elif tensors:
            call = "tensor_tensor" if len(tensors) == 2 else "tensor_scalar"
            op = _INSTRUCTIONS.get(type(operation.op))
            fix = f"use nisa.{call} with dst=" + (f" and nl.{op}" if op else "")
            message = f"`{ast.unparse(operation)}`: no operators on tensor {tensors[0]}"
            yield Found(RULES["L027"], operation, message, fix, operand=tensors[0])
    for unary in unit.of(ast.UnaryOp):
        if kinds.of(unary.operand) == "tensor" and not isinstance(unary.op, ast.Not):
            text = ast.unparse(unary.operand)
            message = f"`{ast.unparse(unary)}`: no operators on tensor {text}"
            yield Found(RULES["L027"], unary, message, "use nisa.tensor_scalar with dst=")
    yield from _comparisons(unit, kinds)
    for augmented in unit.of(ast.AugAssign):
        left = ast.unparse(augmented.target)
        if kinds.of(augmented.target) == "tensor":
            matmul = isinstance(augmented.value, ast.Call) and "matmul" in ast.unparse(
                augmented.value.func
            )
            fix = f"nisa.tensor_tensor(dst={left}, data1={left}, data2=..., op=...)"
            if matmul:
                fix = f"nisa.nc_matmul(dst={left}, ..., accumulate=True)"
            message = f"`{ast.unparse(augmented)}`: tensor {left} on the left"
            yield Found(AUGMENTED, augmented, message, fix, operand=left)
    for assign in unit.of(ast.Assign):
        for target in assign.targets:
            if isinstance(target, ast.Subscript) and kinds.of(target) == "tensor":
                text = ast.unparse(target)
                message = f"{text} is assigned"
                fix = f"nisa.tensor_copy(dst={text}, src=...), or pass dst={text} to what makes it"
                if isinstance(assign.value, (ast.BinOp, ast.Call)):
                    fix = f"pass dst={text} to the instruction that computes it"
                yield Found(RULES["L028"], assign, message, fix, operand=ast.unparse(target.value))


def _comparisons(unit: Unit, kinds: Kinds) -> Iterator[Found]:
    """Find comparisons of a tensor; with ``==`` only of a tile, or an element, with a number.

    A parameter may be a number in some calls and a tensor in others, and ``==`` tells them apart.
    """
    parameters = {parameter.arg for parameter in unit.parameters}
    for compare in unit.of(ast.Compare):
        op, sides = compare.ops[0], (compare.left, compare.comparators[0])
        tensors = [ast.unparse(side) for side in sides if kinds.of(side) == "tensor"]
        numbers = [side for side in sides if number(side) is not None]
        equality = isinstance(op, (ast.Eq, ast.NotEq)) and numbers and not parameters & set(tensors)
        if tensors and (equality or isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE))):
            message = f"`{ast.unparse(compare)}`: no comparison of tensor {tensors[0]}"
            fix = "use nisa.tensor_scalar or tensor_tensor with a comparing op and dst="
            condition = any(_is_test(outer, compare) for outer in unit.enclosing(compare))
            fix, data = CONDITION if condition else fix, {"condition": condition}
            yield Found(RULES["L027"], compare, message, fix, operand=tensors[0], data=data)


def _is_test(outer: ast.AST, node: ast.AST) -> bool:
    """Return whether an expression is part of the condition of a statement."""
    kinds = (ast.If, ast.While, ast.Assert, ast.IfExp)
    return isinstance(outer, kinds) and any(node is inner for inner in ast.walk(outer.test))


def _truth(unit: Unit, kinds: Kinds) -> Iterator[Found]:
    for test in _tests(unit):
        kind = kinds.of(test)
        text = ast.unparse(test)
        if kind == "tensor":
            message = f"tensor {text} is used as a condition"
            fix = f"test its shape or dtype; {CONDITION}"
            yield Found(RULES["L030"], test, message, fix, operand=text)
        elif kind in RUNTIME and (
            is_traced() or not (kind == "register" and _is_while_test(unit, test))
        ):
            word = "index" if kind == "index" else RUNTIME[kind]
            message = f"{word} {text} decides a branch"
            yield Found(RULES["L031"], test, message, at(in_force(), *_LOOPS), operand=text)


def _tests(unit: Unit) -> Iterator[ast.expr]:
    """Yield the expressions that are evaluated as conditions."""
    for node in unit.of(ast.If, ast.While, ast.IfExp, ast.Assert):
        yield node.test  # type: ignore[attr-defined]
    for joined in unit.of(ast.BoolOp):
        yield from joined.values
    for unary in unit.of(ast.UnaryOp):
        if isinstance(unary.op, ast.Not):
            yield unary.operand
    for call, meaning in unit.calls:
        if meaning.path == "bool" and call.args:
            yield call.args[0]


def _is_while_test(unit: Unit, test: ast.AST) -> bool:
    parent = unit.tree.parent(test)
    return isinstance(parent, ast.While) and parent.test is test


def _registers(unit: Unit, kinds: Kinds) -> Iterator[Found]:
    for compare in unit.of(ast.Compare):
        if any(map(is_none, compare.comparators)):
            continue
        for side in (compare.left, *compare.comparators):
            kind = kinds.of(side)
            if kind in RUNTIME:
                text = ast.unparse(side)
                message = f"`{ast.unparse(compare)}` compares {RUNTIME[kind]} {text}"
                fix = "decide it by the bounds of the loop, or peel the first iteration"
                yield Found(RULES["L031"], compare, message, fix, operand=text)
    for call, meaning in unit.calls:
        for argument in call.args if meaning.path in at(in_force(), *_NUMBERS) else ():
            kind = kinds.of(argument)
            if kind in ("register", "counter"):
                text = ast.unparse(argument)
                message = f"`{ast.unparse(call)}` needs the value of {RUNTIME[kind]} {text}"
                fix = "use nl.fori_loop for a loop up to its value, or it as scalar_offset"
                yield Found(RULES["L031"], call, message, fix, operand=text)


def _extents(unit: Unit, kinds: Kinds) -> Iterator[Found]:
    for call, meaning in unit.calls:
        if meaning.path not in _ALLOCATIONS:
            continue
        shape = nki_arguments(call, meaning.path).get("shape")
        for entry in shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else [shape]:
            kind = kinds.of(entry)
            if entry is not None and kind in RUNTIME:
                text = ast.unparse(entry)
                message = f"{RUNTIME[kind]} {text} is an extent of a tile"
                fix = "allocate the largest tile, and use it only as an offset or a bound"
                yield Found(REGISTER_EXTENT, call, message, fix, operand=text)


def _printed(unit: Unit, kinds: Kinds) -> Iterator[Found]:
    for call, meaning in unit.calls:
        if meaning.path != "print":
            continue
        for argument in call.args:
            shown = [argument]
            if isinstance(argument, ast.JoinedStr):
                shown = [v.value for v in argument.values if isinstance(v, ast.FormattedValue)]
            for value in shown:
                if kinds.of(value) == "tensor":
                    text = ast.unparse(value)
                    fix = f'use nl.device_print("{text}", {text}), or print it on the host'
                    yield Found(TENSOR_CONTENTS, call, f"tensor {text} is printed", fix)
