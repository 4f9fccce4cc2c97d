"""Compile-time numbers, lists and dictionaries that behave differently from Python's."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.checks.langcheck.found import Found
from nkisim.checks.langcheck.kinds import Kinds
from nkisim.checks.langcheck.unit import Unit
from nkisim.diagnostics import declare

__all__ = ["check_values"]

ENDLESS = declare(
    "L038",
    "endless-loop",
    "error",
    "A while loop on a constant is never left, or a function calls itself without a condition.",
    "the compiler unrolls until it hangs or its stack overflows",
)
LIST_METHOD = declare(
    "L047",
    "list-method",
    "error",
    "A list has a method called that the compiler's lists do not have.",
    "the compiler does not find the method",
)
LIST_MEANING = declare(
    "L048",
    "list-method-meaning",
    "warning",
    "count, index or remove is called on a list.",
    "in the compiler count gives the length, index gives None for what is absent, and remove takes "
    "all that match",
)
DICTIONARY_METHOD = declare(
    "L049",
    "dictionary-method",
    "error",
    "A dictionary has a method called, or is merged, in a way that the compiler does not have.",
    "the compiler does not find the method",
)
WIDE_INTEGER = declare(
    "L050",
    "wide-integer",
    "error",
    "An integer constant does not fit 32 bits.",
    "the compiler's integers have 32 bits",
)
NEGATIVE_DIVISOR = declare(
    "L051",
    "negative-divisor",
    "warning",
    "// or % has a negative divisor.",
    "the compiler uses Euclidean division, with a non-negative remainder; Python rounds down",
)
NUMBER_OPERATOR = declare(
    "L052",
    "number-operator",
    "warning",
    "An integer has a negative exponent, or % is applied to a float.",
    "the compiler does not define the operator as Python does",
)
ENUM_OPERATOR = declare(
    "L053",
    "enum-order",
    "warning",
    "An enum value is used in an ordering comparison or in arithmetic.",
    "the language guide defines only equality of enum values",
)
OUT_OF_RANGE = declare(
    "L055",
    "container-range",
    "error",
    "A list or tuple is indexed or sliced beyond its length.",
    "the compiler does not clip a slice as Python does",
)

_LIST = ["append", "clear", "copy", "count", "extend", "index", "pop", "remove", "reverse"]
_DICT = ["clear", "copy", "get", "items", "keys", "pop", "setdefault", "values"]
_INT32 = (-(2**31), 2**31 - 1)


def check_values(unit: Unit) -> Iterator[Found]:
    """Find compile-time values that the compiler treats differently from Python."""
    kinds = Kinds(unit)
    yield from _endless(unit)
    yield from _methods(unit, kinds)
    yield from _numbers(unit)
    yield from _enums(unit, kinds)
    yield from _ranges(unit)


def _endless(unit: Unit) -> Iterator[Found]:
    for loop in unit.of(ast.While):
        always = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
        leaves = (ast.Break, ast.Return, ast.Raise)
        if always and not any(isinstance(n, leaves) for s in loop.body for n in ast.walk(s)):
            message = f"`while {ast.unparse(loop.test)}` is never left"
            yield Found(ENDLESS, loop, message, "write a for loop with a bound")
    decisions = (ast.If, ast.IfExp, ast.BoolOp, ast.While, ast.For, ast.Assert, ast.Match)
    if isinstance(unit.node, ast.ClassDef) or unit.owner or next(unit.of(*decisions), None):
        return
    for call, meaning in unit.calls():
        if meaning.node is unit.node:
            message = f"{unit.name} calls itself on every path"
            yield Found(ENDLESS, call, message, "write a loop with a bound")


def _methods(unit: Unit, kinds: Kinds) -> Iterator[Found]:
    for call in unit.of(ast.Call):
        if not isinstance(call.func, ast.Attribute):
            continue
        kind, name = kinds.of(call.func.value), call.func.attr
        text = ast.unparse(call.func.value)
        if kind == "list" and (name not in _LIST or (name == "pop" and call.args)):
            fix = "rebuild the list in a loop; lists have " + ", ".join(_LIST)
            yield Found(LIST_METHOD, call, f"{text} is a list, without {name}()", fix)
        elif kind == "list" and name in ("count", "index", "remove"):
            fix = "write the loop"
            yield Found(LIST_MEANING, call, f"{name}() of list {text} means something else", fix)
        elif kind == "dict" and name not in _DICT:
            fix = "go item by item; dictionaries have " + ", ".join(_DICT)
            yield Found(DICTIONARY_METHOD, call, f"{text} is a dictionary, without {name}()", fix)
    for operation in unit.of(ast.BinOp):
        if isinstance(operation.op, ast.BitOr) and "dict" in (
            kinds.of(operation.left),
            kinds.of(operation.right),
        ):
            message = f"`{ast.unparse(operation)}` merges dictionaries"
            yield Found(DICTIONARY_METHOD, operation, message, "go item by item")


def _numbers(unit: Unit) -> Iterator[Found]:
    for node in (*unit.of(ast.BinOp, ast.UnaryOp), *unit.of(ast.Constant)):
        value = _constant(node)
        whole = _constant(unit.parents.get(node)) is None  # only the last step has to fit
        if value is not None and whole and not _INT32[0] <= value <= _INT32[1]:
            yield _too_wide(node, value)
    for operation in unit.of(ast.BinOp):
        right = _constant(operation.right)
        text = ast.unparse(operation)
        if isinstance(operation.op, (ast.FloorDiv, ast.Mod)) and right is not None and right < 0:
            fix = "make both operands non-negative"
            yield Found(NEGATIVE_DIVISOR, operation, f"`{text}` divides by {right}", fix)
        base = _constant(operation.left) if isinstance(operation.op, ast.Pow) else None
        if base is not None and right is not None and right < 0:
            fix = "write a float, or math.pow"
            yield Found(NUMBER_OPERATOR, operation, f"`{text}` has exponent {right}", fix)
        if isinstance(operation.op, ast.Mod) and any(
            isinstance(side, ast.Constant) and isinstance(side.value, float)
            for side in (operation.left, operation.right)
        ):
            fix = "calculate with integers"
            yield Found(NUMBER_OPERATOR, operation, f"`{text}` is the remainder of a float", fix)


def _too_wide(node: ast.AST, value: int) -> Found:
    fix = "split it into parts of 16 bits, or pass it in a tensor"
    return Found(WIDE_INTEGER, node, f"{value} does not fit int32", fix, seen=str(value))


def _constant(node: ast.AST | None) -> int | None:
    """Return the value of an expression of integer constants."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _constant(node.operand)
        return None if value is None else -value
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _constant(node.left), _constant(node.right)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Pow):
        return left**right if 0 <= right <= 64 and abs(left) <= 2**16 else None
    if isinstance(node.op, ast.LShift):
        return left << right if 0 <= right <= 64 else None
    if isinstance(node.op, ast.Mult):
        return left * right
    if isinstance(node.op, ast.Add):
        return left + right
    return left - right if isinstance(node.op, ast.Sub) else None


