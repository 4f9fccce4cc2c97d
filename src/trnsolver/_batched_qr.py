"""QR factorizations of many small matrices on a CUDA device, in one launch.

torch makes the columns of Q one matrix after the other. Here each matrix has a block of threads
and its shared memory (see ``_cuda_qr``, and ``_cuda_gram_qr`` for one matrix alone). Where it does
not fit, or there is no kernel, the functions here return None and torch does the work.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.core.cuda import wait_for
from trnsolver import _derivatives as rules
from trnsolver._cuda_gram_qr import FACTOR_GRAM, MOST_COLUMNS, POSITIVE_QR
from trnsolver._cuda_launch import (
    NoKernelError,
    fits,
    kernel_of,
    launch,
    matrices_in,
    suits,
    threads_for,
    told,
)
from trnsolver._cuda_qr import QR
from trnsolver._small_qr import independent

__all__ = ["batched_qr", "positive_qr", "tall_qr"]

KERNEL = kernel_of("householder_qr", QR)
POSITIVE_KERNEL = kernel_of("positive_qr", POSITIVE_QR)
GRAM_KERNEL = kernel_of("factor_gram", FACTOR_GRAM)

_GRAM_THREADS = MOST_COLUMNS
_FEW_COLUMNS = 32
"""Columns of a single matrix from which on twice the threads are quicker."""


def batched_qr(a: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the reduced factors of CUDA matrices with the signs of LAPACK, or None.

    Args:
        a: (..., m, n) in float32 or float64.
    """
    m, n = a.shape[-2:]
    tracked = a.requires_grad and torch.is_grad_enabled()
    if m < n and tracked:
        return None  # torch knows the derivative
    if not suits(a) or not fits(a, qr_bytes(m, n, a.dtype, threads_for(n))):
        return None
    try:
        found: tuple[Tensor, Tensor] = (_Qr.apply if tracked else _Qr.forward)(a)
    except NoKernelError:
        return None
    return found


def positive_qr(a: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the reduced factors, R with a positive diagonal, of a CUDA matrix, or None.

    Args:
        a: (m, n) in float32 or float64, m >= n, which nobody differentiates.

    Raises:
        NotPositiveDefiniteError: Columns are dependent, to rounding.
    """
    m, n = a.shape
    threads = 512 if n < _FEW_COLUMNS else 1024  # it has a processor of its own
    shared = positive_qr_bytes(m, n, a.dtype, threads)
    if not suits(a) or not fits(a, shared):
        return None
    ends = told().ends
    dense = a.detach().contiguous()
    q, r = torch.empty_like(dense), dense.new_empty((n, n))
    try:
        launch(POSITIVE_KERNEL, dense, [dense, q, r, m, n, ends], 1, threads, shared)
    except NoKernelError:
        return None
    wait_for(a.get_device())
    independent(ends.tolist(), a.dtype)
    return q, r


def tall_qr(a: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return what ``positive_qr`` does, by products; None too where columns are near dependent.

    Args:
        a: (m, n) in float32 or float64, m >= n, which nobody differentiates.
    """
    n = a.shape[-1]
    if n > MOST_COLUMNS or not suits(a) or not fits(a, gram_bytes(n, a.dtype)):
        return None
    dense, troubled = a.detach(), told().troubled
    troubled.zero_()
    try:
        first, inverse = _factored(dense.mT @ dense, troubled, again=False)
        once = dense @ inverse.mT
        second, inverse = _factored(once.mT @ once, troubled, again=True)
    except NoKernelError:
        return None
    factors = once @ inverse.mT, second.mT @ first.mT
    wait_for(a.get_device())
    return None if troubled.item() else factors


def _factored(gram: Tensor, troubled: Tensor, *, again: bool) -> tuple[Tensor, Tensor]:
    """Return Cholesky's factor of a Gram matrix and its inverse, which are being made."""
    n = gram.shape[-1]
    lower, inverse = torch.empty_like(gram), torch.empty_like(gram)
    arguments: list[Tensor | int | None] = [gram, lower, inverse, troubled, n, int(again)]
    launch(GRAM_KERNEL, gram, arguments, 1, _GRAM_THREADS, gram_bytes(n, gram.dtype))
    return lower, inverse


class _Qr(torch.autograd.Function):
    @staticmethod
    def forward(a: Tensor) -> tuple[Tensor, Tensor]:
        dense = a.detach().contiguous()
        m, n = dense.shape[-2:]
        least, threads = min(m, n), threads_for(n)
        q = dense.new_empty((*dense.shape[:-2], m, least))
        r = dense.new_empty((*dense.shape[:-2], least, n))
        shared = qr_bytes(m, n, dense.dtype, threads)
        launch(KERNEL, dense, [dense, q, r, m, n], matrices_in(dense), threads, shared)
        return q, r

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(inputs[0], *output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor | None:
        a, *result = ctx.saved_tensors
        return rules.qr_backward((grads[0], grads[1]), (True,), a, result=result)[0]


def qr_bytes(m: int, n: int, dtype: torch.dtype, threads: int) -> int:
    """Return the shared memory of one matrix, its reflections, and a number for each thread."""
    return dtype.itemsize * (n * (m | 1) + 3 * min(m, n) + threads)


def positive_qr_bytes(m: int, n: int, dtype: torch.dtype, threads: int) -> int:
    """Return the shared memory of one matrix, with three for its columns if these are few."""
    pitch = n | 1 if n <= MOST_COLUMNS else 1
    return dtype.itemsize * (n * (m | 1) + 3 * n * pitch + threads)


def gram_bytes(n: int, dtype: torch.dtype) -> int:
    """Return the shared memory of a Gram matrix and an inverse, and a number for each thread."""
    return dtype.itemsize * (2 * n * (n | 1) + _GRAM_THREADS)
