"""Compile-time values: used before they are known, or different from Python's.

Sizes of the target are known while a kernel is compiled, not when its module is imported; the rank
of a core is known while it runs, not when the kernel is compiled.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.checks.langcheck.unit import Found, Unit
from nkisim.diagnostics import declare
from nkisim.source import Kinds, indices

LIST_METHOD = declare(
    "L047",
    "list-method",
    "A list has a method called that the compiler's lists do not have.",
    "the compiler does not find the method",
)
LIST_MEANING = declare(
    "L048",
    "list-method-meaning",
    "count, index or remove is called on a list.",
    "in the compiler count gives the length, index gives None for what is absent, and remove takes "
    "all that match",
    severity="warning",
)
DICTIONARY_METHOD = declare(
    "L049",
    "dictionary-method",
    "A dictionary has a method called, or is merged, in a way that the compiler does not have.",
    "the compiler does not find the method",
)
WIDE_INTEGER = declare(
    "L050",
    "wide-integer",
    "An integer constant does not fit 32 bits.",
    "the compiler's integers have 32 bits",
)
NEGATIVE_DIVISOR = declare(
    "L051",
    "negative-divisor",
    "// or % has a negative divisor.",
    "the compiler uses Euclidean division, with a non-negative remainder; Python rounds down",
    severity="warning",
)
NUMBER_OPERATOR = declare(
    "L052",
    "number-operator",
    "An integer has a negative exponent, or % is applied to a float.",
    "the compiler does not define the operator as Python does",
    severity="warning",
)
ENUM_OPERATOR = declare(
    "L053",
    "enum-order",
    "An enum value is used in an ordering comparison or in arithmetic.",
    "the language guide defines only equality of enum values",
    severity="warning",
)
OUT_OF_RANGE = declare(
    "L055",
    "container-range",
    "A list or tuple is indexed or sliced beyond its length.",
    "the compiler does not clip a slice as Python does",
)

_LIST = ["append", "clear", "copy", "count", "extend", "index", "pop", "remove", "reverse"]
_DICT = ["clear", "copy", "get", "items", "keys", "pop", "setdefault", "values"]
_INT32 = (-(2**31), 2**31 - 1)


def check_values(unit: Unit) -> Iterator[Found]:
    """Find compile-time values that the compiler treats differently from Python."""
    kinds = unit.kinds
    yield from _methods(unit, kinds)
    yield from _numbers(unit)
    yield from _enums(unit, kinds)
    yield from _ranges(unit)


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
        whole = _constant(unit.tree.parent(node)) is None  # only the last step has to fit
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
    for subscript in unit.of(ast.Subscript):
        length = _fixed_length(unit, subscript.value)
        if length is None:
            continue
        name, bounds = ast.unparse(subscript.value), [subscript.slice]
        allowed = range(-length, length)
        if isinstance(subscript.slice, ast.Slice):
            bounds = [b for b in (subscript.slice.lower, subscript.slice.upper) if b is not None]
            allowed = range(-length, length + 1)
        for bound in bounds:
            value = _constant(bound)
            if value is not None and value not in allowed:
                message = f"`{ast.unparse(subscript)}`: {name} has {length} items"
                fix = f"stay below {length}"
                yield Found(OUT_OF_RANGE, subscript, message, fix, seen=str(value), operand=name)


def _fixed_length(unit: Unit, name: ast.AST) -> int | None:
    """Return the length of a literal list or tuple that never changes."""
    bound = unit.tree.bound(name) if isinstance(name, ast.Name) and unit.is_own(name) else []
    assign = unit.tree.parent(bound[0].node) if len(bound) == 1 else None
    value = assign.value if isinstance(assign, ast.Assign) else None
    if not isinstance(value, ast.Tuple | ast.List):
        return None
    # Any use of a list other than a subscript, such as an argument of a call, may lengthen it.
    uses = bound[0].references if isinstance(value, ast.List) else []
    elsewhere = any(not isinstance(unit.tree.parent(use), ast.Subscript) for use in uses)
    starred = any(isinstance(item, ast.Starred) for item in value.elts)
    return None if elsewhere or starred else len(value.elts)


READ_AT_IMPORT = declare(
    "A039",
    "read-at-import",
    "A kernel uses a module constant made from get_nc_version(), or from a size that differs "
    "between targets.",
    "outside of a kernel the target is not known yet; sizes, which only warn, have their value "
    "there if NEURON_PLATFORM_TARGET_OVERRIDE names the target",
)
RANK_AS_NUMBER = declare(
    "C033",
    "rank-as-number",
    "rank_id() is used as a compile-time number: in a range, an index, a slice or a condition.",
    "the rank is known only on the device, in a register",
)

_SIZES = "nki.language.tile_size"
OF_TARGET = (
    "psum_num_banks",
    "sbuf_fmax",
    "sbuf_fmax_bytes",
    "sbuf_size_bytes",
    "total_available_sbuf_size",
)
"""Members of ``nl.tile_size`` that targets, or variables of the environment, change."""
_VERSION = "nki.isa.get_nc_version"
_RANK = "nki.collectives.rank_id"


def check_early_values(unit: Unit) -> Iterator[Found]:
    """Find values that are used before they are known."""
    yield from _constants(unit)
    yield from _ranks(unit)


def _constants(unit: Unit) -> Iterator[Found]:
    """Find module constants that depend on the target."""
    reported: set[str] = set()
    for node in unit.of(ast.Name):
        name = node.id
        if name in reported or unit.tree.is_local(node):
            continue
        assigned = unit.tree.constants.get(name)
        if assigned is None or not isinstance(node.ctx, ast.Load):
            continue
        paths = {unit.meaning(part).path for part in ast.walk(assigned)}
        is_version = _VERSION in paths
        if is_version or paths & {f"{_SIZES}.{size}" for size in OF_TARGET}:
            reported.add(name)
            text = ast.unparse(assigned)
            fix = f"write {text} inside {unit.name}"
            if not is_version:
                fix += ", or set NEURON_PLATFORM_TARGET_OVERRIDE before the import"
            yield Found(
                READ_AT_IMPORT,
                node,
                f"{unit.name} uses {name}, which was read when the module was imported",
                fix,
                seen=f"{name} = {text}",
                operand=name,
                notes=(f"{name} is made at line {assigned.lineno}",),
                level=None if is_version else "warning",
            )


def _ranks(unit: Unit) -> Iterator[Found]:
    """Find a rank where the compiler needs a constant."""
    if not any(meaning.path == _RANK for _, meaning in unit.calls):
        return
    kinds = unit.kinds
    for node, used in _premature(unit):
        if kinds.of(node) == "rank":
            yield Found(
                RANK_AS_NUMBER,
                node,
                f"`{ast.unparse(node)}` is a rank, and used in {used}",
                "give it to an access pattern as scalar_offset, or pass the rank as an argument",
                operand=ast.unparse(node),
            )


def _premature(unit: Unit) -> Iterator[tuple[ast.AST, str]]:
    """Yield the expressions that must be compile-time constants, with their use."""
    for operation in unit.of(ast.BinOp):
        yield from ((side, "arithmetic") for side in (operation.left, operation.right))
    for comparison in unit.of(ast.Compare):
        sides = (comparison.left, *comparison.comparators)
        yield from ((side, "a condition") for side in sides)
    for branch in unit.of(ast.If, ast.IfExp):
        yield branch.test, "a condition"
    for part in unit.of(ast.Slice):
        bounds = (part.lower, part.upper, part.step)
        yield from ((bound, "a slice") for bound in bounds if bound is not None)
    for index in unit.of(ast.Subscript):
        yield from ((part, "an index") for part in indices(index))
    for call, meaning in unit.calls:
        if meaning.path.endswith("range"):
            yield from ((argument, "a range") for argument in call.args)
