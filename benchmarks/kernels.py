"""Benchmarked kernels, with arguments and the routine that computes the same result.

The matrix product, the Fourier transform and two copies are written here; softmax, layer
normalisation, attention and the blocked matrix product are those of examples/.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

import nkisim as nki
import nkisim.isa as nisa
import nkisim.language as nl

BF16 = ml_dtypes.bfloat16
EXAMPLES = Path(__file__).parents[1] / "examples"


@nki.jit
def gemm(a_t, b):
    """Multiply with A given transposed, in 128x128x512 matmuls; operands stay in SBUF.

    Sizes are multiples of 128; in bfloat16 both operands fit up to 2048.
    """
    k_size, m_size = a_t.shape
    n_size = b.shape[1]
    width = min(512, n_size)
    out = nl.ndarray((m_size, n_size), dtype=a_t.dtype, buffer=nl.shared_hbm)
    a_tiles, b_tiles = [], []
    for k in range(0, k_size, 128):
        a_tile = nl.ndarray((128, m_size), dtype=a_t.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=a_tile, src=a_t[k : k + 128, :])
        a_tiles.append(a_tile)
        b_tile = nl.ndarray((128, n_size), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=b_tile, src=b[k : k + 128, :])
        b_tiles.append(b_tile)
    for m in range(0, m_size, 128):
        for n in range(0, n_size, width):
            w = min(width, n_size - n)
            total = nl.ndarray((128, w), dtype=nl.float32, buffer=nl.psum)
            for i in range(len(a_tiles)):
                nisa.nc_matmul(
                    dst=total,
                    stationary=a_tiles[i][:, m : m + 128],
                    moving=b_tiles[i][:, n : n + w],
                    accumulate=i > 0,
                )
            tile = nl.ndarray((128, w), dtype=a_t.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=tile, src=total)
            nisa.dma_copy(dst=out[m : m + 128, n : n + w], src=tile)
    return out


@nki.jit
def fft(x, turns):
    """Transform 128 rows whose length is a power of two, in radix-2 Stockham stages.

    A stage reads both halves of a row in order and writes sums and rotated differences to
    alternating groups of ``step`` elements, so that the last stage leaves the result in natural
    order.

    Args:
        x: Real and imaginary parts, (2, 128, length), float32.
        turns: cos and sin of ``-2 pi k / length`` for k below length / 2, (2, length / 2).

    Returns:
        Real and imaginary parts, (2, 128, length).
    """
    rows, length = x.shape[1:]
    half = length // 2
    out = nl.ndarray((2, rows, length), dtype=nl.float32, buffer=nl.shared_hbm)
    old, new, cos_sin = [], [], []
    for part in range(2):
        tile = nl.ndarray((rows, length), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[part, 0:rows, 0:length])
        old.append(tile)
        new.append(nl.ndarray((rows, length), dtype=nl.float32, buffer=nl.sbuf))
        table = nl.ndarray((rows, half), dtype=nl.float32, buffer=nl.sbuf)
        every_row = turns.ap(pattern=[[0, rows], [1, half]], offset=part * half)
        nisa.dma_copy(dst=table, src=every_row)
        cos_sin.append(table)
    step = 1
    while step < length:
        groups = half // step
        outputs = [[length, rows], [2 * step, groups], [1, step]]
        # The angle is the group number times step, the same for all elements of the group.
        angles = [[half, rows], [step, groups], [0, step]]
        cos, sin = cos_sin[0].ap(pattern=angles), cos_sin[1].ap(pattern=angles)
        differences = []
        for part in range(2):
            low, high = old[part][0:rows, 0:half], old[part][0:rows, half:length]
            sums = new[part].ap(pattern=outputs)
            nisa.tensor_tensor(dst=sums, data1=low, data2=high, op=nl.add)
            difference = nl.ndarray((rows, half), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=difference, data1=low, data2=high, op=nl.subtract)
            differences.append(difference)
        real, imaginary = differences
        turn(new[0].ap(pattern=outputs, offset=step), real, cos, imaginary, sin, nl.subtract)
        turn(new[1].ap(pattern=outputs, offset=step), real, sin, imaginary, cos, nl.add)
        old, new = new, old
        step *= 2
    for part in range(2):
        nisa.dma_copy(dst=out[part, 0:rows, 0:length], src=old[part])
    return out


def turn(dst, a, b, c, d, op):
    """Write ``op(a * b, c * d)``."""
    left = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    right = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=left, data1=a, data2=b, op=nl.multiply)
    nisa.tensor_tensor(dst=right, data1=c, data2=d, op=nl.multiply)
    nisa.tensor_tensor(dst=dst, data1=left, data2=right, op=op)


@nki.jit
def one_instruction(x):
    """Copy ``x`` with a single DMA."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


@nki.jit
def doubled(x):
    """Return ``2 x``, 128 rows at a time through SBUF; rows are a multiple of 128."""
    rows, cols = x.shape
    out = nl.ndarray((rows, cols), dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(0, rows, 128):
        tile = nl.ndarray((128, cols), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[r : r + 128, 0:cols])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[r : r + 128, 0:cols], src=tile)
    return out


