"""The level of precision of a call, and the matrix product of a level.

At doublefloat everything, factors too, is computed in float64 outside of the product, and rounded
once to the dtype of the operands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from trnblas._library import LIBRARY
from trnblas._paths.arguments import Product, Scalar
from trnblas._paths.level_products import BFLOAT16_GEMM, DOUBLEFLOAT_GEMM, FLOAT16X3_GEMM
from trnblas._paths.products import vector_product
from trnblas._precise.ladder import Level, cheapest
from trnsci.core.backend.autocast import without_autocast
from trnsci.core.backend.precision import CHOSEN, LEVELS, PrecisionLevel, check_level
from trnsci.core.backend.update import Multiply
from trnsci.core.errors import DTypeError, FlagError
from trnsci.core.numbers.conversions import real_dtype, widest
from trnsci.core.numbers.planes import real_length
from trnsci.core.numbers.products import accumulated, is_number, scaled

_FLOAT32 = Level("float32")
_REAL = (torch.float32, torch.float64)


def level_name(function: str, precision: PrecisionLevel | None, operand: Tensor) -> PrecisionLevel:
    """Return the level of a call: that of the argument, else that of the library.

    The levels are those of float32 and float64, and of complex numbers of them. Other dtypes have
    one level, their own arithmetic, which is returned as ``"float32"``.

    Raises:
        FlagError: The level is unknown.
        DTypeError: The dtype has no such level.
    """
    if precision is None and not CHOSEN.used:
        return "float32"
    name = LIBRARY.level() if precision is None else precision
    check_level(function, name)
    if real_dtype(operand.dtype) in _REAL:
        return name
    if precision is None:
        return "float32"
    raise DTypeError(
        f"{function}: precision={name!r} takes numbers of torch.float32 and torch.float64, "
        f"got {operand.dtype}"
    )


def level_of_energy(
    function: str, precision: PrecisionLevel | None, operand: Tensor
) -> PrecisionLevel:
    """Return the level of a call whose kernels take real numbers: of complex ones ``"float32"``.

    Raises:
        FlagError: The level is unknown.
        DTypeError: The dtype has no such level.
    """
    level = level_name(function, precision, operand)
    if not operand.is_complex():
        return level
    if level == "doublefloat":
        raise DTypeError(f"{function}: precision={level!r} takes real numbers, got {operand.dtype}")
    return "float32"


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
        names = LEVELS if real_dtype(A.dtype) is torch.float32 else LEVELS[-1:]
    else:
        names = (level.name,)
    depth = real_length(A, A.shape[-1 if product.trans_a == "N" else -2])
    rows, columns = product.shape[-2:]
    rounding = torch.finfo(A.dtype).eps / 2
    return cheapest(function, target, (rows, columns, depth), rounding, names, componentwise)


def multiply_at(level: Level) -> Multiply | None:
    """Return the function that multiplies matrices at a level.

    At float32 the result is None: the caller multiplies in the dtype of the operands. At
    doublefloat the product is float64, so that later steps in float64 and one rounding at the end
    follow. With ``triangle=True`` the function returns the upper triangle, and zeros below it.
    """
    if level.name == "float32":
        return None
    return partial(_multiplied, level)


def is_doublefloat(level: Level | None) -> bool:
    """Return whether the level is doublefloat, the only one with kernels for matrix by vector."""
    return level is not None and level.name == "doublefloat"


def vector_at(
    function: str,
    level: Level | None,
    alpha: Scalar,
    A: Tensor,
    x: Tensor,
    beta: Scalar,
    y: Tensor | None,
) -> Tensor:
    """Return ``alpha * A @ x + beta * y`` for a matrix and vectors, or batches of them."""
    if level is None or not is_doublefloat(level):
        LIBRARY.no_kernel(function)
        return unlowered(level, A, vector_product, alpha, A, x, beta, y)
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
    """Return ``function(*args)``; a level other than None turns autocast off in it."""
    if level is None:
        return function(*args, **options)
    with without_autocast((A,)):
        return function(*args, **options)


def _multiplied(level: Level, left: Tensor, right: Tensor, triangle: bool = False) -> Tensor:
    """Return a product, or its upper triangle and zeros; in float64 at doublefloat."""
    result: Tensor
    if level.name == "doublefloat":
        operands = widest(left), widest(right)
        result = DOUBLEFLOAT_GEMM(*operands, level.target, level.componentwise, triangle)
    else:
        product = BFLOAT16_GEMM if level.name == "bfloat16" else FLOAT16X3_GEMM
        result = product(left, right, triangle)
    return result


def _finished(A: Tensor, alpha: Scalar, product: Tensor, beta: Scalar, C: Tensor | None) -> Tensor:
    """Return ``alpha * product + beta * C``, rounded to the dtype of A."""
    return accumulated(scaled(alpha, product), beta, C).to(A.dtype)
