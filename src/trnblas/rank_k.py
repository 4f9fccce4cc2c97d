"""Rank-k and rank-2k updates of BLAS level 3: symmetric and Hermitian products.

Results contain both triangles and are exactly symmetric, or Hermitian with a real diagonal. C is
symmetric or Hermitian too; only its triangle ``uplo`` is read, as in BLAS. ``gemmt`` computes one
triangle and leaves the other unchanged.
"""

from __future__ import annotations

from torch import Tensor

from trnblas._paths.accumulation import is_number
from trnblas._paths.arguments import Scalar, checked_product, rank_k_arguments, square_accumulator
from trnblas._paths.dispatch import run_hermitian, run_syr2k, run_syrk
from trnblas._paths.flags import Trans, is_upper, transposition
from trnblas._paths.levels import level_of, syr2k_at, syrk_at
from trnblas._paths.torch_path import torch_her2k, torch_herk
from trnblas._paths.triangles import mirrored
from trnsci.core.arguments import agree, tensor
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsci.core.output import delivered

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
    below = _accumulator(C, beta, upper)
    return delivered("syrk", _rank_k("syrk", alpha, A, beta, below, op, precision), out)


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
    _check_real("herk", "alpha", alpha)
    _check_real("herk", "beta", beta)
    below = _accumulator(C, beta, upper, A.is_complex())
    return delivered("herk", _rank_k("herk", alpha, A, beta, below, op, precision), out)


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
    below = _accumulator(C, beta, upper)
    return delivered("syr2k", _rank_2k("syr2k", alpha, A, B, beta, below, op, precision), out)


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
    _check_real("her2k", "beta", beta)
    below = _accumulator(C, beta, upper, A.is_complex())
    return delivered("her2k", _rank_2k("her2k", alpha, A, B, beta, below, op, precision), out)


def _rank_k(
    function: str,
    alpha: Scalar,
    A: Tensor,
    beta: Scalar,
    C: Tensor | None,
    op: Trans,
    precision: PrecisionLevel | None,
) -> Tensor:
    """Return ``syrk`` or ``herk`` of validated arguments."""
    level = level_of(function, precision, A)
    if function == "herk" and A.is_complex():
        return run_hermitian("syrk", torch_herk, alpha, A, beta, C, op)
    if level is not None:
        return syrk_at(level, alpha, A, beta, C, op)
    return run_syrk(alpha, A, beta, C, op)


def _rank_2k(
    function: str,
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar,
    C: Tensor | None,
    op: Trans,
    precision: PrecisionLevel | None,
) -> Tensor:
    """Return ``syr2k`` or ``her2k`` of validated arguments."""
    level = level_of(function, precision, A)
    if function == "her2k" and A.is_complex():
        return run_hermitian("syr2k", torch_her2k, alpha, A, B, beta, C, op)
    if level is not None:
        return syr2k_at(level, alpha, A, B, beta, C, op)
    return run_syr2k(alpha, A, B, beta, C, op)


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


def _accumulator(
    C: Tensor | None, beta: Scalar, upper: bool, conjugate: bool = False
) -> Tensor | None:
    """Return C with the given triangle mirrored; unchanged if beta is 0, as it is not read."""
    if C is None or is_number(beta, 0):
        return C
    return mirrored(C, upper, conjugate)


def _check_real(function: str, name: str, factor: Scalar) -> None:
    if factor.is_complex() if isinstance(factor, Tensor) else factor.imag != 0:
        raise DTypeError(f"{function}: {name} must be real, got {factor!r}")