@dataclass(frozen=True)
class Problem:
    """A kernel, its arguments, and a routine that computes the same result.

    Attributes:
        routine: Name of the NumPy or torch routine.
        make_routine: Returns the call of that routine; imports torch if required.
        uses_torch: Whether the routine is from torch.
        narrow: Whether the kernel works on bfloat16 or float8.
    """

    name: str
    kernel: Any
    arguments: tuple[Any, ...]
    routine: str
    make_routine: Callable[[], Callable[[], Any]]
    uses_torch: bool = False
    narrow: bool = True


def example(script: str) -> ModuleType:
    """Return a script of examples/ as a module, without registering it in sys.modules."""
    spec = importlib.util.spec_from_file_location(f"example_{script}", EXAMPLES / f"{script}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def problems(
    size: int = 1024,
    rows: int = 1024,
    cols: int = 2048,
    queries: int = 2048,
    depth: int = 128,
    points: int = 1024,
) -> list[Problem]:
    """Return every problem; ``size`` is that of the matrix products, a multiple of 128."""
    return [
        *(gemm_problem(size, t) for t in (np.float32, BF16, ml_dtypes.float8_e4m3)),
        softmax_problem(rows, cols),
        layernorm_problem(rows, cols),
        attention_problem(queries, depth),
        fft_problem(points),
    ]


def gemm_problem(size: int, dtype: Any) -> Problem:
    """Return a product of square matrices; np.matmul is given them in float32."""
    rng = np.random.default_rng(0)
    a_t, b = (rng.standard_normal((size, size), np.float32).astype(dtype) for _ in range(2))
    wide_a, wide_b = a_t.astype(np.float32).T, b.astype(np.float32)
    return Problem(
        f"GEMM {size}^3 {np.dtype(dtype).name}",
        gemm,
        (a_t, b),
        "np.matmul float32",
        lambda: lambda: np.matmul(wide_a, wide_b),
        narrow=dtype is not np.float32,
    )


def softmax_problem(rows: int, cols: int) -> Problem:
    """Return a softmax of bfloat16 rows."""
    x = np.random.default_rng(0).standard_normal((rows, cols), np.float32).astype(BF16)

    def make() -> Callable[[], Any]:
        import torch

        tensor = as_torch(x)
        return lambda: torch.softmax(tensor, dim=1)

    name = f"softmax ({rows}, {cols}) bfloat16"
    return Problem(name, example("softmax").softmax, (x,), "torch.softmax", make, True)


def layernorm_problem(rows: int, cols: int) -> Problem:
    """Return a layer normalisation of bfloat16 rows with bn_stats."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, cols), np.float32).astype(BF16)
    weight, bias = (rng.standard_normal(cols, np.float32).astype(BF16) for _ in range(2))
    eps = 1e-5

    def make() -> Callable[[], Any]:
        import torch

        tensors = [as_torch(t) for t in (x, weight, bias)]
        norm = torch.nn.functional.layer_norm
        return lambda: norm(tensors[0], (cols,), tensors[1], tensors[2], eps)

    name = f"layernorm ({rows}, {cols}) bfloat16"
    kernel = example("layernorm").layernorm_stats
    return Problem(name, kernel, (x, weight, bias, eps), "torch layer_norm", make, True)


def attention_problem(queries: int, depth: int) -> Problem:
    """Return one head of attention without a mask, with equal keys and queries, in bfloat16."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, queries, depth), np.float32).astype(BF16) for _ in range(3))
    q_t, k_t = (np.ascontiguousarray(x.transpose(0, 2, 1)) for x in (q, k))
    scale = 1.0 / math.sqrt(depth)

    def make() -> Callable[[], Any]:
        import torch

        from trnsci.core.interop import has_bfloat16_products

        # 4-D, because torch uses its fused kernel only then; in float32 where its products of
        # bfloat16 are a loop over scalars, hundreds of times slower.
        fast = torch.backends.mkl.is_available() or has_bfloat16_products()
        dtype = torch.bfloat16 if fast else torch.float32
        tensors = [as_torch(t)[None].to(dtype) for t in (q, k, v)]
        attend = torch.nn.functional.scaled_dot_product_attention
        return lambda: attend(*tensors, scale=scale)[0]

    name = f"attention ({queries}, {depth}) bfloat16"
    kernel = example("attention_forward").attention_forward
    arguments = (q_t, k_t, v, scale, False)
    return Problem(name, kernel, arguments, "torch attention", make, True)


def fft_problem(points: int) -> Problem:
    """Return 128 complex transforms in float32, with separate real and imaginary parts."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 128, points), np.float32)
    angles = -2 * np.pi * np.arange(points // 2) / points
    turns = np.stack([np.cos(angles), np.sin(angles)]).astype(np.float32)
    joined = (x[0] + 1j * x[1]).astype(np.complex64)
    return Problem(
        f"FFT (128, {points}) float32",
        fft,
        (x, turns),
        "np.fft.fft complex64",
        lambda: lambda: np.fft.fft(joined, axis=1),
        narrow=False,
    )


def as_torch(x: np.ndarray) -> Any:
    """Return a bfloat16 array as a tensor; torch does not accept ml_dtypes arrays."""
    import torch

    return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
