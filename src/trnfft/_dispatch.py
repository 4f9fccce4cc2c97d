"""Where a transform runs: on torch, or through its ``Operation`` on a kernel.

The functions have the names and arguments of those in ``_torch``. While no kernel is wanted, which
one question to the library tells, the torch function is called and nothing else happens; what
launches kernels is not even imported. Arguments
that torch would refuse are handed to torch, so that it raises the error it always raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from torch import Tensor

from trnfft import _torch
from trnfft._arguments import Norm
from trnfft._complex_arguments import has_complex
from trnfft._interleaved import as_parts, as_spectrum
from trnfft._library import LIBRARY
from trnfft._planning import LARGEST_IMAGE, LARGEST_RANK
from trnfft.complex_tensor import ComplexTensor
from trnsci.core.arguments import broadcast
from trnsci.core.errors import ShapeError

__all__ = [
    "c2c",
    "c2c_nd",
    "c2r",
    "c2r_nd",
    "kernels_wanted",
    "linear",
    "mask",
    "product",
    "r2c",
    "r2c_nd",
    "short_time",
]

_NORMS = (None, "backward", "forward", "ortho")

# On a device without complex numbers these are parts.
Value: TypeAlias = Tensor | ComplexTensor

kernels_wanted = LIBRARY.kernels_wanted


def c2c(x: Any, n: int | None, dim: int, norm: Norm, forward: bool) -> Any:
    """Return the discrete Fourier transform of ``x``, real or complex, along ``dim``."""
    if not kernels_wanted() or not _fits(x, n, dim, norm):
        return _by_torch(_torch.c2c, x, n, dim, norm, forward)
    return _along(x, n, dim, norm, "fft" if forward else "ifft")


def r2c(x: Any, n: int | None, dim: int, norm: Norm, forward: bool) -> Any:
    """Return the first ``n // 2 + 1`` bins of the transform of a real ``x`` along ``dim``."""
    if not kernels_wanted() or not _fits(x, n, dim, norm) or x.is_complex():
        return _by_torch(_torch.r2c, x, n, dim, norm, forward)
    return _along(x, n, dim, norm, "rfft" if forward else "ihfft")


def c2r(x: Any, n: int | None, dim: int, norm: Norm, forward: bool) -> Any:
    """Return the n real points of which ``x`` has the first ``n // 2 + 1`` bins along ``dim``."""
    if not kernels_wanted() or not _fits(x, n, dim, norm):
        return _by_torch(_torch.c2r, x, n, dim, norm, forward)
    size = 2 * (x.shape[dim] - 1) if n is None else n
    if size < 1:
        return _by_torch(_torch.c2r, x, n, dim, norm, forward)
    return _along(x, size, dim, norm, "hfft" if forward else "irfft")


