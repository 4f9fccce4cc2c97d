"""Kernels before and after a piece of advice was followed, to compare promised and obtained gains.

Each function takes ``followed``: whether the kernel is the one that the advice asks for. Both
compute the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl

__all__ = ["ADVISED", "Advised", "Gain", "gain_of"]


class Advised(NamedTuple):
    """A kernel, and the rule that has advice for it.

    Attributes:
        rule: The rule.
        kernel: The kernel; its last argument is ``followed``.
        arguments: Returns the other arguments for a size, about 1 to 4.
        targets: Generations on which the rule has advice.
    """

    rule: str
    kernel: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    targets: tuple[str, ...] = ("gen2", "gen3", "gen4")


class Gain(NamedTuple):
    """Times in us: before, promised by the advice, and obtained by following it."""

    before: float
    promised: float
    obtained: float


def gain_of(advised: Advised, size: int, target: str) -> Gain | None:
    """Return the gains of a kernel, or None if its rule has no advice for it."""
    arguments = advised.arguments(size)
    before = nkisim.profile(advised.kernel, target)(*arguments, False)
    promises = [piece.gain_us or 0.0 for piece in before.advice if piece.rule == advised.rule]
    if not promises:
        return None
    after = nkisim.profile(advised.kernel, target, advice=False)(*arguments, True)
    return Gain(before.latency_us, max(promises), before.latency_us - after.latency_us)


def _zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.broadcast_to(np.zeros((), dtype), shape)


def scaled_rows(x: Any, columns: int, followed: bool) -> Any:
    """P001: short rows. Followed: sixteen consecutive rows in each partition."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    width = columns * (16 if followed else 1)
    for i in nl.affine_range(x.shape[0] * columns // (128 * width)):
        pattern, offset = [[width, 128], [1, width]], i * 128 * width
        tile = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.ap(pattern, offset=offset))
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out.ap(pattern, offset=offset), src=tile)
    return out


def exponentials(x: Any, followed: bool) -> Any:
    """P002: many transfers. Followed: hardware makes the descriptors, on two queues."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        if followed:
            nisa.dma_copy(
                dst=tile, src=x[rows], dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.sync
            )
        else:
            nisa.dma_copy(dst=tile, src=x[rows])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        if followed:
            nisa.dma_copy(
                dst=out[rows], src=tile, dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.scalar
            )
        else:
            nisa.dma_copy(dst=out[rows], src=tile)
    return out


def product_in_columns(a: Any, b: Any, columns: int, followed: bool) -> Any:
    """P003 and P004: products of few columns. Followed: all 512 columns in one product."""
    depth, height = a.shape
    out = nl.ndarray((height, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray((128, depth // 128, height), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((128, depth // 128, 512), dtype=b.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(depth // 128):
        nisa.dma_copy(dst=left[:, k, :], src=a[k * 128 : (k + 1) * 128])
        nisa.dma_copy(dst=right[:, k, :], src=b[k * 128 : (k + 1) * 128])
    step = 512 if followed else columns
    for m in nl.affine_range(height // 128):
        rows = slice(m * 128, (m + 1) * 128)
        total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        for k in nl.affine_range(depth // 128):
            for c in nl.affine_range(512 // step):
                piece = slice(c * step, (c + 1) * step)
                nisa.nc_matmul(
                    dst=total[:, piece],
                    stationary=left[:, k, rows],
                    moving=right[:, k, piece],
                    accumulate=k > 0,
                )
        result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out[rows], src=result)
    return out


def added_up(x: Any, followed: bool) -> Any:
    """P005: all loads go to one tile. Followed: a tile for each iteration."""
    out = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.sequential_range(x.shape[0] // 128):
        if followed:
            tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


def shifted_blocks(x: Any, followed: bool) -> Any:
    """P006: all blocks are in SBUF at once. Followed: one block after the other."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    count = x.shape[0] // 128
    together = 1 if followed else count
    for first in nl.affine_range(count // together):
        tiles = []
        for i in nl.affine_range(together):
            row = (first * together + i) * 128
            tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[row : row + 128])
            tiles.append(tile)
        for i in nl.affine_range(together):
            row = (first * together + i) * 128
            nisa.tensor_scalar(dst=tiles[i], data=tiles[i], op0=nl.add, operand0=1.0)
            nisa.dma_copy(dst=out[row : row + 128], src=tiles[i])
    return out


