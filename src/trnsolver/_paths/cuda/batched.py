"""Batched eigenproblems, singular values and QR of small matrices on a CUDA device.

cuSOLVER computes such a batch one matrix at a time, or leaves most of the device idle. Here a batch
is one launch with a thread block for each matrix, which stays in shared memory. The functions
return None, and torch computes, if matrices do not fit, a kernel cannot be compiled, or rotations
do not converge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.compiled import CudaKernel
from trnsolver._eigen.divide import pair_correction
from trnsolver._paths.cuda.householder import QR
from trnsolver._paths.cuda.jacobi import EIGH, SVD
from trnsolver._paths.cuda.launch import (
    NoKernelError,
    fits,
    kernel_of,
    launch,
    matrices_in,
    suits,
    threads_for,
)
from trnsolver._paths.cuda.small_eigh import MOST_ROWS, SMALL_EIGH

Rule = Callable[..., tuple[Tensor | None, ...]]
"""The backward rule of the operation that computes the same factors."""

EIGH_KERNEL = kernel_of("jacobi_eigh", EIGH)
SMALL_EIGH_KERNEL = kernel_of("small_eigh", SMALL_EIGH)
SVD_KERNEL = kernel_of("jacobi_svd", SVD)
QR_KERNEL = kernel_of("householder_qr", QR)

_FEW_MATRICES = 256
"""Batch size up to which each matrix has at least half a multiprocessor of its own."""

MOST_SWEEPS = 30
"""Limit of sweeps before falling back to torch; 11 are typical, 22 for graded matrices."""


def batched_eigh(a: Tensor, rule: Rule) -> tuple[Tensor, Tensor] | None:
    """Return finite eigenvalues, ascending, and eigenvectors of CUDA matrices, or None.

    Args:
        a: (..., n, n) in float32 or float64, of which the lower triangles are read.
        rule: Its derivative.
    """
    if not suits(a) or not fits(a, _eigh_block(a)[2]):
        return None
    return _found(_eigh, rule, a)


def batched_svd(a: Tensor, rule: Rule) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return the finite thin factors U, s, descending, and Vh of CUDA matrices, or None.

    Args:
        a: (..., m, n) in float32 or float64; wide ones are transposed.
        rule: Its derivative, for tall ones.
    """
    if a.shape[-2] < a.shape[-1]:
        tall = batched_svd(a.mT, rule)
        return None if tall is None else (tall[2].mT, tall[1], tall[0].mT)
    m, n = a.shape[-2:]
    if not suits(a) or not fits(a, svd_bytes(m, n, a.dtype, _svd_threads(a))):
        return None
    return _found(_svd, rule, a)


def batched_qr(a: Tensor, rule: Rule) -> tuple[Tensor, Tensor] | None:
    """Return the reduced factors of CUDA matrices with the signs of LAPACK, or None.

    Args:
        a: (..., m, n) in float32 or float64.
        rule: Its derivative, for those that are not wide.
    """
    m, n = a.shape[-2:]
    if not suits(a) or not fits(a, qr_bytes(m, n, a.dtype, threads_for(n))):
        return None
    if m < n and a.requires_grad and torch.is_grad_enabled():
        return None  # no derivative rule for wide matrices
    return _found(_qr, rule, a)


def _found(factors: Callable[[Tensor], Any], rule: Rule, a: Tensor) -> Any:
    try:
        return _Factors.apply(a, factors, rule)  # type: ignore[no-untyped-call]
    except NoKernelError:
        return None


class _Factors(torch.autograd.Function):
    """The factors of a batch, with the derivative rule of their operation."""

    @staticmethod
    def forward(a: Tensor, factors: Callable[[Tensor], Any], rule: Any) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = factors(a.detach().contiguous())
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(inputs[0], *output)
        ctx.rule = inputs[2]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None]:
        a, *result = ctx.saved_tensors
        return ctx.rule(grads, (True,), a, result=result)[0], None, None


def _eigh(a: Tensor) -> tuple[Tensor, Tensor]:
    n = a.shape[-1]
    w, v = a.new_empty(a.shape[:-1]), torch.empty_like(a)
    kernel, threads, shared = _eigh_block(a)
    _rotated(kernel, a, (a, w, v), (n,), threads, shared)
    return refined_pairs(a, w, v) if a.dtype is torch.float32 and n > MOST_ROWS else (w, v)


