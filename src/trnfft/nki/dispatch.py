"""Complex products: argument checks and dispatch to one operation each."""

from __future__ import annotations

import torch
from torch import Tensor

from trnfft._paths.dispatch import linear, mask, product
from trnfft._paths.kinds import Spectrum
from trnfft.complex_tensor import ComplexTensor
from trnsci.core.errors import DTypeError, ShapeError


def complex_gemm(a: Spectrum, b: Spectrum) -> Spectrum:
    """Return ``a @ b`` of two complex matrices.

    Raises:
        ShapeError: The operands are not matrices of compatible shapes.
        DTypeError: An operand is not complex, or the dtypes differ.
    """
    return _like(product(*_factors("complex_gemm", a, b)), a)


def complex_gemm_bf16(a: Spectrum, b: Spectrum) -> Spectrum:
    """Return ``a @ b`` with operands rounded to bfloat16 and sums in float32.

    It takes a quarter of the Tensor engine time of float32, and half the bytes. Gradients are the
    gradients of the exact product of the rounded operands.

    Raises:
        ShapeError, DTypeError: As ``complex_gemm``.
    """
    left, right = map(_rounded, _factors("complex_gemm_bf16", a, b))
    return _like(product(left, right, narrow=True), a)


def complex_linear(x: Spectrum, w_real: Tensor, w_imag: Tensor) -> Spectrum:
    """Return ``x @ W.mT`` over the last dimension of x, with ``W = w_real + i w_imag``.

    Args:
        x: Complex, (..., inputs).
        w_real: (outputs, inputs).
        w_imag: The same shape.

    Raises:
        ShapeError: The shapes are not compatible.
        DTypeError: x is not complex, or the dtypes differ.
    """
    value = _operand("complex_linear", "x", x)
    if w_real.ndim != 2 or w_real.shape != w_imag.shape or value.shape[-1:] != w_real.shape[1:]:
        raise ShapeError(
            f"complex_linear: w_real and w_imag must be (outputs, {value.shape[-1]}), "
            f"got {tuple(w_real.shape)} and {tuple(w_imag.shape)}"
        )
    weight = ComplexTensor(w_real, w_imag)
    _agree("complex_linear", "x", value, "w_real", weight)
    return _like(linear(value, weight, None), x)


def complex_mask_apply(mask_: Spectrum, spec: Spectrum) -> Spectrum:
    """Return the element-wise product of a complex mask and a spectrum, broadcast.

    Raises:
        DTypeError: An operand is not complex, or the dtypes differ.
        ShapeError: The shapes do not broadcast.
    """
    weights, spectrum = (
        _operand("complex_mask_apply", "mask", mask_),
        _operand("complex_mask_apply", "spec", spec),
    )
    _agree("complex_mask_apply", "mask", weights, "spec", spectrum)
    return _like(mask(weights, spectrum), spec)


def _operand(function: str, name: str, value: Spectrum) -> ComplexTensor:
    if isinstance(value, ComplexTensor):
        return value
    if not isinstance(value, Tensor) or not value.is_complex():
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise DTypeError(f"{function}: {name} must be complex, got {kind}")
    return ComplexTensor(value)


def _factors(function: str, a: Spectrum, b: Spectrum) -> tuple[ComplexTensor, ComplexTensor]:
    """Return the operands, checked to be matrices of compatible shapes."""
    left, right = _operand(function, "a", a), _operand(function, "b", b)
    _agree(function, "a", left, "b", right)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise ShapeError(
            f"{function}: a and b must be matrices of compatible shapes, "
            f"got {tuple(left.shape)} and {tuple(right.shape)}"
        )
    return left, right


def _agree(function: str, first: str, a: ComplexTensor, second: str, b: ComplexTensor) -> None:
    if a.dtype is not b.dtype:
        raise DTypeError(
            f"{function}: {first} and {second} must have one dtype, got {a.dtype} and {b.dtype}"
        )


def _like(result: Spectrum, operand: Spectrum) -> Spectrum:
    if isinstance(operand, ComplexTensor):
        return ComplexTensor(result)
    return result.to_torch_complex() if isinstance(result, ComplexTensor) else result


def _rounded(value: ComplexTensor) -> ComplexTensor:
    """Return the parts rounded to bfloat16; gradients pass through unchanged."""
    return ComplexTensor(_rounded_part(value.real), _rounded_part(value.imag))


def _rounded_part(part: Tensor) -> Tensor:
    lost = (part.to(torch.bfloat16).to(part.dtype) - part).detach()
    return part + lost
