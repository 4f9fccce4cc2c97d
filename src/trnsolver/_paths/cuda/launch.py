"""Checks of operands, source for a dtype, and launch of the CUDA kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from trnsci.core.backend.compiled import CudaKernel, most_shared_bytes
from trnsci.core.numbers.values import inert

_TYPES = {
    torch.float32: ("float", "1.1920928955078125e-07f", "1e-15f", "1.17549435e-38f"),
    torch.float64: ("double", "2.220446049250313e-16", "1e-150", "2.2250738585072014e-308"),
}

LEAST_BATCH = 4
"""Smallest batch that a kernel computes; torch computes smaller ones."""

LEAST_ORDER = {"eigh": 33, "svd": 33, "qr": 1}
"""Smallest order that a kernel computes.

For symmetric eigenproblems and singular values up to order 32, torch computes a batch at once: on
an H200 a kernel takes 1.1 to 1.9 of its time, from 4 to 512 matrices. Above, torch computes one
matrix after the other: a kernel takes 0.2 to 0.7 of its time for 4 matrices and 0.01 for 256.
"""


class NoKernelError(Exception):
    """A kernel cannot be compiled or launched, or did not converge: torch computes instead."""


def suits(a: Tensor) -> bool:
    """Return whether a tensor is a batch of real matrices on a CUDA device.

    Reverse-mode autograd is supported; torch.func, forward mode, tracing and CUDA graph capture
    are left to torch.
    """
    if not a.is_cuda or a.ndim == 2 or a.dtype not in _TYPES or not inert(a.detach()):
        return False
    return a.numel() > 0


def pays(routine: str, a: Tensor) -> bool:
    """Return whether a tensor on a CUDA device is a batch that is large enough for a kernel."""
    return a.is_cuda and is_large(routine, a)


def is_large(routine: str, a: Tensor) -> bool:
    """Return whether a batch has enough matrices of a sufficient order."""
    if a.numel() == 0 or max(a.shape[-2:]) < LEAST_ORDER[routine]:
        return False
    return matrices_in(a) >= LEAST_BATCH


def fits(a: Tensor, shared_bytes: int) -> bool:
    """Return whether a block can have this much shared memory, and a kernel can be launched."""
    if torch.cuda.is_current_stream_capturing():
        return False
    return shared_bytes <= most_shared_bytes(a.get_device())


def matrices_in(a: Tensor) -> int:
    """Return the number of matrices of a batch that is not empty."""
    return a.numel() // (a.shape[-1] * a.shape[-2])


def threads_for(n: int) -> int:
    """Return the number of threads of a block: one warp for two to four pairs of columns."""
    return 64 if n <= 16 else 128 if n <= 32 else 256 if n <= 64 else 512


def kernel_of(name: str, text: str) -> CudaKernel:
    """Return a kernel for float32 and float64."""
    return CudaKernel("trnsolver", name, partial(source_of, text), shared_memory=True)


def source_of(text: str, dtype: torch.dtype) -> str:
    """Return the source of a kernel for a dtype."""
    names = zip(("REAL", "EPS", "LEAST", "TINY"), _TYPES[dtype], strict=True)
    return "".join(f"#define {name} {value}\n" for name, value in names) + text


def launch(
    kernel: CudaKernel,
    a: Tensor,
    arguments: Sequence[Tensor | int | None],
    threads: int,
    shared_bytes: int,
) -> None:
    """Launch a kernel with one block for each matrix of a batch.

    Raises:
        NoKernelError: It cannot be compiled or launched.
    """
    grid, block = (matrices_in(a), 1, 1), (threads, 1, 1)
    if not kernel.launch(a.dtype, grid, block, arguments, a.get_device(), shared_bytes):
        raise NoKernelError
