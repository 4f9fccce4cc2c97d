"""Products with a symmetric or a Hermitian matrix: ``symm`` and ``hemm``."""

from __future__ import annotations

import torch
from torch import Tensor

from trnblas._library import LIBRARY
from trnblas._paths import scipy_blas
from trnblas._paths.arguments import Scalar, broadcast_batch, is_left, is_upper, sided_arguments
from trnblas._paths.levels import level_of, multiply_at
from trnblas._paths.triangles import mirrored, one_triangle
from trnblas.matrix_products import complex_product, multiplied
from trnsci.core.arguments import agree, delivered, square
from trnsci.core.backend.derivatives import Gradients, Needed
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.backend.update import Multiply, Update
from trnsci.core.evidence import product_bound
from trnsci.core.examples import Case, example
from trnsci.core.numbers.conversions import dtype_name
from trnsci.core.testing import random_tensor
from trnsci.core.tiles.tiling import Layout
from trnsci.core.tiles.tiling_gemm import gemm_tiling

__all__ = ["hemm", "symm"]


def symm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    side: str = "left",
    uplo: str = "upper",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * A @ B + beta * C``, or ``alpha * B @ A + beta * C``, for a symmetric A.

    Args:
        alpha: Factor of the product.
        beta: Factor of C.
        A: Square matrix of which the triangle ``uplo`` is read, or a batch of such matrices.
        B: Matrix, or a batch that broadcasts with that of A.
        C: Accumulator, broadcast to the result.
        side: Side of B on which A is.
        uplo: Triangle of A.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: An option is invalid, or beta is not 0 without C.
    """
    agree("symm", "A", A, "B", B)
    left, upper = _sides("symm", A, side, uplo)
    alpha, beta = sided_arguments("symm", alpha, A, B, beta, C, left)
    level = level_of("symm", precision, A)
    result = SYMM.updated(alpha, (A, B), beta, C, left, upper, False, level=level)
    return delivered("symm", result, out)


def hemm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    side: str = "left",
    uplo: str = "upper",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * A @ B + beta * C``, or ``alpha * B @ A + beta * C``, for a Hermitian A.

    Imaginary parts on the diagonal of A are ignored. The arguments are those of ``symm``; for a
    real A both are equal.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: An option is invalid, or beta is not 0 without C.
    """
    agree("hemm", "A", A, "B", B)
    left, upper = _sides("hemm", A, side, uplo)
    alpha, beta = sided_arguments("hemm", alpha, A, B, beta, C, left)
    level = level_of("hemm", precision, A)
    result = SYMM.updated(alpha, (A, B), beta, C, left, upper, A.is_complex(), level=level)
    return delivered("hemm", result, out)


def _sides(function: str, A: Tensor, side: str, uplo: str) -> tuple[bool, bool]:
    """Return the flags of a symmetric A, which must be square: left, upper."""
    flags = is_left(function, side), is_upper(function, uplo)
    square(function, "A", A)
    return flags


def _symm(
    multiply: Multiply, A: Tensor, B: Tensor, left: bool, upper: bool, hermitian: bool
) -> Tensor:
    full = mirrored(A, upper, hermitian)
    return multiply(full, B) if left else multiply(B, full)


def _symm_shape(A: Tensor, B: Tensor, *flags: bool) -> tuple[int, ...]:
    return (*broadcast_batch("symm", A, B), *B.shape[-2:])


def _symm_launch(
    launch: Launcher,
    alpha: float,
    A: Tensor,
    B: Tensor,
    beta: float,
    C: Tensor | None,
    *flags: bool,
) -> Tensor:
    from trnblas._kernels.symm import symm

    left, upper, _ = flags
    stored: Layout = "upper" if upper else "lower"
    layouts: tuple[Layout, Layout] = (stored, "rows") if left else ("columns", stored)
    rows, columns = B.shape
    tiling = gemm_tiling(
        rows, columns, A.shape[0], dtype_name(A.dtype), a_layout=layouts[0], b_layout=layouts[1]
    )
    return launch(symm, A, B, C, alpha, beta, left, upper, tiling.blocks)


def _symm_pullback(
    grad: Tensor, needed: Needed, alpha: float, A: Tensor, B: Tensor, *flags: bool
) -> Gradients:
    """Return G B^T, folded onto the triangle, for A and sym(A) G for B (A on the left)."""
    left, upper, _ = flags
    for_a = for_b = None
    if needed[0]:
        full = multiplied(*((grad, B, "N", "T") if left else (B, grad, "T", "N")), alpha)
        for_a = one_triangle(full, upper) + one_triangle(full.mT, upper, 1)
    if needed[1]:
        for_b = SYMM(alpha, A, grad, 0.0, None, *flags)
    return for_a, for_b


def _of_upper(a: Tensor) -> Tensor:
    """Return the symmetric matrix of an upper triangle, for evidence."""
    return torch.triu(a) + torch.triu(a, 1).mT


SYMM = Update(
    LIBRARY,
    "symm",
    product=_symm,
    shape=_symm_shape,
    launch=_symm_launch,
    pullback=_symm_pullback,
    multiply_at=multiply_at,
    complex_product=complex_product,
    host=scipy_blas.symm,
    flops=lambda A, B, *flags: 2.0 * B.numel() * A.shape[-1],
    examples={
        "symm": lambda: example(1.0, random_tensor(4, 4), random_tensor(4, 4, seed=1)),
        "hemm": lambda: example(1.0, random_tensor(4, 4), random_tensor(4, 4, seed=1)),
    },
    evidence=(
        Case(
            "symm",
            "symmetric product",
            lambda: (random_tensor(150, 150), random_tensor(150, 70, seed=1)),
            lambda a, b: symm(1.0, a, b),
            lambda a, b: _of_upper(a.double()) @ b.double(),
            "torch in float64",
            lambda a, b: product_bound(_of_upper(a), b),
        ),
    ),
)
