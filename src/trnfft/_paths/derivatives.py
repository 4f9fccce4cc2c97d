"""Derivatives of the operations with kernels, composed of operations with kernels.

Operands and results are real tensors with the parts of complex ones, and gradients are with respect
to the parts: the gradient of a complex product with respect to one factor contains the conjugate of
the other. G is the gradient with respect to the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trnfft._library import LIBRARY
from trnfft._paths.interleaved import resized
from trnsci.core.backend.operation import each_entry, total

__all__ = [
    "gemm_backward",
    "gemm_jvp",
    "linear_backward",
    "linear_jvp",
    "mask_backward",
    "mask_jvp",
    "short_time_backward",
    "short_time_batched",
    "short_time_jvp",
    "transform_backward",
    "transform_batched",
    "transform_jvp",
    "transform_nd_backward",
    "transform_nd_batched",
    "transform_nd_jvp",
]

Gradients = tuple[Tensor | None, ...]
Needed = Sequence[bool]
Tangents = Sequence[Tensor | None]

# The adjoint has the opposite sign of the exponent; a half spectrum is extended by zeros.
_ADJOINT = {
    "fft": "ifft",
    "ifft": "fft",
    "rfft": "ifft",
    "ihfft": "fft",
    "irfft": "rfft",
    "hfft": "ihfft",
}
# A forward transform of one norm has the same factor as an inverse transform of the other norm.
_NORM = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
_HERMITIAN = ("irfft", "hfft")


# -- transforms ------------------------------------------------------------------------------------


def transform_backward(
    grad: Tensor, needed: Needed, x: Tensor, is_complex: bool, kind: str, n: int, norm: str
) -> Gradients:
    """Return the transform of G with the other sign."""
    transform = LIBRARY.operations["transform"]
    found = transform(grad, kind not in _HERMITIAN, _ADJOINT[kind], n, _NORM[norm])
    return _adapted(found, x, is_complex, kind in _HERMITIAN, [n]), None, None, None, None


def transform_jvp(tangents: Tangents, x: Tensor, *flags: Any) -> Tensor:
    """Return the transform of the tangent."""
    result: Tensor = LIBRARY.operations["transform"](tangents[0], *flags)
    return result


def transform_batched(
    info: Any, in_dims: Sequence[Any], x: Tensor, *flags: Any
) -> tuple[Tensor, int]:
    """Return the transform of all signals of a batch in one launch."""
    return _in_one(LIBRARY.operations["transform"], in_dims[0], x, flags)


def transform_nd_backward(
    grad: Tensor,
    needed: Needed,
    x: Tensor,
    is_complex: bool,
    kind: str,
    sizes: Sequence[int],
    norm: str,
) -> Gradients:
    """Return the transform of G with the other sign."""
    base = kind[:-1]
    transform = LIBRARY.operations["transform_nd"]
    found = transform(grad, base not in _HERMITIAN, f"{_ADJOINT[base]}n", sizes, _NORM[norm])
    return _adapted(found, x, is_complex, base in _HERMITIAN, sizes), None, None, None, None


def transform_nd_jvp(tangents: Tangents, x: Tensor, *flags: Any) -> Tensor:
    """Return the transform of the tangent."""
    result: Tensor = LIBRARY.operations["transform_nd"](tangents[0], *flags)
    return result


def transform_nd_batched(
    info: Any, in_dims: Sequence[Any], x: Tensor, *flags: Any
) -> tuple[Tensor, int]:
    """Return the transform of all images of a batch in one launch."""
    return _in_one(LIBRARY.operations["transform_nd"], in_dims[0], x, flags)


def _adapted(
    found: Tensor, x: Tensor, is_complex: bool, hermitian: bool, sizes: Sequence[int]
) -> Tensor:
    """Return the gradient of all n points converted to the shape and type of the operand."""
    if hermitian:
        # A bin also represents its mirror image, except for the first and the middle bin.
        bins = found.shape[-2]
        weights = found.new_full((bins, 1), 2.0)
        weights[0] = 1.0
        if sizes[-1] % 2 == 0:
            weights[-1] = 1.0
        found = found * weights
    for place in range(1, 1 + len(sizes)):
        found = resized(found, place, x.shape[place])
    return found if is_complex else found[..., 0]


def _in_one(operation: Any, dim: int, x: Tensor, flags: tuple[Any, ...]) -> tuple[Tensor, int]:
    front = x.movedim(dim, 0)
    result: Tensor = operation(front.flatten(0, 1), *flags)
    return result.reshape(*front.shape[:2], *result.shape[1:]), 0


# -- short-time transforms -------------------------------------------------------------------------


def short_time_backward(
    grad: Tensor,
    needed: Needed,
    x: Tensor,
    is_complex: bool,
    window: Tensor,
    hop: int,
    onesided: bool,
    normalized: bool,
) -> Gradients:
    """Return the overlap-added windowed frames of G for the signal, and the window's gradient."""
    n_fft = window.shape[0]
    kind = "rfft" if onesided and not is_complex else "fft"
    flags = _ADJOINT[kind], n_fft, "ortho" if normalized else "forward"
    framed = LIBRARY.operations["transform"](grad.flatten(0, 1), True, *flags)
    framed = framed.reshape(*grad.shape[:2], *framed.shape[1:])  # batch, frames, points, parts
    framed = framed if is_complex else framed[..., 0]
    frames, pull, *_ = torch.func.vjp(lambda signal: _frames(signal, n_fft, hop), x)
    over_points = (-1, *(1,) * (framed.ndim - 3))
    for_x = pull(framed * window.reshape(over_points).to(framed.dtype))[0] if needed[0] else None
    for_window = None
    if needed[2]:
        products = (framed * frames).movedim(2, 0).flatten(1)
        for_window = products.sum(1).to(window.dtype)
    return for_x, None, for_window, None, None, None


