"""Eigenproblems and singular values of many small matrices on a CUDA device, in one launch.

torch gives such a batch to the device one matrix after the other, or to a routine that leaves most
of it idle. Here each matrix has a block of threads and its shared memory (see ``_cuda_jacobi``).
Where a matrix does not fit, there is no kernel, or rotations do not converge, the functions here
return None and torch does the work.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.core.cuda import CudaKernel
from trnsolver import _derivatives as rules
from trnsolver._cuda_jacobi import EIGH, SVD
from trnsolver._cuda_launch import (
    NoKernelError,
    fits,
    kernel_of,
    launch,
    matrices_in,
    suits,
    threads_for,
)
from trnsolver._refine import pair_correction

__all__ = ["batched_eigh", "batched_svd", "refined_pairs"]

EIGH_KERNEL = kernel_of("jacobi_eigh", EIGH)
SVD_KERNEL = kernel_of("jacobi_svd", SVD)

MOST_SWEEPS = 30
"""Sweeps after which torch is asked; orders that fit take eleven, graded ones twice that."""


def batched_eigh(a: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return eigenvalues, ascending, and eigenvectors of CUDA matrices, or None.

    Args:
        a: (..., n, n) in float32 or float64, of which the lower triangles count.
    """
    n = a.shape[-1]
    if not suits(a) or not fits(a, _eigh_bytes(n, a.dtype)):
        return None
    return _found(_Eigh, a)


def batched_svd(a: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return the thin factors U, s, descending, and Vh of CUDA matrices, or None.

    Args:
        a: (..., m, n) in float32 or float64; wide ones are turned.
    """
    if a.shape[-2] < a.shape[-1]:
        turned = batched_svd(a.mT)
        return None if turned is None else (turned[2].mT, turned[1], turned[0].mT)
    m, n = a.shape[-2:]
    if not suits(a) or not fits(a, _svd_bytes(m, n, a.dtype)):
        return None
    return _found(_Svd, a)


def _found(function: Any, a: Tensor) -> Any:
    try:
        tracked = a.requires_grad and torch.is_grad_enabled()
        return function.apply(a) if tracked else function.forward(a)
    except NoKernelError:
        return None


class _Eigh(torch.autograd.Function):
    @staticmethod
    def forward(a: Tensor) -> tuple[Tensor, Tensor]:
        dense = a.detach().contiguous()
        n = a.shape[-1]
        w, v = dense.new_empty(dense.shape[:-1]), torch.empty_like(dense)
        _launch(EIGH_KERNEL, dense, (dense, w, v), (n,), n, _eigh_bytes(n, a.dtype))
        if a.dtype is torch.float32:
            return refined_pairs(dense, w, v)
        return w, v

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor | None:
        a, *result = ctx.saved_tensors
        return rules.eigh_backward((grads[0], grads[1]), (True,), a, 0, result=result)[0]


class _Svd(torch.autograd.Function):
    @staticmethod
    def forward(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        dense = a.detach().contiguous()
        m, n = a.shape[-2:]
        u, s = torch.empty_like(dense), dense.new_empty((*a.shape[:-2], n))
        vh = dense.new_empty((*a.shape[:-2], n, n))
        _launch(SVD_KERNEL, dense, (dense, u, s, vh), (m, n), n, _svd_bytes(m, n, a.dtype))
        # A singular value of zero has no left vector yet; torch finds one.
        if bool((s[..., -1:] <= torch.finfo(a.dtype).tiny).any()):
            raise NoKernelError
        return u, s, vh

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor | None:
        a, *result = ctx.saved_tensors
        return rules.svd_backward((grads[0], grads[1], grads[2]), (True,), a, 0, result=result)[0]


def refined_pairs(a: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and eigenvectors after one step of Ogita and Aishima in float64.

    A thousand rounds leave rounding errors of ten units in the last place. The step squares
    errors, for four products of matrices.
    """
    lower = a.double().tril()
    wide, x = lower + lower.tril(-1).mT, v.double()
    # What is left of an error is the square of a step: 2^-26 is below the rounding of the result.
    values, step = pair_correction(x.mT @ (wide @ x), x.mT @ x, 2.0**-13)
    exact = x + x @ step
    ordered, places = values.sort(-1)
    exact = exact.gather(-1, places.unsqueeze(-2).expand_as(exact))
    return ordered.to(w.dtype), exact.to(v.dtype)


def _eigh_bytes(n: int, dtype: torch.dtype) -> int:
    """Return the shared memory of one matrix, its vectors, angles and pairs."""
    count = n + n % 2
    return dtype.itemsize * (count * (count + 1) + count * n + count + threads_for(n)) + 4 * (
        count + 1
    )


def _svd_bytes(m: int, n: int, dtype: torch.dtype) -> int:
    return dtype.itemsize * (n * m + n * n + n + threads_for(n)) + 4 * (n + 1)


def _launch(
    kernel: CudaKernel,
    a: Tensor,
    tensors: tuple[Tensor, ...],
    extents: tuple[int, ...],
    n: int,
    shared_bytes: int,
) -> None:
    """Run a kernel on every matrix of a batch.

    Raises:
        NoKernelError: Some matrix did not converge, or there is no kernel.
    """
    count = matrices_in(a)
    sweeps = torch.empty(count, dtype=torch.int32, device=a.device)
    arguments: list[Tensor | int | None] = [*tensors, sweeps, *extents, MOST_SWEEPS]
    launch(kernel, a, arguments, count, threads_for(n), shared_bytes)
    if bool((sweeps > MOST_SWEEPS).any()):
        raise NoKernelError
