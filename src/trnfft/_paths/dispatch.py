"""Dispatch of each operation to torch, or to a kernel through its ``Operation``.

If ``kernels_wanted`` returns False, the functions of ``torch_path`` are called and the modules that
launch kernels are not imported. Arguments must be valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from torch import Tensor

from trnfft._complex import arguments as devices
from trnfft._library import LIBRARY
from trnfft._paths import torch_path
from trnfft._paths.arguments import HALF_SPECTRUM, REAL_INPUT, Norm
from trnfft._paths.interleaved import as_parts, as_spectrum
from trnfft._planning.choice import LARGEST_IMAGE, LARGEST_RANK
from trnfft.complex_tensor import ComplexTensor
from trnsci.core.arguments import broadcast
from trnsci.core.backend.decision import Choice
from trnsci.core.errors import ShapeError

_NORMS = (None, "backward", "forward", "ortho")
# N-D transforms whose exponent has the sign of ``fft``.
_FORWARD = frozenset({"fftn", "rfftn", "hfftn"})

# A native tensor, or a ComplexTensor on a device without complex dtypes.
Value: TypeAlias = Tensor | ComplexTensor

kernels_wanted = LIBRARY.kernels_wanted


def transform(kind: str, x: Any, n: int | None, dim: int, norm: Norm) -> Any:
    """Return the transform ``kind`` ("fft", "irfft"...) of n points along one dimension."""
    choice = kernels_wanted()
    if choice is not None and fits(kind, x, n, dim, norm):
        if n is None:
            n = 2 * (x.shape[dim] - 1) if kind in HALF_SPECTRUM else x.shape[dim]
        return _along(choice, kind, x, n, dim, norm)
    if x.device.type in devices.COMPLEX_DEVICES:
        return torch_path.transform(kind, x, n, dim, norm)
    return _on_host(torch_path.transform, kind, x, n, dim, norm)


def transform_nd(kind: str, x: Any, s: Sequence[int], dims: Sequence[int], norm: Norm) -> Any:
    """Return the transform ``kind`` ("fftn", "irfftn"...) along several dimensions."""
    choice = kernels_wanted()
    if choice is None:
        if x.device.type in devices.COMPLEX_DEVICES:
            return torch_path.transform_nd(kind, x, s, dims, norm)
        return _on_host(torch_path.transform_nd, kind, x, s, dims, norm)
    if _is_one_launch(kind, x, s, dims, norm):
        return _together(choice, kind, x, s, dims, norm)
    kinds = ["fft" if kind in _FORWARD else "ifft"] * len(dims)
    if kind in REAL_INPUT or kind in HALF_SPECTRUM:
        kinds[-1] = kind[:-1]
    steps = list(zip(kinds, s, dims, strict=True))
    if kind in REAL_INPUT:
        steps.insert(0, steps.pop())  # the transforms of the other dimensions are complex
    for single, size, dim in steps:
        x = transform(single, x, size, dim, norm)
    return x


def short_time(x: Value, window: Tensor, hop: int, onesided: bool, normalized: bool) -> Value:
    """Return the bins (batch, bins, frames) of signals (batch, samples), by an operation."""
    from trnfft._paths.operations import SHORT_TIME

    parts = SHORT_TIME(as_parts(x), x.is_complex(), window, hop, onesided, normalized)
    return as_spectrum(parts).mT


def refuse_short_time(reason: str) -> None:
    """Report why torch and no kernel computes a short-time transform, if a kernel is wanted."""
    if kernels_wanted():
        from trnfft._paths.operations import SHORT_TIME

        SHORT_TIME.refuse(reason)


def product(a: Value, b: Value, *, narrow: bool = False) -> Value:
    """Return ``a @ b`` of two complex matrices, by an operation.

    ``narrow`` states that their parts are exact in bfloat16.
    """
    from trnfft._paths.complex_products import COMPLEX_GEMM, COMPLEX_GEMM_BF16

    return as_spectrum((COMPLEX_GEMM_BF16 if narrow else COMPLEX_GEMM)(as_parts(a), as_parts(b)))


def linear(x: Value, weight: Value, bias: Value | None) -> Value:
    """Return ``x @ weight.mT + bias`` over the last dimension of a complex x, by an operation."""
    from trnfft._paths.complex_products import COMPLEX_LINEAR

    rows = as_parts(x.reshape(math.prod(x.shape[:-1]), x.shape[-1]))
    added = None if bias is None else as_parts(bias)
    result = COMPLEX_LINEAR(rows, as_parts(weight), added)
    return as_spectrum(result.reshape(*x.shape[:-1], weight.shape[0], 2))


def mask(weights: Value, spectrum: Value) -> Value:
    """Return the element-wise product of two complex tensors, broadcast, by an operation."""
    from trnfft._paths.complex_products import COMPLEX_MASK

    shape = broadcast(weights.shape, spectrum.shape)
    if shape is None:
        raise ShapeError(
            f"complex_mask_apply: mask and spec must broadcast, "
            f"got {tuple(weights.shape)} and {tuple(spectrum.shape)}"
        )
    first, second = weights.expand(shape), spectrum.expand(shape)
    return as_spectrum(COMPLEX_MASK(as_parts(first), as_parts(second)))


def _on_host(compute: Callable[..., Tensor], kind: str, x: Value, *arguments: Any) -> Value:
    """Return the transform computed by torch on the host, for a device without complex dtypes."""
    host = x.cpu()
    if isinstance(host, ComplexTensor):
        host = host.to_torch_complex()
    result = compute(kind, host, *arguments)
    if result.is_complex():
        return ComplexTensor(result).to(x.device)
    return result.to(x.device)


def fits(kind: str, x: Value, n: int | None, dim: int, norm: Norm) -> bool:
    """Return whether torch accepts the arguments and the operand is not empty."""
    return (
        (x.is_floating_point() or (x.is_complex() and kind not in REAL_INPUT))
        and type(dim) is int
        and -x.ndim <= dim < x.ndim
        and x.shape[dim] > (1 if n is None and kind in HALF_SPECTRUM else 0)
        and (n is None or (type(n) is int and n > 0))
        and norm in _NORMS
    )


def _along(choice: Choice, kind: str, x: Value, n: int, dim: int, norm: Norm) -> Value:
    """Return a transform along one dimension by its operation; the others are batch dimensions."""
    from trnfft._paths.operations import TRANSFORM

    moved = x.movedim(dim, -1)
    flat = moved.reshape(math.prod(moved.shape[:-1]), moved.shape[-1])
    flags = x.is_complex(), kind, n, norm or "backward"
    parts = TRANSFORM.called(choice, as_parts(flat), *flags)
    result = parts if kind in HALF_SPECTRUM else as_spectrum(parts)
    return result.reshape(*moved.shape[:-1], result.shape[-1]).movedim(-1, dim)


def _is_one_launch(kind: str, x: Value, s: Sequence[int], dims: Sequence[int], norm: Norm) -> bool:
    """Return whether one kernel launch transforms all the dimensions."""
    return (
        1 < len(dims) <= LARGEST_RANK
        and max(s) <= LARGEST_IMAGE
        and all(fits(kind, x, n, d, norm) for n, d in zip(s, dims, strict=True))
    )


def _together(
    choice: Choice, kind: str, x: Value, s: Sequence[int], dims: Sequence[int], norm: Norm
) -> Value:
    """Return an N-D transform by one operation; the other dimensions are batch dimensions."""
    from trnfft._paths.operations import TRANSFORM_ND

    last = tuple(range(-len(dims), 0))
    moved = x.movedim(tuple(dims), last)
    batch = moved.shape[: -len(dims)]
    flat = moved.reshape(math.prod(batch), *moved.shape[-len(dims) :])
    flags = x.is_complex(), kind, list(s), norm or "backward"
    parts = TRANSFORM_ND.called(choice, as_parts(flat), *flags)
    result = parts if kind in HALF_SPECTRUM else as_spectrum(parts)
    return result.reshape(*batch, *result.shape[1:]).movedim(last, tuple(dims))
