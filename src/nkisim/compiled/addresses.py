"""Where the elements of arrays lie, for loops that compute with vectors of them.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["address_of_row", "pointer_to"]

_I64 = ir.IntType(64)


@intrinsic  # type: ignore[untyped-decorator]
def address_of_row(context: Any, array: Any, row: Any) -> Any:
    """Return where a row of an array begins, as a number."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        step = builder.mul(arguments[1], builder.extract_value(array.strides, 0))
        return builder.add(builder.ptrtoint(array.data, _I64), step)

    return types.int64(array, types.int64), build


@intrinsic  # type: ignore[untyped-decorator]
def pointer_to(context: Any, like: Any, address: Any) -> Any:
    """Return a pointer to elements at an address, of a type or of that of an array."""
    pointer = types.CPointer(like.dtype)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[1], context.get_value_type(pointer))

    return pointer(like, types.int64), build
