"""What loops in LLVM's own terms share: vectors of a type, constants, and calls of intrinsics.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

__all__ = ["FLOAT", "call", "constant", "lanes_of", "spread"]

FLOAT = ir.FloatType()
_I32 = ir.IntType(32)


def lanes_of(kind: Any, lanes: int) -> Any:
    """Return LLVM's type of ``lanes`` elements: a vector, or the type itself for one."""
    return kind if lanes == 1 else ir.VectorType(kind, lanes)


def constant(kind: Any, lanes: int, value: Any) -> ir.Constant:
    """Return a constant that is the same in every lane."""
    return ir.Constant(lanes_of(kind, lanes), value if lanes == 1 else [value] * lanes)


def spread(builder: Any, value: Any, lanes: int) -> Any:
    """Emit a vector that has a value in every lane."""
    nothing = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, nothing, constant(_I32, lanes, 0))


def call(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """Emit a call of LLVM's intrinsic of that name."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)
