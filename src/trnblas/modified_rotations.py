"""Modified plane (Givens) rotations: ``rotmg`` computes them, ``rotm`` applies them.

A vector is stored as (sqrt(d1) x, sqrt(d2) y). A modified rotation needs no square root, and two
products for each pair of elements in place of four: two elements of its matrix are 1 or -1.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trnblas._library import no_kernel
from trnsci.core.arguments import agree, floating, one_shape
from trnsci.core.errors import DTypeError, ShapeError

__all__ = ["rotm", "rotmg"]

# BLAS keeps d1 and d2 between 4096**-2 and 4096**2.
_GAMMA_BITS = 12
_GAMMA = 2.0**_GAMMA_BITS


class ModifiedRotation(NamedTuple):
    """Result of ``rotmg``.

    Attributes:
        d1: First factor after the rotation.
        d2: Second factor after the rotation.
        x1: First component of the rotated vector (x1, 0).
        param: BLAS's five parameters of ``rotm``, in the last dimension.
    """

    d1: Tensor
    d2: Tensor
    x1: Tensor
    param: Tensor


def rotm(x: Tensor, y: Tensor, param: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``h11 * x + h12 * y`` and ``h21 * x + h22 * y``.

    Args:
        x: Tensor of real numbers.
        y: Tensor of the same shape and dtype.
        param: Vector (flag, h11, h21, h12, h22) of the same dtype. At flag -2 the results are
            copies of x and y. At 0, h11 = h22 = 1 and those of ``param`` are not read; at 1,
            h12 = 1 and h21 = -1. At -1 all four are read.

    Raises:
        ShapeError: The shapes of x and y differ, or that of param is not (5,).
        DTypeError: The dtypes differ, or are not real floating point.
    """
    no_kernel("rotm")
    _real("rotm", "x", x)
    for name, value in (("y", y), ("param", param)):
        agree("rotm", "x", x, name, value)
    one_shape("rotm", "x", x, "y", y)
    if param.shape != (5,):
        raise ShapeError(f"rotm: param must have shape (5,), got {tuple(param.shape)}")
    flag, h11, h21, h12, h22 = param.unbind()
    one = torch.ones_like(flag)
    none, given, diagonal = flag == -2, (flag < 0) & (flag != -2), flag == 0
    across = given | diagonal
    h11, h22 = (torch.where(none | diagonal, one, h) for h in (h11, h22))
    h12 = torch.where(none, 0 * one, torch.where(across, h12, one))
    h21 = torch.where(none, 0 * one, torch.where(across, h21, -one))
    # A zero factor leaves its operand unread, as in BLAS.
    right, left = (torch.where(none, torch.zeros_like(v), v) for v in (y, x))
    return x * h11 + right * h12, left * h21 + y * h22


def rotmg(d1: Tensor, d2: Tensor, x1: Tensor, y1: Tensor) -> ModifiedRotation:
    """Return the modified rotation that maps (sqrt(d1) x1, sqrt(d2) y1) to (r, 0), by elements.

    With H of ``param`` and the new d1, d2 and x1: ``H @ (x1, y1)`` is (new x1, 0), and
    ``H.T @ diag(new d1, new d2) @ H`` is ``diag(d1, d2)``. The new factors are between 2**-24 and
    2**24, or zero. What ``rotm`` does not read of ``param`` is zero. The flag depends on which
    component is larger; derivatives are those at a fixed flag.

    Args:
        d1: Tensor of real numbers, the factor of the first component. Where it is negative, all
            results are zero, with flag -1, as in BLAS.
        d2: Tensor of the same shape and dtype. Where the sum ``d1 x1**2 + d2 y1**2`` is negative,
            all results are zero, with flag -1.
        x1: Tensor of the same shape and dtype.
        y1: Tensor of the same shape and dtype.

    Raises:
        ShapeError: The shapes differ.
        DTypeError: The dtypes differ, or are not real floating point.

    Example:
        >>> d1, d2, x1, param = rotmg(*torch.tensor([1.0, 1.0, 2.0, 1.0]).double())
        >>> [round(v, 4) for v in (d1.item(), d2.item(), x1.item())], param.tolist()
        ([0.8, 0.8, 2.5], [0.0, 0.0, -0.5, 0.5, 0.0])
    """
    no_kernel("rotmg")
    _real("rotmg", "d1", d1)
    for name, value in (("d2", d2), ("x1", x1), ("y1", y1)):
        agree("rotmg", "d1", d1, name, value)
        if value.shape != d1.shape:
            raise ShapeError(
                f"rotmg: d1 and {name} must have one shape, got {tuple(d1.shape)} and "
                f"{tuple(value.shape)}"
            )
    if d1.dtype not in (torch.float16, torch.bfloat16):
        return _rotation(d1, d2, x1, y1)
    wide = _rotation(*(value.float() for value in (d1, d2, x1, y1)))
    return ModifiedRotation(*(value.to(d1.dtype) for value in wide))


