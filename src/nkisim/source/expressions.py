"""What single nodes are: simple statements and literals."""

from __future__ import annotations

import ast

_COMPOUND = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.For, ast.AsyncFor, ast.While, ast.If, ast.Match),
    *(ast.With, ast.AsyncWith, ast.Try, ast.TryStar),
)


def is_simple(node: ast.AST) -> bool:
    """Return whether a node is a statement that contains no other statements."""
    return isinstance(node, ast.stmt) and not isinstance(node, _COMPOUND)


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


def indices(node: ast.Subscript) -> list[ast.expr]:
    """Return the indices and slices of a subscript."""
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


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
