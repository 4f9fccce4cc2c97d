"""Complex arithmetic on a pair of real tensors, for dtypes and devices without complex tensors.

An operand is a :class:`Parts`, a real tensor or a real number. Every function is differentiable,
and its gradient is finite wherever the mathematical derivative is. Where that does not exist (the
magnitude and the phase of zero), the gradient is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from trnfft._complex.arguments import HALVES
from trnsci.core.errors import DTypeError


class Parts(NamedTuple):
    """The real and the imaginary part of a complex tensor (of a complex number: two floats)."""

    re: Any
    im: Any


# Parts, a real tensor or a real number. Any: the type system cannot express valid combinations.
Operand: TypeAlias = Any
Product: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def split(x: Operand) -> Parts:
    """Return the parts of ``x``; the imaginary part of a real operand is zero."""
    if isinstance(x, Parts):
        return x
    if isinstance(x, Tensor):
        # An expanded zero needs no memory, and promotes dtypes and shapes as the tensor does.
        return Parts(x, x.new_zeros(()).expand(x.shape))
    return Parts(x, 0.0)


def _rounded_once(compute: Callable[..., Operand]) -> Callable[..., Operand]:
    """Return a function that computes operands of a 16-bit dtype in float32 and rounds once.

    Products of float16 parts overflow where their sum does not.
    """

    @wraps(compute)
    def call(*operands: Operand, **options: Any) -> Operand:
        half = _half_of(operands)
        if half is None:
            return compute(*operands, **options)
        wide = [_cast(x, torch.float32) for x in operands]
        return _cast(compute(*wide, **options), half)

    return call


def _half_of(operands: tuple[Operand, ...]) -> torch.dtype | None:
    """Return the 16-bit dtype of all floating-point tensors among the operands, or None."""
    half: torch.dtype | None = None
    for operand in operands:
        part = operand.re if isinstance(operand, Parts) else operand
        if isinstance(part, Tensor) and part.is_floating_point():
            if part.dtype not in HALVES or half not in (None, part.dtype):
                return None
            half = part.dtype
    return half


def _cast(x: Operand, dtype: torch.dtype) -> Operand:
    """Return an operand with its floating-point tensors in a dtype."""
    if isinstance(x, Parts):
        return Parts(_cast(x.re, dtype), _cast(x.im, dtype))
    return x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x


@_rounded_once
def add(a: Operand, b: Operand, *, alpha: Operand = 1) -> Parts:
    """Return ``a + alpha b``."""
    if alpha != 1:
        b = multiply(b, alpha)
    (a_re, a_im), (b_re, b_im) = split(a), split(b)
    return Parts(a_re + b_re, a_im + b_im)


@_rounded_once
def subtract(a: Operand, b: Operand, *, alpha: Operand = 1) -> Parts:
    """Return ``a - alpha b``."""
    if alpha != 1:
        b = multiply(b, alpha)
    (a_re, a_im), (b_re, b_im) = split(a), split(b)
    return Parts(a_re - b_re, a_im - b_im)


@_rounded_once
def multiply(a: Operand, b: Operand) -> Operand:
    """Return ``a b``, with half the work if one operand is real."""
    if not isinstance(b, Parts):
        a, b = b, a
    if not isinstance(b, Parts):
        return a * b
    if not isinstance(a, Parts):
        return Parts(b.re * a, b.im * a)
    return Parts(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


@_rounded_once
def divide(a: Operand, b: Operand, *, rounding_mode: None = None) -> Operand:
    """Return ``a / b`` without overflow or underflow of ``|b|**2``."""
    if rounding_mode is not None:
        raise DTypeError("div: a complex quotient has no rounding_mode")
    if not isinstance(b, Parts):
        return Parts(a.re / b, a.im / b) if isinstance(a, Parts) else a / b
    if not isinstance(b.re, Tensor):
        inverse = 1 / complex(b.re, b.im)
        return multiply(a, Parts(inverse.real, inverse.imag))
    # Scaled to a largest part of one. The quotient does not depend on the scale, so neither does
    # its gradient: no derivative is taken through it.
    scale = torch.maximum(b.re.abs(), b.im.abs()).detach()
    re, im = b.re / scale, b.im / scale
    size = re * re + im * im
    product = multiply(a, Parts(re / size, -im / size))
    return Parts(product.re / scale, product.im / scale)


def reciprocal(a: Parts) -> Operand:
    """Return ``1 / a``."""
    return divide(1.0, a)


def conjugate(a: Parts) -> Parts:
    """Return the conjugate; its real part is a copy."""
    return Parts(a.re.clone(), -a.im)


def magnitude(a: Parts) -> Tensor:
    """Return ``|a|``; its gradient at zero is zero."""
    re, im = _packed(a)
    if not _tracked(a):
        return torch.hypot(re, im)
    zero = (re == 0) & (im == 0)
    # The derivative of hypot at (0, 0) is 0/0, and masking the result alone would leave NaN * 0.
    return torch.hypot(re.masked_fill(zero, 1), im).masked_fill(zero, 0)


def phase(a: Parts) -> Tensor:
    """Return the angle of ``a`` in [-pi, pi]; its gradient at zero is zero."""
    re, im = _packed(a)
    if not _tracked(a):
        return torch.atan2(im, re)
    # The derivative of atan2 divides by |a|^2, which underflows long before |a|; the angle of the
    # scaled a has the same derivative, and the difference from its own value is exactly zero.
    size = torch.hypot(re, im).detach()
    without = (size == 0) | ~size.isfinite()
    size = size.masked_fill(without, 1)
    scaled = torch.atan2((im / size).masked_fill(without, 0), (re / size).masked_fill(without, 1))
    return torch.atan2(im, re).detach() + (scaled - scaled.detach())


def _packed(a: Parts) -> Parts:
    """Return contiguous parts: torch does not vectorise over the strides of a native tensor."""
    return Parts(a.re.contiguous(), a.im.contiguous())


@_rounded_once
def exponential(a: Parts) -> Parts:
    """Return ``e**a``."""
    size = torch.exp(a.re)
    return Parts(size * torch.cos(a.im), size * torch.sin(a.im))


@_rounded_once
def power(a: Operand, exponent: Operand) -> Operand:
    """Return ``a**exponent`` by products for a small integer, else NotImplemented."""
    if not (isinstance(a, Parts) and isinstance(exponent, int) and abs(exponent) <= MAX_POWER):
        return NotImplemented
    if exponent < 0:
        return power(reciprocal(a), -exponent)
    result: Operand | None = None
    square: Operand = a
    remaining = int(exponent)
    while remaining:
        if remaining & 1:
            result = square if result is None else multiply(result, square)
        remaining >>= 1
        if remaining:
            square = multiply(square, square)
    if result is None:
        return Parts(torch.ones_like(a.re), torch.zeros_like(a.im))
    return Parts(a.re.clone(), a.im.clone()) if result is a else result


# For larger exponents repeated products have a larger error than exp(n log a).
MAX_POWER = 16


@_rounded_once
def matmul(a: Operand, b: Operand, product: Product = torch.matmul) -> Operand:
    """Return the matrix product by four real products, or two if an operand is real."""
    if isinstance(a, Parts) and isinstance(b, Parts):
        return Parts(
            product(a.re, b.re) - product(a.im, b.im), product(a.re, b.im) + product(a.im, b.re)
        )
    if isinstance(a, Parts) and isinstance(b, Tensor):
        return Parts(product(a.re, b), product(a.im, b))
    if isinstance(a, Tensor) and isinstance(b, Parts):
        return Parts(product(a, b.re), product(a, b.im))
    return NotImplemented


def same(a: Operand, b: Operand) -> Tensor:
    """Return the elementwise comparison ``a == b``."""
    (a_re, a_im), (b_re, b_im) = split(a), split(b)
    return (a_re == b_re) & (a_im == b_im)


def differ(a: Operand, b: Operand) -> Tensor:
    """Return the elementwise comparison ``a != b``."""
    return ~same(a, b)


def _tracked(a: Parts) -> bool:
    return torch.is_grad_enabled() and (a.re.requires_grad or a.im.requires_grad)
