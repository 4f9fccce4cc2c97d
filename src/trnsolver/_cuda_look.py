"""Numbers of a CUDA device that are on the host without a wait of their own.

To look at results costs a copy and a wait, a fifth of the time that a batch of small eigenproblems
takes. What is asked for before, or before more work is launched, is there when that has ended. The
memory for it holds NaN until then, so that numbers which are there too late are seen to be.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from math import isfinite, nan
from typing import Any

import torch
from torch import Tensor

from trnsci.core.cuda import CudaKernel, LaunchesOfThread, PreparedLaunch, current_stream
from trnsci.core.eager import unchecked
from trnsci.core.finite import only_finite
from trnsolver._cuda_launch import source_of, told

__all__ = ["Look", "all_finite", "begun_look", "on_the_way"]

_SUMS = """
extern "C" __global__ void __launch_bounds__(256) sums(const REAL* x, long long n, REAL* out) {
    __shared__ REAL of_warp[8];
    long long step = (long long)gridDim.x * blockDim.x;
    REAL s = 0;
    #pragma unroll 8
    for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) s += x[i];
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(0xffffffffu, s, o);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x) return;
    for (int i = 1; i < 8; ++i) s += of_warp[i];
    out[blockIdx.x] = s;
}
"""
_THREADS, _PER_THREAD, _MOST_BLOCKS = 256, 8, 64

KERNEL = CudaKernel("trnsolver", "sums", partial(source_of, _SUMS))


class Look:
    """Sums of numbers that a device is writing to memory of the host."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def saw_only_numbers(self) -> bool:
        """Return whether the sums are there, and finite: one is not if a term is not."""
        return isfinite(sum(self._array.tolist()))


def begun_look(a: Tensor) -> Look | None:
    """Return a look that has begun, or None where results are to be looked at."""
    if not a.is_cuda or a.dtype not in (torch.float32, torch.float64) or unchecked(a):
        return None
    device = a.get_device()
    key = a.dtype, device, current_stream(device)
    launcher: _SumsLauncher | None = _LOOKS.launches[key]
    look = None if launcher is None else launcher(a)
    if look is not None:
        return look
    memory, array = told().room("sum", a.dtype, 1)
    memory.copy_((a.detach() if a.requires_grad else a).sum(), non_blocking=True)
    return Look(array)


class _SumsLauncher(PreparedLaunch):
    """Looks of one thread on one stream: one launch, which writes where the host reads."""

    def __init__(self, kernel: Any, stream: int, dtype: torch.dtype) -> None:
        self._memory = torch.empty(_MOST_BLOCKS, dtype=dtype, pin_memory=True)
        self._array = self._memory.numpy()
        self._x, self._count = ctypes.c_void_p(), ctypes.c_longlong()
        out = ctypes.c_void_p(self._memory.data_ptr())
        super().__init__(kernel, stream, (self._x, self._count, out))

    def __call__(self, a: Tensor) -> Look | None:
        """Return a look, None where numbers are not side by side or cannot be looked at now."""
        count = a.numel()
        if count == 0 or not (a.is_contiguous() or a.mT.is_contiguous()):
            return None
        blocks = min(_MOST_BLOCKS, -(-count // (_THREADS * _PER_THREAD)))
        array = self._array[:blocks]
        array.fill(nan)
        self._x.value, self._count.value = a.data_ptr(), count
        # On another device than the current one a launch fails, and torch looks.
        return Look(array) if self.launched(blocks, _THREADS) else None


_LOOKS = LaunchesOfThread(
    KERNEL, lambda kernel, dtype, device, stream: _SumsLauncher(kernel, stream, dtype)
)


def all_finite(look: Look | None, results: Tensor) -> bool:
    """Return whether a look, or one at the results if there was none, saw numbers only."""
    return only_finite(results) if look is None else look.saw_only_numbers()


def on_the_way(value: Tensor) -> Callable[[], list[float]]:
    """Return a function that has a few real numbers, whose copy from a device begins now."""
    memory, array = told().room("values", value.dtype, value.numel())
    memory.copy_(value, non_blocking=True)

    def arrived() -> list[float]:
        numbers: list[float] = array.tolist()
        if not isfinite(sum(numbers)):
            torch.cuda.current_stream(value.device).synchronize()
            numbers = array.tolist()
        return numbers

    return arrived
