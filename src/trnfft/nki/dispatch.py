"""Products of complex matrices and masks, with one operation each.

Operands and results of the operations are real tensors with the parts in a last dimension of two.
Gradients are with respect to the parts: the gradient of one factor of a complex product is G times
the conjugate of the other factor. G is the gradient of the result.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnfft._library import LIBRARY
from trnfft._paths.interleaved import as_parts, as_spectrum, joined, native, result_like, split
from trnfft._paths.kinds import Spectrum
from trnfft.complex_tensor import ComplexTensor
from trnsci.core.arguments import broadcast
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents, multilinear_jvp, total
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.library import backend_names
from trnsci.core.backend.operation import Operation
from trnsci.core.errors import DTypeError, ShapeError
from trnsci.core.examples import Case
from trnsci.core.numbers.conversions import widest
from trnsci.core.testing import random_tensor


def complex_gemm(a: Spectrum, b: Spectrum) -> Spectrum:
    """Return ``a @ b`` of two complex matrices.

    Raises:
        ShapeError: The operands are not matrices of compatible shapes.
        DTypeError: An operand is not complex, or the dtypes differ.
    """
    left, right = map(as_parts, _factors("complex_gemm", a, b))
    return _like(as_spectrum(COMPLEX_GEMM(left, right)), a)


def complex_gemm_bf16(a: Spectrum, b: Spectrum) -> Spectrum:
    """Return ``a @ b`` with operands rounded to bfloat16 and sums in float32.

    It takes a quarter of the Tensor engine time of float32, and half the bytes. Gradients are the
    gradients of the exact product of the rounded operands.

    Raises:
        ShapeError, DTypeError: As ``complex_gemm``.
    """
    left, right = (as_parts(_rounded(x)) for x in _factors("complex_gemm_bf16", a, b))
    return _like(as_spectrum(COMPLEX_GEMM_BF16(left, right)), a)


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


def linear(x: Spectrum, weight: Spectrum, bias: Spectrum | None) -> Spectrum:
    """Return ``x @ weight.mT + bias`` over the last dimension of a complex x, by an operation."""
    rows = as_parts(x.reshape(math.prod(x.shape[:-1]), x.shape[-1]))
    added = None if bias is None else as_parts(bias)
    result = COMPLEX_LINEAR(rows, as_parts(weight), added)
    return as_spectrum(result.reshape(*x.shape[:-1], weight.shape[0], 2))


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
    shape = broadcast(weights.shape, spectrum.shape)
    if shape is None:
        raise ShapeError(
            f"complex_mask_apply: mask and spec must broadcast, "
            f"got {tuple(weights.shape)} and {tuple(spectrum.shape)}"
        )
    product = COMPLEX_MASK(as_parts(weights.expand(shape)), as_parts(spectrum.expand(shape)))
    return _like(as_spectrum(product), spec)


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


# -- the operations --------------------------------------------------------------------------------


def _complex_gemm(a: Tensor, b: Tensor) -> Tensor:
    return result_like(native(a, True) @ native(b, True), a)


def _gemm_backward(grad: Tensor, needed: Needed, a: Tensor, b: Tensor) -> Gradients:
    """Return G B^H for A and A^H G for B."""
    for_a = COMPLEX_GEMM(grad, _conjugate(b.transpose(0, 1))) if needed[0] else None
    for_b = COMPLEX_GEMM(_conjugate(a.transpose(0, 1)), grad) if needed[1] else None
    return for_a, for_b


def _conjugate(parts: Tensor) -> Tensor:
    return torch.stack([parts[..., 0], -parts[..., 1]], -1)


def _complex_gemm_launch(launch: Launcher, a: Tensor, b: Tensor) -> Tensor:
    from trnblas.nki.launches import complex_product  # here, because it imports NKI

    return complex_product(launch, a, b, None, False, False)


def _complex_gemm_bf16_launch(launch: Launcher, a: Tensor, b: Tensor) -> Tensor:
    from trnblas.nki.launches import complex_product

    return complex_product(launch, a.bfloat16(), b.bfloat16(), None, False, True).to(a.dtype)


COMPLEX_GEMM = Operation(
    LIBRARY,
    "complex_gemm",
    launch=_complex_gemm_launch,
    reference=_complex_gemm,
    backward=_gemm_backward,
    linear=(0, 1),
    flops=lambda a, b: 4.0 * a.numel() * b.shape[-2],
)

# This operation is for operands whose parts are exact in bfloat16. Gradients and tangents are not
# exact, so their products use COMPLEX_GEMM.
COMPLEX_GEMM_BF16 = Operation(
    LIBRARY,
    "complex_gemm_bf16",
    launch=_complex_gemm_bf16_launch,
    reference=_complex_gemm,
    backward=_gemm_backward,
    jvp=multilinear_jvp(COMPLEX_GEMM, (0, 1)),
    flops=lambda a, b: 4.0 * a.numel() * b.shape[-2],
)


def _complex_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product = native(x, True) @ native(weight, True).mT
    return result_like(product if bias is None else product + native(bias, True), x)


def _linear_backward(
    grad: Tensor, needed: Needed, x: Tensor, weight: Tensor, bias: Tensor | None
) -> Gradients:
    """Return G conj(W) for x, G^T conj(x) for W, and the sum of G's rows for the bias."""
    for_x = COMPLEX_GEMM(grad, _conjugate(weight)) if needed[0] else None
    for_weight = COMPLEX_GEMM(grad.transpose(0, 1), _conjugate(x)) if needed[1] else None
    return for_x, for_weight, grad.sum(0) if needed[2] else None