def _rotation(d1: Tensor, d2: Tensor, x1: Tensor, y1: Tensor) -> ModifiedRotation:
    one, zero = torch.ones_like(d1), torch.zeros_like(d1)
    p1, p2 = d1 * x1, d2 * y1
    q1, q2 = p1 * x1, p2 * y1
    bad = d1 < 0
    nothing = (p2 == 0) & ~bad
    used = ~nothing & ~bad
    first = used & (q1.abs() > q2.abs())
    second = used & ~first & (q2 > 0)

    # In each case other elements divide by 1, so that their derivatives are no NaN.
    h21 = torch.where(first, -y1 / torch.where(first, x1, one), zero)
    h12 = torch.where(first, p2 / torch.where(first, p1, one), zero)
    h11 = torch.where(second, p1 / torch.where(second, p2, one), zero)
    h22 = torch.where(second, x1 / torch.where(second, y1, one), zero)
    u = torch.where(first, 1 - h12 * h21, torch.where(second, 1 + h11 * h22, one))
    first = first & (u > 0)  # a rounded sum may be 0
    valid = first | second
    u = torch.where(valid, u, one)

    new1 = torch.where(valid, torch.where(second, d2, d1) / u, zero)
    new2 = torch.where(valid, torch.where(second, d1, d2) / u, zero)
    x = torch.where(valid, torch.where(second, y1, x1) * u, zero)
    power1, power2 = _power(new1), _power(new2)
    moved = valid & ((power1 != 1) | (power2 != 1))
    flag = torch.where(nothing, -2 * one, torch.where(second & ~moved, one, zero))
    flag = torch.where(moved | ~(valid | nothing), -one, flag)
    h11, h22 = (torch.where(moved & first, one, h) for h in (h11, h22))
    h12 = torch.where(moved & second, one, h12) / power1
    h21 = torch.where(moved & second, -one, h21) / power2
    return ModifiedRotation(
        torch.where(nothing, d1, new1 * power1 * power1),
        torch.where(nothing, d2, new2 * power2 * power2),
        torch.where(nothing, x1, x / power1),
        torch.stack((flag, h11 / power1, h21, h12, h22 / power2), dim=-1),
    )


def _power(d: Tensor) -> Tensor:
    """Return the power of 4096 whose square brings d strictly between 2**-24 and 2**24."""
    mantissa, exponent = torch.frexp(d.detach())
    double = 2 * _GAMMA_BITS
    least = exponent - (mantissa.abs() == 0.5).to(exponent.dtype)  # |d| <= 2**least
    up = torch.clamp(torch.div(-double - least, double, rounding_mode="floor") + 1, min=0)
    down = torch.clamp(torch.div(exponent - 1 - double, double, rounding_mode="floor") + 1, min=0)
    power = torch.ones_like(d)
    bit, factor = 1, _GAMMA
    while factor < torch.finfo(d.dtype).max:  # exact, unlike torch.pow
        power = torch.where((up & bit) != 0, power * factor, power)
        power = torch.where((down & bit) != 0, power / factor, power)
        bit, factor = 2 * bit, factor * factor
    return torch.where((d == 0) | ~d.isfinite(), torch.ones_like(d), power)


def _real(function: str, name: str, value: Tensor) -> None:
    """Raise for a tensor that is not of real floating point numbers."""
    floating(function, name, value)
    if value.is_complex():
        raise DTypeError(f"{function}: {name} must be real, got {value.dtype}")
