"""Where a transform runs: on torch, or through its ``Operation`` on a kernel.

The functions have the names and arguments of those in ``_torch``. While no kernel is wanted, which
one question to the library tells, the torch function is called and nothing else happens. Arguments
that torch would refuse are handed to torch, so that it raises the error it always raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from trnfft import _torch
from trnfft._arguments import Norm
from trnfft._library import LIBRARY
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
    "quick",
    "r2c",
    "r2c_nd",
    "short_time",
]

_NORMS = (None, "backward", "forward", "ortho")

kernels_wanted = LIBRARY.kernels_wanted


def c2c(x: Tensor, n: int | None, dim: int, norm: Norm, forward: bool) -> Tensor:
    """Return the discrete Fourier transform of ``x``, real or complex, along ``dim``."""
    if not kernels_wanted() or not _fits(x, n, dim, norm):
        return _torch.c2c(x, n, dim, norm, forward)
    return _along(x, n, dim, norm, "fft" if forward else "ifft")


def r2c(x: Tensor, n: int | None, dim: int, norm: Norm, forward: bool) -> Tensor:
    """Return the first ``n // 2 + 1`` bins of the transform of a real ``x`` along ``dim``."""
    if not kernels_wanted() or not _fits(x, n, dim, norm) or x.is_complex():
        return _torch.r2c(x, n, dim, norm, forward)
    return _along(x, n, dim, norm, "rfft" if forward else "ihfft")


def c2r(x: Tensor, n: int | None, dim: int, norm: Norm, forward: bool) -> Tensor:
    """Return the n real points of which ``x`` has the first ``n // 2 + 1`` bins along ``dim``."""
    if not kernels_wanted() or not _fits(x, n, dim, norm):
        return _torch.c2r(x, n, dim, norm, forward)
    size = 2 * (x.shape[dim] - 1) if n is None else n
    if size < 1:
        return _torch.c2r(x, n, dim, norm, forward)
    return _along(x, size, dim, norm, "hfft" if forward else "irfft")


