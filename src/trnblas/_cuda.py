"""Two small kernels for CUDA, where torch would need several launches.

A launch takes as long as the norm of a million numbers. torch has no norm that is safe from
overflow in one launch, and no way to copy one triangle of a matrix to the other in fewer than
three. The kernels are compiled at their first use by NVRTC, through a function of torch that is not
public: where it is missing, or anything else goes wrong, each function here returns None and torch
does the work.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch
from torch import Tensor

from trnsci.core.eager import untracked

__all__ = ["mirror_in_place", "norm"]

_THREADS = 256
# Elements for each thread, and the most blocks: enough of both to keep the memory busy.
_PER_THREAD, _MOST_BLOCKS = 16, 1024
_TILE, _TILE_ROWS = 32, 8
# Batches are the third dimension of a grid, which has no more.
_MOST_MATRICES = 65535

_NORM = """
__device__ double block_sum(double s, double* of_warp) {
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(0xffffffffu, s, o);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = s;
    __syncthreads();
    s = 0;
    for (int i = 0; i < blockDim.x / 32; ++i) s += of_warp[i];
    __syncthreads();
    return s;
}

extern "C" __global__ void norm_float32(
    const float* x, long long n, double* partial, unsigned int* count, float* out) {
    __shared__ double of_warp[32];
    __shared__ bool last;
    long long step = (long long)gridDim.x * blockDim.x;
    long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    long long quads = (unsigned long long)x % 16 ? 0 : n / 4;
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    #pragma unroll 4
    for (long long i = first; i < quads; i += step) {
        float4 v = ((const float4*)x)[i];
        s0 += (double)v.x * v.x;
        s1 += (double)v.y * v.y;
        s2 += (double)v.z * v.z;
        s3 += (double)v.w * v.w;
    }
    for (long long i = 4 * quads + first; i < n; i += step) s0 += (double)x[i] * x[i];
    double s = block_sum((s0 + s1) + (s2 + s3), of_warp);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = s;
        __threadfence();
        last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;  // and 0 again for the next call
    }
    __syncthreads();
    if (!last) return;
    s = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) s += __ldcg(partial + i);
    s = block_sum(s, of_warp);
    if (threadIdx.x == 0) *out = (float)sqrt(s);
}
"""

_MIRROR = """
extern "C" __global__ void mirror(WORD* matrices, int n) {
    if (blockIdx.x < blockIdx.y) return;
    __shared__ WORD tile[32][33];
    WORD* c = matrices + (long long)blockIdx.z * n * n;
    int rows = blockIdx.y * 32, columns = blockIdx.x * 32, lane = threadIdx.x;
    for (int k = threadIdx.y; k < 32; k += 8)
        if (rows + k < n && columns + lane < n)
            tile[k][lane] = c[(long long)(rows + k) * n + columns + lane];
    __syncthreads();
    for (int k = threadIdx.y; k < 32; k += 8)
        if (columns + k < n && rows + lane < columns + k)
            c[(long long)(columns + k) * n + rows + lane] = tile[lane][k];
}
"""
_WORDS = {2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "double2"}


def norm(x: Tensor) -> Tensor | None:
    """Return the 2-norm of float32 numbers, squared and summed in float64, in one launch."""
    # A graph could be replayed beside a call that uses the same room.
    if x.dtype is not torch.float32 or not _suits(x) or torch.cuda.is_current_stream_capturing():
        return None
    kernel = _compiled("norm_float32", _NORM, x.device.index)
    count = x.numel()
    if kernel is None or count == 0:
        return None
    out = x.new_empty(())
    blocks = min(_MOST_BLOCKS, -(-count // (_THREADS * _PER_THREAD)))
    stream = _stream(x.device.index)
    partial, counter = _scratch(x.device.index, stream)
    arguments = (
        ctypes.c_void_p(x.data_ptr()),
        ctypes.c_longlong(count),
        partial,
        counter,
        ctypes.c_void_p(out.data_ptr()),
    )
    return out if _launched(kernel, (blocks, 1, 1), (_THREADS, 1), stream, arguments) else None


def mirror_in_place(matrices: Tensor) -> bool:
    """Copy the upper triangle of fresh square matrices to the lower one; return whether it did."""
    if matrices.element_size() not in _WORDS or not _suits(matrices):
        return False
    order = matrices.shape[-1]
    count = matrices.numel() // (order * order) if order else 0
    if not 0 < count <= _MOST_MATRICES:
        return False
    source = _MIRROR.replace("WORD", _WORDS[matrices.element_size()])
    kernel = _compiled("mirror", source, matrices.device.index)
    if kernel is None:
        return False
    tiles = -(-order // _TILE)
    arguments = ctypes.c_void_p(matrices.data_ptr()), ctypes.c_int(order)
    stream = _stream(matrices.device.index)
    return _launched(kernel, (tiles, tiles, count), (_TILE, _TILE_ROWS), stream, arguments)


def _suits(tensor: Tensor) -> bool:
    return (
        tensor.is_cuda
        and torch.version.hip is None
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and untracked(tensor)
        and tensor.device.index == torch.cuda.current_device()
    )


def _stream(device: int) -> int:
    return int(torch._C._cuda_getCurrentRawStream(device))


@cache
def _compiled(name: str, source: str, device: int) -> Any:
    """Return the handle of a kernel, or None where it cannot be had."""
    try:
        return torch.cuda._compile_kernel(source, name).func
    except Exception:
        return None


@cache
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


@cache
def _scratch(device: int, stream: int) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
    """Return room for partial sums and a counter at zero, of one stream and so of one call."""
    room = torch.zeros(_MOST_BLOCKS + 1, dtype=torch.float64, device=f"cuda:{device}")
    _KEPT.append(room)
    start = room.data_ptr()
    return ctypes.c_void_p(start + 8), ctypes.c_void_p(start)


_KEPT: list[Tensor] = []


def _launched(
    kernel: Any, grid: tuple[int, int, int], block: tuple[int, int], stream: int, arguments: Any
) -> bool:
    pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
    code: int = _driver().cuLaunchKernel(
        kernel, *grid, *block, 1, 0, ctypes.c_void_p(stream), pointers, None
    )
    return code == 0
