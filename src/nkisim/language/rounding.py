"""Tile functions that round to integers: floor, ceil, trunc."""

from __future__ import annotations

from typing import Any

from nkisim.dtypes import float32, uint8
from nkisim.isa import (
    activation,
    tensor_copy,
    tensor_copy_predicated,
    tensor_scalar,
    tensor_tensor,
)
from nkisim.language.tiles import fresh, need_tile, operand_and_result, result_dtype
from nkisim.memory import NkiTensor
from nkisim.spec import OPS
from nkisim.spec.signatures import checked_call

_NO_FRACTIONS = 2.0**23
"""From this magnitude on every float32 is an integer."""


def _truncated(tile: NkiTensor) -> NkiTensor:
    """Return a float32 tile without fractions; infinities, NaN and large values pass unchanged.

    Adding 2^23 to a smaller magnitude rounds it to an integer, since float32 has no fractions
    there; where that rounded up, one is subtracted.
    """
    shape = tile.shape
    size, whole, excess = (fresh(shape, float32) for _ in range(3))
    activation(size, op=OPS["abs"], data=tile)
    tensor_scalar(
        whole,
        size,
        op0=OPS["add"],
        operand0=_NO_FRACTIONS,
        op1=OPS["subtract"],
        operand1=_NO_FRACTIONS,
    )
    tensor_tensor(excess, whole, size, op=OPS["greater"])
    tensor_tensor(whole, whole, excess, op=OPS["subtract"])
    small = fresh(shape, uint8)
    tensor_scalar(small, size, op0=OPS["less"], operand0=_NO_FRACTIONS)
    tensor_copy_predicated(size, whole, small)
    direction, out = fresh(shape, float32), fresh(shape, float32)
    activation(direction, op=OPS["sign"], data=tile)
    tensor_tensor(out, size, direction, op=OPS["multiply"])
    return out


def _corrected(name: str, x: Any, dtype: Any, compare: str, step: str) -> NkiTensor:
    """Truncate, then correct by one where that rounded in the wrong direction."""
    tile = need_tile(name, "x", x)
    whole, wrong = _truncated(tile), fresh(tile.shape, float32)
    tensor_tensor(wrong, whole, tile, op=OPS[compare])
    out = fresh(tile.shape, result_dtype(dtype, tile))
    tensor_tensor(out, whole, wrong, op=OPS[step])
    return out


@checked_call("nl.floor")
def floor(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the largest integer that is not above ``x``."""
    return _corrected("floor", x, dtype, "greater", "subtract")


@checked_call("nl.ceil")
def ceil(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the smallest integer that is not below ``x``."""
    return _corrected("ceil", x, dtype, "less", "add")


@checked_call("nl.trunc")
def trunc(x: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x`` without its fraction."""
    tile, out = operand_and_result("trunc", x, dtype)
    tensor_copy(out, _truncated(tile))
    return out
