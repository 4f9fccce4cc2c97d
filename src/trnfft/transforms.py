"""One-dimensional Fourier transforms, with the arguments of ``torch.fft``.

Input may be real, complex or a :class:`~trnfft.ComplexTensor`, of any floating dtype. The transform
is computed in float32 or float64. Float16 and bfloat16 are widened and the result is rounded back;
integers and booleans are converted to the default dtype. A complex result is a native complex
tensor for native complex input, and a ``ComplexTensor`` otherwise. All functions are
differentiable.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from trnfft._paths.arguments import HALF_SPECTRUM, REAL_INPUT, Norm, along
from trnfft._paths.dispatch import transform
from trnfft._paths.empty import empty_result, is_empty
from trnfft._paths.kinds import Spectrum, closed, closed_real, opened, opened_real, stored

__all__ = ["fft", "hfft", "ifft", "ihfft", "irfft", "rfft"]


def fft(
    input: Spectrum,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the sums of ``input[j] exp(-2 pi i j k / n)`` over j.

    Args:
        input: Tensor of at least one dimension.
        n: Length; the input is truncated or zero-padded at its end to this length.
        dim: Dimension to transform.
        norm: ``"backward"`` (the default) does not scale, ``"forward"`` scales by 1/n and
            ``"ortho"`` by 1/sqrt(n).
        out: Output tensor, of the result's type, shape and dtype; it is returned.

    Raises:
        ShapeError: n is below one, there are no points, or out has another shape.
        IndexError: The dimension does not exist.
        FlagError: norm is none of the three.
        DTypeError: input is not a tensor, or out has another dtype.

    Example:
        >>> trnfft.fft(torch.tensor([1.0, 2.0, 3.0, 4.0])).to_torch_complex()
        tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    return _result("fft", input, n, dim, norm, out)


def ifft(
    input: Spectrum,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the sums of ``input[k] exp(2 pi i j k / n) / n`` over k: the inverse of :func:`fft`.

    Arguments and errors are as in :func:`fft`; it is the inverse for the same norm.
    """
    return _result("ifft", input, n, dim, norm, out)


def rfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the first ``n // 2 + 1`` bins of :func:`fft` of a real tensor.

    The remaining bins are the conjugates of these.

    Raises:
        DTypeError: The input is complex.
        ShapeError, IndexError, FlagError: As :func:`fft`.
    """
    return _result("rfft", input, n, dim, norm, out)


def irfft(
    input: Spectrum,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the real tensor of n points with the bins ``input``: the inverse of :func:`rfft`.

    Bins are truncated or zero-padded to ``n // 2 + 1``. The imaginary parts of the first and, for
    even n, of the last bin are ignored.

    Args:
        input: Bins; real bins have zero imaginary parts.
        n: Number of points of the result, by default ``2 * (bins - 1)``; required for an odd
            number.
        dim: Dimension to transform.
        norm: As :func:`ifft`.
        out: Real output tensor.

    Raises:
        ShapeError: n is below one, or there is only one bin and n is not given.
        IndexError, FlagError: As :func:`fft`.
    """
    return _result("irfft", input, n, dim, norm, out)


def hfft(
    input: Spectrum,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the real :func:`fft` of a Hermitian-symmetric signal of n points.

    ``input`` has the first ``n // 2 + 1`` points of the signal. They are truncated or zero-padded,
    and n has the same default, as in :func:`irfft`.

    Raises:
        ShapeError, IndexError, FlagError: As :func:`irfft`.
    """
    return _result("hfft", input, n, dim, norm, out)


def ihfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
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
    return _result("ihfft", input, n, dim, norm, out)


def _result(kind: str, input: Any, n: int | None, dim: int, norm: Norm, out: Any) -> Any:
    """Validate the arguments and return a transform, in the tensor type of the input."""
    held = opened_real(kind, input) if kind in REAL_INPUT else opened(kind, input)
    x = held.x
    size, dim = along(kind, x, n, dim, norm, bins=kind in HALF_SPECTRUM)
    found: Any = empty_result(kind, x, [size], [dim]) if is_empty(x) else None
    if found is None:
        found = transform(kind, x, size, dim, norm)
    found = closed_real(found, held) if kind in HALF_SPECTRUM else closed(found, held)
    return found if out is None else stored(kind, found, out)
