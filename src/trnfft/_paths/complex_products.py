"""Products of complex matrices and masks with a kernel, as operations with their derivatives.

Operands and results are real tensors with the parts in a last dimension of two. Gradients are with
respect to the parts: the gradient of one factor of a complex product is G times the conjugate of
the other factor. G is the gradient of the result.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnfft._paths.operations import native, operation, result_like
from trnsci.core.backend.derivatives import (
    Gradients,
    Needed,
    Tangents,
    multilinear_jvp,
    total,
)


def _complex_gemm(a: Tensor, b: Tensor) -> Tensor:
    return result_like(native(a, True) @ native(b, True), a)


def _gemm_flops(a: Tensor, b: Tensor) -> float:
    return 4.0 * a.numel() * b.shape[-2]


def _gemm_backward(grad: Tensor, needed: Needed, a: Tensor, b: Tensor) -> Gradients:
    """Return G B^H for A and A^H G for B."""
    for_a = COMPLEX_GEMM(grad, _conjugate(b.transpose(0, 1))) if needed[0] else None
    for_b = COMPLEX_GEMM(_conjugate(a.transpose(0, 1)), grad) if needed[1] else None
    return for_a, for_b


def _conjugate(parts: Tensor) -> Tensor:
    return torch.stack([parts[..., 0], -parts[..., 1]], -1)


COMPLEX_GEMM = operation(
    "complex_gemm",
    reference=_complex_gemm,
    backward=_gemm_backward,
    linear=(0, 1),
    flops=_gemm_flops,
)

# This operation is for operands whose parts are exact in bfloat16. Gradients and tangents are not
# exact, so their products use COMPLEX_GEMM.
COMPLEX_GEMM_BF16 = operation(
    "complex_gemm_bf16",
    reference=_complex_gemm,
    backward=_gemm_backward,
    jvp=multilinear_jvp(COMPLEX_GEMM, (0, 1)),
    flops=_gemm_flops,
)


def _complex_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product = native(x, True) @ native(weight, True).mT
    return result_like(product if bias is None else product + native(bias, True), x)


def _linear_flops(x: Tensor, weight: Tensor, bias: Tensor | None) -> float:
    return 4.0 * x.numel() * weight.shape[0]


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


COMPLEX_LINEAR = operation(
    "complex_linear",
    reference=_complex_linear,
    backward=_linear_backward,
    jvp=_linear_jvp,
    flops=_linear_flops,
)


def _complex_mask(mask: Tensor, spectrum: Tensor) -> Tensor:
    return result_like(native(mask, True) * native(spectrum, True), mask)


def _mask_flops(mask: Tensor, spectrum: Tensor) -> float:
    return 3.0 * spectrum.numel()


def _mask_backward(grad: Tensor, needed: Needed, mask: Tensor, spectrum: Tensor) -> Gradients:
    """Return G times the conjugate of the other factor."""
    for_mask = COMPLEX_MASK(grad, _conjugate(spectrum)) if needed[0] else None
    for_spectrum = COMPLEX_MASK(grad, _conjugate(mask)) if needed[1] else None
    return for_mask, for_spectrum


COMPLEX_MASK = operation(
    "complex_mask",
    reference=_complex_mask,
    backward=_mask_backward,
    linear=(0, 1),
    flops=_mask_flops,
)
