"""The operations of trnfft that have a kernel, each declared once.

Operands and results are real tensors: a complex one has its parts in a last dimension of two, which
shares the memory of a native complex tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trnfft._complex.arguments import HALVES, has_complex
from trnfft._library import LIBRARY
from trnfft._paths import derivatives as rules
from trnfft._paths.interleaved import as_complex, as_parts
from trnfft._planning.recipe import recipe
from trnsci.core.backend.operation import Operation
from trnsci.core.errors import ShapeError
from trnsci.core.interop import constant_to_compile

__all__ = [
    "COMPLEX_GEMM",
    "COMPLEX_LINEAR",
    "COMPLEX_MASK",
    "SHORT_TIME",
    "TRANSFORM",
    "TRANSFORM_ND",
]


def _native(x: Tensor, is_complex: bool) -> Tensor:
    """Return an operand in the form that torch computes on.

    It is moved to the host if the device has no complex dtypes, and widened if its dtype has none.
    """
    held = x if has_complex(x.device) else x.cpu()
    if held.dtype in HALVES:
        held = held.float()
    return as_complex(held) if is_complex else held


def _result(value: Tensor, x: Tensor) -> Tensor:
    return as_parts(value).to(x.device, x.dtype)


def _operation(name: str, **declaration: Any) -> Operation:
    return Operation(LIBRARY, name, launch=f"trnfft._paths.kernel_path:{name}", **declaration)


def _length(x: Tensor, is_complex: bool) -> int:
    return x.shape[-2 if is_complex else -1]


# -- transforms ------------------------------------------------------------------------------------


def _transform(x: Tensor, is_complex: bool, kind: str, n: int, norm: str) -> Tensor:
    return _result(getattr(torch.fft, kind)(_native(x, is_complex), n, -1, norm), x)


def _transform_flops(x: Tensor, is_complex: bool, kind: str, n: int, norm: str) -> float:
    batch = x.numel() / max(_length(x, is_complex) * (2 if is_complex else 1), 1)
    return 5.0 * batch * n * max(math.log2(n), 1.0)


def _no_plan(x: Tensor, is_complex: bool, kind: str, n: int, norm: str) -> str:
    return _refusal(kind, n)


@constant_to_compile
def _refusal(kind: str, n: int) -> str:
    """Return the reason why a transform has no plan, or the empty string if it has one."""
    try:
        recipe(kind, (n,), None)
    except ShapeError as error:
        return str(error)
    return ""


TRANSFORM = _operation(
    "transform",
    reference=_transform,
    backward=rules.transform_backward,
    jvp=rules.transform_jvp,
    batched=rules.transform_batched,
    flops=_transform_flops,
    unsuited=_no_plan,
)


def _transform_nd(
    x: Tensor, is_complex: bool, kind: str, sizes: Sequence[int], norm: str
) -> Tensor:
    dims = tuple(range(-len(sizes), 0))
    transform = getattr(torch.fft, kind[:-1] + "n")
    return _result(transform(_native(x, is_complex), sizes, dims, norm), x)


def _transform_nd_flops(
    x: Tensor, is_complex: bool, kind: str, sizes: Sequence[int], norm: str
) -> float:
    points = math.prod(sizes)
    return 5.0 * x.shape[0] * points * max(math.log2(points), 1.0)


TRANSFORM_ND = _operation(
    "transform_nd",
    reference=_transform_nd,
    backward=rules.transform_nd_backward,
    jvp=rules.transform_nd_jvp,
    batched=rules.transform_nd_batched,
    flops=_transform_nd_flops,
)


# -- short-time transforms -------------------------------------------------------------------------


def _short_time(
    x: Tensor, is_complex: bool, window: Tensor, hop: int, onesided: bool, normalized: bool
) -> Tensor:
    signal = _native(x, is_complex)
    n_fft = window.shape[0]
    bins = torch.stft(
        signal,
        n_fft,
        hop,
        window=window.to(signal.device),
        center=False,
        normalized=normalized,
        onesided=onesided,
        return_complex=True,
    )
    return _result(bins.mT, x)


def _short_time_flops(x: Tensor, is_complex: bool, window: Tensor, hop: int, *rest: Any) -> float:
    n_fft = window.shape[0]
    frames = 1 + (_length(x, is_complex) - n_fft) // hop
    return 5.0 * x.shape[0] * frames * n_fft * max(math.log2(n_fft), 1.0)


def _too_long(x: Tensor, is_complex: bool, window: Tensor, *rest: Any) -> str:
    from trnfft._kernels.dft import LARGEST_N  # imported here because it imports NKI

    n_fft = window.shape[0]
    return f"the kernel takes frames of up to {LARGEST_N} points" if n_fft > LARGEST_N else ""


SHORT_TIME = _operation(
    "short_time",
    reference=_short_time,
    backward=rules.short_time_backward,
    jvp=rules.short_time_jvp,
    batched=rules.short_time_batched,
    flops=_short_time_flops,
    unsuited=_too_long,
)


# -- products --------------------------------------------------------------------------------------


def _complex_gemm(a: Tensor, b: Tensor) -> Tensor:
    return _result(_native(a, True) @ _native(b, True), a)


def _gemm_flops(a: Tensor, b: Tensor) -> float:
    return 4.0 * a.numel() * b.shape[-2]


COMPLEX_GEMM = _operation(
    "complex_gemm",
    reference=_complex_gemm,
    backward=rules.gemm_backward,
    jvp=rules.gemm_jvp,
    flops=_gemm_flops,
)

# For operands whose parts are exact in bfloat16. Gradients and tangents are not, so their products
# use COMPLEX_GEMM.
COMPLEX_GEMM_BF16 = _operation(
    "complex_gemm_bf16",
    reference=_complex_gemm,
    backward=rules.gemm_backward,
    jvp=rules.gemm_jvp,
    flops=_gemm_flops,
)


def _complex_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product = _native(x, True) @ _native(weight, True).mT
    return _result(product if bias is None else product + _native(bias, True), x)


def _linear_flops(x: Tensor, weight: Tensor, bias: Tensor | None) -> float:
    return 4.0 * x.numel() * weight.shape[0]


COMPLEX_LINEAR = _operation(
    "complex_linear",
    reference=_complex_linear,
    backward=rules.linear_backward,
    jvp=rules.linear_jvp,
    flops=_linear_flops,
)


def _complex_mask(mask: Tensor, spectrum: Tensor) -> Tensor:
    return _result(_native(mask, True) * _native(spectrum, True), mask)


def _mask_flops(mask: Tensor, spectrum: Tensor) -> float:
    return 3.0 * spectrum.numel()


COMPLEX_MASK = _operation(
    "complex_mask",
    reference=_complex_mask,
    backward=rules.mask_backward,
    jvp=rules.mask_jvp,
    flops=_mask_flops,
)
