"""Element-wise tile functions. Each is also the operator that instructions take as ``op=``.

They call instructions: a two-operand function is a ``tensor_tensor`` or, with a
number, a ``tensor_scalar``; a one-operand function is an ``activation``. Results are new tiles in
SBUF, or in PSUM where that is noted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nkisim.diagnostics import flag
from nkisim.dtypes import float32, uint8
from nkisim.isa import (
    activation,
    memset,
    scalar_tensor_tensor,
    tensor_copy,
    tensor_copy_predicated,
    tensor_scalar,
    tensor_tensor,
)
from nkisim.isa import reciprocal as isa_reciprocal
from nkisim.language.shape import expand_tile
from nkisim.language.tiles import fresh, is_tile, need_tile, result_dtype
from nkisim.memory import NkiTensor
from nkisim.spec import OPS, Op, rules
from nkisim.spec.enums import engine as Engine
from nkisim.spec.signatures import checked_call

_NO_FRACTIONS = 2.0**23
"""From this magnitude on every float32 is an integer."""


def _combine(op: Op, x: Any, y: Any, dtype: Any) -> NkiTensor:
    """Return ``x <op> y`` for tiles and numbers; broadcasting is a finding."""
    if is_tile(x) and is_tile(y):
        a, b = need_tile(op.name, "x", x), need_tile(op.name, "y", y)
        out_type = result_dtype(dtype, a, b)
        if a.shape != b.shape:
            a, b = _broadcast(op, a, b)
        out = fresh(a.shape, out_type)
        tensor_tensor(out, a, b, op=op)
        return out
    if is_tile(x):
        tile, number, reverse = need_tile(op.name, "x", x), y, False
    elif is_tile(y):
        tile, number, reverse = need_tile(op.name, "y", y), x, True
    else:
        need_tile(op.name, "x", x)
        raise AssertionError("unreachable: need_tile raises")
    out = fresh(tile.shape, result_dtype(dtype, tile, number))
    tensor_scalar(out, tile, op0=op, operand0=number, reverse0=reverse)
    return out


def _broadcast(op: Op, a: NkiTensor, b: NkiTensor) -> tuple[NkiTensor, NkiTensor]:
    """Expand two tiles to a common shape, as AWS's simulator does; the compiler refuses it."""
    if len(a.shape) != len(b.shape) and a.size == b.size and a.shape[0] == b.shape[0]:
        return a, b.reshape(a.shape) if b.whole else b
    ndim = max(len(a.shape), len(b.shape))
    shapes = [
        (*t.shape, *(1,) * (ndim - len(t.shape))) if len(t.shape) < ndim else t.shape
        for t in (a, b)
    ]
    common = []
    for one, other in zip(*shapes, strict=True):
        if one != other and 1 not in (one, other):
            flag(
                rules.FREE_SIZE_MISMATCH,
                f"nl.{op.name}: shapes {a.shape} and {b.shape} cannot be combined",
                instruction=f"nl.{op.name}",
                operand="y",
                seen=f"{a.shape} and {b.shape}",
                allowed="equal shapes",
                fix="slice both tiles to the same shape",
            )
        common.append(max(one, other))
    flag(
        rules.FREE_BROADCAST if len(a.shape) == len(b.shape) else rules.RANK_BROADCAST,
        f"nl.{op.name} combines {a.shape} with {b.shape}, which needs broadcasting",
        instruction=f"nl.{op.name}",
        operand="y",
        seen=f"{a.shape} and {b.shape}",
        allowed="equal shapes",
        fix="nisa.tensor_scalar with a (P, 1) operand, nl.broadcast_to, or a stride-0 .ap",
    )
    return expand_tile(a, tuple(common)), expand_tile(b, tuple(common))


def _apply(op: Op, x: Any, dtype: Any) -> NkiTensor:
    """Return an activation function of a tile."""
    tile = need_tile(op.name, "x", x)
    out = fresh(tile.shape, result_dtype(dtype, tile))
    activation(out, op=op, data=tile)
    return out


