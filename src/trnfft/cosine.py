"""Discrete cosine and sine transforms of types I to IV, with the semantics of ``scipy.fft``.

For x[n] of N points, bin k of the unscaled transform is the sum over n of

===== ==================================== ====================================
type  cosine                               sine
===== ==================================== ====================================
1     2 x[n] cos(pi k n / (N-1))           2 x[n] sin(pi (k+1) (n+1) / (N+1))
2     2 x[n] cos(pi k (2n+1) / 2N)         2 x[n] sin(pi (k+1) (2n+1) / 2N)
3     2 x[n] cos(pi (2k+1) n / 2N)         2 x[n] sin(pi (2k+1) (n+1) / 2N)
4     2 x[n] cos(pi (2k+1) (2n+1) / 4N)    2 x[n] sin(pi (2k+1) (2n+1) / 4N)
===== ==================================== ====================================

except that the first and last term of cosine 1, the first of cosine 3 and the last of sine 3 have
weight one half. The real and imaginary parts of a complex input are transformed separately. An N-D
transform is a sequence of 1-D transforms.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from torch import Tensor

from trnfft._paths.arguments import Dims, Norm, along, axes
from trnfft._paths.kinds import Opened, Spectrum, closed, closed_real, opened
from trnfft._paths.trigonometric import Fourier, trigonometric
from trnfft.transforms import fourier_of_kernels
from trnsci.core.errors import FlagError, ShapeError

__all__ = ["dct", "dctn", "dst", "dstn", "idct", "idctn", "idst", "idstn"]

Type: TypeAlias = Literal[1, 2, 3, 4]

# Up to the scale, type III is the inverse of type II, and I and IV are their own inverses.
_INVERSE: dict[int, Type] = {1: 1, 2: 3, 3: 2, 4: 4}
_INVERSE_NORM: dict[Norm, Norm] = {
    None: "forward",
    "backward": "forward",
    "forward": "backward",
    "ortho": "ortho",
}


def dct(
    input: Spectrum,
    type: Type = 2,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    orthogonalize: bool | None = None,
) -> Spectrum:
    """Return the discrete cosine transform.

    Args:
        input: Tensor of at least one dimension.
        type: 1, 2, 3 or 4.
        n: Length; the input is truncated or zero-padded at its end to this length.
        dim: Dimension to transform.
        norm: ``"backward"`` (the default) does not scale, ``"forward"`` scales by 1/M and
            ``"ortho"`` by 1/sqrt(M), where M is 2(N-1) for type 1 and 2N otherwise.
        orthogonalize: Whether the first point and the first bin (for type 1 also the last ones) are
            scaled so that ``"ortho"`` gives an orthogonal matrix; by default True for ``"ortho"``.

    Raises:
        ShapeError: n is below one, or below two for type 1; or there are no points.
        IndexError: The dimension does not exist.
        FlagError: type or norm is not one of these.

    Example:
        >>> trnfft.dct(torch.tensor([1.0, 1.0, 1.0, 1.0]))
        tensor([8., 0., 0., 0.])
    """
    return _computed("dct", input, type, n, dim, norm, orthogonalize)


def idct(
    input: Spectrum,
    type: Type = 2,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    orthogonalize: bool | None = None,
) -> Spectrum:
    """Return the inverse of :func:`dct` with the same arguments; errors are the same."""
    return _computed("idct", input, type, n, dim, norm, orthogonalize)


def dst(
    input: Spectrum,
    type: Type = 2,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    orthogonalize: bool | None = None,
) -> Spectrum:
    """Return the discrete sine transform.

    Arguments and errors are as in :func:`dct`, except that M = 2(N+1) for type 1, which also
    accepts one point. ``orthogonalize`` scales the last bin of type 2 and the last point of type 3.
    """
    return _computed("dst", input, type, n, dim, norm, orthogonalize)


def idst(
    input: Spectrum,
    type: Type = 2,
    n: int | None = None,
    dim: int = -1,
    norm: Norm = None,
    orthogonalize: bool | None = None,
) -> Spectrum:
    """Return the inverse of :func:`dst` with the same arguments; errors are the same."""
    return _computed("idst", input, type, n, dim, norm, orthogonalize)


def dctn(
    input: Spectrum,
    type: Type = 2,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    orthogonalize: bool | None = None,
) -> Spectrum:
    """Return the discrete cosine transform along several dimensions.

    Args:
        input: Tensor.
        type: 1, 2, 3 or 4, for all dimensions.
        s: Lengths along the dimensions in ``dim``, to which the input is truncated or zero-padded;
            -1 for the input's length.
        dim: Dimensions to transform, each at most once; by default the last ``len(s)``, or all
            without s.
        norm: As :func:`dct`, for each dimension.
        orthogonalize: As :func:`dct`.

    Raises:
        ShapeError: s and dim differ in length, a dimension is repeated, or a length is too small.
        DimensionError: A dimension does not exist.
        FlagError: type or norm is not one of these.
    """
    return _computed_nd("dctn", input, type, s, dim, norm, orthogonalize)


def idctn(
    input: Spectrum,
    type: Type = 2,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    orthogonalize: bool | None = None,
) -> Spectrum:
    """Return the inverse of :func:`dctn` with the same arguments; errors are the same."""
    return _computed_nd("idctn", input, type, s, dim, norm, orthogonalize)


def dstn(
    input: Spectrum,
    type: Type = 2,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    orthogonalize: bool | None = None,
) -> Spectrum:
    """Return the discrete sine transform along several dimensions; arguments as :func:`dctn`."""
    return _computed_nd("dstn", input, type, s, dim, norm, orthogonalize)


def idstn(
    input: Spectrum,
    type: Type = 2,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    orthogonalize: bool | None = None,
) -> Spectrum:
    """Return the inverse of :func:`dstn` with the same arguments; errors are the same."""
    return _computed_nd("idstn", input, type, s, dim, norm, orthogonalize)


def _computed(
    function: str,
    input: Spectrum,
    type: Type,
    n: int | None,
    dim: int,
    norm: Norm,
    orthogonalize: bool | None,
) -> Spectrum:
    fourier = fourier_of_kernels(function)
    held = opened(function, input, on_torch=True)
    n, dim = along(function, held.x, n, dim, norm)
    return _transformed(function, held, type, [n], [dim], norm, orthogonalize, fourier)


def _computed_nd(
    function: str,
    input: Spectrum,
    type: Type,
    s: Dims,
    dim: Dims,
    norm: Norm,
    orthogonalize: bool | None,
) -> Spectrum:
    fourier = fourier_of_kernels(function)
    held = opened(function, input, on_torch=True)
    sizes, dims = axes(function, held.x, s, dim, norm)
    return _transformed(function, held, type, sizes, dims, norm, orthogonalize, fourier)


def _transformed(
    function: str,
    held: Opened,
    type: Type,
    sizes: list[int],
    dims: list[int],
    norm: Norm,
    orthogonalize: bool | None,
    fourier: Fourier | None,
) -> Spectrum:
    """Return the transform along validated dimensions, in the tensor type of the input."""
    if type not in _INVERSE:
        raise FlagError(f"{function}: type must be 1, 2, 3 or 4, got {type!r}")
    sine = "dst" in function
    if type == 1 and not sine and min(sizes, default=2) < 2:
        raise ShapeError(f"{function}: type 1 needs at least two points, got {min(sizes)}")
    if orthogonalize is None:
        orthogonalize = norm == "ortho"
    if function.startswith("i"):
        type, norm = _INVERSE[type], _INVERSE_NORM[norm]
    result: Tensor = held.x
    for n, dim in zip(sizes, dims, strict=True):
        result = trigonometric(result, sine, type, n, dim, norm, orthogonalize, fourier)
    return closed(result, held) if result.is_complex() else closed_real(result, held)
