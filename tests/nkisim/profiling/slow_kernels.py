"""Kernels with slow habits, for advice of the profiler; each is legal and computes something.

A kernel is declared with arrays for two sizes of its problem. Some have a trap: an edit that looks
right would compute something else, or gain nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl

BF16, F16, F32 = ml_dtypes.bfloat16, np.float16, np.float32
FROM_GEN3 = ("gen3", "gen4")
HARDWARE = nisa.dge_mode.hwdge


class Slow(NamedTuple):
    """A kernel, the shapes and dtype of its arguments, and the generations that accept it."""

    kernel: Any
    shapes: tuple[tuple[int, ...], ...]
    second: tuple[tuple[int, ...], ...]
    dtype: Any
    targets: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.kernel.__name__

    def arguments(self, shapes: tuple[tuple[int, ...], ...], seed: int) -> list[np.ndarray]:
        """Arrays of the given shapes with random values."""
        rng = np.random.default_rng(seed)
        return [rng.uniform(-1, 1, shape).astype(self.dtype) for shape in shapes]


SLOW: dict[str, Slow] = {}


def slow(
    *shapes: tuple[int, ...],
    second: tuple[tuple[int, ...], ...] = (),
    dtype: Any = F32,
    targets: tuple[str, ...] = ("gen2", "gen3", "gen4"),
) -> Callable[[Any], Any]:
    """Declare a kernel; without a second shape it accepts one size only."""

    def declare(kernel: Any) -> Any:
        SLOW[kernel.__name__] = Slow(kernel, shapes, second, dtype, targets)
        return kernel

    return declare


def like(x):
    """An output of the shape and dtype of x."""
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)


def tile_of(rows, columns, dtype):
    """A tile."""
    return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.sbuf)


# -- queues ----------------------------------------------------------------------------------------


@slow((2560, 128), second=((1280, 96),))
def many_small_transfers(x):
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[rows], src=tile)
    return out


@slow((2560, 128), second=((1280, 96),), targets=FROM_GEN3)
def all_on_the_sync_queue(x):
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows], dge_mode=HARDWARE)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[rows], src=tile, dge_mode=HARDWARE)
    return out


@slow((2560, 128), second=((1280, 96),))
def loads_and_stores_of_the_language(x):
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        tile = nl.load(x[i * 128 : (i + 1) * 128])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nl.store(out[i * 128 : (i + 1) * 128], value=tile)
    return out


@slow((5120, 64), second=((2560, 64),), targets=FROM_GEN3)
def stores_only(x):
    out = like(x)
    tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[0:128])
    for r in range(0, x.shape[0], 128):
        nisa.dma_copy(dst=out[r : r + 128], src=tile, dge_mode=HARDWARE)
    return out


# -- loads again -----------------------------------------------------------------------------------


@slow((512, 256), (512, 1024), second=((256, 384), (256, 1536)))
def product_from_hbm(a, b):
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    for m in nl.affine_range(a.shape[1] // 128):
        rows = slice(m * 128, (m + 1) * 128)
        for n in nl.affine_range(b.shape[1] // 512):
            columns = slice(n * 512, (n + 1) * 512)
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(a.shape[0] // 128):
                left = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=a[k * 128 : (k + 1) * 128, rows])
                right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=right, src=b[k * 128 : (k + 1) * 128, columns])
                nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=k > 0)
            result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=total)
            nisa.dma_copy(dst=out[rows, columns], src=result)
    return out


@slow((512, 256), (512, 1024), second=((256, 384), (256, 1536)), dtype=BF16)
def product_with_steps(a, b):
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    for m in range(0, a.shape[1], 128):
        for n in range(0, b.shape[1], 512):
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, a.shape[0], 128):
                left = tile_of(128, 128, a.dtype)
                right = tile_of(128, 512, b.dtype)
                nisa.dma_copy(dst=left, src=a[k : k + 128, m : m + 128])
                nisa.dma_copy(dst=right, src=b[k : k + 128, n : n + 512])
                nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=k > 0)
            result = tile_of(128, 512, nl.float32)
            nisa.tensor_copy(dst=result, src=total)
            nisa.dma_copy(dst=out[m : m + 128, n : n + 512], src=result)
    return out


def filled(x, row, rows):
    """A tile with rows of x."""
    tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[row : row + rows])
    return tile


@slow((640, 1024), (128, 1024), second=((384, 512), (128, 512)))
def loads_of_a_helper(x, w):
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        weights = filled(w, 0, 128)
        tile = filled(x, i * 128, 128)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.multiply)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


@slow((1024, 1024), (128, 1024), second=((384, 512), (128, 512)))
def weights_in_the_loop(x, w):
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        weights = nl.ndarray((128, x.shape[1]), dtype=w.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=weights, src=w)  # they are the same for all rows
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.multiply)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


@slow((1024, 1024), (128, 1024), second=((384, 512), (128, 512)))
def weights_by_load(x, w):
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        weights = nl.load(w)
        tile = nl.load(x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(
            dst=tile,
            data1=tile,
            data2=weights,
            op=nl.add,
        )
        nisa.dma_copy(
            dst=out[i * 128 : (i + 1) * 128],  # back to its place
            src=tile,
        )
    return out


@slow((768, 1024), (128, 1024), second=((384, 512), (128, 512)))
def a_name_that_advice_would_take(x, w):
    out = like(x)
    kept = []
    for i in range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        kept.append(tile)
    for i in range(x.shape[0] // 128):
        for half in range(2):
            columns = slice(half * (x.shape[1] // 2), (half + 1) * (x.shape[1] // 2))
            weights = nl.ndarray((128, x.shape[1] // 2), dtype=w.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=weights, src=w[:, columns])
            result = nl.ndarray((128, x.shape[1] // 2), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=result, data1=kept[i][:, columns], data2=weights, op=nl.add)
            nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, columns], src=result)
    return out


@slow((640, 1024), second=((384, 512),))
def two_passes(x):
    out = like(x)
    total = nl.zeros((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.sequential_range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    for j in nl.affine_range(x.shape[0] // 128):
        again = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=again, src=x[j * 128 : (j + 1) * 128])
        result = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=result, data1=again, data2=total, op=nl.subtract)
        nisa.dma_copy(dst=out[j * 128 : (j + 1) * 128], src=result)
    return out


@slow((640, 1024), second=((384, 512),))
def two_passes_of_blocks(x):
    out = like(x)
    half = x.shape[1] // 2
    total = nl.zeros((128, half), dtype=nl.float32, buffer=nl.sbuf)
    for r in range(0, x.shape[0], 128):
        for c in range(2):
            tile = nl.ndarray((128, half), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[r : r + 128, c * half : (c + 1) * half])
            nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.maximum)
    for r in range(0, x.shape[0], 128):
        for c in range(2):
            rows, columns = slice(r, r + 128), slice(c * half, (c + 1) * half)
            again = nl.ndarray((128, half), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=again, src=x[r : r + 128, c * half : (c + 1) * half])
            result = nl.ndarray((128, half), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=result, data1=again, data2=total, op=nl.subtract)
            nisa.dma_copy(dst=out[rows, columns], src=result)
    return out


@slow((640, 1024), second=((384, 512),))
def second_pass_overwrites(x):
    """The tile of the first pass is overwritten after it was used."""
    out = like(x)
    total = nl.zeros((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.sequential_range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.activation(dst=tile, op=nl.square, data=tile)
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    for i in nl.affine_range(x.shape[0] // 128):
        again = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=again, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=again, data1=again, data2=total, op=nl.subtract)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=again)
    return out


@slow((1152, 1024), second=((768, 512),))
def one_of_three(x):
    """The source depends on the loop, although it repeats."""
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[(i % 3) * 128 : (i % 3 + 1) * 128])
        result = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=tile, op0=nl.add, operand0=1.0 * i)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=result)
    return out


@slow((1024, 512), (256, 512), second=((1280, 512), (256, 512)))
def same_for_eight_blocks(x, w):
    """The source changes after eight blocks of rows, which is all that one size has."""
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        weights = nl.ndarray((128, x.shape[1]), dtype=w.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=weights, src=w[(i // 8) * 128 : (i // 8 + 1) * 128])
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.multiply)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


@slow((1280, 512), second=((640, 512),))
def blocks_that_are_skipped(x):
    """The first pass keeps every second block only."""
    out = like(x)
    total = nl.zeros((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(x.shape[0] // 128):
        if i % 2:
            continue
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    for i in range(x.shape[0] // 128):
        again = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=again, src=x[i * 128 : (i + 1) * 128])
        result = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=result, data1=again, data2=total, op=nl.subtract)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=result)
    return out


@slow((1024, 1024), (256, 1024), second=((640, 512), (256, 512)))
def two_branches(x, w):
    """Both branches load into one tile."""
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        weights = nl.ndarray((128, x.shape[1]), dtype=w.dtype, buffer=nl.sbuf)
        if i % 2 == 0:
            nisa.dma_copy(dst=weights, src=w[0:128])
        else:
            nisa.dma_copy(dst=weights, src=w[128:256])
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.multiply)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


@slow((1024, 1024), (128, 512), second=((640, 512), (128, 256)))
def half_of_a_tile(x, w):
    """Half of a tile is the same in all iterations, the other half is not."""
    out = like(x)
    half = x.shape[1] // 2
    for i in nl.affine_range(x.shape[0] // 128):
        both = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=both[:, 0:half], src=w)
        nisa.dma_copy(dst=both[:, half:], src=x[i * 128 : (i + 1) * 128, half:])
        result = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=both, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=result)
    return out


@slow((1024, 512), second=((640, 512),))
def source_that_is_written(x):
    """What is loaded in each iteration was stored in the one before."""
    out = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    first = nl.zeros((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=out, src=first)
    for i in nl.sequential_range(x.shape[0] // 128):
        total = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=total, src=out)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
        nisa.dma_copy(dst=out, src=total)
    return out


@slow((768, 512), second=((512, 512),))
def offset_that_grows(x):
    """The offset of a load is no function of a loop variable."""
    out = like(x)
    row = 0
    for _ in range(x.shape[0] // 128):
        for _ in range(2):
            tile = nl.ndarray((64, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[row : row + 64])
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
            nisa.dma_copy(dst=out[row : row + 64], src=tile)
            row += 64
    return out


# -- buffers ---------------------------------------------------------------------------------------


@slow((1024, 2048), second=((640, 512),))
def one_buffer(x):
    out = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.sequential_range(x.shape[0] // 128):
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


@slow((1024, 1024), second=((640, 512),))
def tile_that_carries_data(x):
    """Half of the tile comes from the iteration before."""
    out = like(x)
    half = x.shape[1] // 2
    tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    for i in nl.sequential_range(x.shape[0] // 128):
        nisa.dma_copy(dst=tile[:, 0:half], src=x[i * 128 : (i + 1) * 128, 0:half])
        nisa.tensor_tensor(
            dst=tile[:, half:], data1=tile[:, half:], data2=tile[:, 0:half], op=nl.add
        )
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


@slow((1024, 1024), second=((640, 512),))
def two_tiles_by_hand(x):
    out = like(x)
    tiles = [tile_of(128, x.shape[1], x.dtype), tile_of(128, x.shape[1], x.dtype)]
    for i in nl.sequential_range(x.shape[0] // 128):
        nisa.dma_copy(dst=tiles[i % 2], src=x[i * 128 : (i + 1) * 128])
        nisa.activation(dst=tiles[i % 2], op=nl.tanh, data=tiles[i % 2])
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tiles[i % 2])
    return out


# -- activations -----------------------------------------------------------------------------------


def softmax(x):
    """Softmax of rows in separate steps."""
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        most = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        nisa.tensor_reduce(dst=most, op=nl.maximum, data=tile, axis=1)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=most)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[rows], src=tile)
    return out


@slow((512, 1024), second=((384, 640),), dtype=BF16)
def softmax_in_bfloat16(x):
    return softmax(x)


@slow((512, 1024), second=((384, 640),))
def softmax_in_float32(x):
    return softmax(x)


@slow((512, 2048), second=((384, 512),))
def mean_squares(x):
    out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        squares = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        nisa.tensor_tensor(dst=squares, data1=tile, data2=tile, op=nl.multiply)
        nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=1)
        nisa.dma_copy(dst=out[rows], src=total)
    return out


@slow((256, 1024), second=((384, 512),))
def constant_bias(x):
    """gen2 takes no number as bias of an activation."""
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        for _ in nl.sequential_range(8):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=0.5)
            nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[rows], src=tile)
    return out


@slow((256, 1024), second=((384, 512),), dtype=BF16)
def scale_and_shift(x):
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        moved = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        for _ in nl.sequential_range(4):
            nisa.tensor_scalar(
                dst=moved, data=tile, op0=nl.subtract, operand0=0.25, op1=nl.multiply, operand1=0.7
            )
            nisa.activation(dst=tile, op=nl.tanh, data=moved)
        nisa.dma_copy(dst=out[rows], src=tile)
    return out


@slow((256, 1024), (128, 1), second=((384, 512), (128, 1)), dtype=F32)
def scale_by_a_column(x, c):
    out = like(x)
    column = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=column, src=c)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        for _ in nl.sequential_range(8):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=column)
            nisa.activation(dst=tile, op=nl.sigmoid, data=tile)
        nisa.dma_copy(dst=out[rows], src=tile)
    return out


@slow((1024, 1024), second=((384, 512),))
def step_that_is_read_again(x):
    """The difference is needed after the exponential too."""
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        powers = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
        nisa.activation(dst=powers, op=nl.exp, data=tile)
        nisa.tensor_tensor(dst=powers, data1=powers, data2=tile, op=nl.add)
        nisa.dma_copy(dst=out[rows], src=powers)
    return out


# -- tables of activation functions ----------------------------------------------------------------


@slow((1024, 512), second=((640, 384),))
def functions_of_two_tables(x):
    powers = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    gates = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        # Both functions read the same rows.
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        power = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=power, op=nl.exp, data=tile)
        gate = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=gate, op=nl.sigmoid, data=tile)  # another table
        nisa.dma_copy(dst=powers[rows], src=power)
        nisa.dma_copy(dst=gates[rows], src=gate)
    return powers, gates


@slow((2048, 256), second=((640, 384),))
def functions_after_each_other(x):
    """Three functions in a row, in place, with halves and a step of rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    half = x.shape[1] // 2
    for r in range(128, x.shape[0] + 128, 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[r - 128 : r])
        right = tile[:, half:]
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        for h in range(2):
            columns = slice(h * half, (h + 1) * half)
            nisa.tensor_scalar(
                dst=tile[:, columns], data=tile[:, columns], op0=nl.add, operand0=0.5 * h
            )
        nisa.activation(dst=right, op=nl.sigmoid, data=right)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[r - 128 : r], src=tile)
    return out


