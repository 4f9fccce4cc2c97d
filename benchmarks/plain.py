"""NKI instructions in plain NumPy: the reference interpreter of the benchmarks.

A tile is an array of its real type, bfloat16 and float8 from ml_dtypes. Every instruction converts
its operands with ``astype(float32)``, computes with NumPy and converts the result with ``astype``;
instructions that only move data copy it. Nothing is checked, cached or blocked. The simulator is
compared with this on the same kernels, so both execute the same list of instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

F32 = np.float32


def interpreted(kernel: Any) -> Callable[..., np.ndarray]:
    """Return a function that runs ``kernel``, with or without ``jit``, on plain arrays.

    The kernel and the functions of its module are rebound, with ``nl`` and ``nisa`` of this file
    instead of the module's own.
    """
    function = getattr(kernel, "function", kernel)
    outer = function.__globals__
    names = {**outer, "nl": nl, "nisa": nisa}

    def bound(original: FunctionType) -> FunctionType:
        copy = FunctionType(
            original.__code__,
            names,
            original.__name__,
            original.__defaults__,
            original.__closure__,
        )
        copy.__kwdefaults__ = original.__kwdefaults__
        return copy

    for name, value in outer.items():
        if isinstance(value, FunctionType) and value.__globals__ is outer:
            names[name] = bound(value)
    start = bound(function)

    def run(*arguments: Any) -> np.ndarray:
        tiles = (x.view(Tile) if isinstance(x, np.ndarray) else x for x in arguments)
        # Casts to narrow dtypes overflow silently on the device too.
        with np.errstate(all="ignore"):
            return start(*tiles).view(np.ndarray)

    return run


class Tile(np.ndarray):
    """An array with access patterns."""

    def ap(self, pattern: list[list[int]], offset: int = 0) -> np.ndarray:
        """Return the elements of ``[step, count]`` pairs, counted in a contiguous tile."""
        start = self.reshape(-1)[offset:]
        strides = [step * self.itemsize for step, _ in pattern]
        return np.lib.stride_tricks.as_strided(start, [count for _, count in pattern], strides)


def ndarray(shape: Any, dtype: Any, buffer: Any = None) -> Tile:
    return np.empty(shape, dtype).view(Tile)


def wide(value: Any) -> Any:
    """Return an operand in float32; numbers are operands too."""
    return value.astype(F32) if isinstance(value, np.ndarray) else F32(value)


def put(dst: Any, result: np.ndarray) -> None:
    """Round a result to the type of ``dst``."""
    dst[...] = result.astype(dst.dtype).reshape(dst.shape)


def dma_copy(dst: Any, src: Any) -> None:
    dst[...] = src


def nc_transpose(dst: Any, data: Any) -> None:
    dst[...] = data.T


def nc_matmul(dst: Any, stationary: Any, moving: Any, accumulate: bool = False) -> None:
    product = wide(stationary).T @ wide(moving)
    put(dst, wide(dst) + product if accumulate else product)


def memset(dst: Any, value: float) -> None:
    put(dst, np.full(dst.shape, value, F32))


def tensor_copy(dst: Any, src: Any) -> None:
    put(dst, wide(src))


def tensor_tensor(dst: Any, data1: Any, data2: Any, op: Any) -> None:
    left, right = wide(data1), wide(data2)
    put(dst, op(left, right.reshape(left.shape)))


def tensor_scalar(
    dst: Any, data: Any, op0: Any, operand0: Any, op1: Any = None, operand1: Any = None
) -> None:
    result = op0(wide(data), wide(operand0))
    put(dst, result if op1 is None else op1(result, wide(operand1)))


def scalar_tensor_tensor(
    dst: Any, data: Any, op0: Any, operand0: Any, op1: Any, operand1: Any
) -> None:
    put(dst, op1(op0(wide(data), wide(operand0)), wide(operand1)))


def tensor_reduce(dst: Any, op: Any, data: Any, axis: Any) -> None:
    put(dst, op.reduce(wide(data), axis=axis))


def activation(
    dst: Any,
    op: Any,
    data: Any,
    bias: Any = 0.0,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: Any = None,
) -> None:
    result = op(wide(data) * wide(scale) + wide(bias))
    put(dst, result)
    if reduce_res is not None:
        put(reduce_res, reduce_op.reduce(result, axis=1))


def reciprocal(dst: Any, data: Any) -> None:
    put(dst, F32(1) / wide(data))


def bn_stats(dst: Any, data: Any) -> None:
    values = wide(data)
    columns = []
    for part in (values[:, 0::2], values[:, 1::2]):
        count = np.full(part.shape[0], part.shape[1], F32)
        columns += [count, part.mean(axis=1), part.var(axis=1) * count]
    put(dst, np.stack(columns, axis=1))


def bn_aggr(dst: Any, data: Any) -> None:
    values = wide(data)
    count, mean, spread = (values[:, i::3] for i in range(3))
    total = count.sum(axis=1, keepdims=True)
    joint = (count * mean).sum(axis=1, keepdims=True) / total
    square = (spread + count * (mean - joint) ** 2).sum(axis=1, keepdims=True)
    put(dst, np.concatenate([joint, square / total], axis=1))


nl = SimpleNamespace(
    ndarray=ndarray,
    sbuf="sbuf",
    psum="psum",
    hbm="hbm",
    shared_hbm="shared_hbm",
    float32=F32,
    bfloat16=ml_dtypes.bfloat16,
    float8_e4m3=ml_dtypes.float8_e4m3,
    add=np.add,
    subtract=np.subtract,
    multiply=np.multiply,
    maximum=np.maximum,
    exp=np.exp,
    rsqrt=lambda x: F32(1) / np.sqrt(x),
)

nisa = SimpleNamespace(
    activation=activation,
    bn_aggr=bn_aggr,
    bn_stats=bn_stats,
    dma_copy=dma_copy,
    memset=memset,
    nc_matmul=nc_matmul,
    nc_transpose=nc_transpose,
    reciprocal=reciprocal,
    reduce_cmd=SimpleNamespace(reset_reduce="reset_reduce"),
    scalar_tensor_tensor=scalar_tensor_tensor,
    tensor_copy=tensor_copy,
    tensor_reduce=tensor_reduce,
    tensor_scalar=tensor_scalar,
    tensor_tensor=tensor_tensor,
)
