"""Two small kernels for CUDA, where torch would need several launches.

A launch takes as long as the norm of a million numbers. torch has no norm that is safe from
overflow in one launch, and no way to copy one triangle of a matrix to the other in fewer than
three. Where a kernel cannot be had, or anything else goes wrong, each function here returns None or
False and torch does the work.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from trnsci.core.cuda import CudaKernel, LaunchesOfThread, PreparedLaunch, current_stream
from trnsci.core.eager import untracked

__all__ = ["mirror_in_place", "norm", "suits"]

_THREADS = 256
# Elements for each thread, and the most blocks: enough of both to keep the memory busy.
_PER_THREAD, _MOST_BLOCKS = 16, 1024
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
extern "C" __global__ void __launch_bounds__(256) mirror(WORD* matrices, int n) {
    if (blockIdx.x < blockIdx.y) return;
    __shared__ WORD tile[SIDE][SIDE + 1];
    WORD* c = matrices + (long long)blockIdx.z * n * n;
    int rows = blockIdx.y * SIDE, columns = blockIdx.x * SIDE, lane = threadIdx.x;
    #pragma unroll
    for (int k = threadIdx.y; k < SIDE; k += 256 / SIDE)
        if (rows + k < n && columns + lane < n)
            tile[k][lane] = c[(long long)(rows + k) * n + columns + lane];
    __syncthreads();
    #pragma unroll
    for (int k = threadIdx.y; k < SIDE; k += 256 / SIDE)
        if (columns + k < n && rows + lane < columns + k)
            c[(long long)(columns + k) * n + rows + lane] = tile[lane][k];
}
"""
# The word of an element of so many bytes, and the side of a tile of it that fits in shared memory.
_WORDS = {2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "double2"}
_SIDES = {"unsigned short": 64, "unsigned int": 64, "unsigned long long": 64, "double2": 32}


def _mirror_of(word: str) -> str:
    return _MIRROR.replace("WORD", word).replace("SIDE", str(_SIDES[word]))


_NORM_KERNEL = CudaKernel("trnblas", "norm_float32", lambda dtype: _NORM)
_MIRROR_KERNEL = CudaKernel("trnblas", "mirror", _mirror_of)


def norm(x: Tensor) -> Tensor | None:
    """Return the 2-norm of float32 numbers, squared and summed in float64, in one launch."""
    if x.dtype is not torch.float32 or not suits(x):
        return None
    device = x.get_device()
    stream = current_stream(device)
    # A graph could be replayed beside a call that uses the same room.
    if stream and torch.cuda.is_current_stream_capturing():
        return None
    launcher: _NormLauncher | None = _NORMS.launches[torch.float32, device, stream]
    return None if launcher is None else launcher(x)


def mirror_in_place(matrices: Tensor) -> bool:
    """Copy the upper triangle of fresh square matrices to the lower one; return whether it did."""
    word = _WORDS.get(matrices.element_size())
    if word is None or not suits(matrices):
        return False
    order = matrices.shape[-1]
    count = matrices.numel() // (order * order) if order else 0
    if not 0 < count <= _MOST_MATRICES:
        return False
    side = _SIDES[word]
    tiles = -(-order // side)
    grid, block = (tiles, tiles, count), (side, _THREADS // side, 1)
    return _MIRROR_KERNEL.launch(word, grid, block, (matrices, order), matrices.get_device())


class _NormLauncher(PreparedLaunch):
    """Norms of one thread on one stream."""

    def __init__(self, kernel: Any, device: int, stream: int) -> None:
        # Partial sums and, before them, a counter that every launch leaves at zero.
        self._room = torch.zeros(_MOST_BLOCKS + 1, dtype=torch.float64, device=f"cuda:{device}")
        room = self._room.data_ptr()
        self._x, self._count, self._out = ctypes.c_void_p(), ctypes.c_longlong(), ctypes.c_void_p()
        fixed = ctypes.c_void_p(room + 8), ctypes.c_void_p(room)
        super().__init__(kernel, stream, (self._x, self._count, *fixed, self._out))

    def __call__(self, x: Tensor) -> Tensor | None:
        count = x.numel()
        if count == 0:
            return None
        out = x.new_empty(())
        self._x.value, self._count.value, self._out.value = x.data_ptr(), count, out.data_ptr()
        blocks = min(_MOST_BLOCKS, -(-count // (_THREADS * _PER_THREAD)))
        return out if self.launched(blocks, _THREADS) else None


_NORMS = LaunchesOfThread(
    _NORM_KERNEL, lambda kernel, kind, device, stream: _NormLauncher(kernel, device, stream)
)


def suits(tensor: Tensor) -> bool:
    """Return whether the memory is that of the tensor, and nobody needs to see what becomes of it.

    On another device than the current one a launch fails, and torch does the work.
    """
    return tensor.is_contiguous() and not tensor.is_neg() and untracked(tensor)
