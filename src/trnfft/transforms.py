"""One-dimensional Fourier transforms, with the arguments of ``torch.fft``.

Input may be real, complex or a :class:`~trnfft.ComplexTensor`, of any floating dtype. The transform
is computed in float32 or float64: float16 and bfloat16 are widened and the result is rounded back
to them, integers and booleans become the default dtype. A complex result is a ``ComplexTensor``,
but of a native complex tensor a native complex one. Every function can be differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from trnfft import _torch
from trnfft._arguments import Norm, along
from trnfft._direct import COMPLEX, FOLLOWING, HALVED, REAL, direct_along
from trnfft._dispatch import c2c, c2r, r2c
from trnfft._empty import empty_result, is_empty
from trnfft._kinds import Spectrum, complex_of, halved_of, real_of

__all__ = ["fft", "hfft", "ifft", "ihfft", "irfft", "rfft"]

_LAST = -1

Transform: TypeAlias = Callable[[Tensor, int | None, int, Norm, bool], Tensor]


@direct_along(torch.fft.fft, FOLLOWING)
def fft(
    input: Spectrum,
    n: int | None = None,
    dim: int = _LAST,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the sums of ``input[j] exp(-2 pi i j k / n)`` over j.

    Args:
        input: Tensor of at least one dimension.
        n: Length; input is cut or padded with zeros at its end to have it.
        dim: Dimension to transform.
        norm: ``"backward"`` (the default) scales by nothing, ``"forward"`` by 1/n and ``"ortho"``
            by the square root of it.
        out: Tensor of the result's kind, shape and dtype that it is written to, and returned.

    Raises:
        ShapeError: n is below one, there are no points, or out has another shape.
        IndexError: There is no such dimension.
        FlagError: norm is none of these.
        DTypeError: input is no tensor, or out of another dtype.

    Example:
        >>> trnfft.fft(torch.tensor([1.0, 2.0, 3.0, 4.0])).to_torch_complex()
        tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    return complex_of("fft", input, out, _computed, c2c, n, dim, norm, True)


@direct_along(torch.fft.ifft, COMPLEX)
def ifft(
    input: Spectrum,
    n: int | None = None,
    dim: int = _LAST,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the sums of ``input[k] exp(2 pi i j k / n) / n`` over k: the inverse of :func:`fft`.

    Args and errors are those of :func:`fft`; each norm undoes the same norm there.
    """
    return complex_of("ifft", input, out, _computed, c2c, n, dim, norm, False)


@direct_along(torch.fft.rfft, HALVED)
def rfft(
    input: Tensor,
    n: int | None = None,
    dim: int = _LAST,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the first ``n // 2 + 1`` bins of :func:`fft` of a real tensor.

    The others are the conjugates of these.

    Raises:
        DTypeError: The input is complex.
        ShapeError, IndexError, FlagError: As :func:`fft`.
    """
    return halved_of("rfft", input, out, _computed, r2c, n, dim, norm, True)


@direct_along(torch.fft.irfft, REAL)
def irfft(
    input: Spectrum,
    n: int | None = None,
    dim: int = _LAST,
    norm: Norm = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the real tensor of n points with the bins ``input``: the inverse of :func:`rfft`.

    Bins are cut or padded with zeros to ``n // 2 + 1``. The imaginary parts of the first and, for
    even n, of the last one do not count.

    Args:
        input: Bins; real ones are taken as complex.
        n: Points of the result, by default ``2 * (bins - 1)``: give it to get an odd number.
        dim: Dimension to transform.
        norm: As :func:`ifft`.
        out: Real tensor that the result is written to.

    Raises:
        ShapeError: n is below one, or there is only one bin and no n.
        IndexError, FlagError: As :func:`fft`.
    """
    return real_of("irfft", input, out, _computed, c2r, n, dim, norm, False)


@direct_along(torch.fft.hfft, REAL)
def hfft(
    input: Spectrum,
    n: int | None = None,
    dim: int = _LAST,
    norm: Norm = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the real :func:`fft` of n points of a signal that is the conjugate of its reverse.

    ``input`` has the first ``n // 2 + 1`` points of the signal; cut or padded, and with the same
    default n, as in :func:`irfft`.

    Raises:
        ShapeError, IndexError, FlagError: As :func:`irfft`.
    """
    return real_of("hfft", input, out, _computed, c2r, n, dim, norm, True)


@direct_along(_torch.ihfft, HALVED)
def ihfft(
    input: Tensor,
    n: int | None = None,
    dim: int = _LAST,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the first ``n // 2 + 1`` points of :func:`ifft` of a real tensor.

    It is the inverse of :func:`hfft`.

    Raises:
        DTypeError: The input is complex.
        ShapeError, IndexError, FlagError: As :func:`fft`.
    """
    return halved_of("ihfft", input, out, _computed, r2c, n, dim, norm, False)


def _computed(
    function: str,
    x: Tensor,
    transform: Transform,
    n: int | None,
    dim: int,
    norm: Norm,
    forward: bool,
) -> Tensor:
    """Return the transform of a tensor whose other arguments are still to be checked."""
    size, dim = along(function, x, n, dim, norm, bins=transform is c2r)
    if is_empty(x):
        result = empty_result(x, [size], [dim], transform is r2c, transform is c2r)
        if result is not None:
            return result
    return transform(x, size, dim, norm, forward)