def _linear_jvp(tangents: Tangents, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return TX W^T + X TW^T plus the tangent of the bias in every row."""
    of_x, of_weight, of_bias = tangents
    parts = []
    if of_x is not None:
        parts.append(COMPLEX_LINEAR(of_x, weight, None))
    if of_weight is not None:
        parts.append(COMPLEX_LINEAR(x, of_weight, None))
    if of_bias is not None:
        parts.append(of_bias.expand(x.shape[0], *of_bias.shape))
    return total(parts)


def _complex_linear_launch(
    launch: Launcher, x: Tensor, weight: Tensor, bias: Tensor | None
) -> Tensor:
    from trnblas.nki.launches import complex_product

    return complex_product(launch, x, weight, bias, True, False)


COMPLEX_LINEAR = Operation(
    LIBRARY,
    "complex_linear",
    launch=_complex_linear_launch,
    reference=_complex_linear,
    backward=_linear_backward,
    jvp=_linear_jvp,
    flops=lambda x, weight, bias: 4.0 * x.numel() * weight.shape[0],
)


def _complex_mask(mask: Tensor, spectrum: Tensor) -> Tensor:
    return result_like(native(mask, True) * native(spectrum, True), mask)


def _mask_backward(grad: Tensor, needed: Needed, mask: Tensor, spectrum: Tensor) -> Gradients:
    """Return G times the conjugate of the other factor."""
    for_mask = COMPLEX_MASK(grad, _conjugate(spectrum)) if needed[0] else None
    for_spectrum = COMPLEX_MASK(grad, _conjugate(mask)) if needed[1] else None
    return for_mask, for_spectrum


def _complex_mask_launch(launch: Launcher, mask: Tensor, spectrum: Tensor) -> Tensor:
    from trnfft._kernels.mask import complex_mask

    return joined(launch(complex_mask, *split(mask, True), *split(spectrum, True)))


COMPLEX_MASK = Operation(
    LIBRARY,
    "complex_mask",
    launch=_complex_mask_launch,
    reference=_complex_mask,
    backward=_mask_backward,
    linear=(0, 1),
    flops=lambda mask, spectrum: 3.0 * spectrum.numel(),
    evidence=(
        Case(
            "complex_mask",
            "complex mask",
            lambda: tuple(random_tensor(70, 130, dtype=torch.complex64, seed=x) for x in (0, 4)),
            complex_mask_apply,
            lambda mask, x: widest(mask) * widest(x),
            "torch in float64",
            lambda mask, x: 3 * 2.0**-24 * 2**0.5,
        ),
    ),
)


__getattr__ = backend_names(__name__, LIBRARY)
