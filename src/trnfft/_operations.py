"""The operations of trnfft that have a kernel, each declared once.

Operands and results are real tensors: a complex one has its parts in a last dimension of two, which
shares the memory of a native complex tensor.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from trnfft._library import LIBRARY
from trnsci.core._tracing import constant_to_compile
from trnsci.core.errors import ShapeError
from trnsci.core.operation import Operation

__all__ = [
    "COMPLEX_GEMM",
    "COMPLEX_LINEAR",
    "COMPLEX_MASK",
    "SHORT_TIME",
    "TRANSFORM",
    "TRANSFORM_2D",
    "as_complex",
    "as_parts",
]


def as_complex(parts: Tensor) -> Tensor:
    """Return parts in a last dimension of two as a native complex tensor."""
    return torch.view_as_complex(parts.contiguous())


def as_parts(value: Tensor) -> Tensor:
    """Return the parts of a complex tensor in a last dimension of two, a real tensor as it is."""
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


def _operation(name: str, **declaration: Any) -> Operation:
    return Operation(LIBRARY, name, launch=f"trnfft._launches:{name}", **declaration)


def _length(x: Tensor, is_complex: bool) -> int:
    return x.shape[-2 if is_complex else -1]


# -- transforms ------------------------------------------------------------------------------------


def _transform(x: Tensor, is_complex: bool, kind: str, n: int, norm: str) -> Tensor:
    value = as_complex(x) if is_complex else x
    return as_parts(getattr(torch.fft, kind)(value, n, -1, norm))


def _transform_flops(x: Tensor, is_complex: bool, kind: str, n: int, norm: str) -> float:
    batch = x.numel() / max(_length(x, is_complex) * (2 if is_complex else 1), 1)
    return 5.0 * batch * n * max(math.log2(n), 1.0)


def _no_plan(x: Tensor, is_complex: bool, kind: str, n: int, norm: str) -> str:
    return _refusal(x.shape[0], _length(x, is_complex), kind, n)


@constant_to_compile
def _refusal(batch: int, length: int, kind: Any, n: int) -> str:
    """Return why there is no plan for a transform, the empty string if there is one."""
    from trnfft.plan import plan

    try:
        plan((batch, length), -1, "float32", kind, n=n)
    except ShapeError as error:
        return str(error)
    return ""


TRANSFORM = _operation("transform", reference=_transform, flops=_transform_flops, unsuited=_no_plan)


def _transform_2d(
    x: Tensor, is_complex: bool, kind: str, rows: int, columns: int, norm: str
) -> Tensor:
    value = as_complex(x) if is_complex else x
    return as_parts(getattr(torch.fft, kind)(value, (rows, columns), (-2, -1), norm))


def _transform_2d_flops(
    x: Tensor, is_complex: bool, kind: str, rows: int, columns: int, norm: str
) -> float:
    return 5.0 * x.shape[0] * rows * columns * max(math.log2(rows * columns), 1.0)


TRANSFORM_2D = _operation("transform_2d", reference=_transform_2d, flops=_transform_2d_flops)


# -- short-time transforms -------------------------------------------------------------------------


def _short_time(
    x: Tensor, is_complex: bool, window: Tensor, hop: int, onesided: bool, normalized: bool
) -> Tensor:
    signal = as_complex(x) if is_complex else x
    n_fft = window.shape[0]
    bins = torch.stft(
        signal,
        n_fft,
        hop,
        window=window,
        center=False,
        normalized=normalized,
        onesided=onesided,
        return_complex=True,
    )
    return as_parts(bins.mT)


def _short_time_flops(x: Tensor, is_complex: bool, window: Tensor, hop: int, *rest: Any) -> float:
    n_fft = window.shape[0]
    frames = 1 + (_length(x, is_complex) - n_fft) // hop
    return 5.0 * x.shape[0] * frames * n_fft * max(math.log2(n_fft), 1.0)


def _too_long(x: Tensor, is_complex: bool, window: Tensor, *rest: Any) -> str:
    from trnfft._kernels.dft import LARGEST_N

    n_fft = window.shape[0]
    return f"the kernel takes frames of up to {LARGEST_N} points" if n_fft > LARGEST_N else ""


SHORT_TIME = _operation(
    "short_time", reference=_short_time, flops=_short_time_flops, unsuited=_too_long
)


# -- products --------------------------------------------------------------------------------------


def _complex_gemm(a: Tensor, b: Tensor) -> Tensor:
    return as_parts(as_complex(a) @ as_complex(b))


def _gemm_flops(a: Tensor, b: Tensor) -> float:
    return 4.0 * a.numel() * b.shape[-2]


COMPLEX_GEMM = _operation("complex_gemm", reference=_complex_gemm, flops=_gemm_flops)


def _complex_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product = as_complex(x) @ as_complex(weight).mT
    return as_parts(product if bias is None else product + as_complex(bias))


def _linear_flops(x: Tensor, weight: Tensor, bias: Tensor | None) -> float:
    return 4.0 * x.numel() * weight.shape[0]


COMPLEX_LINEAR = _operation("complex_linear", reference=_complex_linear, flops=_linear_flops)


def _complex_mask(mask: Tensor, spectrum: Tensor) -> Tensor:
    return as_parts(as_complex(mask) * as_complex(spectrum))


def _mask_flops(mask: Tensor, spectrum: Tensor) -> float:
    return 3.0 * spectrum.numel()


COMPLEX_MASK = _operation("complex_mask", reference=_complex_mask, flops=_mask_flops)
