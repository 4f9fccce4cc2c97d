"""Fourier transforms over several dimensions, with the arguments of ``torch.fft``.

Kinds and dtypes of input and result are those of :mod:`trnfft.transforms`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from trnfft import _torch
from trnfft._arguments import Dims, Norm, axes
from trnfft._direct import FOLLOWING, HALVED, REAL, direct_over
from trnfft._dispatch import c2c_nd, c2r_nd, r2c_nd
from trnfft._empty import empty_result, is_empty
from trnfft._kinds import Spectrum, complex_of, halved_of, real_of
from trnsci.core.errors import ShapeError

__all__ = [
    "fft2",
    "fftn",
    "hfft2",
    "hfftn",
    "ifft2",
    "ifftn",
    "ihfft2",
    "ihfftn",
    "irfft2",
    "irfftn",
    "rfft2",
    "rfftn",
]

_LAST_TWO = (-2, -1)

Transform: TypeAlias = Callable[[Tensor, list[int], list[int], Norm, bool], Tensor]


@direct_over(torch.fft.fftn, FOLLOWING)
def fftn(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the Fourier transform along several dimensions.

    Args:
        input: Tensor.
        s: Lengths along these dimensions, to which the input is cut or padded with zeros; -1 for
            the length it has.
        dim: The dimensions, each at most once; by default the last ``len(s)``, or all without s.
        norm: As :func:`trnfft.fft`, for the product of the lengths.
        out: As there.

    Raises:
        ShapeError: s and dim differ in length, a dimension comes twice, or a length is below one.
        IndexError: There is no such dimension.
        FlagError: norm is none of torch's.
    """
    return complex_of("fftn", input, out, _computed, c2c_nd, s, dim, norm, True)


@direct_over(torch.fft.ifftn, FOLLOWING)
def ifftn(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the inverse of :func:`fftn`; args and errors are the same."""
    return complex_of("ifftn", input, out, _computed, c2c_nd, s, dim, norm, False)


@direct_over(torch.fft.rfftn, HALVED)
def rfftn(
    input: Tensor,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return :func:`fftn` of a real tensor with half the bins along the last of the dimensions.

    Raises:
        DTypeError: The input is complex.
        ShapeError, IndexError, FlagError: As :func:`fftn`; also for no dimension at all.
    """
    return halved_of("rfftn", input, out, _computed, r2c_nd, s, dim, norm, True)


@direct_over(torch.fft.irfftn, REAL)
def irfftn(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the real tensor whose :func:`rfftn` is ``input``.

    The default of the last length is ``2 * (bins - 1)``; args are else those of :func:`fftn`.

    Raises:
        ShapeError, IndexError, FlagError: As :func:`fftn`; also for no dimension at all.
    """
    return real_of("irfftn", input, out, _computed, c2r_nd, s, dim, norm, False)


@direct_over(_torch.hfftn, REAL)
def hfftn(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the real :func:`fftn` of a signal that is the conjugate of its reverse.

    ``input`` has half its points along the last of the dimensions; args and errors are those of
    :func:`irfftn`.
    """
    return real_of("hfftn", input, out, _computed, c2r_nd, s, dim, norm, True)


@direct_over(_torch.ihfftn, HALVED)
def ihfftn(
    input: Tensor,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the inverse of :func:`hfftn`; args and errors are those of :func:`rfftn`."""
    return halved_of("ihfftn", input, out, _computed, r2c_nd, s, dim, norm, False)


@direct_over(torch.fft.fft2, FOLLOWING)
def fft2(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = _LAST_TWO,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return :func:`fftn` along the last two dimensions."""
    return complex_of("fft2", input, out, _computed, c2c_nd, s, dim, norm, True)


@direct_over(torch.fft.ifft2, FOLLOWING)
def ifft2(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = _LAST_TWO,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return :func:`ifftn` along the last two dimensions."""
    return complex_of("ifft2", input, out, _computed, c2c_nd, s, dim, norm, False)


@direct_over(torch.fft.rfft2, HALVED)
def rfft2(
    input: Tensor,
    s: Dims = None,
    dim: Dims = _LAST_TWO,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return :func:`rfftn` along the last two dimensions."""
    return halved_of("rfft2", input, out, _computed, r2c_nd, s, dim, norm, True)


@direct_over(torch.fft.irfft2, REAL)
def irfft2(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = _LAST_TWO,
    norm: Norm = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return :func:`irfftn` along the last two dimensions."""
    return real_of("irfft2", input, out, _computed, c2r_nd, s, dim, norm, False)


@direct_over(_torch.hfft2, REAL)
def hfft2(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = _LAST_TWO,
    norm: Norm = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return :func:`hfftn` along the last two dimensions."""
    return real_of("hfft2", input, out, _computed, c2r_nd, s, dim, norm, True)


@direct_over(_torch.ihfft2, HALVED)
def ihfft2(
    input: Tensor,
    s: Dims = None,
    dim: Dims = _LAST_TWO,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return :func:`ihfftn` along the last two dimensions."""
    return halved_of("ihfft2", input, out, _computed, r2c_nd, s, dim, norm, False)


def _computed(
    function: str,
    x: Tensor,
    transform: Transform,
    s: Dims,
    dim: Dims,
    norm: Norm,
    forward: bool,
) -> Tensor:
    """Return the transform of a tensor whose other arguments are still to be checked."""
    sizes, dims = axes(function, x, s, dim, norm, bins=transform is c2r_nd)
    if not dims and transform is not c2c_nd:
        raise ShapeError(f"{function}: dim must name at least one dimension, got none")
    if is_empty(x):
        result = empty_result(x, sizes, dims, transform is r2c_nd, transform is c2r_nd)
        if result is not None:
            return result
    return transform(x, sizes, dims, norm, forward)