@slow((128, 512), second=((128, 384),))
def functions_without_a_loop(x):
    out = nl.ndarray((4, 128, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    a = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    b = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    c = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    d = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.activation(dst=a, op=nl.exp, data=tile)
    nisa.activation(dst=b, op=nl.sigmoid, data=tile)
    nisa.activation(dst=c, op=nl.exp, data=a)
    nisa.activation(dst=d, op=nl.sigmoid, data=c)
    nisa.dma_copy(dst=out[0], src=a)
    nisa.dma_copy(dst=out[1], src=b)
    nisa.dma_copy(dst=out[2], src=c)
    nisa.dma_copy(dst=out[3], src=d)
    return out


@slow((1024, 512), second=((640, 384),))
def tables_with_a_sum(x):
    """Every iteration reads the sum of the one before."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.sequential_range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=total, op=nl.subtract)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        result = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=result, op=nl.sigmoid, data=tile)
        nisa.tensor_tensor(dst=total, data1=total, data2=result, op=nl.add)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=result)
    return out


@slow((1024, 512), second=((640, 384),))
def tables_with_a_tile_from_before(x):
    """The tile of an iteration is read in the next one."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    last = nl.zeros((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.sequential_range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        result = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=result, op=nl.sigmoid, data=last)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=result)
        last = tile
    return out


# -- order of loads --------------------------------------------------------------------------------


@slow((128, 2048), (128, 2048), second=((128, 1024), (128, 1024)))
def late_load_first(x, y):
    """The first function waits for a tile that only the last instruction reads."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    late = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=late, src=y)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=late, op=nl.multiply)
    nisa.dma_copy(dst=out, src=tile)
    return out


@slow((128, 4096), (512, 1024), second=((128, 2048), (256, 512)))
def late_loads_in_a_loop(x, w):
    """The filters fill a list before the first tile of the image is there."""
    out = nl.ndarray((128, w.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    filters = []
    for k in range(w.shape[0] // 128):
        weights = nl.load(w[k * 128 : (k + 1) * 128])
        filters.append(weights)
    image = nl.load(x)
    nisa.activation(dst=image, op=nl.exp, data=image)
    total = nl.ndarray((128, w.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=image[:, 0 : w.shape[1]])
    for k in range(w.shape[0] // 128):
        nisa.tensor_tensor(dst=total, data1=total, data2=filters[k], op=nl.multiply)
        nisa.tensor_tensor(dst=total, data1=total, data2=image[:, 0 : w.shape[1]], op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


@slow((128, 2048), (128, 2048), second=((128, 1024), (128, 1024)))
def late_load_of_what_is_stored(x, y):
    """The source of the late load is overwritten before its tile is used."""
    late = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=late, src=y)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.dma_copy(dst=y, src=tile)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=late, op=nl.multiply)
    nisa.dma_copy(dst=x, src=tile)
    return x, y


# -- stages of a loop ------------------------------------------------------------------------------


@slow((1024, 512), second=((640, 384),))
def stages_in_program_order(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    with nl.no_reorder():
        for i in range(x.shape[0] // 128):
            rows = slice(i * 128, (i + 1) * 128)
            tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[rows])
            power = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
            nisa.activation(dst=power, op=nl.exp, data=tile)
            # The second stage.
            result = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_scalar(
                dst=result,
                data=power,
                op0=nl.add,
                operand0=1.0,
            )
            nisa.tensor_tensor(dst=result, data1=result, data2=power, op=nl.multiply)
            nisa.dma_copy(dst=out[rows], src=result)
    return out


@slow((2048, 1024), second=((640, 384),), targets=FROM_GEN3)
def store_that_holds_its_engine(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        power = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=power, op=nl.exp, data=tile)
        result = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=result, data1=tile, data2=power, op=nl.multiply)
        nisa.tensor_tensor(dst=result, data1=result, data2=power, op=nl.add)
        nisa.dma_copy(dst=out[rows], src=result, dge_mode=HARDWARE, engine=nisa.engine.scalar)
    return out


@slow((1024, 512), second=((640, 384),))
def stages_of_one_sum(x):
    """The first stage of an iteration reads what the last one of another has written."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    with nl.no_reorder():
        for i in range(x.shape[0] // 128):
            tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
            nisa.activation(dst=tile, op=nl.exp, data=total)
            nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
            nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


# -- engines ---------------------------------------------------------------------------------------


@slow((128, 2048), (128, 512), second=((128, 1024), (128, 256)), dtype=BF16)
def products_emptied_by_vector(a, b):
    count = a.shape[1] // 128
    out = nl.ndarray((128, count, b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    left, right = nl.load(a), nl.load(b)
    rows = nl.ndarray((128, count, b.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.affine_range(count):
        product = nl.ndarray((128, b.shape[1]), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=left[:, i * 128 : (i + 1) * 128], moving=right)
        nisa.tensor_copy(dst=rows[:, i, :], src=product, engine=nisa.engine.vector)
    nisa.dma_copy(dst=out, src=rows)
    return out


@slow((1024, 2048), second=((384, 512),))
def polynomial(x):
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        linear = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        nisa.tensor_scalar(
            dst=linear, data=tile, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=1.0
        )
        nisa.tensor_tensor(dst=linear, data1=linear, data2=tile, op=nl.multiply)
        nisa.tensor_tensor(dst=linear, data1=linear, data2=tile, op=nl.add)
        nisa.tensor_tensor(dst=linear, data1=linear, data2=tile, op=nl.multiply)
        nisa.dma_copy(dst=out[rows], src=linear)
    return out


@slow((1024, 1024), (1024, 1024), second=((384, 512), (384, 512)), dtype=BF16, targets=FROM_GEN3)
def row_products(x, y):
    out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        left = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        right = nl.ndarray((128, x.shape[1]), dtype=y.dtype, buffer=nl.sbuf)
        product = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=x[rows], dge_mode=HARDWARE, engine=nisa.engine.sync)
        nisa.dma_copy(dst=right, src=y[rows], dge_mode=HARDWARE, engine=nisa.engine.scalar)
        nisa.tensor_tensor(dst=product, data1=left, data2=right, op=nl.multiply)
        nisa.tensor_reduce(dst=total, op=nl.add, data=product, axis=1)
        nisa.dma_copy(dst=out[rows], src=total, dge_mode=HARDWARE, engine=nisa.engine.sync)
    return out


@slow((128, 1024), second=((128, 512),))
def many_limits(x):
    out = like(x)
    tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for i in nl.sequential_range(20):
        nisa.tensor_scalar(
            dst=tile, data=tile, op0=nl.multiply, operand0=1.5 + i, op1=nl.add, operand1=-0.5
        )
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.maximum)
    nisa.dma_copy(dst=out, src=tile)
    return out


# -- several habits at once, and forms of kernels --------------------------------------------------


@slow((512, 256), (512, 1024), second=((256, 128), (256, 512)), dtype=BF16)
def product_with_softmax(a, b):
    """Products from HBM, PSUM emptied by one engine, exponentials and sums apart."""
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    sums = nl.ndarray((a.shape[1], b.shape[1] // 512), dtype=nl.float32, buffer=nl.shared_hbm)
    for m in nl.affine_range(a.shape[1] // 128):
        for n in nl.affine_range(b.shape[1] // 512):
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(a.shape[0] // 128):
                left = nl.load(a[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
                right = nl.load(b[k * 128 : (k + 1) * 128, n * 512 : (n + 1) * 512])
                nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=k > 0)
            scores = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            row = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=scores, data=total, op0=nl.multiply, operand0=0.125)
            nisa.activation(dst=scores, op=nl.exp, data=scores)
            nisa.tensor_reduce(dst=row, op=nl.add, data=scores, axis=1)
            nisa.dma_copy(dst=out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], src=scores)
            nisa.dma_copy(dst=sums[m * 128 : (m + 1) * 128, n : n + 1], src=row)
    return out, sums


@slow((1024, 512), (128, 512), second=((640, 512), (128, 512)))
def normalised_rows(x, w):
    """Weights in the loop, squares and sums apart, many transfers."""
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        weights = nl.ndarray((128, x.shape[1]), dtype=w.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=weights, src=w)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        squares = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=squares, data1=tile, data2=tile, op=nl.multiply)
        nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=1)
        nisa.activation(dst=total, op=nl.rsqrt, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.multiply)
        nisa.dma_copy(dst=out[rows], src=tile)
    return out


@slow((512, 128), (1, 128), second=((256, 96), (1, 96)))
def weights_by_rows(x, w):
    """Each iteration copies one row of weights to all partitions, by a loop."""
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        weights = nl.ndarray((128, x.shape[1]), dtype=w.dtype, buffer=nl.sbuf)
        for p in range(128):
            nisa.dma_copy(dst=weights[p : p + 1], src=w)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.multiply)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


@slow((512, 128), (1, 128), second=((256, 96), (1, 96)))
def weights_that_grow(x, w):
    """As ``weights_by_rows``, but each iteration also changes the tile after its use."""
    out = like(x)
    for i in range(x.shape[0] // 128):
        weights = nl.ndarray((128, x.shape[1]), dtype=w.dtype, buffer=nl.sbuf)
        for p in range(128):
            nisa.dma_copy(dst=weights[p : p + 1], src=w)
        nisa.tensor_scalar(dst=weights, data=weights, op0=nl.multiply, operand0=i + 1.0)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.multiply)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


@slow((1024, 512), (128, 512))
def one_size_only(x, w):
    assert x.shape == (1024, 512), "this kernel has one size"
    assert w.shape == (128, 512), "this kernel has one size"
    out = like(x)
    for i in range(8):
        weights = nl.ndarray((128, 512), dtype=w.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=weights, src=w)
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.subtract)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


@slow((1024, 512), second=((512, 512),))
def argument_that_is_changed(x):
    for i in nl.affine_range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=3.0)
        nisa.dma_copy(dst=x[i * 128 : (i + 1) * 128], src=tile)
    return x


def factory(factor):
    """A kernel that closes over a number and a function."""

    def finish(tile):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)

    def closed_over(x, w):
        out = like(x)
        for i in nl.affine_range(x.shape[0] // 128):
            weights = nl.ndarray((128, x.shape[1]), dtype=w.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=weights, src=w)
            tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
            nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.add)
            finish(tile)
            nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
        return out

    return closed_over


closed_over = slow((1024, 1024), (128, 1024), second=((384, 512), (128, 512)))(factory(0.5))


@slow((1024, 512), (128, 512), second=((512, 512), (128, 512)), targets=FROM_GEN3)
def on_two_cores(x, w):
    half = x.shape[0] // 2
    first = nl.program_id(0) * half
    out = like(x)
    for i in nl.affine_range(half // 128):
        weights = nl.ndarray((128, x.shape[1]), dtype=w.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=weights, src=w)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[first + i * 128 : first + (i + 1) * 128])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.add)
        nisa.dma_copy(dst=out[first + i * 128 : first + (i + 1) * 128], src=tile)
    return out


on_two_cores = nkisim.jit(on_two_cores)[2]
SLOW["on_two_cores"] = SLOW["on_two_cores"]._replace(kernel=on_two_cores)


# -- habits that have no code ----------------------------------------------------------------------


@slow((2048, 32), second=((1024, 32),))
def short_rows(x):
    out = like(x)
    for i in nl.affine_range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


@slow((512, 128), second=((256, 128),))
def transposed(x):
    out = nl.ndarray((x.shape[1], x.shape[0]), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((x.shape[1], x.shape[0]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.ap([[1, x.shape[1]], [x.shape[1], x.shape[0]]]))
    nisa.dma_copy(dst=out, src=tile)
    return out


@slow((512, 128), (512, 512), second=((256, 128), (256, 512)))
def few_columns(a, b):
    depth = a.shape[0] // 128
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray((128, depth, 128), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((128, depth, 512), dtype=b.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(depth):
        nisa.dma_copy(dst=left[:, k, :], src=a[k * 128 : (k + 1) * 128])
        nisa.dma_copy(dst=right[:, k, :], src=b[k * 128 : (k + 1) * 128])
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(depth):
        for c in nl.affine_range(8):
            columns = slice(c * 64, (c + 1) * 64)
            nisa.nc_matmul(
                dst=total[:, columns],
                stationary=left[:, k, :],
                moving=right[:, k, columns],
                accumulate=k > 0,
            )
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    nisa.dma_copy(dst=out, src=result)
    return out


@slow((768, 16384), second=((512, 8192),))
def more_than_fits(x):
    out = like(x)
    tiles = []
    for i in nl.affine_range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        tiles.append(tile)
    for i in nl.affine_range(x.shape[0] // 128):
        nisa.tensor_scalar(dst=tiles[i], data=tiles[i], op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tiles[i])
    return out
