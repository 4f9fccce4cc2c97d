"""Dispatch of level 3 to the torch function, or to the ``Operation`` with a kernel.

The functions take validated arguments. With the torch backend, the torch function is called.
Otherwise arguments are converted to those of the operation: tensor factors are applied outside of
it, the accumulator is broadcast, and batches are merged into one dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from torch import Tensor

from trnblas._library import LIBRARY
from trnblas._paths.accumulation import accumulated, is_number, scaled
from trnblas._paths.arguments import Product, Scalar, broadcast_batch
from trnblas._paths.flags import Trans, flipped
from trnblas._paths.torch_path import (
    torch_gemm,
    torch_gemmt,
    torch_symm,
    torch_syr2k,
    torch_syrk,
    torch_trmm,
    torch_trsm,
)

__all__ = [
    "kernels_wanted",
    "run_gemm",
    "run_gemmt",
    "run_hermitian",
    "run_symm",
    "run_syr2k",
    "run_syrk",
    "run_trmm",
    "run_trsm",
]

kernels_wanted = LIBRARY.kernels_wanted


def run_gemm(product: Product, out: Tensor | None) -> Tensor:
    """Return a product, written to ``out`` if torch can do so."""
    if not kernels_wanted() or is_number(product.alpha, 0):
        return torch_gemm(product, out)
    from trnblas._paths.operations import BATCHED_GEMM, GEMM

    A, B, C, alpha, beta, *flags, shape = product
    if len(shape) == 2:
        return _with_factors(GEMM, (A, B), alpha, beta, C, shape, *flags)
    operands = _one_batch(A, shape[:-2]), _one_batch(B, shape[:-2])
    C = None if C is None else C.expand(shape).flatten(0, -3)
    flat = (prod(shape[:-2]), *shape[-2:])
    return _with_factors(BATCHED_GEMM, operands, alpha, beta, C, flat, *flags).reshape(shape)


def run_gemmt(product: Product, upper: bool) -> Tensor:
    """Return one triangle of a product and the other triangle of C."""
    if not kernels_wanted() or is_number(product.alpha, 0):
        return torch_gemmt(product, upper)
    from trnblas._paths.operations import GEMMT

    A, B, C, alpha, beta, *flags, shape = product
    # A tensor factor cannot be applied afterwards: it would scale the other triangle too.
    if isinstance(alpha, Tensor) or isinstance(beta, Tensor):
        GEMMT.refuse("a factor is a tensor but the kernel takes numbers")
        return torch_gemmt(product, upper)
    return _with_factors(GEMMT, (A, B), alpha, beta, C, shape, *flags, upper)


def run_symm(
    alpha: Scalar, A: Tensor, B: Tensor, beta: Scalar, C: Tensor | None, left: bool, upper: bool
) -> Tensor:
    """Return ``alpha * A @ B + beta * C``, or with A on the right, for a symmetric A."""
    if not kernels_wanted() or is_number(alpha, 0):
        return torch_symm(alpha, A, B, beta, C, left, upper)
    from trnblas._paths.operations import SYMM

    shape = (*broadcast_batch("symm", A, B), *B.shape[-2:])
    return _with_factors(SYMM, (A, B), alpha, beta, C, shape, left, upper)


def run_syrk(alpha: Scalar, A: Tensor, beta: Scalar, C: Tensor | None, op: Trans) -> Tensor:
    """Return ``alpha * A @ A.mT + beta * C``, or with the transpose on the left."""
    if not kernels_wanted() or is_number(alpha, 0):
        return torch_syrk(alpha, A, beta, C, op)
    from trnblas._paths.operations import SYRK

    size = A.shape[-1 if flipped(op) else -2]
    return _with_factors(SYRK, (A,), alpha, beta, C, (*A.shape[:-2], size, size), op)


def run_syr2k(
    alpha: Scalar, A: Tensor, B: Tensor, beta: Scalar, C: Tensor | None, op: Trans
) -> Tensor:
    """Return ``alpha * (A @ B.mT + B @ A.mT) + beta * C``, or with the transposes on the left."""
    if not kernels_wanted() or is_number(alpha, 0):
        return torch_syr2k(alpha, A, B, beta, C, op)
    from trnblas._paths.operations import SYR2K

    size = A.shape[-1 if flipped(op) else -2]
    shape = (*broadcast_batch("syr2k", A, B), size, size)
    return _with_factors(SYR2K, (A, B), alpha, beta, C, shape, op)


def run_hermitian(
    name: str, function: Callable[..., Tensor], alpha: Scalar, A: Tensor, *rest: Any
) -> Tensor:
    """Return ``function`` of complex operands.

    The kernel of the operation ``name`` takes real operands only: on a kernel path, the call is
    counted as a fallback.
    """
    if kernels_wanted():
        from trnblas._paths import operations  # noqa: F401  (declares it)

        LIBRARY.operations[name].refuse(f"the kernel does not take {A.dtype}")
    return function(alpha, A, *rest)


def run_trsm(
    alpha: Scalar, A: Tensor, B: Tensor, left: bool, upper: bool, op: Trans, unit: bool
) -> Tensor:
    """Solve ``op(A) @ X = alpha * B`` or ``X @ op(A) = alpha * B`` for X."""
    if not kernels_wanted() or is_number(alpha, 0):
        return torch_trsm(alpha, A, B, left, upper, op, unit)
    if isinstance(alpha, Tensor):
        return run_trsm(1, A, scaled(alpha, B), left, upper, op, unit)
    from trnblas._paths.operations import BATCHED_TRSM, TRSM

    batch = broadcast_batch("trsm", A, B)
    if not batch:
        return TRSM(A, B, alpha, left, upper, op, unit)
    sides = B.expand(*batch, *B.shape[-2:])
    flat = sides.flatten(0, -3)
    solution = BATCHED_TRSM(_one_batch(A, batch), flat, alpha, left, upper, op, unit)
    return solution.reshape(sides.shape)


def run_trmm(
    alpha: Scalar, A: Tensor, B: Tensor, left: bool, upper: bool, op: Trans, unit: bool
) -> Tensor:
    """Return ``alpha * op(A) @ B``, or ``alpha * B @ op(A)``, for a triangular A."""
    if not kernels_wanted() or is_number(alpha, 0):
        return torch_trmm(alpha, A, B, left, upper, op, unit)
    if isinstance(alpha, Tensor):
        return scaled(alpha, run_trmm(1, A, B, left, upper, op, unit))
    from trnblas._paths.operations import TRMM

    return TRMM(A, B, alpha, left, upper, op, unit)


def _with_factors(
    operation: Callable[..., Tensor],
    operands: tuple[Tensor, ...],
    alpha: Scalar,
    beta: Scalar,
    C: Tensor | None,
    shape: tuple[int, ...],
    *flags: Any,
) -> Tensor:
    """Return ``alpha * product + beta * C``, in one operation if both factors are numbers."""
    if (
        C is not None
        and not isinstance(alpha, Tensor)
        and not isinstance(beta, Tensor)
        and beta != 0
    ):
        return operation(*operands, C.expand(shape), alpha, beta, *flags)
    factor = 1.0 if isinstance(alpha, Tensor) else alpha
    product = operation(*operands, None, factor, 0.0, *flags)
    if isinstance(alpha, Tensor):
        product = scaled(alpha, product)
    return accumulated(product, beta, C)


def _one_batch(matrices: Tensor, batch: tuple[int, ...]) -> Tensor:
    """Return a single matrix unchanged, and a batch with one batch dimension."""
    if matrices.ndim == 2:
        return matrices
    return matrices.expand(*batch, *matrices.shape[-2:]).flatten(0, -3)
