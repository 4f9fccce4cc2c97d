"""Rank-k and rank-2k updates of BLAS level 3: symmetric and Hermitian products.

Results contain both triangles and are exactly symmetric, or Hermitian with a real diagonal. C is
symmetric or Hermitian too; only its triangle ``uplo`` is read, as in BLAS. ``gemmt`` computes one
triangle and leaves the other unchanged.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnblas._library import LIBRARY, kernels_wanted
from trnblas._paths import scipy_blas
from trnblas._paths.arguments import (
    Product,
    Scalar,
    Trans,
    applied,
    broadcast_batch,
    checked_product,
    is_upper,
    rank_k_arguments,
    real_factor,
    square_accumulator,
    transposition,
)
from trnblas._paths.launches import layout
from trnblas._paths.levels import level_of, multiply_at
from trnblas._paths.triangles import completed, mirrored
from trnblas._precise.ladder import Level
from trnblas.matrix_products import complex_product, computed, multiplied
from trnsci.core.arguments import agree, delivered, tensor
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.backend.update import Multiply, Update
from trnsci.core.errors import FlagError, ShapeError
from trnsci.core.evidence import product_bound
from trnsci.core.examples import Case, example
from trnsci.core.numbers.conversions import dtype_name
from trnsci.core.numbers.products import accumulated, is_number, matmul, scaled
from trnsci.core.testing import random_tensor
from trnsci.core.tiles.tiling import Blocks

__all__ = ["her2k", "herk", "syr2k", "syrk"]


def syrk(
    alpha: Scalar,
    A: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    trans: bool | str = False,
    uplo: str = "upper",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * A @ A.mT + beta * C``, or ``alpha * A.mT @ A + beta * C``.

    Args:
        alpha: Factor of the product.
        beta: Factor of C.
        A: Matrix (n, k), (k, n) if transposed, or a batch of such matrices.
        C: Symmetric matrix (n, n), or a batch that broadcasts to that of A.
        trans: Whether the transpose is on the left; not ``"C"`` for a complex A (see
            ``herk``).
        uplo: Triangle of C that is read.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: An option is invalid, or beta is not 0 without C.
    """
    tensor("syrk", "A", A)
    upper = is_upper("syrk", uplo)
    op = _transposed("syrk", A, trans)
    alpha, beta = rank_k_arguments("syrk", alpha, A, beta, C, op)
    level = level_of("syrk", precision, A)
    return delivered("syrk", _rank_k(level, alpha, A, beta, C, op, upper, False), out)


