"""Level 3 at a level of precision: each function is a product, with factors, of full matrices.

The functions take validated arguments and a ``Level``. At doublefloat everything, factors too, is
computed in float64 outside of the product, and rounded once to the dtype of the operands. Triangles
are filled or masked first. At float32, and with a zero factor, the functions of ``dispatch`` run,
not lowered by autocast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnblas._paths.accumulation import accumulated, is_number, scaled
from trnblas._paths.arguments import Product, Scalar
from trnblas._paths.dispatch import (
    run_gemm,
    run_gemmt,
    run_symm,
    run_syr2k,
    run_syrk,
    run_trmm,
    run_trsm,
)
from trnblas._paths.flags import Trans, applied, flipped
from trnblas._paths.level_names import level_name
from trnblas._paths.products import vector_product
from trnblas._paths.triangles import mirrored, one_triangle, triangular
from trnblas._precise.ladder import Level, cheapest
from trnsci.core.backend.precision import LEVELS, PrecisionLevel
from trnsci.core.errors import FlagError

__all__ = [
    "gemm_at",
    "gemmt_at",
    "level_of",
    "outer_at",
    "symm_at",
    "syr2k_at",
    "syrk_at",
    "targeted",
    "trmm_at",
    "trsm_at",
    "unlowered",
    "vector_at",
]

_FLOAT32 = Level("float32")


def level_of(function: str, precision: PrecisionLevel | None, A: Tensor) -> Level | None:
    """Return the level of a call on A, or None for the arithmetic of its dtype.

    Raises:
        FlagError: The level is unknown.
        DTypeError: The dtype has no such level.
    """
    name = level_name(function, precision, A)
    if name == "float32":
        return None if precision is None else _FLOAT32
    return Level(name)


def targeted(
    function: str,
    precision: PrecisionLevel | None,
    target: float | None,
    componentwise: bool,
    product: Product,
) -> Level | None:
    """Return the level of a product with a target, or with an error relative to |A| |B|.

    float64 operands are multiplied at doublefloat, the only level with a kernel for them.

    Raises:
        FlagError: The level is unknown, has no such bound, or has none relative to |A| |B|.
        DTypeError: The dtype has no such level.
    """
    level = level_of(function, precision, product.A)
    if target is None:
        if level is None or level.name != "doublefloat":
            raise FlagError(
                f"{function}: componentwise=True takes precision='doublefloat' or "
                f"target_forward_error, got precision={precision!r}"
            )
        return level._replace(componentwise=True)
    A = product.A
    if level is None:
        level_of(function, "doublefloat", A)  # raises for other dtypes
        names = LEVELS if A.dtype is torch.float32 else LEVELS[-1:]
    else:
        names = (level.name,)
    depth = A.shape[-1 if product.trans_a == "N" else -2]
    rows, columns = product.shape[-2:]
    rounding = torch.finfo(A.dtype).eps / 2
    return cheapest(function, target, (rows, columns, depth), rounding, names, componentwise)


def gemm_at(level: Level, product: Product) -> Tensor:
    """Return ``alpha * op(A) @ op(B) + beta * C``."""
    A, B, C, alpha, beta, trans_a, trans_b, _ = product
    if _direct(level, alpha):
        return unlowered(level, A, run_gemm, product, None)
    found = _multiplied(level, applied(trans_a, A), applied(trans_b, B))
    return _finished(A, alpha, found, beta, C)


def gemmt_at(level: Level, product: Product, upper: bool) -> Tensor:
    """Return one triangle of a product and the other triangle of C."""
    A, B, C, alpha, beta, trans_a, trans_b, shape = product
    if _direct(level, alpha):
        return unlowered(level, A, run_gemmt, product, upper)
    left, right = applied(trans_a, A), applied(trans_b, B)
    if upper:
        found = _multiplied(level, left, right, triangle=True)
    else:
        found = _multiplied(level, right.mT, left.mT, triangle=True).mT
    if C is None or is_number(beta, 0):
        return _finished(A, alpha, found, beta, C)
    C = C.expand(shape).to(found.dtype)
    result = scaled(alpha, found) + one_triangle(scaled(beta, C), upper)
    return (result + one_triangle(C, not upper, 1)).to(A.dtype)


def symm_at(
    level: Level,
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar,
    C: Tensor | None,
    left: bool,
    upper: bool,
) -> Tensor:
    """Return ``alpha * A @ B + beta * C``, or with A on the right, for a symmetric A."""
    if _direct(level, alpha):
        return unlowered(level, A, run_symm, alpha, A, B, beta, C, left, upper)
    full = mirrored(A, upper)
    found = _multiplied(level, *((full, B) if left else (B, full)))
    return _finished(A, alpha, found, beta, C)


def syrk_at(
    level: Level, alpha: Scalar, A: Tensor, beta: Scalar, C: Tensor | None, op: Trans
) -> Tensor:
    """Return ``alpha * A @ A.mT + beta * C``: one triangle is computed, and mirrored."""
    if _direct(level, alpha):
        return unlowered(level, A, run_syrk, alpha, A, beta, C, op)
    left = A.mT if flipped(op) else A
    found = mirrored(_multiplied(level, left, left.mT, triangle=True), True)
    return _finished(A, alpha, found, beta, C)


def syr2k_at(
    level: Level, alpha: Scalar, A: Tensor, B: Tensor, beta: Scalar, C: Tensor | None, op: Trans
) -> Tensor:
    """Return ``alpha * (A @ B.mT + B @ A.mT) + beta * C``: one product plus its transpose."""
    if _direct(level, alpha):
        return unlowered(level, A, run_syr2k, alpha, A, B, beta, C, op)
    half = _multiplied(level, *((A.mT, B) if flipped(op) else (A, B.mT)))
    return _finished(A, alpha, half + half.mT, beta, C)


def trmm_at(
    level: Level,
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    left: bool,
    upper: bool,
    op: Trans,
    unit: bool,
) -> Tensor:
    """Return ``alpha * op(A) @ B``, or ``alpha * B @ op(A)``, for a triangular A."""
    if _direct(level, alpha):
        return unlowered(level, A, run_trmm, alpha, A, B, left, upper, op, unit)
    full = applied(op, triangular(A, upper, unit))
    found = _multiplied(level, *((full, B) if left else (B, full)))
    return _finished(A, alpha, found, 0, None)


def trsm_at(
    level: Level,
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    left: bool,
    upper: bool,
    op: Trans,
    unit: bool,
) -> Tensor:
    """Solve ``op(A) @ X = alpha * B`` or ``X @ op(A) = alpha * B``: in float32, or refined."""
    if level.name != "doublefloat" or is_number(alpha, 0):
        return unlowered(level, A, run_trsm, alpha, A, B, left, upper, op, unit)
    from trnblas._paths.level_operations import DOUBLEFLOAT_TRSM

    right_sides = scaled(alpha, B.double())
    return DOUBLEFLOAT_TRSM(A.double(), right_sides, left, upper, op, unit).to(A.dtype)


def vector_at(
    level: Level, alpha: Scalar, A: Tensor, x: Tensor, beta: Scalar, y: Tensor | None
) -> Tensor:
    """Return ``alpha * A @ x + beta * y`` for a matrix and vectors, or batches of them."""
    if is_number(alpha, 0):
        return vector_product(alpha, A, x, beta, y)
    found = _multiplied(level, A, x[..., None])[..., 0]
    return _finished(A, alpha, found, beta, y)


def outer_at(level: Level, alpha: Scalar, x: Tensor, y: Tensor, A: Tensor | None) -> Tensor:
    """Return ``alpha * outer(x, y) + A`` for vectors, or batches of them, and a nonzero alpha."""
    found = _multiplied(level, x[..., :, None], y[..., None, :])
    return _finished(x, alpha, found, 1, A)


def unlowered(
    level: Level | None, A: Tensor, function: Callable[..., Tensor], *args: Any, **options: Any
) -> Tensor:
    """Return ``function(*args)``, which autocast lowers if there is no level."""
    if level is None:
        return function(*args, **options)
    with torch.autocast(A.device.type, enabled=False):
        return function(*args, **options)


def _direct(level: Level, alpha: Scalar) -> bool:
    return level.name == "float32" or is_number(alpha, 0)


def _multiplied(level: Level, left: Tensor, right: Tensor, triangle: bool = False) -> Tensor:
    """Return a product, or its upper triangle and zeros; in float64 at doublefloat."""
    from trnblas._paths.level_operations import BFLOAT16_GEMM, DOUBLEFLOAT_GEMM, FLOAT16X3_GEMM

    result: Tensor
    if level.name == "doublefloat":
        operands = left.double(), right.double()
        result = DOUBLEFLOAT_GEMM(*operands, level.target, level.componentwise, triangle)
    else:
        product = BFLOAT16_GEMM if level.name == "bfloat16" else FLOAT16X3_GEMM
        result = product(left, right, triangle)
    return result


def _finished(A: Tensor, alpha: Scalar, product: Tensor, beta: Scalar, C: Tensor | None) -> Tensor:
    """Return ``alpha * product + beta * C``, rounded to the dtype of A."""
    return accumulated(scaled(alpha, product), beta, C).to(A.dtype)