def _svd(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    m, n = a.shape[-2:]
    u, s = torch.empty_like(a), a.new_empty((*a.shape[:-2], n))
    vh, threads = a.new_empty((*a.shape[:-2], n, n)), _svd_threads(a)
    shared = svd_bytes(m, n, a.dtype, threads)
    _rotated(SVD_KERNEL, a, (a, u, s, vh), (m, n), threads, shared)
    return u, s, vh


def _qr(a: Tensor) -> tuple[Tensor, Tensor]:
    m, n = a.shape[-2:]
    least, threads = min(m, n), threads_for(n)
    q, r = a.new_empty((*a.shape[:-2], m, least)), a.new_empty((*a.shape[:-2], least, n))
    launch(QR_KERNEL, a, [a, q, r, m, n], threads, qr_bytes(m, n, a.dtype, threads))
    return q, r


def refined_pairs(a: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenpairs after one refinement step of Ogita and Aishima in float64.

    A thousand rounds leave errors of ten units in the last place. The step squares the error and
    takes four matrix products.
    """
    lower = a.double().tril()
    wide, x = lower + lower.tril(-1).mT, v.double()
    # The remaining error is the square of the step: 2^-26 is below the rounding of the result.
    values, step = pair_correction(x.mT @ (wide @ x), x.mT @ x, 2.0**-13)
    exact = x + x @ step
    ordered, places = values.sort(-1)
    exact = exact.gather(-1, places.unsqueeze(-2).expand_as(exact))
    return ordered.to(w.dtype), exact.to(v.dtype)


def _eigh_block(a: Tensor) -> tuple[CudaKernel, int, int]:
    """Return the kernel, the number of threads of a block, and its shared memory."""
    n = a.shape[-1]
    if n > MOST_ROWS:
        threads = threads_for(n)
        return EIGH_KERNEL, threads, eigh_bytes(n, a.dtype, threads)
    threads = small_eigh_threads(n, matrices_in(a))
    return SMALL_EIGH_KERNEL, threads, small_eigh_bytes(n, a.dtype, threads)


def eigh_bytes(n: int, dtype: torch.dtype, threads: int) -> int:
    """Return the shared memory of one matrix, its vectors, angles and pairs."""
    count = n + n % 2
    return dtype.itemsize * (count * (count + 1) + count * n + count + threads) + 4 * (count + 1)


def small_eigh_threads(n: int, matrices: int) -> int:
    """Return the number of threads of a block: one for every two pairs, more for small batches.

    At least the number of rows.
    """
    half = (n + 1) // 2
    least = -(-half * (half + 1) // 64)  # warps
    few = matrices <= _FEW_MATRICES
    return 32 * (max(least, (half + 1) // 2, min(8, half)) if few else least)


def small_eigh_bytes(n: int, dtype: torch.dtype, threads: int) -> int:
    """Return the shared memory of two matrices, the vectors, and their ranks."""
    count = n + n % 2
    return dtype.itemsize * (3 * count * (count + 1) + threads) + 4 * count


def _svd_threads(a: Tensor) -> int:
    """Return the number of threads of a block: one warp per pair of columns for small batches."""
    n = a.shape[-1]
    if n > MOST_ROWS or (n > 32 and matrices_in(a) > _FEW_MATRICES):
        return threads_for(n)
    return 32 * max(1, n // 2)


def svd_bytes(m: int, n: int, dtype: torch.dtype, threads: int) -> int:
    """Return the shared memory of one matrix, its right vectors, and lengths of columns."""
    return dtype.itemsize * (n * m + n * n + n + threads) + 4 * (n + 1)


def qr_bytes(m: int, n: int, dtype: torch.dtype, threads: int) -> int:
    """Return the shared memory of one matrix, its reflections, and one value for each thread."""
    return dtype.itemsize * (n * (m | 1) + 3 * min(m, n) + threads)


def _rotated(
    kernel: CudaKernel,
    a: Tensor,
    tensors: tuple[Tensor, ...],
    extents: tuple[int, ...],
    threads: int,
    shared_bytes: int,
) -> None:
    """Run Jacobi's method on every matrix of a batch.

    Raises:
        NoKernelError: Some matrix did not converge or is not finite, or there is no kernel.
    """
    troubled = torch.zeros(1, dtype=torch.int32, device=a.device)
    arguments: list[Tensor | int | None] = [*tensors, troubled, None, *extents, MOST_SWEEPS]
    launch(kernel, a, arguments, threads, shared_bytes)
    if troubled.item():
        raise NoKernelError
