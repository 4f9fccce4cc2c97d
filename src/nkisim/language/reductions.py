"""Reductions of tiles; mean, var, softmax and rms_norm; and matmul."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nkisim.diagnostics import declare, flag
from nkisim.dtypes import DType, float32
from nkisim.isa import (
    activation,
    nc_matmul,
    nc_transpose,
    tensor_copy,
    tensor_reduce,
    tensor_scalar,
    tensor_tensor,
)
from nkisim.isa import reciprocal as isa_reciprocal
from nkisim.isa.reductions.reduce import reduced_axes
from nkisim.language.shape import expand_tile
from nkisim.language.tiles import fresh, need_tile, result_dtype
from nkisim.machine import current_core
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.spec import OPS, Op, rules
from nkisim.spec.signatures import checked_call

REDUCED_AXIS = declare(
    "S062",
    "reduced-axis",
    "A reduction of nki.language is over the partition axis or over an axis that is not trailing.",
    "tiles are reduced along their last free dimensions",
    meaningless=True,
)
MATMUL_NOT_TRANSPOSED = declare(
    "S061",
    "matmul-not-transposed",
    "nl.matmul is called without transpose_x=True.",
    "0.3.0 fails to compile the transposing form",
)


def _axes(function: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the reduced axes, which must be trailing free dimensions."""
    axes = reduced_axes(axis, ndim)
    if not axes or axes[0] == 0 or axes != tuple(range(axes[0], ndim)):
        flag(
            REDUCED_AXIS,
            f"nl.{function}: axis {axis} of a tile with {ndim} dimensions is not a group of "
            f"trailing free axes",
            instruction=f"nl.{function}",
            operand="axis",
            seen=axis,
            allowed=", ".join(str(list(range(i, ndim))) for i in range(ndim - 1, 0, -1)),
            fix="reshape, or use nisa.tensor_partition_reduce or a matmul with ones for partitions",
        )
    return axes