def outer_products(a: Any, b: Any, followed: bool) -> Any:
    """P007: Vector empties PSUM alone. Followed: Scalar takes every second tile."""
    count = a.shape[1] // 128
    out = nl.ndarray((count * 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray((128, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    rows = nl.ndarray((128, count, 512), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.affine_range(count):
        product = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=left[:, i * 128 : (i + 1) * 128], moving=right)
        scalar = followed and i % 2 == 1
        engine = nisa.engine.scalar if scalar else nisa.engine.vector
        nisa.tensor_copy(dst=rows[:, i, :], src=product, engine=engine)
    nisa.dma_copy(dst=out.reshape((128, count, 512)), src=rows)
    return out


def transposed(x: Any, followed: bool) -> Any:
    """P008: a load transposes elements. Followed: the Tensor engine transposes blocks."""
    rows = x.shape[0]
    out = nl.ndarray((128, rows), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, rows), dtype=x.dtype, buffer=nl.sbuf)
    if followed:
        for i in nl.affine_range(rows // 128):
            block = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=block, src=x[i * 128 : (i + 1) * 128])
            turned = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=block)
            nisa.tensor_copy(dst=tile[:, i * 128 : (i + 1) * 128], src=turned)
    else:
        nisa.dma_copy(dst=tile, src=x.ap([[1, 128], [128, rows]]))
    nisa.dma_copy(dst=out, src=tile)
    return out


def product_from_hbm(a: Any, b: Any, followed: bool) -> Any:
    """P009: the left tiles are loaded for every n. Followed: once for every m."""
    depth, height = a.shape
    out = nl.ndarray((height, b.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(height // 128):
        rows = slice(m * 128, (m + 1) * 128)
        kept = []
        if followed:
            for k in nl.affine_range(depth // 128):
                left = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=a[k * 128 : (k + 1) * 128, rows])
                kept.append(left)
        for n in nl.affine_range(b.shape[1] // 512):
            columns = slice(n * 512, (n + 1) * 512)
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(depth // 128):
                if followed:
                    left = kept[k]
                else:
                    left = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
                    nisa.dma_copy(dst=left, src=a[k * 128 : (k + 1) * 128, rows])
                right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=right, src=b[k * 128 : (k + 1) * 128, columns])
                nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=k > 0)
            result = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=total)
            nisa.dma_copy(dst=out[rows, columns], src=result)
    return out


def centred(x: Any, followed: bool) -> Any:
    """P009: a second pass loads all blocks again. Followed: the first pass keeps them."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    kept = []
    for i in nl.sequential_range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
        kept.append(tile)
    for i in nl.affine_range(x.shape[0] // 128):
        if followed:
            again = kept[i]
        else:
            again = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=again, src=x[i * 128 : (i + 1) * 128])
        result = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=result, data1=again, data2=total, op=nl.subtract)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=result)
    return out


def softmax(x: Any, followed: bool) -> Any:
    """P010: difference, exponential and sum. Followed: one activation with bias and sum."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        most = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        nisa.tensor_reduce(dst=most, op=nl.maximum, data=tile, axis=1)
        if followed:
            bias = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=bias, data=most, op0=nl.multiply, operand0=-1.0)
            nisa.activation(
                dst=tile,
                op=nl.exp,
                data=tile,
                bias=bias,
                reduce_op=nl.add,
                reduce_res=total,
                reduce_cmd=nisa.reduce_cmd.reset_reduce,
            )
        else:
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=most)
            nisa.activation(dst=tile, op=nl.exp, data=tile)
            nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[rows], src=tile)
    return out


def mean_squares(x: Any, followed: bool) -> Any:
    """P010: squares and their sum. Followed: one activation with a sum."""
    out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        squares = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        if followed:
            nisa.activation(
                dst=squares,
                op=nl.square,
                data=tile,
                reduce_op=nl.add,
                reduce_res=total,
                reduce_cmd=nisa.reduce_cmd.reset_reduce,
            )
        else:
            nisa.tensor_tensor(dst=squares, data1=tile, data2=tile, op=nl.multiply)
            nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=1)
        nisa.dma_copy(dst=out[rows], src=total)
    return out