def c2c_nd(x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Tensor:
    """Return the transform of ``x``, real or complex, along several dimensions."""
    if not kernels_wanted():
        return _torch.c2c_nd(x, s, dims, norm, forward)
    image = _image(x, s, dims, norm, "fft2" if forward else "ifft2")
    return _each(x, s, dims, norm, forward) if image is None else image


def r2c_nd(x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Tensor:
    """Return the transform of a real ``x``, with half the bins along the last of the dimensions."""
    if not kernels_wanted():
        return _torch.r2c_nd(x, s, dims, norm, forward)
    image = _image(x, s, dims, norm, "rfft2") if forward else None
    if image is not None:
        return image
    bins = r2c(x, s[-1], dims[-1], norm, forward)
    return _each(bins, s[:-1], dims[:-1], norm, forward)


def c2r_nd(x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Tensor:
    """Return the real tensor of which ``x`` has half the bins along the last of the dimensions."""
    if not kernels_wanted():
        return _torch.c2r_nd(x, s, dims, norm, forward)
    image = None if forward else _image(x, s, dims, norm, "irfft2")
    if image is not None:
        return image
    return c2r(_each(x, s[:-1], dims[:-1], norm, forward), s[-1], dims[-1], norm, forward)


def short_time(x: Tensor, window: Tensor, hop: int, onesided: bool, normalized: bool) -> Tensor:
    """Return the bins (batch, bins, frames) of signals (batch, samples), by an operation."""
    from trnfft._operations import SHORT_TIME, as_complex, as_parts

    parts = as_parts(x)
    return as_complex(SHORT_TIME(parts, x.is_complex(), window, hop, onesided, normalized)).mT


def quick(transform: Callable[..., Tensor], *arguments: Any) -> Tensor | None:
    """Return what torch makes of arguments that nobody looked at, None where it refuses them.

    Looking takes as long as a short transform. The caller looks after a refusal, and its errors
    name the argument.
    """
    if kernels_wanted():
        return None
    try:
        return _ON_TORCH[transform](*arguments)
    except (IndexError, RuntimeError, TypeError, ValueError):
        return None


_ON_TORCH: dict[Callable[..., Tensor], Callable[..., Tensor]] = {
    c2c: _torch.c2c,
    c2r: _torch.c2r,
    r2c: _torch.r2c,
    c2c_nd: _torch.c2c_nd,
    c2r_nd: _torch.c2r_nd,
    r2c_nd: _torch.r2c_nd,
}


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` of two complex matrices, by an operation."""
    from trnfft._operations import COMPLEX_GEMM, as_complex, as_parts

    return as_complex(COMPLEX_GEMM(as_parts(a), as_parts(b)))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``x @ weight.mT + bias`` over the last dimension of a complex x, by an operation."""
    from trnfft._operations import COMPLEX_LINEAR, as_complex, as_parts

    rows = as_parts(x.reshape(-1, x.shape[-1]))
    added = None if bias is None else as_parts(bias)
    result = as_complex(COMPLEX_LINEAR(rows, as_parts(weight), added))
    return result.reshape(*x.shape[:-1], weight.shape[0])


def mask(weights: Tensor, spectrum: Tensor) -> Tensor:
    """Return the element-wise product of two complex tensors, broadcast, by an operation."""
    from trnfft._operations import COMPLEX_MASK, as_complex, as_parts

    shape = broadcast(weights.shape, spectrum.shape)
    if shape is None:
        raise ShapeError(
            f"complex_mask_apply: mask and spec must broadcast, "
            f"got {tuple(weights.shape)} and {tuple(spectrum.shape)}"
        )
    first, second = weights.expand(shape), spectrum.expand(shape)
    return as_complex(COMPLEX_MASK(as_parts(first), as_parts(second)))


def _fits(x: Tensor, n: int | None, dim: int, norm: Norm) -> bool:
    """Whether torch would take the arguments; a meaning that only values decide is not asked."""
    return (
        isinstance(x, Tensor)
        and (x.is_floating_point() or x.is_complex())
        and type(dim) is int
        and -x.ndim <= dim < x.ndim
        and x.shape[dim] > 0
        and (n is None or (type(n) is int and n > 0))
        and norm in _NORMS
    )


def _along(x: Tensor, n: int | None, dim: int, norm: Norm, kind: str) -> Tensor:
    """Return a transform along one dimension; all others are its batch."""
    from trnfft._operations import TRANSFORM, as_complex, as_parts

    moved = x.movedim(dim, -1)
    flat = moved.reshape(-1, moved.shape[-1])
    size = flat.shape[-1] if n is None else n
    result = TRANSFORM(as_parts(flat), x.is_complex(), kind, size, norm or "backward")
    if kind not in ("irfft", "hfft"):
        result = as_complex(result)
    return result.reshape(*moved.shape[:-1], result.shape[-1]).movedim(-1, dim)


def _each(x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Tensor:
    """Return the transform along several dimensions, one after the other."""
    for size, dim in zip(s, dims, strict=True):
        x = c2c(x, size, dim, norm, forward)
    return x


def _image(
    x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm, kind: str
) -> Tensor | None:
    """Return a transform along two dimensions in one operation, None where there is no such."""
    if len(dims) != 2 or not all(_fits(x, n, d, norm) for n, d in zip(s, dims, strict=True)):
        return None
    from trnfft._operations import TRANSFORM_2D, as_complex, as_parts
    from trnfft._planning import LARGEST_IMAGE

    if max(s) > LARGEST_IMAGE:
        return None
    moved = x.movedim(tuple(dims), (-2, -1))
    flat = moved.reshape(-1, *moved.shape[-2:])
    result = TRANSFORM_2D(as_parts(flat), x.is_complex(), kind, *s, norm or "backward")
    if kind != "irfft2":
        result = as_complex(result)
    return result.reshape(*moved.shape[:-2], *result.shape[-2:]).movedim((-2, -1), tuple(dims))
