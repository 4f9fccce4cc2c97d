"""Convolution by Fourier transforms, with the semantics of ``scipy.signal.fftconvolve``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from trnfft._arguments import Dims, axis
from trnfft._dispatch import c2c_nd, c2r_nd, r2c_nd
from trnfft._empty import empty_like
from trnfft._kinds import Opened, Spectrum, closed, closed_real, opened
from trnfft.complex_tensor import ComplexTensor
from trnsci.core.arguments import several
from trnsci.core.errors import FlagError, ShapeError

__all__ = ["fftconvolve"]

Mode: TypeAlias = Literal["full", "same", "valid"]

_MODES = ("full", "same", "valid")
_NAME = "fftconvolve"


def fftconvolve(in1: Spectrum, in2: Spectrum, mode: Mode = "full", axes: Dims = None) -> Spectrum:
    """Return the convolution of two tensors with as many dimensions.

    Along each dimension in ``axes`` the result has the sums of ``in1[j] * in2[k - j]`` over j; in
    the others the tensors broadcast.

    Args:
        in1: Real or complex tensor. The result is a ComplexTensor where one of the two is, native
            complex where one of them is that, and else real.
        in2: The other tensor.
        mode: ``"full"`` returns all ``n1 + n2 - 1`` sums, ``"same"`` the n1 in the middle of them,
            ``"valid"`` those in which no element is missing; then one of the tensors must be at
            least as large as the other along all axes.
        axes: Dimensions to convolve along, by default all.

    Raises:
        ShapeError: Shapes that do not fit, or an axis that comes twice.
        IndexError: There is no such dimension.
        FlagError: The mode is none of these.

    Example:
        >>> trnfft.fftconvolve(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0])).round()
        tensor([1., 3., 2.])
    """
    if mode not in _MODES:
        raise FlagError(f"{_NAME}: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    first, second = opened(_NAME, in1, "in1"), opened(_NAME, in2, "in2")
    a, b = first.x, second.x
    dims = _axes(a, b, axes)
    if mode == "valid":
        a, b = _larger_first(a, b, dims)
    dtype = torch.promote_types(a.dtype, b.dtype)
    a, b = a.to(dtype), b.to(dtype)
    result = _cut(_convolved(a, b, dims), a, b, dims, mode)
    split = isinstance(in1, ComplexTensor) or isinstance(in2, ComplexTensor)
    held = _joined(first, second, result, split)
    return closed(result, held) if result.is_complex() else closed_real(result, held)


def _convolved(a: Tensor, b: Tensor, dims: list[int]) -> Tensor:
    """Return the full convolution along ``dims``."""
    full = [
        a.shape[d] + b.shape[d] - 1 if d in dims else max(a.shape[d], b.shape[d])
        for d in range(a.ndim)
    ]
    if a.numel() == 0 or b.numel() == 0:
        shape = [0 if 0 in (a.shape[d], b.shape[d]) else n for d, n in enumerate(full)]
        real = not a.is_complex()
        return empty_like(a, shape, real) + empty_like(b, shape, real)
    # Along a dimension of one element a convolution is a product, which broadcasting does.
    along = [d for d in dims if a.shape[d] != 1 and b.shape[d] != 1]
    if not along:
        return a * b
    sizes = [_fast_length(full[d]) for d in along]
    if a.is_complex():
        product = c2c_nd(a, sizes, along, None, True) * c2c_nd(b, sizes, along, None, True)
        result = c2c_nd(product, sizes, along, None, False)
    else:
        product = r2c_nd(a, sizes, along, None, True) * r2c_nd(b, sizes, along, None, True)
        result = c2r_nd(product, sizes, along, None, False)
    return result[tuple(slice(n) for n in full)]


def _cut(result: Tensor, a: Tensor, b: Tensor, dims: Sequence[int], mode: Mode) -> Tensor:
    """Return the part of the full convolution that the mode asks for."""
    if mode == "full":
        return result
    for d in dims:
        size = a.shape[d] if mode == "same" else a.shape[d] - b.shape[d] + 1
        result = result.narrow(d, (result.shape[d] - size) // 2, size)
    return result.contiguous()


def _axes(a: Tensor, b: Tensor, axes: Dims) -> list[int]:
    if a.ndim != b.ndim:
        raise ShapeError(
            f"{_NAME}: in1 and in2 must have as many dimensions, "
            f"got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    if axes is None:
        return list(range(a.ndim))
    dims = [axis(_NAME, a, d) for d in several(_NAME, "axes", axes)]
    if len(set(dims)) != len(dims):
        raise ShapeError(f"{_NAME}: axes must differ, got {axes}")
    if any(
        d not in dims and m != n and 1 not in (m, n)
        for d, (m, n) in enumerate(zip(a.shape, b.shape, strict=True))
    ):
        raise ShapeError(
            f"{_NAME}: in1 and in2 must broadcast outside of axes, "
            f"got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    return dims


def _larger_first(a: Tensor, b: Tensor, dims: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the two in the order in which the first is at least as large along ``dims``."""
    if all(a.shape[d] >= b.shape[d] for d in dims):
        return a, b
    if all(a.shape[d] <= b.shape[d] for d in dims):
        return b, a
    raise ShapeError(
        f"{_NAME}: for mode 'valid' one tensor must be at least as large as the other along all "
        f"axes, got {tuple(a.shape)} and {tuple(b.shape)}"
    )


def _joined(a: Opened, b: Opened, result: Tensor, split: bool) -> Opened:
    """Return what the two inputs ask of their result: the wider dtype of theirs."""
    part = torch.promote_types(a.part or a.x.dtype.to_real(), b.part or b.x.dtype.to_real())
    return Opened(result, split, None if part is result.dtype.to_real() else part)


@lru_cache(maxsize=4096)
def _fast_length(n: int) -> int:
    """Return the least length from n on without a prime factor above seven."""
    while True:
        rest = n
        for factor in (2, 3, 5, 7):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return n
        n += 1
