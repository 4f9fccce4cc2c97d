"""What single nodes are: simple statements, literals, arguments by parameter."""

from __future__ import annotations

import ast
from collections.abc import Sequence

__all__ = ["arguments_of", "is_none", "is_simple", "literal_integer", "number", "string"]

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


def arguments_of(call: ast.Call, parameters: Sequence[str]) -> dict[str, ast.expr] | None:
    """Return the arguments of a call by parameter, or None if they cannot be told apart.

    They cannot if there are stars, too many arguments, or two for one parameter.
    """
    if any(isinstance(a, ast.Starred) for a in call.args) or len(call.args) > len(parameters):
        return None
    found = dict(zip(parameters, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in found:
            return None
        found[keyword.arg] = keyword.value
    return found