def polynomial(x: Any, followed: bool) -> Any:
    """P011: Vector does all products and sums. Followed: Scalar does the scaling."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        linear = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        engine = nisa.engine.scalar if followed else nisa.engine.vector
        nisa.tensor_scalar(
            dst=linear,
            data=tile,
            op0=nl.multiply,
            operand0=2.0,
            op1=nl.add,
            operand1=1.0,
            engine=engine,
        )
        nisa.tensor_tensor(dst=linear, data1=linear, data2=tile, op=nl.multiply)
        nisa.tensor_tensor(dst=linear, data1=linear, data2=tile, op=nl.add)
        nisa.tensor_tensor(dst=linear, data1=linear, data2=tile, op=nl.multiply)
        nisa.dma_copy(dst=out[rows], src=linear)
    return out


def row_products(x: Any, y: Any, followed: bool) -> Any:
    """P011: Vector multiplies and sums. Followed: GpSimd multiplies every second tile."""
    out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    mode = nisa.dge_mode.hwdge
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        left = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        right = nl.ndarray((128, x.shape[1]), dtype=y.dtype, buffer=nl.sbuf)
        product = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=x[rows], dge_mode=mode, engine=nisa.engine.sync)
        nisa.dma_copy(dst=right, src=y[rows], dge_mode=mode, engine=nisa.engine.scalar)
        engine = nisa.engine.gpsimd if followed and i % 2 == 1 else nisa.engine.vector
        nisa.tensor_tensor(dst=product, data1=left, data2=right, op=nl.multiply, engine=engine)
        nisa.tensor_reduce(dst=total, op=nl.add, data=product, axis=1)
        nisa.dma_copy(dst=out[rows], src=total, dge_mode=mode, engine=nisa.engine.sync)
    return out


def exponentials_on_sync(x: Any, followed: bool) -> Any:
    """P012: the Sync queue triggers all transfers. Followed: the Scalar queue triggers stores."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    mode = nisa.dge_mode.hwdge
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows], dge_mode=mode, engine=nisa.engine.sync)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        queue = nisa.engine.scalar if followed else nisa.engine.sync
        nisa.dma_copy(dst=out[rows], src=tile, dge_mode=mode, engine=queue)
    return out


_BFLOAT16 = ml_dtypes.bfloat16
_FROM_GEN3 = ("gen3", "gen4")


def _factors(columns: int, dtype: Any = np.float32) -> Callable[[int], tuple[Any, ...]]:
    """Return the arguments of a product in pieces of so many columns."""
    return lambda n: (
        _zeros(1024, 512 * n, dtype=dtype),
        _zeros(1024, 512, dtype=dtype),
        columns,
    )


ADVISED = (
    Advised("P001", scaled_rows, lambda n: (_zeros(128 * 32 * n, 32), 32)),
    Advised("P001", scaled_rows, lambda n: (_zeros(128 * 32 * n, 128, dtype=_BFLOAT16), 128)),
    Advised("P002", exponentials, lambda n: (_zeros(128 * 50 * n, 128),), _FROM_GEN3),
    Advised("P003", product_in_columns, _factors(128)),
    Advised("P003", product_in_columns, _factors(128, _BFLOAT16)),
    Advised("P004", product_in_columns, _factors(64, _BFLOAT16)),
    Advised("P005", added_up, lambda n: (_zeros(128 * 40 * n, 2048),)),
    Advised("P006", shifted_blocks, lambda n: (_zeros(128 * 24 * n, 4096),)),
    Advised(
        "P007",
        outer_products,
        lambda n: (_zeros(128, 128 * 24 * n, dtype=_BFLOAT16), _zeros(128, 512, dtype=_BFLOAT16)),
        _FROM_GEN3,
    ),
    Advised("P008", transposed, lambda n: (_zeros(1024 * n, 128),)),
    Advised(
        "P009",
        product_from_hbm,
        lambda n: (_zeros(1024, 256, dtype=_BFLOAT16), _zeros(1024, 1024 * n, dtype=_BFLOAT16)),
    ),
    Advised("P009", centred, lambda n: (_zeros(128 * 5 * n, 2048),)),
    Advised("P010", softmax, lambda n: (_zeros(128 * 8 * n, 2048),)),
    Advised("P010", mean_squares, lambda n: (_zeros(128 * 8 * n, 2048),)),
    Advised("P011", polynomial, lambda n: (_zeros(128 * 8 * n, 2048),), _FROM_GEN3),
    Advised(
        "P011",
        row_products,
        lambda n: (
            _zeros(128 * 8 * n, 2048, dtype=_BFLOAT16),
            _zeros(128 * 8 * n, 2048, dtype=_BFLOAT16),
        ),
        _FROM_GEN3,
    ),
    Advised("P012", exponentials_on_sync, lambda n: (_zeros(128 * 50 * n, 128),), _FROM_GEN3),
)
