"""Element-wise tile functions. Each is also the operator that instructions take as ``op=``.

They call instructions: a two-operand function is a ``tensor_tensor`` or, with a number, a
``tensor_scalar``; a one-operand function is an ``activation``. Results are new tiles in SBUF; a
docstring notes where they are in PSUM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nkisim.diagnostics import flag
from nkisim.dtypes import uint8
from nkisim.isa import (
    activation,
    memset,
    tensor_copy,
    tensor_copy_predicated,
    tensor_scalar,
    tensor_tensor,
)
from nkisim.isa import reciprocal as isa_reciprocal
from nkisim.language.shape import expand_tile
from nkisim.language.tiles import fresh, is_tile, need_tile, operand_and_result, result_dtype
from nkisim.memory import NkiTensor
from nkisim.spec import OPS, Op, rules
from nkisim.spec.enums import engine as Engine
from nkisim.spec.signatures import checked_call


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
        data={"shapes": [a.shape, b.shape]},
    )
    return expand_tile(a, tuple(common)), expand_tile(b, tuple(common))


def _apply(op: Op, x: Any, dtype: Any) -> NkiTensor:
    """Return an activation function of a tile."""
    tile, out = operand_and_result(op.name, x, dtype)
    activation(out, op=op, data=tile)
    return out


def _define(op: Op, function: Callable[..., NkiTensor], summary: str, **changes: Any) -> Op:
    """Make ``op`` callable on tiles: a call runs ``function``, whose docstring is ``summary``."""
    function.__name__, function.__doc__, function.__module__ = op.name, summary, __name__
    return op.define(function, **changes)


def _define_binary(name: str, summary: str) -> Op:
    """Make an operator of two operands callable on tiles and numbers."""
    op = OPS[name]

    def function(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        return _combine(op, x, y, dtype)

    return _define(op, function, summary)


add = _define_binary("add", "Return ``x + y``.")
subtract = _define_binary("subtract", "Return ``x - y``.")
multiply = _define_binary("multiply", "Return ``x * y``.")
maximum = _define_binary("maximum", "Return the larger of ``x`` and ``y``.")
minimum = _define_binary("minimum", "Return the smaller of ``x`` and ``y``.")


def _by_magnitude(op: Op, x: Any, y: Any, dtype: Any) -> NkiTensor:
    """Return ``x <op> y``; a tile of one element per partition is repeated along a wider one."""
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


divide = _define_binary(
    "divide", "Return ``x / y``; no engine can divide, so this is also a finding."
)
mod = _define_binary(
    "mod", "Return the remainder with the sign of ``y``; a finding, since it fails to compile."
)
fmod = _define_binary(
    "fmod", "Return the remainder with the sign of ``x``; a finding, since it fails to compile."
)


@OPS["power"].define
def power(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """Return ``x`` to the power of ``y``; kernels compile only if the exponent is a tile."""
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


equal = _define_binary("equal", "Return 1 where ``x == y``, else 0.")
not_equal = _define_binary("not_equal", "Return 1 where ``x != y``, else 0.")
greater = _define_binary("greater", "Return 1 where ``x > y``, else 0.")
greater_equal = _define_binary("greater_equal", "Return 1 where ``x >= y``, else 0.")
less = _define_binary("less", "Return 1 where ``x < y``, else 0.")
less_equal = _define_binary("less_equal", "Return 1 where ``x <= y``, else 0.")
logical_and = _define_binary("logical_and", "Return 1 where both are nonzero, else 0.")
logical_or = _define_binary("logical_or", "Return 1 where one is nonzero, else 0.")
logical_xor = _define_binary("logical_xor", "Return 1 where exactly one is nonzero, else 0.")


@OPS["logical_not"].define
def logical_not(x: Any, dtype: Any = None) -> NkiTensor:
    """Return 0 where ``x`` is 1 and 1 where it is 0: an exclusive or with 1."""
    tile = need_tile("logical_not", "x", x)
    other = (tile._elements != 0) & (tile._elements != 1)
    if other.any() and tile._storage.unwritten(tile.region) is None:
        flag(
            rules.NOT_BOOLEAN,
            f"nl.logical_not: {int(other.sum())} values are neither 0 nor 1",
            instruction="nl.logical_not",
            operand="x",
            seen=tile._elements[other][0],
            allowed="0 and 1",
            fix="nl.equal(x, 0)",
        )
    out = fresh(tile.shape, result_dtype(dtype, tile))
    tensor_scalar(out, tile, op0=OPS["logical_xor"], operand0=1.0)
    return out


bitwise_and = _define_binary("bitwise_and", "Return the bitwise and of integers.")
bitwise_or = _define_binary("bitwise_or", "Return the bitwise or of integers.")
bitwise_xor = _define_binary("bitwise_xor", "Return the bitwise exclusive or of integers.")
left_shift = _define_binary("left_shift", "Return ``x`` shifted left by ``y`` bits.")
right_shift = _define_binary(
    "right_shift", "Return ``x`` shifted right by ``y`` bits, filled with zeros."
)


@OPS["invert"].define
def invert(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the bitwise complement: an exclusive or with all ones."""
    tile, out = operand_and_result("invert", x, dtype)
    tensor_scalar(out, tile, op0=OPS["bitwise_xor"], operand0=0xFFFFFFFF)
    return out


