"""Rank-1 and rank-2 updates of BLAS level 2: outer products added to a matrix.

Vectors may be batches; batch dimensions broadcast. Symmetric and Hermitian results contain both
triangles, which match exactly. Only the triangle ``uplo`` of A is read.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnblas._library import kernels_wanted, no_kernel
from trnblas._paths.arguments import (
    Scalar,
    batch_of,
    is_upper,
    number,
    real_factor,
    square_accumulator,
)
from trnblas._paths.levels import level_of, outer_at, unlowered
from trnblas._paths.triangles import completed, mirrored
from trnblas._precise.ladder import Level
from trnblas.rank_k import SYRK, hermitian_sum, sum_of_two
from trnsci.core.arguments import agree, delivered, expandable, tensor
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.errors import ShapeError
from trnsci.core.numbers.products import accumulated, is_number, scaled, vanished

__all__ = ["ger", "gerc", "her", "her2", "syr", "syr2"]


def ger(
    alpha: Scalar,
    x: Tensor,
    y: Tensor,
    A: Tensor | None = None,
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * outer(x, y) + A`` without conjugation.

    Args:
        alpha: Number or 0-d tensor; at zero, x and y are not read.
        x: Vector of m elements, or a batch of such vectors.
        y: Vector of n elements, or a batch that broadcasts with that of x.
        A: Tensor that broadcasts to the result's (..., m, n).
        precision: Arithmetic of the product: ``"doublefloat"`` computes as in ``gemm``, a lower
            level in the dtype of x. None for the level of ``trnblas.precision``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ or have no such level, or alpha is incompatible.
        FlagError: The level is not known.
    """
    return delivered("ger", _outer_sum("ger", alpha, x, y, A, precision), out)


