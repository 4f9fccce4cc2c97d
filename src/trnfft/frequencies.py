"""Frequencies of the bins of a transform, and shifts of frequency zero to the centre."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

from trnfft._library import no_kernel
from trnfft._paths.arguments import Dims, axis
from trnfft.complex_tensor import ComplexTensor
from trnsci.core.arguments import several, whole
from trnsci.core.errors import DTypeError, ShapeError

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]

T = TypeVar("T", Tensor, ComplexTensor)


def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the frequencies of the bins of :func:`trnfft.fft`: 0, 1, ..., -2, -1 over ``n d``.

    Args:
        n: Number of points.
        d: Sample spacing.
        dtype: Dtype of the result, by default torch's default dtype.
        device: Device of the result.
        requires_grad: Whether autograd tracks the result.

    Raises:
        ShapeError: n is below one.
    """
    _check("fftfreq", n)
    return torch.fft.fftfreq(n, d, dtype=dtype, device=device, requires_grad=requires_grad)


def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the frequencies of the bins of :func:`trnfft.rfft`: 0, 1, ..., n // 2 over ``n d``.

    Arguments and errors are as in :func:`fftfreq`.
    """
    _check("rfftfreq", n)
    return torch.fft.rfftfreq(n, d, dtype=dtype, device=device, requires_grad=requires_grad)


def fftshift(input: T, dim: Dims = None) -> T:
    """Return the bins with frequency zero centred along ``dim``, by default all dimensions."""
    no_kernel("fftshift")
    return _shifted("fftshift", torch.fft.fftshift, input, dim)


def ifftshift(input: T, dim: Dims = None) -> T:
    """Return the inverse of :func:`fftshift`: frequency zero moves back to index 0."""
    no_kernel("ifftshift")
    return _shifted("ifftshift", torch.fft.ifftshift, input, dim)


def _shifted(name: str, shift: Any, input: T, dim: Dims) -> T:
    if not isinstance(input, (Tensor, ComplexTensor)):
        raise DTypeError(
            f"{name}: input must be a torch.Tensor or a ComplexTensor, got {type(input).__name__}"
        )
    if dim is not None:
        dim = [axis(name, input, d) for d in several(name, "dim", dim)]
    shifted: T = shift(input, dim)
    return shifted


def _check(function: str, n: int) -> None:
    if whole(function, "n", n) < 1:
        raise ShapeError(f"{function}: n must be at least 1, got {n}")
