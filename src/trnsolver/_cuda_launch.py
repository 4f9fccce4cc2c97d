"""Which tensors a CUDA kernel of ours takes, for which dtypes, and how it is launched.

What a kernel has to tell the host it writes to pinned memory, which needs no copy: it is there
when the kernel has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache, partial
from math import nan
from typing import Any

import torch
from torch import Tensor

from trnsci.core.cuda import CudaKernel, most_shared_bytes
from trnsci.core.eager import untracked

__all__ = [
    "NoKernelError",
    "fits",
    "kernel_of",
    "launch",
    "matrices_in",
    "source_of",
    "suits",
    "threads_for",
    "told",
]

_TYPES = {
    torch.float32: ("float", "1.1920928955078125e-07f", "1e-15f", "1.17549435e-38f"),
    torch.float64: ("double", "2.220446049250313e-16", "1e-150", "2.2250738585072014e-308"),
}

_MOST_ROOMS = 16


class NoKernelError(Exception):
    """A kernel is not there, or did not get to the end: torch is to be asked."""


def suits(a: Tensor) -> bool:
    """Return whether an eager call on a device may be one of ours; gradients are known."""
    return a.is_cuda and a.dtype in _TYPES and a.numel() > 0 and untracked(a.detach())


def fits(a: Tensor, shared_bytes: int) -> bool:
    """Return whether a block of threads has so much memory, and a kernel can be launched now."""
    if torch.cuda.is_current_stream_capturing():
        return False
    return shared_bytes <= most_shared_bytes(a.get_device())


def matrices_in(a: Tensor) -> int:
    """Return how many matrices a tensor has; none is empty."""
    return a.numel() // (a.shape[-1] * a.shape[-2])


def threads_for(n: int) -> int:
    """Return the threads of a block: a warp for every two to four pairs of columns."""
    return 64 if n <= 16 else 128 if n <= 32 else 256 if n <= 64 else 512


class Told(threading.local):
    """Numbers in pinned memory, made once for each thread, that a device writes for the host."""

    def __init__(self) -> None:
        self.ends = torch.zeros(2, dtype=torch.float64, pin_memory=True)
        self.troubled = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self._room: dict[tuple[str, torch.dtype, int], tuple[Tensor, Any]] = {}

    def room(self, purpose: str, dtype: torch.dtype, count: int) -> tuple[Tensor, Any]:
        """Return pinned memory that holds NaN, and its array."""
        found = self._room.get((purpose, dtype, count))
        if found is None:
            if len(self._room) > _MOST_ROOMS:
                self._room.clear()
            memory = torch.empty(count, dtype=dtype, pin_memory=True)
            found = self._room[purpose, dtype, count] = memory, memory.numpy()
        found[1].fill(nan)
        return found


@cache
def told() -> Told:
    """Return what a device has told the host."""
    return Told()


def kernel_of(name: str, text: str) -> CudaKernel:
    """Return a kernel for float32 and float64."""
    return CudaKernel("trnsolver", name, partial(source_of, text), shared_memory=True)


def launch(
    kernel: CudaKernel,
    a: Tensor,
    arguments: Sequence[Tensor | int | None],
    blocks: int,
    threads: int,
    shared_bytes: int = 0,
) -> None:
    """Run a kernel.

    Args:
        kernel: One of ``kernel_of``.
        a: A tensor whose dtype and device are those of the kernel.
        arguments: What it gets.
        blocks: How many blocks.
        threads: Threads of a block.
        shared_bytes: Shared memory of a block.

    Raises:
        NoKernelError: There is no such kernel here.
    """
    device = a.get_device()
    if device != torch.cuda.current_device():
        with torch.cuda.device(device):
            launch(kernel, a, arguments, blocks, threads, shared_bytes)
        return
    grid, block = (blocks, 1, 1), (threads, 1, 1)
    if not kernel.launch(a.dtype, grid, block, arguments, device, shared_bytes):
        raise NoKernelError


def source_of(kernel: str, dtype: torch.dtype) -> str:
    """Return the text of a kernel for a dtype."""
    names = zip(("REAL", "EPS", "LEAST", "TINY"), _TYPES[dtype], strict=True)
    return "".join(f"#define {name} {value}\n" for name, value in names) + kernel
