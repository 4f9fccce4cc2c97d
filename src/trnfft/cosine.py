"""Discrete cosine and sine transforms of types I to IV, with the semantics of ``scipy.fft``.

With x[n] of N points, and without scaling, the transforms are, summed over n,

===== ==================================== ====================================
type  cosine                               sine
===== ==================================== ====================================
1     2 x[n] cos(pi k n / (N-1))           2 x[n] sin(pi (k+1) (n+1) / (N+1))
2     2 x[n] cos(pi k (2n+1) / 2N)         2 x[n] sin(pi (k+1) (2n+1) / 2N)
3     2 x[n] cos(pi (2k+1) n / 2N)         2 x[n] sin(pi (2k+1) (n+1) / 2N)
4     2 x[n] cos(pi (2k+1) (2n+1) / 4N)    2 x[n] sin(pi (2k+1) (2n+1) / 4N)
===== ==================================== ====================================

except that the first and last term of cosine 1, the first of cosine 3 and the last of sine 3 count
half. A complex input is transformed part by part.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from torch import Tensor

from trnfft._arguments import Norm, along
from trnfft._kinds import Spectrum, closed, closed_real, opened
from trnfft._trigonometric import trigonometric
from trnsci.core.errors import FlagError, ShapeError

__all__ = ["dct", "dst", "idct", "idst"]

Type: TypeAlias = Literal[1, 2, 3, 4]

# Type III is the inverse of type II but for the scale; I and IV are their own inverses.
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
        n: Length; input is cut or padded with zeros at its end to have it.
        dim: Dimension to transform.
        norm: ``"backward"`` (the default) scales by nothing, ``"forward"`` by 1/M and ``"ortho"``
            by the square root of it, where M is 2(N-1) for type 1 and else 2N.
        orthogonalize: Whether the first point and the first bin (for type 1 the last ones too) are
            scaled so that ``"ortho"`` gives an orthogonal matrix; by default so for ``"ortho"``.

    Raises:
        ShapeError: n is below one, or below two for type 1; or there are no points.
        IndexError: There is no such dimension.
        FlagError: type or norm is none of these.

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

    Args and errors are those of :func:`dct`, with M = 2(N+1) for type 1, which takes one point too;
    ``orthogonalize`` scales the last bin of type 2 and the last point of type 3.
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


def _computed(
    function: str,
    input: Spectrum,
    type: Type,
    n: int | None,
    dim: int,
    norm: Norm,
    orthogonalize: bool | None,
) -> Spectrum:
    held = opened(function, input)
    x = held.x
    if type not in _INVERSE:
        raise FlagError(f"{function}: type must be 1, 2, 3 or 4, got {type!r}")
    n, dim = along(function, x, n, dim, norm)
    if n < 2 and type == 1 and function in ("dct", "idct"):
        raise ShapeError(f"{function}: type 1 needs at least two points, got {n}")
    if orthogonalize is None:
        orthogonalize = norm == "ortho"
    if function.startswith("i"):
        type, norm = _INVERSE[type], _INVERSE_NORM[norm]
    result: Tensor = trigonometric(
        x, function.removeprefix("i") == "dst", type, n, dim, norm, orthogonalize
    )
    return closed(result, held) if result.is_complex() else closed_real(result, held)
