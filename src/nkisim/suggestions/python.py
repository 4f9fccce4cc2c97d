"""Fixes of Python that kernels cannot use: operators on tiles, comprehensions, some loops."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from nkisim.diagnostics import Rewrite
from nkisim.intents import Intent, intent_of, language_name
from nkisim.source import base_name, expression, names_in
from nkisim.suggestions.calls import is_of_rows, value_of
from nkisim.suggestions.staging import divided
from nkisim.suggestions.statement import Case, fixes

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.LShift: "left_shift",
    ast.RShift: "right_shift",
}
_POWERS = {"2": "square", "2.0": "square", "0.5": "sqrt", "-0.5": "rsqrt", "-1": "reciprocal"}
_IN_PLACE = ("add", "subtract", "multiply")
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}
_MODULES = ("numpy", "math")
_NO_CODE = ("", "matmul")  # nl.matmul takes its first operand transposed


@fixes("L027")
def _operators(case: Case) -> Rewrite | None:
    """Operators and functions of NumPy become functions of ``nki.language``."""
    if case.finding.data.get("condition"):
        return None  # a tile in place of the condition would decide nothing
    made: set[str] = set()

    def is_tensor(node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return case.variable(node.id) is not None
        if isinstance(node, ast.Subscript):
            return is_tensor(node.value)
        return ast.unparse(node) in made

    def marked(text: str) -> ast.expr:
        made.add(text)
        return expression(text)

    def call(name: str, *operands: ast.expr) -> ast.expr:
        return marked(f"{case.nl}.{name}({', '.join(map(ast.unparse, operands))})")

    def change(node: ast.expr) -> ast.expr | None:
        if isinstance(node, ast.BinOp) and (is_tensor(node.left) or is_tensor(node.right)):
            name = _BINARY.get(type(node.op))
            return marked(_of_two(case, name, node.left, node.right)) if name else None
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            operands = (node.left, node.comparators[0])
            name = _COMPARE.get(type(node.ops[0]))
            return call(name, *operands) if name and any(map(is_tensor, operands)) else None
        if isinstance(node, ast.UnaryOp) and is_tensor(node.operand):
            return call("negative", node.operand) if isinstance(node.op, ast.USub) else None
        if isinstance(node, ast.Call):
            return _function(case, node, is_tensor, call, marked)
        return None

    statement = case.statement
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        name = _BINARY.get(type(statement.op))
        target = statement.target.id
        if name is None:
            return None
        value = _of_two(case, name, expression(target), statement.value)
        return case.rewrite(f"{target} = {value}")
    if isinstance(statement, ast.For):
        new = case.replaced(change, statement.iter)
        if not made and new == ast.unparse(statement.iter):
            return None
        return case.head(statement, ast.unparse(statement.target), new)
    text = case.replaced(change)
    return case.rewrite(text) if text != ast.unparse(statement) else None


def _function(
    case: Case,
    node: ast.Call,
    is_tensor: Callable[[ast.expr], bool],
    call: Callable[..., ast.expr],
    marked: Callable[[str], ast.expr],
) -> ast.expr | None:
    """Return what replaces a function of NumPy or math, abs, len or range of a tensor."""
    if not node.args or not is_tensor(node.args[0]):
        return None
    if isinstance(node.func, ast.Name):
        tensor = ast.unparse(node.args[0])
        if node.func.id == "abs":
            return call("abs", node.args[0])
        if node.func.id == "len":
            return expression(f"{tensor}.shape[0]")
        if node.func.id == "range" and len(node.args) == 1:
            return expression(f"range({tensor}.shape[0])")
        return None
    module, _, function = case.path(node.func).rpartition(".")
    intent = intent_of(function) if module in _MODULES else None
    given: dict[str, ast.expr] = {k.arg or "**": k.value for k in node.keywords}
    if intent is not None and intent.expression and not is_same(intent, function):
        along = "axis=1" in intent.expression and is_of_rows(case, given, None)
        fits = along == ("axis=1" in intent.expression) and len(node.args) == intent.operands
        return marked(value_of(case, intent, *node.args)) if fits and not given else None
    name = language_name(function) if module in _MODULES else ""
    if name not in _NO_CODE and not node.keywords:
        return call(name, *node.args)
    return None


def is_same(intent: Intent, name: str) -> bool:
    """Return whether a name has its meaning in ``nki.language`` too, for the same arguments."""
    return "axis=1" not in intent.expression and intent.function == name


def _of_two(case: Case, name: str, left: ast.expr, right: ast.expr) -> str:
    """Return an operation on a tile and another operand as an expression that engines have."""
    power = _POWERS.get(ast.unparse(right)) if name == "power" else None
    if power is not None:
        return f"{case.nl}.{power}({ast.unparse(left)})"
    return value_of(case, Intent("binary", name), left, right)


@fixes("D013", "D014")
def _quotient(case: Case) -> Rewrite | None:
    """A quotient is a product with a reciprocal, and a power by a number a function of its own."""
    name = {"D013": "divide", "D014": "power"}[case.rule]
    path = f"nki.language.{name}"

    def change(node: ast.expr) -> ast.expr | None:
        plain = isinstance(node, ast.Call) and len(node.args) == 2 and not node.keywords
        if not plain or not isinstance(node, ast.Call) or case.path(node.func) != path:
            return None
        return expression(_of_two(case, name, *node.args))

    changed = case.rewrite(case.replaced(change))
    return changed or (divided(case) if name == "divide" else None)


@fixes("L029")
def _in_place(case: Case) -> Rewrite | None:
    """``t += u`` on a tile is an instruction that writes ``t``."""
    statement = case.statement
    name = _BINARY.get(type(statement.op)) if isinstance(statement, ast.AugAssign) else None
    if name not in _IN_PLACE or not isinstance(statement, ast.AugAssign):
        return None
    dst, op, text = ast.unparse(statement.target), f"{case.nl}.{name}", ast.unparse(statement.value)
    if isinstance(statement.value, ast.Constant):
        return case.rewrite(case.isa("tensor_scalar", dst=dst, data=dst, op0=op, operand0=text))
    return case.rewrite(case.isa("tensor_tensor", dst=dst, data1=dst, data2=text, op=op))


@fixes("L021")
def _foreign(case: Case) -> Rewrite | None:
    """A function of NumPy that ``nki.language`` has too."""
    path = case.finding.operand
    name = language_name(path.rpartition(".")[2])
    if not path.startswith("numpy.") or name in _NO_CODE:
        return None

    def change(node: ast.expr) -> ast.expr | None:
        if not isinstance(node, ast.Call) or node.keywords or case.path(node.func) != path:
            return None
        arguments = ", ".join(map(ast.unparse, node.args))
        return expression(f"{case.nl}.{name}({arguments})")

    known = any(case.variable(name) is not None for name in names_in(case.statement))
    return case.rewrite(case.replaced(change)) if known else None


@fixes("L006")
def _comprehension(case: Case) -> Rewrite | None:
    """A list comprehension becomes a loop that appends."""
    made, name = getattr(case.statement, "value", None), case.target
    if not name or not isinstance(made, ast.ListComp) or len(made.generators) != 1:
        return None
    source = made.generators[0]
    lines = [f"{name} = []", f"for {ast.unparse(source.target)} in {ast.unparse(source.iter)}:"]
    indent = "    "
    for condition in source.ifs:
        lines.append(f"{indent}if {ast.unparse(condition)}:")
        indent += "    "
    lines.append(f"{indent}{name}.append({ast.unparse(made.elt)})")
    return case.rewrite(*lines)


@fixes("L012")
def _deleted(case: Case) -> Rewrite | None:
    """A tile ends with its last use, without a statement."""
    return case.rewrite("pass")


@fixes("L022", "L044")
def _listed(case: Case) -> Rewrite | None:
    """Three arguments of min and max are one list, and a set is a tuple."""

    def change(node: ast.expr) -> ast.expr | None:
        if case.rule == "L044":
            return ast.Tuple(node.elts, ast.Load()) if isinstance(node, ast.Set) else None
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in ("min", "max"):
            return None
        node.args = [ast.List(node.args, ast.Load())] if len(node.args) > 2 else node.args
        return node

    return case.rewrite(case.replaced(change))


@fixes("L067")
def _printed(case: Case) -> Rewrite | None:
    """A tile is printed on the device."""
    call = getattr(case.statement, "value", None)
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != "print" or len(call.args) != 1:
        return None
    name = ast.unparse(call.args[0])
    return (
        case.rewrite(f"{case.nl}.device_print({name!r}, {name})") if name.isidentifier() else None
    )


@fixes("L019")
def _division(case: Case) -> Rewrite | None:
    """An extent is divided by ``//``."""
    text = case.finding.data.get("expression")
    shape = case.arguments.get("shape")
    inside = {ast.unparse(n) for n in ast.walk(shape)} if text is None and shape is not None else ()

    def change(node: ast.expr) -> ast.expr | None:
        divides = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if divides and (ast.unparse(node) == text or ast.unparse(node) in inside):
            assert isinstance(node, ast.BinOp)
            node.op = ast.FloorDiv()
        return None

    if isinstance(case.statement, ast.For) and text is not None:
        source = ast.unparse(case.statement.iter)
        new = source.replace(text, text.replace(" / ", " // ", 1), 1)
        return case.head(case.statement, ast.unparse(case.statement.target), new)
    return case.rewrite(case.replaced(change))


