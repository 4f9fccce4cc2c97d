"""Kernels of ours on a CUDA device, launched by its driver.

torch compiles such kernels, but opens the driver's library anew at each launch, which takes longer
than a small factorization.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from trnsci.core.errors import KernelError

__all__ = ["Extent", "current_stream", "driver", "launch_kernel", "wait_for"]

Extent = tuple[int, int, int]

# torch.cuda.current_stream makes an object, which takes a microsecond; torch for CPUs has neither.
current_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)


@cache
def driver() -> Any:
    """Return the library of the driver."""
    return ctypes.CDLL("libcuda.so.1")


def launch_kernel(
    handle: Any,
    grid: Extent,
    block: Extent,
    arguments: Sequence[Tensor | int | None],
    device: int,
    shared_bytes: int = 0,
) -> bool:
    """Launch a kernel on the current stream of the current device; return whether that went well.

    Args:
        handle: The kernel, as the driver knows it.
        grid: How many blocks.
        block: How many threads of a block.
        arguments: Memory of the device or pinned memory, which has to stay until the kernel ends,
            ``int`` of C, and None for a null pointer.
        device: The number of the current device.
        shared_bytes: Shared memory of a block that is asked for at the launch.
    """
    values = [
        ctypes.c_int(value)
        if isinstance(value, int)
        else ctypes.c_void_p(None if value is None else value.data_ptr())
        for value in arguments
    ]
    pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    stream = ctypes.c_void_p(current_stream(device))
    code: int = driver().cuLaunchKernel(handle, *grid, *block, shared_bytes, stream, pointers, None)
    return code == 0


def wait_for(device: int) -> None:
    """Wait until all is done that was launched on the current stream of a device."""
    code = driver().cuStreamSynchronize(ctypes.c_void_p(current_stream(device)))
    if code:
        torch.cuda.current_stream(device).synchronize()  # which has the words
        raise KernelError(f"the CUDA driver reports error {code} for kernels launched before")