def _enums(unit: Unit, kinds: Kinds) -> Iterator[Found]:
    ordered = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    for compare in unit.of(ast.Compare):
        orders = any(isinstance(op, ordered) for op in compare.ops)
        if orders and any(kinds.of(n) == "enum" for n in (compare.left, *compare.comparators)):
            message = f"`{ast.unparse(compare)}` orders values of an enumeration"
            fix = "test for equality with each of them, joined with `or`"
            yield Found(ENUM_OPERATOR, compare, message, fix)
    for operation in unit.of(ast.BinOp):
        if "enum" in (kinds.of(operation.left), kinds.of(operation.right)):
            message = f"`{ast.unparse(operation)}` calculates with an enumeration"
            yield Found(ENUM_OPERATOR, operation, message, "use an if on each of its values")


def _ranges(unit: Unit) -> Iterator[Found]:
    lengths = _fixed_lengths(unit)
    for subscript in unit.of(ast.Subscript):
        if not isinstance(subscript.value, ast.Name) or subscript.value.id not in lengths:
            continue
        name, length = subscript.value.id, lengths[subscript.value.id]
        bounds = [subscript.slice]
        if isinstance(subscript.slice, ast.Slice):
            bounds = [b for b in (subscript.slice.lower, subscript.slice.upper) if b is not None]
            allowed = range(-length, length + 1)
        else:
            allowed = range(-length, length)
        for bound in bounds:
            value = _constant(bound)
            if value is not None and value not in allowed:
                message = f"`{ast.unparse(subscript)}`: {name} has {length} items"
                fix = f"stay below {length}"
                yield Found(OUT_OF_RANGE, subscript, message, fix, seen=str(value), operand=name)


def _fixed_lengths(unit: Unit) -> dict[str, int]:
    """Return the lengths of literal lists and tuples that never change."""
    stored = [n.id for n in unit.of(ast.Name) if isinstance(n.ctx, ast.Store)]
    stored += [parameter.arg for parameter in unit.parameters]
    found: dict[str, int] = {}
    lists: set[str] = set()
    for assign in unit.of(ast.Assign):
        target, value = assign.targets[0], assign.value
        if (
            isinstance(target, ast.Name)
            and isinstance(value, (ast.Tuple, ast.List))
            and stored.count(target.id) == 1
            and not any(isinstance(item, ast.Starred) for item in value.elts)
        ):
            found[target.id] = len(value.elts)
            if isinstance(value, ast.List):
                lists.add(target.id)
    for node in unit.of(ast.Name):  # a list that is passed on may grow
        goes = isinstance(node.ctx, ast.Load) and node.id in lists
        if goes and not isinstance(unit.parents.get(node), ast.Subscript):
            found.pop(node.id, None)
    return found
