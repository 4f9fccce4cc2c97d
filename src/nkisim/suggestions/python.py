"""Fixes of Python on tensors: operators, comparisons, NumPy functions, tensors as numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable

from nkisim.diagnostics import Rewrite
from nkisim.intents import Intent, intent_of, language_name
from nkisim.source import expression, names_in
from nkisim.suggestions.invented import is_of_rows, value_of
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
