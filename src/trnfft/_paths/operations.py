"""Transforms and short-time transforms with a kernel, as operations with their derivatives.

Operands and results are real tensors: a complex one has its parts in a last dimension of two, which
shares the memory of a native complex tensor. Gradients are with respect to the parts; G is the
gradient of the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trnfft._complex.arguments import HALVES, has_complex
from trnfft._library import LIBRARY
from trnfft._paths.interleaved import as_complex, as_parts, resized
from trnfft._planning.recipe import recipe
from trnsci.core.backend.derivatives import Gradients, Needed, each_entry
from trnsci.core.backend.operation import Operation
from trnsci.core.errors import ShapeError
from trnsci.core.interop import constant_to_compile


def native(x: Tensor, is_complex: bool) -> Tensor:
    """Return an operand in the form that torch computes on.

    It is moved to the host if the device has no complex dtypes, and widened if its dtype has none.
    """
    held = x if has_complex(x.device) else x.cpu()
    if held.dtype in HALVES:
        held = held.float()
    return as_complex(held) if is_complex else held


def result_like(value: Tensor, x: Tensor) -> Tensor:
    """Return a result of torch with its parts, on the device and in the dtype of the operand."""
    return as_parts(value).to(x.device, x.dtype)


def operation(name: str, **declaration: Any) -> Operation:
    """Declare an operation whose launch has its name."""
    return Operation(LIBRARY, name, launch=f"trnfft._paths.kernel_path:{name}", **declaration)


def _length(x: Tensor, is_complex: bool) -> int:
    return x.shape[-2 if is_complex else -1]


# -- transforms ------------------------------------------------------------------------------------


def _transform(x: Tensor, is_complex: bool, kind: str, n: int, norm: str) -> Tensor:
    return result_like(getattr(torch.fft, kind)(native(x, is_complex), n, -1, norm), x)


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


def _transform_backward(
    grad: Tensor, needed: Needed, x: Tensor, is_complex: bool, kind: str, n: int, norm: str
) -> Gradients:
    """Return the transform of G with the other sign."""
    found = TRANSFORM(grad, kind not in _HERMITIAN, _ADJOINT[kind], n, _NORM[norm])
    return _adapted(found, x, is_complex, kind in _HERMITIAN, [n]), None, None, None, None


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
    """Return the transform of all signals or images of a batch in one launch."""
    front = x.movedim(dim, 0)
    result: Tensor = operation(front.flatten(0, 1), *flags)
    return result.reshape(*front.shape[:2], *result.shape[1:]), 0


TRANSFORM: Operation = operation(
    "transform",
    reference=_transform,
    backward=_transform_backward,
    linear=(0,),
    batched=lambda info, dims, x, *flags: _in_one(TRANSFORM, dims[0], x, flags),
    flops=_transform_flops,
    unsuited=_no_plan,
)


def _transform_nd(
    x: Tensor, is_complex: bool, kind: str, sizes: Sequence[int], norm: str
) -> Tensor:
    dims = tuple(range(-len(sizes), 0))
    transform = getattr(torch.fft, kind[:-1] + "n")
    return result_like(transform(native(x, is_complex), sizes, dims, norm), x)


def _transform_nd_flops(
    x: Tensor, is_complex: bool, kind: str, sizes: Sequence[int], norm: str
) -> float:
    points = math.prod(sizes)
    return 5.0 * x.shape[0] * points * max(math.log2(points), 1.0)


def _transform_nd_backward(
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
    found = TRANSFORM_ND(grad, base not in _HERMITIAN, f"{_ADJOINT[base]}n", sizes, _NORM[norm])
    return _adapted(found, x, is_complex, base in _HERMITIAN, sizes), None, None, None, None


TRANSFORM_ND: Operation = operation(
    "transform_nd",
    reference=_transform_nd,
    backward=_transform_nd_backward,
    linear=(0,),
    batched=lambda info, dims, x, *flags: _in_one(TRANSFORM_ND, dims[0], x, flags),
    flops=_transform_nd_flops,
)


# -- short-time transforms -------------------------------------------------------------------------


def _short_time(
    x: Tensor, is_complex: bool, window: Tensor, hop: int, onesided: bool, normalized: bool
) -> Tensor:
    signal = native(x, is_complex)
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
    return result_like(bins.mT, x)


def _short_time_flops(x: Tensor, is_complex: bool, window: Tensor, hop: int, *rest: Any) -> float:
    n_fft = window.shape[0]
    frames = 1 + (_length(x, is_complex) - n_fft) // hop
    return 5.0 * x.shape[0] * frames * n_fft * max(math.log2(n_fft), 1.0)


def _too_long(x: Tensor, is_complex: bool, window: Tensor, *rest: Any) -> str:
    from trnfft._kernels.dft import LARGEST_N  # imported here because it imports NKI

    n_fft = window.shape[0]
    return f"the kernel takes frames of up to {LARGEST_N} points" if n_fft > LARGEST_N else ""


def _short_time_backward(
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
    framed = TRANSFORM(grad.flatten(0, 1), True, *flags)
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


def _short_time_batched(
    info: Any, in_dims: Sequence[Any], x: Tensor, is_complex: bool, window: Tensor, *flags: Any
) -> tuple[Tensor, int]:
    """Return the transform of all signals, in one launch if they share a window."""
    if in_dims[2] is None:
        return _in_one(SHORT_TIME, in_dims[0], x, (is_complex, window, *flags))
    found: tuple[Tensor, int] = each_entry(
        SHORT_TIME, info.batch_size, in_dims, (x, is_complex, window, *flags)
    )
    return found


def _frames(signal: Tensor, n_fft: int, hop: int) -> Tensor:
    """Return (batch, frames, points), with a last dimension of parts for a complex signal."""
    return signal.unfold(1, n_fft, hop).movedim(-1, 2)


SHORT_TIME = operation(
    "short_time",
    reference=_short_time,
    backward=_short_time_backward,
    linear=(0, 2),
    batched=_short_time_batched,
    flops=_short_time_flops,
    unsuited=_too_long,
)
