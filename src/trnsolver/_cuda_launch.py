"""Which tensors a CUDA kernel of ours takes, and how it is compiled and launched.

Kernels are compiled at their first use by NVRTC, through a function of torch that is not public.
Where it is missing or fails, a warning says so, once for each kernel, and torch does the work.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor

from trnsci.core.eager import untracked

__all__ = ["NoKernelError", "fits", "launch", "source_of", "suits", "threads_for"]

_TYPES = {
    torch.float32: ("float", "1.1920928955078125e-07f", "1e-15f"),
    torch.float64: ("double", "2.220446049250313e-16", "1e-150"),
}


class NoKernelError(Exception):
    """A kernel is not there, or did not get to the end: torch is to be asked."""


def suits(a: Tensor) -> bool:
    """Return whether an eager call on a device may be one of ours; gradients are known."""
    return a.is_cuda and a.dtype in _TYPES and a.numel() > 0 and untracked(a.detach())


def fits(a: Tensor, shared_bytes: int) -> bool:
    """Return whether a block of threads has so much memory, and a kernel can be launched now."""
    if torch.version.hip is not None or torch.cuda.is_current_stream_capturing():
        return False
    return shared_bytes <= _most_shared_bytes(a.get_device())


def threads_for(n: int) -> int:
    """Return the threads of a block: a warp for every two to four pairs of columns."""
    return 64 if n <= 16 else 128 if n <= 32 else 256 if n <= 64 else 512


def launch(
    kernel: tuple[str, str], a: Tensor, arguments: list[Any], threads: int, shared_bytes: int
) -> None:
    """Run a kernel with a block of threads for every matrix of a batch.

    Args:
        kernel: Its name and its text.
        a: The matrices, whose dtype and device are those of the kernel.
        arguments: What it gets.
        threads: Threads of a block.
        shared_bytes: Shared memory of a block.

    Raises:
        NoKernelError: There is no such kernel here.
    """
    count = a.numel() // (a.shape[-1] * a.shape[-2])
    with torch.cuda.device(a.device):
        compiled = _compiled(*kernel, a.dtype, a.get_device())
        if compiled is None:
            raise NoKernelError
        compiled((count, 1, 1), (threads, 1, 1), arguments, shared_mem=shared_bytes)


def source_of(kernel: str, dtype: torch.dtype) -> str:
    """Return the text of a kernel for a dtype."""
    real, eps, least = _TYPES[dtype]
    return f"#define REAL {real}\n#define EPS {eps}\n#define LEAST {least}\n{kernel}"


@cache
def _most_shared_bytes(device: int) -> int:
    properties = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "shared_memory_per_block_optin", 48 * 1024))


@cache
def _compiled(name: str, text: str, dtype: torch.dtype, device: int) -> Any:
    """Return a kernel for the current device, or None where it cannot be had, which is said."""
    try:
        kernel = torch.cuda._compile_kernel(source_of(text, dtype), name)
        kernel.set_shared_memory_config(_most_shared_bytes(device))
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        warnings.warn(
            f"trnsolver: the CUDA kernel {name} for {dtype} cannot be compiled, so that torch "
            f"computes instead: {reason}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return kernel
