"""Products with a triangular matrix: ``trmm``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnblas._library import LIBRARY
from trnblas._paths import scipy_blas
from trnblas._paths.arguments import (
    Scalar,
    applied,
    broadcast_batch,
    sided_arguments,
    triangle_arguments,
)
from trnblas._paths.levels import level_of, multiply_at
from trnblas._paths.triangles import Triangle, triangular
from trnblas.matrix_products import complex_product, multiplied
from trnsci.core.arguments import agree, delivered
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents, total
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.backend.update import Multiply, Update
from trnsci.core.evidence import product_bound
from trnsci.core.examples import Case, example
from trnsci.core.testing import random_tensor

__all__ = ["trmm"]


def trmm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    side: str = "left",
    uplo: str = "upper",
    trans: bool | str = False,
    diag: str = "nonunit",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(A) @ B``, or ``alpha * B @ op(A)``, for a triangular A.

    Args:
        alpha: Factor.
        A: Square matrix of which the triangle ``uplo`` is read, or a batch of such matrices.
        B: Matrix, or a batch that broadcasts with that of A.
        side: Side of B on which A is.
        uplo: Triangle of A.
        trans: Transposition of A.
        diag: ``"unit"`` if the diagonal of A is ones and not read.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or alpha is incompatible.
        FlagError: An option is invalid.
    """
    agree("trmm", "A", A, "B", B)
    flags = triangle_arguments("trmm", A, side, uplo, trans, diag)
    alpha, _ = sided_arguments("trmm", alpha, A, B, 0, None, flags[0])
    level = level_of("trmm", precision, A)
    result = TRMM.updated(alpha, (A, B), 0, None, *flags, level=level)
    return delivered("trmm", result, out)


def _trmm(
    multiply: Multiply, A: Tensor, B: Tensor, left: bool, upper: bool, trans: str, unit: bool
) -> Tensor:
    full = applied(trans, triangular(A, upper, unit))
    return multiply(full, B) if left else multiply(B, full)


def _sided_shape(A: Tensor, B: Tensor, *flags: Any) -> tuple[int, ...]:
    return (*broadcast_batch("trmm", A, B), *B.shape[-2:])


def _triangle_flops(A: Tensor, B: Tensor, *flags: Any) -> float:
    return 1.0 * B.numel() * A.shape[-1]


def _trmm_launch(launch: Launcher, alpha: float, A: Tensor, B: Tensor, *flags: Any) -> Tensor:
    from trnblas._kernels.trmm import trmm

    left, upper, trans, unit = flags
    return launch(trmm, A, B, alpha, left, upper, trans != "N", unit)


def _trmm_pullback(
    grad: Tensor, needed: Needed, alpha: float, A: Tensor, B: Tensor, *flags: Any
) -> Gradients:
    """Return the triangle of G B^T for A and op(A)^T G for B (A on the left)."""
    triangle = Triangle(*flags)
    for_a = for_b = None
    if needed[0]:
        for_a = triangle.elements(multiplied(*triangle.by_a(grad, B), alpha))
    if needed[1]:
        for_b = TRMM(alpha, A, grad, *triangle.transposed())
    return for_a, for_b


def _trmm_pushforward(
    tangents: Tangents, alpha: float, A: Tensor, B: Tensor, *flags: Any
) -> Tensor:
    """Return the products with the triangle of TA and with TB."""
    triangle = Triangle(*flags)
    of_a, of_b = tangents
    parts = []
    if of_a is not None:
        parts.append(TRMM(alpha, triangle.elements(of_a), B, *triangle._replace(unit=False)))
    if of_b is not None:
        parts.append(TRMM(alpha, A, of_b, *triangle))
    return total(parts)


TRMM = Update(
    LIBRARY,
    "trmm",
    product=_trmm,
    with_c=False,
    shape=_sided_shape,
    launch=_trmm_launch,
    pullback=_trmm_pullback,
    pushforward=_trmm_pushforward,
    multiply_at=multiply_at,
    complex_product=complex_product,
    host=scipy_blas.trmm,
    flops=_triangle_flops,
    examples={"trmm": lambda: example(1.0, random_tensor(4, 4), random_tensor(4, 4, seed=1))},
    evidence=(
        Case(
            "trmm",
            "triangular product",
            # The other triangle is not zero: it must not be read.
            lambda: (random_tensor(150, 150), random_tensor(150, 70, seed=1)),
            lambda a, b: trmm(1.0, a, b),
            lambda a, b: torch.triu(a.double()) @ b.double(),
            "torch in float64",
            lambda a, b: product_bound(torch.triu(a), b),
        ),
    ),
)