@OPS["add"].define
def add(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x + y``."""
    return _combine(OPS["add"], x, y, dtype)


@OPS["subtract"].define
def subtract(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x - y``."""
    return _combine(OPS["subtract"], x, y, dtype)


@OPS["multiply"].define
def multiply(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x * y``."""
    return _combine(OPS["multiply"], x, y, dtype)


@OPS["maximum"].define
def maximum(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return the larger of ``x`` and ``y``."""
    return _combine(OPS["maximum"], x, y, dtype)


@OPS["minimum"].define
def minimum(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return the smaller of ``x`` and ``y``."""
    return _combine(OPS["minimum"], x, y, dtype)


def _by_magnitude(op: Op, x: Any, y: Any, dtype: Any) -> NkiTensor:
    """Return ``x <op> y``, where a tile of one element per partition goes with a wider one."""
    tiles = [t for t in (x, y) if is_tile(t)]
    wide = max((t.free_size for t in tiles), default=1)
    narrow = [t for t in tiles if t.free_size == 1]
    if len(tiles) != 2 or wide == 1 or len(narrow) != 1:
        return _combine(op, x, y, dtype)
    tile, column = (y, x) if narrow[0] is x else (x, y)
    tile, column = (need_tile(op.name, "tile", t) for t in (tile, column))
    out = fresh(tile.shape, result_dtype(dtype, x, y))
    tensor_scalar(out, tile, op0=op, operand0=column, reverse0=narrow[0] is x)
    return out


@OPS["abs_max"].define
def abs_max(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x`` or ``y``, whichever has the larger magnitude, with its sign; ``y`` on a tie.

    Since NKI 0.4.0, on gen4. A tile with one element per partition is used for the whole row.
    """
    return _by_magnitude(OPS["abs_max"], x, y, dtype)


@OPS["abs_min"].define
def abs_min(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x`` or ``y``, whichever has the smaller magnitude, with its sign; ``y`` on a tie.

    Since NKI 0.4.0, on gen4. A tile with one element per partition is used for the whole row.
    """
    return _by_magnitude(OPS["abs_min"], x, y, dtype)


@OPS["divide"].define
def divide(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x / y``; no engine can divide, so this is also a finding."""
    return _combine(OPS["divide"], x, y, dtype)


@OPS["mod"].define
def mod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return the remainder with the sign of ``y``; fails to compile, so this is also a finding."""
    return _combine(OPS["mod"], x, y, dtype)


@OPS["fmod"].define
def fmod(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return the remainder with the sign of ``x``; fails to compile, so this is also a finding."""
    return _combine(OPS["fmod"], x, y, dtype)


@OPS["power"].define
def power(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x`` to the power of ``y``; the exponent must be a tile to compile."""
    if not is_tile(y):
        flag(
            rules.NO_MODULO,
            "nl.power with a scalar exponent fails to compile",
            instruction="nl.power",
            operand="y",
            seen=y,
            allowed="a tile",
            fix="nl.square, nl.sqrt, or a tile filled with the exponent",
        )
    return _combine(OPS["power"], x, y, dtype)


@OPS["equal"].define
def equal(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return 1 where ``x == y``, else 0."""
    return _combine(OPS["equal"], x, y, dtype)


@OPS["not_equal"].define
def not_equal(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return 1 where ``x != y``, else 0."""
    return _combine(OPS["not_equal"], x, y, dtype)


@OPS["greater"].define
def greater(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return 1 where ``x > y``, else 0."""
    return _combine(OPS["greater"], x, y, dtype)


@OPS["greater_equal"].define
def greater_equal(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return 1 where ``x >= y``, else 0."""
    return _combine(OPS["greater_equal"], x, y, dtype)


@OPS["less"].define
def less(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return 1 where ``x < y``, else 0."""
    return _combine(OPS["less"], x, y, dtype)


@OPS["less_equal"].define
def less_equal(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return 1 where ``x <= y``, else 0."""
    return _combine(OPS["less_equal"], x, y, dtype)


@OPS["logical_and"].define
def logical_and(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return 1 where both are nonzero, else 0."""
    return _combine(OPS["logical_and"], x, y, dtype)


@OPS["logical_or"].define
def logical_or(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return 1 where one is nonzero, else 0."""
    return _combine(OPS["logical_or"], x, y, dtype)


@OPS["logical_xor"].define
def logical_xor(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return 1 where exactly one is nonzero, else 0."""
    return _combine(OPS["logical_xor"], x, y, dtype)


@OPS["logical_not"].define
def logical_not(x: Any, dtype: Any = None) -> NkiTensor:
    """Return 0 where ``x`` is 1 and 1 where it is 0: an exclusive or with 1."""
    tile = need_tile("logical_not", "x", x)
    other = (tile.array != 0) & (tile.array != 1)
    if other.any() and tile.storage.unwritten(tile.region) is None:
        flag(
            rules.NOT_BOOLEAN,
            f"nl.logical_not: {int(other.sum())} values are neither 0 nor 1",
            instruction="nl.logical_not",
            operand="x",
            seen=tile.array[other][0],
            allowed="0 and 1",
            fix="nl.equal(x, 0)",
        )
    out = fresh(tile.shape, result_dtype(dtype, tile))
    tensor_scalar(out, tile, op0=OPS["logical_xor"], operand0=1.0)
    return out


@OPS["bitwise_and"].define
def bitwise_and(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return the bitwise and of integers."""
    return _combine(OPS["bitwise_and"], x, y, dtype)


@OPS["bitwise_or"].define
def bitwise_or(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return the bitwise or of integers."""
    return _combine(OPS["bitwise_or"], x, y, dtype)


@OPS["bitwise_xor"].define
def bitwise_xor(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return the bitwise exclusive or of integers."""
    return _combine(OPS["bitwise_xor"], x, y, dtype)


@OPS["left_shift"].define
def left_shift(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x`` shifted left by ``y`` bits."""
    return _combine(OPS["left_shift"], x, y, dtype)


@OPS["right_shift"].define
def right_shift(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x`` shifted right by ``y`` bits, filled with zeros."""
    return _combine(OPS["right_shift"], x, y, dtype)


@OPS["invert"].define
def invert(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the bitwise complement: an exclusive or with all ones."""
    tile = need_tile("invert", "x", x)
    out = fresh(tile.shape, result_dtype(dtype, tile))
    tensor_scalar(out, tile, op0=OPS["bitwise_xor"], operand0=0xFFFFFFFF)
    return out


def _define_activation(
    name: str, summary: str, changes: Mapping[str, Callable[..., Any]] | None = None
) -> Op:
    """Make an activation function callable on tiles; ``changes`` as in ``Op.define``."""
    op = OPS[name]

    def function(x: Any, dtype: Any = None) -> NkiTensor:
        return _apply(op, x, dtype)

    function.__doc__ = summary
    function.__module__ = __name__
    return op.define(function, changes)


_TWO_PI = (6.28125, 0.0019350051879882812, 3.0199159819567e-07)
"""Parts of 2 pi: the first two have 8 and 12 bits, so that whole multiples of them are exact."""

_ROUNDS = 1.5 * 2.0**23
"""Added to a smaller magnitude and subtracted again, it leaves the nearest integer."""


def _sin_of_any(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the sine, after whole turns are subtracted; to about 1e-6 up to a magnitude of 2^16.

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
    # sin(r) = sin(pi - r) = sin(-pi - r), the smaller of which lies between -pi/2 and pi/2.
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


square = _define_activation("square", "Return ``x * x``.")
sigmoid = _define_activation("sigmoid", "Return ``1 / (1 + exp(-x))``.")
relu = _define_activation("relu", "Return the larger of ``x`` and 0.")
gelu = _define_activation("gelu", "Return ``x`` times the normal distribution function of ``x``.")
gelu_dx = _define_activation("gelu_dx", "Return the derivative of gelu.")
gelu_apprx_tanh = _define_activation("gelu_apprx_tanh", "Return gelu in its tanh approximation.")
gelu_apprx_sigmoid = _define_activation(
    "gelu_apprx_sigmoid", "Return gelu in its sigmoid approximation, ``x * sigmoid(1.702 x)``."
)
gelu_apprx_sigmoid_dx = _define_activation(
    "gelu_apprx_sigmoid_dx", "Return the derivative of the sigmoid approximation of gelu."
)
silu = _define_activation("silu", "Return ``x * sigmoid(x)``.")
silu_dx = _define_activation("silu_dx", "Return the derivative of silu.")
tanh = _define_activation("tanh", "Return the hyperbolic tangent.")
softplus = _define_activation("softplus", "Return ``log(1 + exp(x))``.")
mish = _define_activation("mish", "Return ``x * tanh(softplus(x))``.")
erf = _define_activation("erf", "Return the error function.")
erf_dx = _define_activation("erf_dx", "Return the derivative of the error function.")
exp = _define_activation("exp", "Return e to the power of ``x``.")
log = _define_activation("log", "Return the natural logarithm.")
sin = _define_activation(
    "sin",
    "Return the sine; valid from -pi to pi, from NKI 0.6.0 on also beyond.",
    {"0.6.0": _sin_of_any},
)
arctan = _define_activation("arctan", "Return the inverse tangent; valid from -pi/2 to pi/2.")
sqrt = _define_activation("sqrt", "Return the square root.")


def _rsqrt_on_gpsimd(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the reciprocal square root, by GpSimd from NKI 0.5.0 on; not of a tile in PSUM."""
    tile = need_tile("rsqrt", "x", x)
    out = fresh(tile.shape, result_dtype(dtype, tile))
    tensor_scalar(out, tile, op0=OPS["rsqrt"], operand0=0.0, engine=Engine.gpsimd)
    return out


rsqrt = _define_activation(
    "rsqrt",
    "Return the reciprocal square root; from NKI 0.5.0 on by GpSimd, not of a tile in PSUM.",
    {"0.5.0": _rsqrt_on_gpsimd},
)
sign = _define_activation("sign", "Return -1, 0 or 1 with the sign of ``x``.")
abs = _define_activation("abs", "Return the magnitude.")


@OPS["reciprocal"].define
def reciprocal(x: Any, dtype: Any = None) -> NkiTensor:
    """Return ``1 / x``, on the Vector engine."""
    tile = need_tile("reciprocal", "x", x)
    out = fresh(tile.shape, result_dtype(dtype, tile))
    isa_reciprocal(out, tile)
    return out


def _copy_to_sbuf(x: Any, dtype: Any = None) -> NkiTensor:
    """Return a copy in SBUF by the Vector engine: bit for bit if the type does not change."""
    tile = need_tile("copy", "x", x)
    out = fresh(tile.shape, result_dtype(dtype, tile))
    tensor_copy(out, tile, engine=Engine.vector)
    return out


@partial(OPS["copy"].define, changes={"0.6.0": _copy_to_sbuf})
def copy(x: Any, dtype: Any = None) -> NkiTensor:
    """Return a copy in the same buffer by the Scalar engine, converted through float32.

    From NKI 0.6.0 on it is in SBUF and made by the Vector engine, bit for bit if the type does not
    change.
    """
    tile = need_tile("copy", "x", x)
    out = fresh(tile.shape, result_dtype(dtype, tile), like=tile)
    activation(out, op=OPS["copy"], data=tile)
    return out


average, bypass, prelu = OPS["average"], OPS["bypass"], OPS["prelu"]


@checked_call("nl.negative")
def negative(x: Any, dtype: Any = None) -> NkiTensor:
    """Return ``-x``."""
    tile = need_tile("negative", "x", x)
    out = fresh(tile.shape, result_dtype(dtype, tile))
    tensor_scalar(out, tile, op0=OPS["multiply"], operand0=-1.0)
    return out


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
    tile = need_tile("trunc", "x", x)
    out = fresh(tile.shape, result_dtype(dtype, tile))
    tensor_copy(out, _truncated(tile))
    return out


@checked_call("nl.where")
def where(condition: Any, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x`` where the condition is nonzero, else ``y``."""
    mask = need_tile("where", "condition", condition)
    out = fresh(mask.shape, result_dtype(dtype, x, y))
    predicate = fresh(mask.shape, uint8)
    tensor_scalar(predicate, mask, op0=OPS["not_equal"], operand0=0.0)
    _fill(out, "y", y)
    chosen = fresh(mask.shape, out.dtype)
    _fill(chosen, "x", x)
    tensor_copy_predicated(out, chosen, predicate)
    return out


def _fill(out: NkiTensor, name: str, value: Any) -> None:
    if is_tile(value):
        tensor_copy(out, need_tile("where", name, value))
    else:
        memset(out, value if out.dtype.is_float else int(value))
