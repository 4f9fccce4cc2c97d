"""Single nodes: simple statements, expressions and literals."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import TypeVar

N = TypeVar("N", bound=ast.AST)

_COMPOUND = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.For, ast.AsyncFor, ast.While, ast.If, ast.Match),
    *(ast.With, ast.AsyncWith, ast.Try, ast.TryStar),
)


OPERATORS: dict[type[ast.operator], str] = {
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
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}
"""The functions of nki.language for operators and comparisons of Python."""


def is_simple(node: ast.AST) -> bool:
    """Return whether a node is a statement that contains no other statements."""
    return isinstance(node, ast.stmt) and not isinstance(node, _COMPOUND)


def expression(text: str) -> ast.expr:
    """Return the tree of an expression."""
    return ast.parse(text, mode="eval").body


def is_none(node: ast.AST | None) -> bool:
    """Return whether an expression is ``None``."""
    return isinstance(node, ast.Constant) and node.value is None


def string(node: ast.AST | None) -> str | None:
    """Return the value of a string literal."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def base_name(node: ast.AST) -> ast.Name | None:
    """Return the name at the start of ``t``, ``t[...]`` or ``t[...][...]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def names_in(*nodes: ast.AST) -> set[str]:
    """Return the names that are read in nodes."""
    found = (node for outer in nodes for node in ast.walk(outer) if isinstance(node, ast.Name))
    return {name.id for name in found if isinstance(name.ctx, ast.Load)}


def indices(node: ast.Subscript) -> list[ast.expr]:
    """Return the indices and slices of a subscript."""
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def extent_of(shape: ast.expr | None, axis: int) -> str:
    """Return an extent of a shape as it is written; empty if the shape has none or is unknown."""
    if isinstance(shape, ast.Tuple):
        return ast.unparse(shape.elts[axis]) if len(shape.elts) > axis else ""
    return "" if shape is None else f"{ast.unparse(shape)}[{axis}]"


def rewritten(node: N, change: Callable[[ast.expr], ast.expr | None]) -> N:
    """Return a copy of a node with some of its expressions replaced, inner ones first."""
    return _Change(change).visit(copy.deepcopy(node))  # type: ignore[return-value]


class _Change(ast.NodeTransformer):
    def __init__(self, change: Callable[[ast.expr], ast.expr | None]) -> None:
        self.change = change

    def visit(self, node: ast.AST) -> ast.AST:
        node = self.generic_visit(node)
        if isinstance(node, ast.expr):
            return self.change(node) or node
        return node


def number(node: ast.AST | None) -> int | float | None:
    """Return the value of a literal number without sign."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def literal_integer(node: ast.AST | None) -> int | None:
    """Return the value of an integer literal, also of a negative one."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = literal_integer(node.operand)
        return None if inner is None else -inner
    value = number(node)
    return value if isinstance(value, int) else None