def short_time_jvp(
    tangents: Tangents, x: Tensor, is_complex: bool, window: Tensor, *flags: Any
) -> Tensor:
    """Return the sum of the transforms with the tangent of the signal and of the window."""
    transform = LIBRARY.operations["short_time"]
    parts = []
    if tangents[0] is not None:
        parts.append(transform(tangents[0], is_complex, window, *flags))
    if tangents[2] is not None:
        parts.append(transform(x, is_complex, tangents[2], *flags))
    return total(parts)


def short_time_batched(
    info: Any, in_dims: Sequence[Any], x: Tensor, is_complex: bool, window: Tensor, *flags: Any
) -> tuple[Tensor, int]:
    """Return the transform of all signals, in one launch if they share a window."""
    operation = LIBRARY.operations["short_time"]
    if in_dims[2] is None:
        return _in_one(operation, in_dims[0], x, (is_complex, window, *flags))
    found: tuple[Tensor, int] = each_entry(
        operation, info.batch_size, in_dims, (x, is_complex, window, *flags)
    )
    return found


def _frames(signal: Tensor, n_fft: int, hop: int) -> Tensor:
    """Return (batch, frames, points), with a last dimension of parts for a complex signal."""
    return signal.unfold(1, n_fft, hop).movedim(-1, 2)


# -- products --------------------------------------------------------------------------------------


def gemm_backward(grad: Tensor, needed: Needed, a: Tensor, b: Tensor) -> Gradients:
    """Return G B^H for A and A^H G for B."""
    product = LIBRARY.operations["complex_gemm"]
    for_a = product(grad, _conjugate(b.transpose(0, 1))) if needed[0] else None
    for_b = product(_conjugate(a.transpose(0, 1)), grad) if needed[1] else None
    return for_a, for_b


def gemm_jvp(tangents: Tangents, a: Tensor, b: Tensor) -> Tensor:
    """Return TA B + A TB."""
    return _bilinear("complex_gemm", tangents, a, b)


def linear_backward(
    grad: Tensor, needed: Needed, x: Tensor, weight: Tensor, bias: Tensor | None
) -> Gradients:
    """Return G conj(W) for x, G^T conj(x) for W, and the sum of G's rows for the bias."""
    product = LIBRARY.operations["complex_gemm"]
    for_x = product(grad, _conjugate(weight)) if needed[0] else None
    for_weight = product(grad.transpose(0, 1), _conjugate(x)) if needed[1] else None
    return for_x, for_weight, grad.sum(0) if needed[2] else None


def linear_jvp(tangents: Tangents, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return TX W^T + X TW^T plus the tangent of the bias in every row."""
    of_x, of_weight, of_bias = tangents
    product = LIBRARY.operations["complex_linear"]
    parts = []
    if of_x is not None:
        parts.append(product(of_x, weight, None))
    if of_weight is not None:
        parts.append(product(x, of_weight, None))
    if of_bias is not None:
        parts.append(of_bias.expand(x.shape[0], *of_bias.shape))
    return total(parts)


def mask_backward(grad: Tensor, needed: Needed, mask: Tensor, spectrum: Tensor) -> Gradients:
    """Return G times the conjugate of the other factor."""
    product = LIBRARY.operations["complex_mask"]
    for_mask = product(grad, _conjugate(spectrum)) if needed[0] else None
    for_spectrum = product(grad, _conjugate(mask)) if needed[1] else None
    return for_mask, for_spectrum


def mask_jvp(tangents: Tangents, mask: Tensor, spectrum: Tensor) -> Tensor:
    """Return the sum of the products with each tangent."""
    return _bilinear("complex_mask", tangents, mask, spectrum)


def _bilinear(name: str, tangents: Tangents, a: Tensor, b: Tensor) -> Tensor:
    product = LIBRARY.operations[name]
    parts = []
    if tangents[0] is not None:
        parts.append(product(tangents[0], b))
    if tangents[1] is not None:
        parts.append(product(a, tangents[1]))
    return total(parts)


def _conjugate(parts: Tensor) -> Tensor:
    return torch.stack([parts[..., 0], -parts[..., 1]], -1)
