"""BLAS level 1: vectors.

Tensors of any shape are taken as the vectors of their elements. Every function returns something
new, changes no argument and can be differentiated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnblas._accumulation import scaled, vanished
from trnblas._arguments import Scalar, number
from trnsci.core.arguments import agree, broadcast, floating, tensor
from trnsci.core.eager import unwatched
from trnsci.core.errors import DimensionError, ShapeError

__all__ = ["asum", "axpy", "dot", "iamax", "nrm2", "scal"]

# Norms between these cannot have lost anything to overflow or underflow of squares: with a norm of
# at least 2^-40, elements whose squares vanish in float32 (below 2^-75) are smaller than half an
# ulp of it for any count up to 2^20 times 2^20, and float64 has more room still.
_SAFE_NORM = (2.0**-40, 2.0**60)


def axpy(alpha: Scalar, x: Tensor, y: Tensor) -> Tensor:
    """Return ``alpha * x + y``, with broadcasting.

    Args:
        alpha: Number or 0-d tensor; at zero, x is not read.
        x: Tensor.
        y: Tensor of the same dtype; the shapes of x and y broadcast.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: The dtypes differ, or alpha does not suit them.
    """
    agree("axpy", "x", x, "y", y)
    alpha = number("axpy", "alpha", alpha, x)
    if x.shape != y.shape:
        _check_broadcast(x, y)
    if isinstance(alpha, Tensor):
        return y + scaled(alpha, x)
    if alpha == 0:
        return y + vanished(x.shape, x)
    return torch.add(y, x, alpha=alpha)


def dot(x: Tensor, y: Tensor) -> Tensor:
    """Return the sum of ``x[i] * y[i]``, nothing conjugated, as a 0-d tensor.

    Raises:
        ShapeError: The numbers of elements differ.
        DTypeError: The dtypes differ.
    """
    agree("dot", "x", x, "y", y)
    if x.ndim != 1 or y.ndim != 1:
        x, y = x.reshape(-1), y.reshape(-1)
    if x.shape != y.shape:
        raise ShapeError(
            f"dot: x and y must have as many elements, got {x.numel()} and {y.numel()}"
        )
    return torch.dot(x, y)


def nrm2(x: Tensor) -> Tensor:
    """Return the square root of the sum of ``|x[i]|**2``, as a real 0-d tensor.

    No square overflows or underflows: the result is right whenever it can be represented.

    Raises:
        DTypeError: The elements are integers.
    """
    tensor("nrm2", "x", x)
    floating("nrm2", "x", x)
    if x.is_complex():
        x = torch.view_as_real(x.resolve_conj())
    if x.dtype in (torch.float16, torch.bfloat16):
        return _norm(x.to(torch.float32)).to(x.dtype)
    return _norm(x)


def scal(alpha: Scalar, x: Tensor) -> Tensor:
    """Return ``alpha * x``; at ``alpha == 0`` x is not read.

    Raises:
        DTypeError: alpha does not suit the dtype of x.
    """
    tensor("scal", "x", x)
    alpha = number("scal", "alpha", alpha, x)
    if isinstance(alpha, Tensor):
        return scaled(alpha, x)
    return vanished(x.shape, x) if alpha == 0 else x * alpha


def asum(x: Tensor) -> Tensor:
    """Return the sum of ``|x[i]|``, the modulus if complex, as a real 0-d tensor."""
    tensor("asum", "x", x)
    if x.is_floating_point() or x.is_complex():
        return torch.linalg.vector_norm(x, 1)
    return x.abs().sum()


def iamax(x: Tensor) -> int:
    """Return the index of the first element with the largest modulus; NaN counts as largest.

    The index is that in the flattened tensor, from zero.

    Raises:
        DimensionError: There are no elements.
    """
    tensor("iamax", "x", x)
    if x.numel() == 0:
        raise DimensionError(f"iamax: x must have elements, got shape {tuple(x.shape)}")
    flat = x.reshape(-1)
    if flat.is_floating_point() or flat.is_complex():
        return int(flat.abs().argmax())
    if not flat.dtype.is_signed:
        return int(flat.argmax())
    # The modulus of the least integer is no integer of its type, but minus the modulus is.
    return int(torch.minimum(flat, -flat).argmin())


def _norm(x: Tensor) -> Tensor:
    if unwatched(x):
        norm = torch.linalg.vector_norm(x)
        low, high = _SAFE_NORM
        if low < norm.item() < high:
            return norm
    if x.dtype is not torch.float64:
        # Squares of float32 neither overflow nor vanish in float64.
        return torch.linalg.vector_norm(x, dtype=torch.float64).to(x.dtype)
    if x.numel() == 0:
        return torch.linalg.vector_norm(x)
    # Dividing by a power of two is exact. Where the largest is zero, infinite or NaN, the plain
    # norm is already right, and so is its derivative.
    largest = x.detach().abs().amax()
    _, exponent = torch.frexp(largest)
    power = torch.ldexp(torch.ones_like(largest), exponent - 1)
    power = torch.where((largest > 0) & largest.isfinite(), power, torch.ones_like(power))
    return torch.linalg.vector_norm(x / power) * power


def _check_broadcast(x: Tensor, y: Tensor) -> None:
    if broadcast(x.shape, y.shape) is None:
        raise ShapeError(
            f"axpy: x and y must have shapes that broadcast, "
            f"got {tuple(x.shape)} and {tuple(y.shape)}"
        )