def gerc(
    alpha: Scalar,
    x: Tensor,
    y: Tensor,
    A: Tensor | None = None,
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * outer(x, conj(y)) + A``; the arguments are those of ``ger``.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ or have no such level, or alpha is incompatible.
        FlagError: The level is not known.
    """
    return delivered("gerc", _outer_sum("gerc", alpha, x, y, A, precision), out)


def syr(
    alpha: Scalar,
    x: Tensor,
    A: Tensor | None = None,
    uplo: str = "upper",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * outer(x, x) + A`` for a symmetric A, without conjugation.

    Args:
        alpha: Number or 0-d tensor; at zero, x is not read.
        x: Vector of n elements, or a batch of such vectors.
        A: Matrix (n, n), or a batch that broadcasts to that of x.
        uplo: Triangle of A.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or alpha is incompatible.
        FlagError: uplo is invalid.
    """
    alpha, upper = _update_arguments("syr", alpha, x, x, A, uplo)
    level = level_of("syr", precision, x)
    return delivered("syr", _rank_one(level, alpha, x, A, upper, False), out)


def syr2(
    alpha: Scalar,
    x: Tensor,
    y: Tensor,
    A: Tensor | None = None,
    uplo: str = "upper",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * (outer(x, y) + outer(y, x)) + A`` for a symmetric A, unconjugated.

    Args:
        alpha: Number or 0-d tensor; at zero, x and y are not read.
        x: Vector of n elements, or a batch of such vectors.
        y: Vector of n elements, or a batch that broadcasts with that of x.
        A: Matrix (n, n), or a batch that broadcasts to those of x and y.
        uplo: Triangle of A.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or alpha is incompatible.
        FlagError: uplo is invalid.
    """
    alpha, upper = _update_arguments("syr2", alpha, x, y, A, uplo)
    level = level_of("syr2", precision, x)
    return delivered("syr2", _rank_two(level, alpha, x, y, A, upper, False), out)


def her(
    alpha: Scalar,
    x: Tensor,
    A: Tensor | None = None,
    uplo: str = "upper",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * outer(x, conj(x)) + A`` for a Hermitian A and a real alpha.

    The diagonal of the result is real; imaginary parts on the diagonal of A are ignored. The other
    arguments are those of ``syr``; for a real x both are equal.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or alpha is not real.
        FlagError: uplo is invalid.
    """
    alpha, upper = _update_arguments("her", alpha, x, x, A, uplo)
    level = level_of("her", precision, x)
    alpha = real_factor("her", "alpha", alpha)
    return delivered("her", _rank_one(level, alpha, x, A, upper, x.is_complex()), out)


def her2(
    alpha: Scalar,
    x: Tensor,
    y: Tensor,
    A: Tensor | None = None,
    uplo: str = "upper",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * outer(x, conj(y)) + conj(alpha) * outer(y, conj(x)) + A``.

    A is Hermitian. The diagonal of the result is real; imaginary parts on the diagonal of A are
    ignored. The arguments are those of ``syr2``; for real vectors both are equal.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or alpha is incompatible.
        FlagError: uplo is invalid.
    """
    alpha, upper = _update_arguments("her2", alpha, x, y, A, uplo)
    level = level_of("her2", precision, x)
    return delivered("her2", _rank_two(level, alpha, x, y, A, upper, x.is_complex()), out)


def _rank_one(
    level: Level | None, alpha: Scalar, x: Tensor, A: Tensor | None, upper: bool, hermitian: bool
) -> Tensor:
    """Return ``syr`` or ``her`` of validated arguments: ``syrk`` of one column, where it runs."""
    if level is not None or kernels_wanted():
        below = None if A is None else mirrored(A, upper, hermitian)
        return SYRK.updated(alpha, (x[..., None],), 1, below, "N", hermitian, level=level)
    if A is None and not x.is_complex():
        return _outer(alpha, x, x)
    return completed(_plus_outer(alpha, x, x.conj() if hermitian else x, A), upper, hermitian)


def _rank_two(
    level: Level | None,
    alpha: Scalar,
    x: Tensor,
    y: Tensor,
    A: Tensor | None,
    upper: bool,
    hermitian: bool,
) -> Tensor:
    """Return ``syr2`` or ``her2`` of validated arguments: ``syr2k`` of a column, where it runs."""
    if level is not None or kernels_wanted():
        below = None if A is None else mirrored(A, upper, hermitian)
        return sum_of_two(level, alpha, x[..., None], y[..., None], 1, below, "N", hermitian)
    if A is None and hermitian:
        return hermitian_sum(_plus_outer(alpha, y.conj(), x, None))
    half = _plus_outer(alpha, x, y.conj() if hermitian else y, A)
    if A is None:
        return half + half.mT
    if hermitian:
        alpha, x = alpha.conj() if isinstance(alpha, Tensor) else alpha.conjugate(), x.conj()
    return completed(_plus_outer(alpha, y, x, half), upper, hermitian)


def _plus_outer(alpha: Scalar, x: Tensor, y: Tensor, A: Tensor | None) -> Tensor:
    """Return ``alpha * outer(x, y) + A``."""
    if x.ndim > 1 or y.ndim > 1 or isinstance(alpha, Tensor) or alpha == 0:
        return accumulated(_outer(alpha, x, y), 1, A)
    return torch.outer(scaled(alpha, x), y) if A is None else torch.addr(A, x, y, alpha=alpha)


def _outer(alpha: Scalar, x: Tensor, y: Tensor) -> Tensor:
    """Return ``alpha * outer(x, y)``; exactly symmetric if x is y and real."""
    if is_number(alpha, 0):
        return vanished((*_batch("", x, y), x.shape[-1], y.shape[-1]), x, y)
    return scaled(alpha, x[..., :, None] * y[..., None, :])


def _outer_sum(
    function: str,
    alpha: Scalar,
    x: Tensor,
    y: Tensor,
    A: Tensor | None,
    precision: PrecisionLevel | None,
) -> Tensor:
    """Return ``ger`` or ``gerc``; they differ for complex vectors."""
    agree(function, "x", x, "y", y)
    shape = (*_batch(function, x, y), x.shape[-1], y.shape[-1])
    alpha = number(function, "alpha", alpha, x)
    if A is not None:
        agree(function, "x", x, "A", A)
        expandable(function, "A", A, shape)
    level = level_of(function, precision, x)
    if function == "gerc":
        y = y.conj()
    if level is not None and level.name == "doublefloat" and not is_number(alpha, 0):
        return outer_at(level, alpha, x, y, A)
    no_kernel(function)
    return unlowered(level, x, _plus_outer, alpha, x, y, A)


def _update_arguments(
    function: str, alpha: Scalar, x: Tensor, y: Tensor, A: Tensor | None, uplo: str
) -> tuple[Scalar, bool]:
    """Return the factor of a symmetric update, and whether the upper triangle of A is read."""
    tensor(function, "x", x)
    agree(function, "x", x, "y", y)
    upper = is_upper(function, uplo)
    batch = _batch(function, x, y)
    order = x.shape[-1]
    if order != y.shape[-1]:
        raise ShapeError(
            f"{function}: x and y must have as many elements, got {order} and {y.shape[-1]}"
        )
    if A is not None:
        agree(function, "x", x, "A", A)
        square_accumulator(function, "A", A, order)
        expandable(function, "A", A, (*batch, order, order))
    return number(function, "alpha", alpha, x), upper


def _batch(function: str, x: Tensor, y: Tensor) -> tuple[int, ...]:
    if x.ndim == y.ndim == 1:
        return ()
    for name, value in (("x", x), ("y", y)):
        if value.ndim == 0:
            raise ShapeError(f"{function}: {name} must be at least 1-D, got shape ()")
    return batch_of(function, x=(x, 1), y=(y, 1))