def _kept(tile: NkiTensor, axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return the shape of a reduction's result; tiles keep two dimensions."""
    kept = tile.shape[: axes[0]]
    shape = (*kept, *(1,) * len(axes)) if keepdims else kept
    return shape if len(shape) > 1 else (*shape, 1)


def _reduce(op: Op, function: str, x: Any, axis: Any, dtype: Any, keepdims: bool) -> NkiTensor:
    tile = need_tile(function, "x", x)
    axes = _axes(function, axis, len(tile.shape))
    out = fresh(_kept(tile, axes, keepdims), result_dtype(dtype, tile))
    tensor_reduce(out, op=op, data=tile, axis=axes, keepdims=keepdims)
    return out


def _usable_as(operator: Op) -> Callable[[Any], Any]:
    """Decorator that lets instructions take the function as their reduction operator."""

    def mark(function: Any) -> Any:
        function.operator = operator
        return function

    return mark


@_usable_as(OPS["add"])
@checked_call("nl.sum")
def sum(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Return the sum along trailing free axes."""
    return _reduce(OPS["add"], "sum", x, axis, dtype, keepdims)


@_usable_as(OPS["maximum"])
@checked_call("nl.max")
def max(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Return the maximum along trailing free axes."""
    return _reduce(OPS["maximum"], "max", x, axis, dtype, keepdims)


@_usable_as(OPS["minimum"])
@checked_call("nl.min")
def min(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Return the minimum along trailing free axes."""
    return _reduce(OPS["minimum"], "min", x, axis, dtype, keepdims)


@_usable_as(OPS["multiply"])
@checked_call("nl.prod")
def prod(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Return the product along trailing free axes."""
    return _reduce(OPS["multiply"], "prod", x, axis, dtype, keepdims)


@checked_call("nl.all")
def all(x: Any, axis: Any, dtype: Any = None) -> NkiTensor:
    """Return 1 where every element along trailing free axes is nonzero, else 0."""
    return _reduce(OPS["logical_and"], "all", x, axis, dtype, False)


@checked_call("nl.mean")
def mean(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Return the mean along trailing free axes, summed in float32."""
    tile = need_tile("mean", "x", x)
    axes = _axes("mean", axis, len(tile.shape))
    return _mean(tile, axes, result_dtype(dtype, tile), keepdims)


def _mean(tile: NkiTensor, axes: tuple[int, ...], dtype: DType, keepdims: bool) -> NkiTensor:
    shape = _kept(tile, axes, keepdims)
    total = fresh(shape, float32)
    tensor_reduce(total, op=OPS["add"], data=tile, axis=axes, keepdims=keepdims)
    out = fresh(shape, dtype)
    tensor_scalar(out, total, op0=OPS["multiply"], operand0=1.0 / math.prod(tile.shape[axes[0] :]))
    return out


@checked_call("nl.var")
def var(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Return the variance along trailing free axes, which are always kept with extent 1."""
    tile = need_tile("var", "x", x)
    axes = _axes("var", axis, len(tile.shape))
    centre = expand_tile(_mean(tile, axes, float32, True), tile.shape)
    deviation = fresh(tile.shape, float32)
    tensor_tensor(deviation, tile, centre, op=OPS["subtract"])
    squared = fresh(tile.shape, float32)
    tensor_tensor(squared, deviation, deviation, op=OPS["multiply"])
    return _mean(squared, axes, result_dtype(dtype, tile), True)


def _flag_broadcast(function: str) -> None:
    flag(
        rules.FREE_BROADCAST,
        f"nl.{function} combines full tiles with reduced ones, which needs broadcasting",
        instruction=f"nl.{function}",
        operand="x",
        seen="internal broadcasting",
        allowed="equal shapes",
        fix="write it with nisa.tensor_reduce, nisa.activation with a (P, 1) bias, and "
        "nisa.tensor_scalar",
    )


@checked_call("nl.softmax")
def softmax(x: Any, axis: Any = -1, dtype: Any = None) -> NkiTensor:
    """Return the softmax along trailing free axes; a finding, since 0.3.0 cannot compile it."""
    tile = need_tile("softmax", "x", x)
    axes = _axes("softmax", axis, len(tile.shape))
    _flag_broadcast("softmax")
    peak = fresh(_kept(tile, axes, True), float32)
    tensor_reduce(peak, op=OPS["maximum"], data=tile, axis=axes, keepdims=True)
    shifted, powers = fresh(tile.shape, float32), fresh(tile.shape, float32)
    tensor_tensor(shifted, tile, expand_tile(peak, tile.shape), op=OPS["subtract"])
    activation(powers, op=OPS["exp"], data=shifted)
    total, inverse = fresh(peak.shape, float32), fresh(peak.shape, float32)
    tensor_reduce(total, op=OPS["add"], data=powers, axis=axes, keepdims=True)
    isa_reciprocal(inverse, total)
    out = fresh(tile.shape, result_dtype(dtype, tile))
    tensor_tensor(out, powers, expand_tile(inverse, tile.shape), op=OPS["multiply"])
    return out


@checked_call("nl.rms_norm")
def rms_norm(
    x: Any,
    w: Any,
    axis: Any,
    n: int,
    epsilon: float = 1e-06,
    dtype: Any = None,
    compute_dtype: Any = None,
) -> NkiTensor:
    """Return ``x / sqrt(sum(x*x)/n + epsilon) * w``; a finding, since 0.3.0 cannot compile it."""
    tile, weight = need_tile("rms_norm", "x", x), need_tile("rms_norm", "w", w)
    axes = _axes("rms_norm", axis, len(tile.shape))
    kind = result_dtype(compute_dtype or float32)
    _flag_broadcast("rms_norm")
    squares = fresh(tile.shape, kind)
    activation(squares, op=OPS["square"], data=tile)
    total = fresh(_kept(tile, axes, True), float32)
    tensor_reduce(total, op=OPS["add"], data=squares, axis=axes, keepdims=True)
    scaled, inverse = fresh(total.shape, float32), fresh(total.shape, float32)
    tensor_scalar(
        scaled, total, op0=OPS["multiply"], operand0=1.0 / n, op1=OPS["add"], operand1=epsilon
    )
    activation(inverse, op=OPS["rsqrt"], data=scaled)
    normalised = fresh(tile.shape, kind)
    tensor_tensor(normalised, tile, expand_tile(inverse, tile.shape), op=OPS["multiply"])
    out = fresh(tile.shape, result_dtype(dtype, tile))
    tensor_tensor(out, normalised, expand_tile(weight, tile.shape), op=OPS["multiply"])
    return out


@checked_call("nl.matmul")
def matmul(x: Any, y: Any, transpose_x: bool = False) -> NkiTensor:
    """Return ``x @ y``, or ``x.T @ y`` with ``transpose_x``, as a float32 tile in PSUM."""
    left, right = need_tile("matmul", "x", x), need_tile("matmul", "y", y)
    memory = current_core("nl.matmul").memory
    if not transpose_x:
        flag(
            MATMUL_NOT_TRANSPOSED,
            "nl.matmul without transpose_x=True fails to compile",
            instruction="nl.matmul",
            operand="transpose_x",
            seen=transpose_x,
            allowed=True,
            fix="pass x already transposed, with transpose_x=True",
        )
        turned = memory.allocate(
            (left.free_size, left.shape[0]), left.dtype, MemoryRegion.psum, where="nl.matmul"
        )
        nc_transpose(turned, left)
        left = fresh(turned.shape, turned.dtype)
        tensor_copy(left, turned)
    out = memory.allocate(
        (left.free_size, right.free_size), float32, MemoryRegion.psum, where="nl.matmul"
    )
    nc_matmul(out, left, right)
    return out
