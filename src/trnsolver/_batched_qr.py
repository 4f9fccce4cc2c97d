"""QR factorizations of many small matrices on a CUDA device, in one launch.

torch makes the columns of Q one matrix after the other. Here each matrix has a block of threads
and its shared memory (see ``_cuda_qr``). Where it does not fit, or there is no kernel, the function
here returns None and torch does the work.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsolver import _derivatives as rules
from trnsolver._cuda_launch import NoKernelError, fits, launch, suits, threads_for
from trnsolver._cuda_qr import QR

__all__ = ["batched_qr"]


def batched_qr(a: Tensor, positive: bool = False) -> tuple[Tensor, Tensor] | None:
    """Return the reduced factors of CUDA matrices, or None.

    Args:
        a: (..., m, n) in float32 or float64.
        positive: Whether R has no negative numbers on its diagonal, or the signs of LAPACK.
    """
    m, n = a.shape[-2:]
    tracked = a.requires_grad and torch.is_grad_enabled()
    if m < n and tracked:
        return None  # torch knows the derivative
    if not suits(a) or not fits(a, qr_bytes(m, n, a.dtype, _threads(a))):
        return None
    try:
        found: tuple[Tensor, Tensor] = (_Qr.apply if tracked else _Qr.forward)(a, positive)
    except NoKernelError:
        return None
    return found


class _Qr(torch.autograd.Function):
    @staticmethod
    def forward(a: Tensor, positive: bool) -> tuple[Tensor, Tensor]:
        dense = a.detach().contiguous()
        m, n = a.shape[-2:]
        least = min(m, n)
        q = dense.new_empty((*a.shape[:-2], m, least))
        r = dense.new_empty((*a.shape[:-2], least, n))
        threads = _threads(a)
        shared = qr_bytes(m, n, a.dtype, threads)
        arguments = [dense, q, r, m, n, int(positive)]
        launch(("householder_qr", QR), dense, arguments, threads, shared)
        return q, r

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(inputs[0], *output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None]:
        a, *result = ctx.saved_tensors
        return rules.qr_backward((grads[0], grads[1]), (True,), a, result=result)[0], None


def qr_bytes(m: int, n: int, dtype: torch.dtype, threads: int) -> int:
    """Return the shared memory of one matrix, its reflections, and a number for each thread."""
    return dtype.itemsize * (n * (m | 1) + 3 * min(m, n) + threads)


def _threads(a: Tensor) -> int:
    """Return the threads of a block; the only one has a processor of its own."""
    return 512 if a.ndim == 2 else threads_for(a.shape[-1])
