"""Sine, cosine and tangent, from the Scalar engine's sine between -pi and pi."""

from __future__ import annotations

import math
from typing import Any

from nkisim.dtypes import float32
from nkisim.isa import activation, scalar_tensor_tensor, tensor_scalar, tensor_tensor
from nkisim.isa import reciprocal as isa_reciprocal
from nkisim.language.elementwise import define_activation
from nkisim.language.tiles import fresh, need_tile, result_dtype
from nkisim.memory import NkiTensor
from nkisim.spec import OPS
from nkisim.spec.signatures import checked_call

_TWO_PI = (6.28125, 0.0019350051879882812, 3.0199159819567e-07)
"""Addends of 2 pi. Integer multiples of the first two, of 8 and 12 bits, are exact."""

_ROUNDS = 1.5 * 2.0**23
"""``x + _ROUNDS - _ROUNDS`` in float32 is the integer nearest to x, for |x| up to 2^22."""


def _sin_of_any(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the sine of any ``x``, with an error of about 1e-6 for magnitudes up to 2^16.

    The documentation of NKI 0.6.0 does not name the instructions that reduce the argument.
    """
    tile = need_tile("sin", "x", x)
    turns, rest = fresh(tile.shape, float32), fresh(tile.shape, float32)
    tensor_scalar(
        turns,
        tile,
        op0=OPS["multiply"],
        operand0=1 / (2 * math.pi),
        op1=OPS["add"],
        operand1=_ROUNDS,
    )
    tensor_scalar(turns, turns, op0=OPS["subtract"], operand0=_ROUNDS)
    before = tile
    for part in _TWO_PI:
        scalar_tensor_tensor(
            rest,
            turns,
            op0=OPS["multiply"],
            operand0=-part,
            op1=OPS["add"],
            operand1=before,
        )
        before = rest
    # sin(r) = sin(pi - r) = sin(-pi - r), and one of the arguments is between -pi/2 and pi/2.
    mirrored = fresh(tile.shape, float32)
    for half_turn, nearer in ((math.pi, "minimum"), (-math.pi, "maximum")):
        tensor_scalar(
            mirrored,
            rest,
            op0=OPS["multiply"],
            operand0=-1.0,
            op1=OPS["add"],
            operand1=half_turn,
        )
        tensor_tensor(rest, rest, mirrored, op=OPS[nearer])
    out = fresh(tile.shape, result_dtype(dtype, tile))
    activation(out, op=OPS["sin"], data=rest)
    return out


sin = define_activation(
    "sin",
    "Return the sine; valid from -pi to pi, from NKI 0.6.0 on also beyond.",
    {"0.6.0": _sin_of_any},
)


@checked_call("nl.cos")
def cos(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the cosine: the sine of ``x + pi/2``, valid where that lies between -pi and pi."""
    tile = need_tile("cos", "x", x)
    shifted = fresh(tile.shape, float32)
    tensor_scalar(shifted, tile, op0=OPS["add"], operand0=math.pi / 2)
    out = fresh(tile.shape, result_dtype(dtype, tile))
    activation(out, op=OPS["sin"], data=shifted)
    return out


@checked_call("nl.tan")
def tan(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the tangent: sine times the reciprocal of the cosine."""
    tile = need_tile("tan", "x", x)
    sine, cosine = fresh(tile.shape, float32), cos(tile, dtype=float32)
    activation(sine, op=OPS["sin"], data=tile)
    inverse = fresh(tile.shape, float32)
    isa_reciprocal(inverse, cosine)
    out = fresh(tile.shape, result_dtype(dtype, tile))
    tensor_tensor(out, sine, inverse, op=OPS["multiply"])
    return out