def herk(
    alpha: Scalar,
    A: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    trans: bool | str = False,
    uplo: str = "upper",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * A @ A.mH + beta * C``, or ``alpha * A.mH @ A + beta * C``.

    Imaginary parts on the diagonal of C are ignored. For a real A this is ``syrk``.

    Args:
        alpha: Real factor of the product.
        beta: Real factor of C.
        A: Matrix (n, k), (k, n) if transposed, or a batch of such matrices.
        C: Hermitian matrix (n, n), or a batch that broadcasts to that of A.
        trans: Whether the conjugate transpose is on the left: ``True`` or ``"C"``.
        uplo: Triangle of C that is read.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: An option is invalid, ``"T"`` with a complex A, or beta is not
            0 without C.
    """
    tensor("herk", "A", A)
    upper = is_upper("herk", uplo)
    op = _conjugated("herk", A, trans)
    alpha, beta = rank_k_arguments("herk", alpha, A, beta, C, op)
    alpha, beta = real_factor("herk", "alpha", alpha), real_factor("herk", "beta", beta)
    level = level_of("herk", precision, A)
    return delivered("herk", _rank_k(level, alpha, A, beta, C, op, upper, A.is_complex()), out)


def syr2k(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    trans: bool | str = False,
    uplo: str = "upper",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * (A @ B.mT + B @ A.mT) + beta * C``, or with the transposes on the left.

    Args:
        alpha: Factor of the product.
        beta: Factor of C.
        A: Matrix (n, k), (k, n) if transposed, or a batch of such matrices.
        B: Matrix of the same shape, or a batch that broadcasts with that of A.
        C: Symmetric matrix (n, n), or a batch that broadcasts to those of A and B.
        trans: Whether the transposes are on the left; not ``"C"`` for complex matrices (see
            ``her2k``).
        uplo: Triangle of C that is read.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: An option is invalid, or beta is not 0 without C.
    """
    agree("syr2k", "A", A, "B", B)
    upper = is_upper("syr2k", uplo)
    op = _transposed("syr2k", A, trans)
    alpha, beta = _two_arguments("syr2k", alpha, A, B, beta, C, op)
    level = level_of("syr2k", precision, A)
    result = _rank_2k(level, alpha, A, B, beta, C, op, upper, False)
    return delivered("syr2k", result, out)


def her2k(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    trans: bool | str = False,
    uplo: str = "upper",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * A @ B.mH + conj(alpha) * B @ A.mH + beta * C``.

    With ``trans`` it is ``alpha * A.mH @ B + conj(alpha) * B.mH @ A + beta * C``. Imaginary
    parts on the diagonal of C are ignored. For real matrices this is ``syr2k``.

    Args:
        alpha: Factor of the product, which may be complex.
        beta: Real factor of C.
        A: Matrix (n, k), (k, n) if transposed, or a batch of such matrices.
        B: Matrix of the same shape, or a batch that broadcasts with that of A.
        C: Hermitian matrix (n, n), or a batch that broadcasts to those of A and B.
        trans: Whether the conjugate transposes are on the left: ``True`` or ``"C"``.
        uplo: Triangle of C that is read.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: An option is invalid, ``"T"`` with complex matrices, or beta is
            not 0 without C.
    """
    agree("her2k", "A", A, "B", B)
    upper = is_upper("her2k", uplo)
    op = _conjugated("her2k", A, trans)
    alpha, beta = _two_arguments("her2k", alpha, A, B, beta, C, op)
    beta = real_factor("her2k", "beta", beta)
    level = level_of("her2k", precision, A)
    result = _rank_2k(level, alpha, A, B, beta, C, op, upper, A.is_complex())
    return delivered("her2k", result, out)


def _rank_k(
    level: Level | None,
    alpha: Scalar,
    A: Tensor,
    beta: Scalar,
    C: Tensor | None,
    op: Trans,
    upper: bool,
    hermitian: bool,
) -> Tensor:
    """Return ``syrk`` or ``herk`` of validated arguments."""
    if not _completed_last(level, beta, C) or is_number(alpha, 0):
        below = _accumulator(C, beta, upper, hermitian)
        return SYRK.updated(alpha, (A,), beta, below, op, hermitian, level=level)
    half = _half(alpha, A, op, upper, hermitian)
    if half is None:
        left = A if op == "N" else A.mH if hermitian else A.mT
        half = scaled(alpha, matmul(left, left.mH if hermitian else left.mT))
    return completed(accumulated(half, beta, C), upper, hermitian)


def _rank_2k(
    level: Level | None,
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar,
    C: Tensor | None,
    op: Trans,
    upper: bool,
    hermitian: bool,
) -> Tensor:
    """Return ``syr2k`` or ``her2k`` of validated arguments."""
    if not _completed_last(level, beta, C):
        below = _accumulator(C, beta, upper, hermitian)
        return sum_of_two(level, alpha, A, B, beta, below, op, hermitian)
    product = sum_of_two(level, alpha, A, B, 0, None, op, hermitian)
    return completed(accumulated(product, beta, C), upper, hermitian)


def sum_of_two(
    level: Level | None,
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar,
    C: Tensor | None,
    op: Trans,
    hermitian: bool,
) -> Tensor:
    """Return ``syr2k`` or ``her2k`` for a C with both triangles."""
    if not hermitian:
        return SYR2K.updated(alpha, (A, B), beta, C, op, level=level)
    left, right = (B.mT, A.conj()) if op != "N" else (B.conj(), A.mT)
    shape = (*broadcast_batch("her2k", A, B), left.shape[-2], right.shape[-1])
    half = computed(Product(alpha, left, right, 0, None, "N", "N", shape), level)
    return accumulated(hermitian_sum(half), beta, C)


def hermitian_sum(half: Tensor) -> Tensor:
    """Return ``H + H.mH`` of ``half = H.mT``, in the memory order of ``half``; two matrices."""
    return torch.conj_physical(half).add_(half.mT)


def _completed_last(level: Level | None, beta: Scalar, C: Tensor | None) -> bool:
    """Return whether torch computes, and C is added before one triangle is completed.

    Then there is no second matrix of C.
    """
    read = C is not None and not is_number(beta, 0)
    return read and level is None and not kernels_wanted()


def _transposed(function: str, A: Tensor, trans: bool | str) -> Trans:
    """Validate ``trans`` of a symmetric product: conjugation is not accepted."""
    op = transposition(function, "trans", trans, A)
    if op == "C":
        hermitian = function.replace("sy", "he")
        raise FlagError(
            f"{function}: trans must be False, True, 'N' or 'T' for {A.dtype}, got {trans!r}; "
            f"{hermitian} has the conjugate transpose"
        )
    return op


def _conjugated(function: str, A: Tensor, trans: bool | str) -> Trans:
    """Validate ``trans`` of a Hermitian product: a transpose is always conjugated."""
    op = transposition(function, "trans", trans, A)
    if op != "T" or not A.is_complex():
        return op
    if trans is not True:
        symmetric = function.replace("he", "sy")
        raise FlagError(
            f"{function}: trans must be False, True, 'N' or 'C' for {A.dtype}, got {trans!r}; "
            f"{symmetric} has the transpose without conjugation"
        )
    return "C"


def _two_arguments(
    function: str, alpha: Scalar, A: Tensor, B: Tensor, beta: Scalar, C: Tensor | None, op: Trans
) -> tuple[Scalar, Scalar]:
    """Return the factors of a product of A with the transpose of B."""
    if A.shape[-2:] != B.shape[-2:]:
        raise ShapeError(
            f"{function}: A and B must be matrices of one shape, "
            f"got {tuple(A.shape)} and {tuple(B.shape)}"
        )
    product = checked_product(function, alpha, A, B, beta, C, op != "N", op == "N")
    if C is not None:
        square_accumulator(function, "C", C, A.shape[-2 if op == "N" else -1])
    return product.alpha, product.beta


def _accumulator(C: Tensor | None, beta: Scalar, upper: bool, conjugate: bool) -> Tensor | None:
    """Return C with the given triangle mirrored; unchanged if beta is 0, as it is not read."""
    if C is None or is_number(beta, 0):
        return C
    return mirrored(C, upper, conjugate)


# -- rank k ----------------------------------------------------------------------------------------


def _syrk(multiply: Multiply, A: Tensor, trans: str, hermitian: bool) -> Tensor:
    if hermitian:
        left = A if trans == "N" else A.mH
        return completed(multiply(left, left.mH), True, conjugate=True)
    left = A if trans == "N" else A.mT
    return completed(multiply(left, left.mT, triangle=True), True)


def _half(alpha: Scalar, A: Tensor, trans: str, upper: bool, hermitian: bool) -> Tensor | None:
    """Return one triangle of ``alpha * f`` at least, by BLAS."""
    if hermitian:
        return scipy_blas.herk(alpha, A, trans != "N", upper)
    return scipy_blas.syrk(alpha, A, trans != "N")


def _syrk_on_host(alpha: Scalar, A: Tensor, trans: str, hermitian: bool) -> Tensor | None:
    half = _half(alpha, A, trans, True, hermitian)
    return completed(half, True, conjugate=True) if hermitian and half is not None else half


def _syrk_shape(A: Tensor, trans: str, *hermitian: bool) -> tuple[int, ...]:
    order = A.shape[-2 if trans == "N" else -1]
    return (*A.shape[:-2], order, order)


def _syrk_launch(
    launch: Launcher, alpha: float, A: Tensor, beta: float, C: Tensor | None, *flags: Any
) -> Tensor:
    from trnblas._kernels.syrk import syrk

    trans, _ = flags
    return launch(syrk, A, C, alpha, beta, trans != "N", _blocks(A, trans, 1))


def _syrk_pullback(
    grad: Tensor, needed: Needed, alpha: float, A: Tensor, trans: str, hermitian: bool
) -> Gradients:
    """Return (G + G^T) A, or A (G + G^T) if transposed."""
    return (_sided(grad + grad.mT, A, trans, alpha) if needed[0] else None,)


def _syrk_pushforward(
    tangents: Tangents, alpha: float, A: Tensor, trans: str, hermitian: bool
) -> Tensor:
    """Return ``syr2k`` of TA and A."""
    tangent: Tensor = SYR2K(alpha, tangents[0], A, 0.0, None, trans)
    return tangent


def _sided(symmetric: Tensor, A: Tensor, trans: str, alpha: float) -> Tensor:
    operands = (symmetric, A) if trans == "N" else (A, symmetric)
    return multiplied(*operands, "N", "N", alpha)


def _blocks(A: Tensor, trans: str, operands: int) -> Blocks:
    from trnblas._kernels.tiling_syrk import syrk_tiling

    size, depth = applied(trans, A).shape
    dtype, dense = dtype_name(A.dtype), layout(trans != "N")
    return syrk_tiling(size, depth, dtype, layout=dense, operands=operands).blocks


SYRK = Update(
    LIBRARY,
    "syrk",
    product=_syrk,
    shape=_syrk_shape,
    launch=_syrk_launch,
    pullback=_syrk_pullback,
    pushforward=_syrk_pushforward,
    multiply_at=multiply_at,
    complex_product=complex_product,
    host=_syrk_on_host,
    flops=lambda A, trans, hermitian: 1.0 * A.numel() * _syrk_shape(A, trans)[-1],
    examples={
        "syrk": lambda: example(1.0, random_tensor(4, 4)),
        "herk": lambda: example(1.0, random_tensor(4, 4)),
    },
    evidence=(
        Case(
            "syrk",
            "rank-k update",
            lambda: (random_tensor(150, 200),),
            lambda a: syrk(1.0, a),
            lambda a: a.double() @ a.double().mT,
            "torch in float64",
            lambda a: product_bound(a, a.mT),
        ),
    ),
)


# -- rank 2k ---------------------------------------------------------------------------------------


def _syr2k(multiply: Multiply, A: Tensor, B: Tensor, trans: str) -> Tensor:
    half = multiply(A, B.mT) if trans == "N" else multiply(A.mT, B)
    return half + half.mT


def _syr2k_shape(A: Tensor, B: Tensor, trans: str) -> tuple[int, ...]:
    return (*broadcast_batch("syr2k", A, B), *_syrk_shape(A, trans)[-2:])


def _syr2k_launch(
    launch: Launcher, alpha: float, A: Tensor, B: Tensor, beta: float, C: Tensor | None, trans: str
) -> Tensor:
    from trnblas._kernels.syrk import syr2k

    return launch(syr2k, A, B, C, alpha, beta, trans != "N", _blocks(A, trans, 2))


def _syr2k_pullback(
    grad: Tensor, needed: Needed, alpha: float, A: Tensor, B: Tensor, trans: str
) -> Gradients:
    """Return (G + G^T) B for A and (G + G^T) A for B, reversed if transposed."""
    both = grad + grad.mT
    for_a = _sided(both, B, trans, alpha) if needed[0] else None
    for_b = _sided(both, A, trans, alpha) if needed[1] else None
    return for_a, for_b


SYR2K = Update(
    LIBRARY,
    "syr2k",
    product=_syr2k,
    shape=_syr2k_shape,
    launch=_syr2k_launch,
    pullback=_syr2k_pullback,
    multiply_at=multiply_at,
    complex_product=complex_product,
    flops=lambda A, B, trans: 2.0 * A.numel() * _syrk_shape(A, trans)[-1],
    examples={
        "syr2k": lambda: example(1.0, random_tensor(4, 4), random_tensor(4, 4, seed=1)),
        "her2k": lambda: example(1.0, random_tensor(4, 4), random_tensor(4, 4, seed=1)),
    },
    evidence=(
        Case(
            "syr2k",
            "rank-2k update",
            lambda: (random_tensor(150, 200), random_tensor(150, 200, seed=1)),
            lambda a, b: syr2k(1.0, a, b),
            lambda a, b: a.double() @ b.double().mT + b.double() @ a.double().mT,
            "torch in float64",
            lambda a, b: product_bound(torch.cat([a, b], 1), torch.cat([b, a], 1).mT),
        ),
    ),
)
