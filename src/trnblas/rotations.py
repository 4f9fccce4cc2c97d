"""Plane (Givens) rotations: ``rotg`` computes them, ``rot`` applies them.

A rotation has a real cosine c and a sine s, complex for complex numbers, with c^2 + |s|^2 = 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from trnblas._library import no_kernel
from trnblas._paths.arguments import Scalar, number, real_factor
from trnsci.core.arguments import agree, floating, one_shape

__all__ = ["Rotation", "rot", "rotg"]


class Rotation(NamedTuple):
    """Result of ``rotg``.

    Attributes:
        r: First component of the rotated vector (r, 0).
        z: Contents of b after BLAS rotg. For real a and b, the number from which c and s can be
            reconstructed; for complex ones, b itself.
        c: Cosine, real.
        s: Sine.
    """

    r: Tensor
    z: Tensor
    c: Tensor
    s: Tensor


def rot(x: Tensor, y: Tensor, c: Scalar, s: Scalar) -> tuple[Tensor, Tensor]:
    """Return ``c * x + s * y`` and ``c * y - conj(s) * x``.

    Args:
        x: Tensor.
        y: Tensor of the same shape and dtype.
        c: Real number or 0-d tensor.
        s: Number or 0-d tensor.

    Raises:
        ShapeError: The shapes differ.
        DTypeError: The dtypes differ or are integers, c is not real, or s is incompatible.
    """
    no_kernel("rot")
    agree("rot", "x", x, "y", y)
    floating("rot", "x", x)
    one_shape("rot", "x", x, "y", y)
    c, s = number("rot", "c", c, x), number("rot", "s", s, x)
    c = real_factor("rot", "c", c)
    real = x.dtype.to_real() if x.is_complex() else x.dtype
    cosine = c.to(real) if isinstance(c, Tensor) else c
    sine = s.to(x.dtype) if isinstance(s, Tensor) else s
    mirrored = sine.conj() if isinstance(sine, Tensor) else sine.conjugate()
    return x * cosine + y * sine, y * cosine - x * mirrored


def rotg(a: Tensor, b: Tensor) -> Rotation:
    """Return the rotation that maps (a, b) to (r, 0), element by element.

    For real numbers r has the sign of the larger of a and b; for complex ones the direction of a.
    No intermediate overflows or underflows if the result can be represented.

    Args:
        a: Tensor.
        b: Tensor of the same shape and dtype.

    Raises:
        ShapeError: The shapes differ.
        DTypeError: The dtypes differ or are integers.

    Example:
        >>> r, z, c, s = rotg(torch.tensor(3.0), torch.tensor(4.0))
        >>> [round(v.item(), 4) for v in (r, c, s)]
        [5.0, 0.6, 0.8]
    """
    no_kernel("rotg")
    agree("rotg", "a", a, "b", b)
    floating("rotg", "a", a)
    one_shape("rotg", "a", a, "b", b)
    if a.dtype in (torch.float16, torch.bfloat16):
        wide = _real_rotation(a.to(torch.float32), b.to(torch.float32))
        return Rotation(*(value.to(a.dtype) for value in wide))
    return _complex_rotation(a, b) if a.is_complex() else _real_rotation(a, b)


def _real_rotation(a: Tensor, b: Tensor) -> Rotation:
    one, zero = torch.ones_like(a), torch.zeros_like(a)
    nothing, alone, chosen = _cases(a, b)
    # If a or b is zero the result is known; a division would give NaN derivatives.
    trivial = nothing | alone
    p, q = torch.where(trivial, one, a), torch.where(trivial, one, b)
    factor = _factor(p, q)
    p, q = p * factor, q * factor
    first = p.abs() > q.abs()
    r = torch.copysign(torch.hypot(p, q), torch.where(first, p, q))
    c, s = p / r, q / r
    small = c == 0  # p / r underflowed, and 1 / c would be infinite
    z = torch.where(first, s, torch.where(small, one, 1 / torch.where(small, one, c)))

    return Rotation(
        chosen(a, b, r / factor), chosen(zero, one, z), chosen(one, zero, c), chosen(zero, one, s)
    )


def _complex_rotation(a: Tensor, b: Tensor) -> Rotation:
    one, zero = torch.ones_like(a), torch.zeros_like(a)
    nothing, alone, chosen = _cases(a, b)
    f = torch.where(nothing | alone, one, a)
    g = torch.where(nothing, one, b)
    near_f, near_g = _factor(f.real, f.imag), _factor(g.real, g.imag)
    both = torch.minimum(near_f, near_g)
    length = torch.hypot(_modulus(f * both), _modulus(g * both))
    f, g = f * near_f, g * near_g
    size_f, size_g = _modulus(f), _modulus(g)
    direction, towards = f / size_f, g.conj() / size_g
    of_f, of_g = both / near_f, both / near_g  # by which moduli differ from those in length

    return Rotation(
        chosen(a, (size_g / near_g).to(a.dtype), direction * length / both),
        b.clone(),
        chosen(one.real, zero.real, size_f / length * of_f),
        chosen(zero, towards, direction * towards * (size_g / length * of_g)),
    )


def _modulus(x: Tensor) -> Tensor:
    return torch.hypot(x.real, x.imag)


def _factor(*parts: Tensor) -> Tensor:
    """Return powers of two that bring the largest part away from both ends of the dtype's range."""
    info = torch.finfo(parts[0].dtype)
    largest = functools.reduce(torch.maximum, [part.detach().abs() for part in parts])
    up, down = info.eps**-3, info.eps**3
    low, high = largest < info.smallest_normal / info.eps, largest > info.max * info.eps
    one = torch.ones_like(largest)
    return torch.where(low, up * one, torch.where(high, down * one, one))


def _cases(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Callable[..., Tensor]]:
    """Return where b is zero, where only a is, and the choice of values for these and the rest."""
    nothing = b == 0
    alone = (a == 0) & ~nothing

    def chosen(of_b_zero: Tensor, of_a_zero: Tensor, otherwise: Tensor) -> Tensor:
        return torch.where(nothing, of_b_zero, torch.where(alone, of_a_zero, otherwise))

    return nothing, alone, chosen
