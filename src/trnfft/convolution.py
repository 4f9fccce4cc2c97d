"""Convolution and correlation by Fourier transforms, with the semantics of ``scipy.signal``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from trnfft._paths.arguments import Dims, axis
from trnfft._paths.empty import empty_like, is_empty
from trnfft._paths.kinds import Opened, Spectrum, closed, closed_real, opened
from trnfft._paths.overlap_add import block_length, overlapped, resized
from trnfft.complex_tensor import ComplexTensor
from trnfft.lengths import next_fast_len
from trnfft.nd import transform_nd
from trnsci.core.arguments import several
from trnsci.core.errors import FlagError, ShapeError
from trnsci.core.numbers.conversions import real_dtype

__all__ = ["correlate", "fftconvolve", "oaconvolve"]

Mode: TypeAlias = Literal["full", "same", "valid"]

_MODES = ("full", "same", "valid")

Convolve: TypeAlias = Callable[[Tensor, Tensor, list[int]], Tensor]


def fftconvolve(in1: Spectrum, in2: Spectrum, mode: Mode = "full", axes: Dims = None) -> Spectrum:
    """Return the convolution of two tensors with the same number of dimensions.

    Element k of the result is the sum of ``in1[j] * in2[k - j]`` over j, along each dimension in
    ``axes``. The other dimensions broadcast.

    Args:
        in1: Real or complex tensor. The result is a ComplexTensor if either input is one, else
            native complex if either input is complex, else real.
        in2: The second tensor.
        mode: ``"full"`` returns all ``n1 + n2 - 1`` sums and ``"same"`` the central n1 of them.
            ``"valid"`` returns the sums without zero padding; one tensor must then be at least as
            large as the other along all axes, except axes along which a tensor has a single
            element.
        axes: Dimensions to convolve along, by default all.

    Raises:
        ShapeError: The shapes are not compatible, or an axis is repeated.
        IndexError: A dimension does not exist.
        FlagError: ``mode`` is none of the three.

    Example:
        >>> trnfft.fftconvolve(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0])).round()
        tensor([1., 3., 2.])
    """
    return _computed("fftconvolve", in1, in2, mode, axes, _convolved)


def oaconvolve(in1: Spectrum, in2: Spectrum, mode: Mode = "full", axes: Dims = None) -> Spectrum:
    """Return the convolution of two tensors by overlap-add, for one much longer than the other.

    Result, arguments and errors are as in :func:`fftconvolve`. The longer tensor is split along
    each axis into blocks; the overlapping convolutions of the blocks are added. For n1 and n2
    points the work grows as ``n1 log n2`` instead of ``n1 log n1``, and transforms are short.
    """
    return _computed("oaconvolve", in1, in2, mode, axes, _convolved_by_blocks)


def correlate(in1: Spectrum, in2: Spectrum, mode: Mode = "full", axes: Dims = None) -> Spectrum:
    """Return the cross-correlation of two tensors with the same number of dimensions.

    Element k of the result is the sum of ``in1[j] * conj(in2[j - k + n2 - 1])`` over j, along each
    dimension in ``axes``, where ``in2`` has n2 points: lag 0 is at ``n2 - 1``. It is the
    convolution with ``in2`` reversed and conjugated. Arguments and errors are as in
    :func:`fftconvolve`.

    Example:
        >>> trnfft.correlate(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 1.0])).round()
        tensor([1., 2., 3., 0.])
    """
    return _computed("correlate", in1, in2, mode, axes, _convolved, reverse=True)


def _computed(
    name: str,
    in1: Spectrum,
    in2: Spectrum,
    mode: Mode,
    axes: Dims,
    convolve: Convolve,
    reverse: bool = False,
) -> Spectrum:
    if mode not in _MODES:
        raise FlagError(f"{name}: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    first, second = opened(name, in1, "in1"), opened(name, in2, "in2")
    a, b = first.x, second.x
    dims = _axes(name, a, b, axes)
    if reverse:
        b = torch.conj(b).flip(dims)
    cut = dims
    if mode == "valid":
        if not reverse:  # along a dimension of one element a convolution broadcasts
            cut = [d for d in dims if a.shape[d] != 1 and b.shape[d] != 1]
        a, b = _larger_first(name, a, b, cut)
    dtype = torch.promote_types(a.dtype, b.dtype)
    a, b = a.to(dtype), b.to(dtype)
    result = _cut(convolve(a, b, dims), a, b, cut, mode)
    split = isinstance(in1, ComplexTensor) or isinstance(in2, ComplexTensor)
    held = _joined(first, second, result, split)
    return closed(result, held) if result.is_complex() else closed_real(result, held)


def _convolved(a: Tensor, b: Tensor, dims: list[int]) -> Tensor:
    """Return the full convolution along ``dims``."""
    full = _full_shape(a, b, dims)
    if is_empty(a) or is_empty(b):
        real = not a.is_complex()
        return empty_like(a, full, real) + empty_like(b, full, real)
    # Along a dimension of one element a convolution is a broadcast product.
    along = [d for d in dims if a.shape[d] != 1 and b.shape[d] != 1]
    if not along:
        return a * b
    sizes = [next_fast_len(full[d], not a.is_complex()) for d in along]
    return _multiplied(a, b, sizes, along)[tuple(slice(n) for n in full)]


def _multiplied(a: Tensor, b: Tensor, sizes: list[int], dims: list[int]) -> Tensor:
    """Return the cyclic convolution of lengths ``sizes`` along ``dims``."""
    there, back = ("fftn", "ifftn") if a.is_complex() else ("rfftn", "irfftn")
    first, second = (transform_nd(there, x, sizes, dims, None) for x in (a, b))
    return transform_nd(back, first * second, sizes, dims, None)


def _full_shape(a: Tensor, b: Tensor, dims: Sequence[int]) -> list[int]:
    """Return the shape of the full convolution along ``dims``; zero where an operand is empty."""
    shape = []
    for d, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)):
        size = m + n - 1 if d in dims else max(m, n)
        shape.append(0 if 0 in (m, n) else size)
    return shape


def _convolved_by_blocks(a: Tensor, b: Tensor, dims: list[int]) -> Tensor:
    """Return the full convolution along ``dims``, with the longer operand split into blocks."""
    if a.numel() < b.numel():
        a, b = b, a
    full = _full_shape(a, b, dims)
    if 0 in full or is_empty(a) or is_empty(b):
        return _convolved(a, b, dims)
    along = [d for d in dims if a.shape[d] != 1 and b.shape[d] != 1]
    sizes = [block_length(a.shape[d], b.shape[d], not a.is_complex()) for d in along]
    steps = [size - b.shape[d] + 1 for size, d in zip(sizes, along, strict=True)]
    if all(step >= a.shape[d] for step, d in zip(steps, along, strict=True)):
        return _convolved(a, b, dims)
    # Each dimension of a is split into two: the block index and the index within the block.
    places: list[int] = []
    for d, step in zip(along, steps, strict=True):
        at = d + len(places)
        count = -(-a.shape[at] // step)
        shape = (*a.shape[:at], count, step, *a.shape[at + 1 :])
        a = resized(a, at, count * step).reshape(shape)
        b = b.unsqueeze(at)
        places.append(at + 1)
    result = _multiplied(a, b, sizes, places)
    for at, step in zip(reversed(places), reversed(steps), strict=True):
        result = overlapped(result.movedim((at - 1, at), (-2, -1)), step).movedim(-1, at - 1)
    return result[tuple(slice(n) for n in full)]


def _cut(result: Tensor, a: Tensor, b: Tensor, dims: Sequence[int], mode: Mode) -> Tensor:
    """Return the part of the full convolution that the mode selects."""
    if mode == "full":
        return result
    for d in dims:
        size = a.shape[d] if mode == "same" else a.shape[d] - b.shape[d] + 1
        result = result.narrow(d, (result.shape[d] - size) // 2, size)
    return result.contiguous()


def _axes(name: str, a: Tensor, b: Tensor, axes: Dims) -> list[int]:
    if a.ndim != b.ndim:
        raise ShapeError(
            f"{name}: in1 and in2 must have the same number of dimensions, "
            f"got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    if axes is None:
        return list(range(a.ndim))
    dims = [axis(name, a, d) for d in several(name, "axes", axes)]
    if len(set(dims)) != len(dims):
        raise ShapeError(f"{name}: axes must differ, got {axes}")
    if any(
        d not in dims and m != n and 1 not in (m, n)
        for d, (m, n) in enumerate(zip(a.shape, b.shape, strict=True))
    ):
        raise ShapeError(
            f"{name}: in1 and in2 must broadcast outside of axes, "
            f"got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    return dims


def _larger_first(name: str, a: Tensor, b: Tensor, dims: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return both tensors, the one that is at least as large along ``dims`` first."""
    if all(a.shape[d] >= b.shape[d] for d in dims):
        return a, b
    if all(a.shape[d] <= b.shape[d] for d in dims):
        return b, a
    raise ShapeError(
        f"{name}: for mode 'valid' one tensor must be at least as large as the other along all "
        f"axes, got {tuple(a.shape)} and {tuple(b.shape)}"
    )


def _joined(a: Opened, b: Opened, result: Tensor, split: bool) -> Opened:
    """Return the form of the result: the wider dtype, split if one of the inputs is split."""
    part = torch.promote_types(a.part or real_dtype(a.x.dtype), b.part or real_dtype(b.x.dtype))
    return Opened(result, split, None if part is real_dtype(result.dtype) else part)
