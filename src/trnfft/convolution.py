"""Convolution and correlation by Fourier transforms, with the semantics of ``scipy.signal``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from trnfft._paths.arguments import Dims, axis
from trnfft._paths.dispatch import transform_nd
from trnfft._paths.empty import empty_like, is_empty
from trnfft._paths.kinds import Opened, Spectrum, closed, closed_real, opened
from trnfft._paths.overlap_add import block_length, overlapped, resized
from trnfft.complex_tensor import ComplexTensor
from trnfft.lengths import next_fast_len
from trnsci.core.arguments import several
from trnsci.core.dtypes import real_dtype
from trnsci.core.errors import FlagError, ShapeError

__all__ = ["correlate", "fftconvolve", "oaconvolve"]

Mode: TypeAlias = Literal["full", "same", "valid"]

_MODES = ("full", "same", "valid")

Convolve: TypeAlias = Callable[[Tensor, Tensor, list[int]], Tensor]


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
    return _computed("fftconvolve", in1, in2, mode, axes, _convolved)


def oaconvolve(in1: Spectrum, in2: Spectrum, mode: Mode = "full", axes: Dims = None) -> Spectrum:
    """Return the convolution of two tensors of which one is much longer, block by block.

    Result, arguments and errors are those of :func:`fftconvolve`. The longer tensor is cut along
    each axis into blocks, whose convolutions overlap and are added up: for n1 and n2 points the
    work grows with ``n1 log n2`` and not with ``n1 log n1``, and transforms stay short.
    """
    return _computed("oaconvolve", in1, in2, mode, axes, _convolved_by_blocks)


def correlate(in1: Spectrum, in2: Spectrum, mode: Mode = "full", axes: Dims = None) -> Spectrum:
    """Return the cross-correlation of two tensors with as many dimensions.

    Along each dimension in ``axes``, and with n2 points in ``in2``, the result at k has the sum of
    ``in1[j] * conj(in2[j - k + n2 - 1])`` over j: lag 0 is at ``n2 - 1``. It is the convolution
    with ``in2`` reversed and conjugated; arguments and errors are those of :func:`fftconvolve`.

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
    if mode == "valid":
        a, b = _larger_first(name, a, b, dims)
    dtype = torch.promote_types(a.dtype, b.dtype)
    a, b = a.to(dtype), b.to(dtype)
    result = _cut(convolve(a, b, dims), a, b, dims, mode)
    split = isinstance(in1, ComplexTensor) or isinstance(in2, ComplexTensor)
    held = _joined(first, second, result, split)
    return closed(result, held) if result.is_complex() else closed_real(result, held)


def _convolved(a: Tensor, b: Tensor, dims: list[int]) -> Tensor:
    """Return the full convolution along ``dims``."""
    full = _full_shape(a, b, dims)
    if is_empty(a) or is_empty(b):
        real = not a.is_complex()
        return empty_like(a, full, real) + empty_like(b, full, real)
    # Along a dimension of one element a convolution is a product, which broadcasting does.
    along = [d for d in dims if a.shape[d] != 1 and b.shape[d] != 1]
    if not along:
        return a * b
    sizes = [next_fast_len(full[d], not a.is_complex()) for d in along]
    return _multiplied(a, b, sizes, along)[tuple(slice(n) for n in full)]


def _multiplied(a: Tensor, b: Tensor, sizes: list[int], dims: list[int]) -> Tensor:
    """Return the cyclic convolution of these lengths along ``dims``."""
    there, back = ("fftn", "ifftn") if a.is_complex() else ("rfftn", "irfftn")
    first, second = (transform_nd(there, x, sizes, dims, None) for x in (a, b))
    return transform_nd(back, first * second, sizes, dims, None)


def _full_shape(a: Tensor, b: Tensor, dims: Sequence[int]) -> list[int]:
    """Return the shape of the full convolution along ``dims``; empty where an operand is."""
    shape = []
    for d, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)):
        size = m + n - 1 if d in dims else max(m, n)
        shape.append(0 if 0 in (m, n) else size)
    return shape


def _convolved_by_blocks(a: Tensor, b: Tensor, dims: list[int]) -> Tensor:
    """Return the full convolution along ``dims``, the longer operand cut into blocks."""
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
    # Every dimension of a becomes two: which block, and the place in it.
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
    """Return the part of the full convolution that the mode asks for."""
    if mode == "full":
        return result
    for d in dims:
        size = a.shape[d] if mode == "same" else a.shape[d] - b.shape[d] + 1
        result = result.narrow(d, (result.shape[d] - size) // 2, size)
    return result.contiguous()


def _axes(name: str, a: Tensor, b: Tensor, axes: Dims) -> list[int]:
    if a.ndim != b.ndim:
        raise ShapeError(
            f"{name}: in1 and in2 must have as many dimensions, "
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
    """Return the two in the order in which the first is at least as large along ``dims``."""
    if all(a.shape[d] >= b.shape[d] for d in dims):
        return a, b
    if all(a.shape[d] <= b.shape[d] for d in dims):
        return b, a
    raise ShapeError(
        f"{name}: for mode 'valid' one tensor must be at least as large as the other along all "
        f"axes, got {tuple(a.shape)} and {tuple(b.shape)}"
    )


def _joined(a: Opened, b: Opened, result: Tensor, split: bool) -> Opened:
    """Return what the two inputs ask of their result: the wider dtype of theirs."""
    part = torch.promote_types(a.part or real_dtype(a.x.dtype), b.part or real_dtype(b.x.dtype))
    return Opened(result, split, None if part is real_dtype(result.dtype) else part)