def define_activation(
    name: str, summary: str, changes: Mapping[str, Callable[..., Any]] | None = None
) -> Op:
    """Make an activation function callable on tiles; ``changes`` as in ``Op.define``."""
    op = OPS[name]

    def function(x: Any, dtype: Any = None) -> NkiTensor:
        return _apply(op, x, dtype)

    return _define(op, function, summary, changes=changes)


square = define_activation("square", "Return ``x * x``.")
sigmoid = define_activation("sigmoid", "Return ``1 / (1 + exp(-x))``.")
relu = define_activation("relu", "Return the larger of ``x`` and 0.")
gelu = define_activation("gelu", "Return ``x`` times the normal distribution function of ``x``.")
gelu_dx = define_activation("gelu_dx", "Return the derivative of gelu.")
gelu_apprx_tanh = define_activation("gelu_apprx_tanh", "Return gelu in its tanh approximation.")
gelu_apprx_sigmoid = define_activation(
    "gelu_apprx_sigmoid", "Return gelu in its sigmoid approximation, ``x * sigmoid(1.702 x)``."
)
gelu_apprx_sigmoid_dx = define_activation(
    "gelu_apprx_sigmoid_dx", "Return the derivative of the sigmoid approximation of gelu."
)
silu = define_activation("silu", "Return ``x * sigmoid(x)``.")
silu_dx = define_activation("silu_dx", "Return the derivative of silu.")
tanh = define_activation("tanh", "Return the hyperbolic tangent.")
softplus = define_activation("softplus", "Return ``log(1 + exp(x))``.")
mish = define_activation("mish", "Return ``x * tanh(softplus(x))``.")
erf = define_activation("erf", "Return the error function.")
erf_dx = define_activation("erf_dx", "Return the derivative of the error function.")
exp = define_activation("exp", "Return e to the power of ``x``.")
log = define_activation("log", "Return the natural logarithm.")
arctan = define_activation("arctan", "Return the inverse tangent; valid from -pi/2 to pi/2.")
sqrt = define_activation("sqrt", "Return the square root.")


def _rsqrt_on_gpsimd(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the reciprocal square root, computed by GpSimd, which does not read PSUM."""
    tile, out = operand_and_result("rsqrt", x, dtype)
    tensor_scalar(out, tile, op0=OPS["rsqrt"], operand0=0.0, engine=Engine.gpsimd)
    return out


rsqrt = define_activation(
    "rsqrt",
    "Return the reciprocal square root; from NKI 0.5.0 on by GpSimd, not of a tile in PSUM.",
    {"0.5.0": _rsqrt_on_gpsimd},
)
sign = define_activation("sign", "Return -1, 0 or 1 with the sign of ``x``.")
abs = define_activation("abs", "Return the magnitude.")


@OPS["reciprocal"].define
def reciprocal(x: Any, dtype: Any = None) -> NkiTensor:
    """Return ``1 / x``, on the Vector engine."""
    tile, out = operand_and_result("reciprocal", x, dtype)
    isa_reciprocal(out, tile)
    return out


def _copy_to_sbuf(x: Any, dtype: Any = None) -> NkiTensor:
    """Return a copy in SBUF by the Vector engine: bit for bit if the type does not change."""
    tile, out = operand_and_result("copy", x, dtype)
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
    tile, out = operand_and_result("negative", x, dtype)
    tensor_scalar(out, tile, op0=OPS["multiply"], operand0=-1.0)
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