def c2c_nd(x: Any, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Any:
    """Return the transform of ``x``, real or complex, along several dimensions."""
    if not kernels_wanted():
        return _by_torch(_torch.c2c_nd, x, s, dims, norm, forward)
    if _is_one_launch(x, s, dims, norm):
        return _together(x, s, dims, norm, "fftn" if forward else "ifftn")
    return _each(x, s, dims, norm, forward)


def r2c_nd(x: Any, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Any:
    """Return the transform of a real ``x``, with half the bins along the last of the dimensions."""
    if not kernels_wanted():
        return _by_torch(_torch.r2c_nd, x, s, dims, norm, forward)
    if _is_one_launch(x, s, dims, norm):
        return _together(x, s, dims, norm, "rfftn" if forward else "ihfftn")
    bins = r2c(x, s[-1], dims[-1], norm, forward)
    return _each(bins, s[:-1], dims[:-1], norm, forward)


def c2r_nd(x: Any, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Any:
    """Return the real tensor of which ``x`` has half the bins along the last of the dimensions."""
    if not kernels_wanted():
        return _by_torch(_torch.c2r_nd, x, s, dims, norm, forward)
    if _is_one_launch(x, s, dims, norm):
        return _together(x, s, dims, norm, "hfftn" if forward else "irfftn")
    return c2r(_each(x, s[:-1], dims[:-1], norm, forward), s[-1], dims[-1], norm, forward)


def short_time(x: Value, window: Tensor, hop: int, onesided: bool, normalized: bool) -> Value:
    """Return the bins (batch, bins, frames) of signals (batch, samples), by an operation."""
    from trnfft._operations import SHORT_TIME

    parts = SHORT_TIME(as_parts(x), x.is_complex(), window, hop, onesided, normalized)
    return as_spectrum(parts).mT


def product(a: Value, b: Value, *, narrow: bool = False) -> Value:
    """Return ``a @ b`` of two complex matrices, by an operation.

    ``narrow`` says that bfloat16 holds their parts exactly.
    """
    from trnfft._operations import COMPLEX_GEMM, COMPLEX_GEMM_BF16

    return as_spectrum((COMPLEX_GEMM_BF16 if narrow else COMPLEX_GEMM)(as_parts(a), as_parts(b)))


def linear(x: Value, weight: Value, bias: Value | None) -> Value:
    """Return ``x @ weight.mT + bias`` over the last dimension of a complex x, by an operation."""
    from trnfft._operations import COMPLEX_LINEAR

    rows = as_parts(x.reshape(math.prod(x.shape[:-1]), x.shape[-1]))
    added = None if bias is None else as_parts(bias)
    result = COMPLEX_LINEAR(rows, as_parts(weight), added)
    return as_spectrum(result.reshape(*x.shape[:-1], weight.shape[0], 2))


def mask(weights: Value, spectrum: Value) -> Value:
    """Return the element-wise product of two complex tensors, broadcast, by an operation."""
    from trnfft._operations import COMPLEX_MASK

    shape = broadcast(weights.shape, spectrum.shape)
    if shape is None:
        raise ShapeError(
            f"complex_mask_apply: mask and spec must broadcast, "
            f"got {tuple(weights.shape)} and {tuple(spectrum.shape)}"
        )
    first, second = weights.expand(shape), spectrum.expand(shape)
    return as_spectrum(COMPLEX_MASK(as_parts(first), as_parts(second)))


def _by_torch(transform: Callable[..., Tensor], x: Value, *arguments: Any) -> Value:
    """Return what torch computes: on the host, where the device has no complex numbers."""
    if not isinstance(x, ComplexTensor) and (not isinstance(x, Tensor) or has_complex(x.device)):
        return transform(x, *arguments)
    host = x.cpu()
    if isinstance(host, ComplexTensor):
        host = host.to_torch_complex()
    result = transform(host, *arguments)
    if result.is_complex():
        return ComplexTensor(result).to(x.device)
    return result.to(x.device)


def _fits(x: Value, n: int | None, dim: int, norm: Norm) -> bool:
    """Whether torch would take the arguments; a meaning that only values decide is not asked."""
    return (
        isinstance(x, (Tensor, ComplexTensor))
        and (x.is_floating_point() or x.is_complex())
        and type(dim) is int
        and -x.ndim <= dim < x.ndim
        and x.shape[dim] > 0
        and (n is None or (type(n) is int and n > 0))
        and norm in _NORMS
    )


def _along(x: Value, n: int | None, dim: int, norm: Norm, kind: str) -> Value:
    """Return a transform along one dimension; all others are its batch."""
    from trnfft._operations import TRANSFORM

    moved = x.movedim(dim, -1)
    flat = moved.reshape(math.prod(moved.shape[:-1]), moved.shape[-1])
    size = flat.shape[-1] if n is None else n
    parts = TRANSFORM(as_parts(flat), x.is_complex(), kind, size, norm or "backward")
    result = parts if kind in ("irfft", "hfft") else as_spectrum(parts)
    return result.reshape(*moved.shape[:-1], result.shape[-1]).movedim(-1, dim)


def _each(x: Value, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Value:
    """Return the transform along several dimensions, one after the other."""
    for size, dim in zip(s, dims, strict=True):
        x = c2c(x, size, dim, norm, forward)
    return x


def _is_one_launch(x: Value, s: Sequence[int], dims: Sequence[int], norm: Norm) -> bool:
    """Return whether a kernel transforms all the dimensions at once."""
    return (
        1 < len(dims) <= LARGEST_RANK
        and max(s) <= LARGEST_IMAGE
        and all(_fits(x, n, d, norm) for n, d in zip(s, dims, strict=True))
    )


def _together(x: Value, s: Sequence[int], dims: Sequence[int], norm: Norm, kind: str) -> Value:
    """Return a transform along several dimensions in one operation; the others are its batch."""
    from trnfft._operations import TRANSFORM_ND

    last = tuple(range(-len(dims), 0))
    moved = x.movedim(tuple(dims), last)
    batch = moved.shape[: -len(dims)]
    flat = moved.reshape(math.prod(batch), *moved.shape[-len(dims) :])
    parts = TRANSFORM_ND(as_parts(flat), x.is_complex(), kind, list(s), norm or "backward")
    result = parts if kind in ("irfftn", "hfftn") else as_spectrum(parts)
    return result.reshape(*batch, *result.shape[1:]).movedim(last, tuple(dims))