@fixes("L016", "L017")
def _pairs(case: Case) -> Rewrite | None:
    """A loop over pairs runs over an index."""
    loop = case.statement
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple):
        return None
    source = loop.iter
    names = [ast.unparse(name) for name in loop.target.elts]
    if not isinstance(source, ast.Call) or not isinstance(source.func, ast.Name) or source.keywords:
        return None
    if source.func.id == "enumerate" and len(source.args) == 1 and len(names) == 2:
        index, parts = names[0], names[1:]
    elif source.func.id == "zip" and len(source.args) == len(names):
        index, parts = case.fresh("i"), names
    else:
        return None
    texts = [ast.unparse(part) for part in source.args]
    calls = {ast.unparse(part): part for part in source.args if isinstance(part, ast.Call)}
    if any(ast.unparse(c.func) != "range" or len(c.args) != 1 for c in calls.values()):
        return None
    # A range has no length and no items outside a loop header; those of range(n) are the indices.
    items = [index if text in calls else f"{text}[{index}]" for text in texts]
    taken = [f"{name} = {item}" for name, item in zip(parts, items, strict=True)]
    first = texts[0] if texts[0] in calls else f"range(len({texts[0]}))"
    return case.head(loop, index, first, taken)


@fixes("L031", "L032", "L033")
def _static(case: Case) -> Rewrite | None:
    """A dynamic loop with bounds that are known needs no register: its index is a number."""
    around = [*case.loops(), *([case.statement] if isinstance(case.statement, ast.For) else [])]
    found = [
        loop
        for loop in around
        if isinstance(loop.iter, ast.Call)
        and case.path(loop.iter.func) == "nki.language.dynamic_range"
    ]
    if len(found) != 1 or not isinstance(found[0].iter, ast.Call):
        return None
    (loop,) = found
    bounds = list(map(ast.unparse, found[0].iter.args))
    known = all(re.fullmatch(r"-?\d+|\w+\.shape\[\d\]", bound) for bound in bounds)
    source = f"range({', '.join(bounds)})"
    return case.head(loop, ast.unparse(loop.target), source) if known else None


@fixes("L028")
def _assigned_part(case: Case) -> Rewrite | None:
    """An assignment to a part of a tensor is a copy, a transfer or a fill."""
    statement = case.statement
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Subscript):
        return None
    target, value = statement.targets[0], statement.value
    if not isinstance(target.value, ast.Name):
        return None
    dst, src = ast.unparse(target), ast.unparse(value)
    tensor = case.variable(target.value.id)
    if isinstance(value, ast.Constant) and tensor is not None and "hbm" not in tensor.buffer:
        return case.rewrite(case.isa("memset", dst=dst, value=src))
    base = base_name(value)
    other = None if base is None else case.variable(base.id)
    if tensor is None or other is None:
        return None
    far = "hbm" in tensor.buffer or "hbm" in other.buffer
    return case.rewrite(case.isa("dma_copy" if far else "tensor_copy", dst=dst, src=src))


@fixes("A013")
def _member(case: Case) -> Rewrite | None:
    """An integer becomes the enum member of that value."""
    node = case.arguments.get(case.finding.operand)
    if not isinstance(node, ast.Constant):
        return None
    member = f"{case.nisa}.{case.finding.data['member']}"
    return case.rewrite(case.with_expression(node, member))
