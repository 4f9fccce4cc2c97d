"""Argument checks shared by the transforms; errors name the function and the argument.

A short transform takes a few microseconds, so common cases are checked first and messages are
formatted only for an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from torch import Tensor

from trnfft._planning.norm import Norm
from trnsci.core.arguments import several, whole
from trnsci.core.errors import DimensionError, FlagError, ShapeError

__all__ = ["HALF_SPECTRUM", "REAL_INPUT", "Dims", "Norm", "along", "axes", "axis", "checked_norm"]

Dims: TypeAlias = int | Sequence[int] | None

REAL_INPUT = frozenset({"rfft", "ihfft", "rfftn", "ihfftn"})
"""Transforms from real input to half a spectrum."""
HALF_SPECTRUM = frozenset({"irfft", "hfft", "irfftn", "hfftn"})
"""Transforms from half a spectrum to real output."""

NORMS = (None, "backward", "forward", "ortho")


def checked_norm(function: str, norm: str | None) -> None:
    """Raise unless ``norm`` is one of torch's.

    Raises:
        FlagError: ``norm`` is not valid.
    """
    if norm not in NORMS:
        raise FlagError(f"{function}: norm must be one of backward, forward, ortho, got {norm!r}")


def axis(function: str, x: Any, dim: int) -> int:
    """Return ``dim`` as a nonnegative index.

    Raises:
        DimensionError: The dimension does not exist.
    """
    ndim = x.ndim
    if type(dim) is not int:
        dim = whole(function, "dim", dim)
    if -ndim <= dim < ndim:
        return dim if dim >= 0 else dim + ndim
    if ndim == 0:
        raise DimensionError(
            f"{function}: input must have at least one dimension, got a 0-d tensor"
        )
    raise DimensionError(f"{function}: dim must be from {-ndim} to {ndim - 1}, got {dim}")


def along(
    function: str, x: Tensor, n: int | None, dim: int, norm: Norm, bins: bool = False
) -> tuple[int, int]:
    """Return the length and the dimension of a 1-D transform.

    Args:
        function: Name of the public function, for errors.
        x: The input.
        n: The length; None for the length of the input.
        dim: The dimension.
        norm: The normalisation.
        bins: Whether the input has ``n // 2 + 1`` entries for n points of a real signal.

    Raises:
        ShapeError: The length is below one.
        DimensionError: The dimension does not exist.
        FlagError: ``norm`` is not one of torch's.
    """
    if norm is not None:
        checked_norm(function, norm)
    ndim = x.ndim
    if type(dim) is not int or not 0 <= dim < ndim:
        dim = ndim - 1 if dim == -1 and ndim > 0 else axis(function, x, dim)
    if n is None:
        size: Any = x.shape[dim]
        if bins:
            size = 2 * (size - 1)
        if not isinstance(size, Tensor) and size < 1:  # torch.jit.trace passes a tensor
            raise ShapeError(_too_short(function, x, dim, bins))
        return size, dim
    n = whole(function, "n", n)
    if n < 1:
        raise ShapeError(f"{function}: n must be at least 1, got {n}")
    return n, dim


def axes(
    function: str, x: Tensor, s: Dims, dim: Dims, norm: Norm, bins: bool = False
) -> tuple[list[int], list[int]]:
    """Return the lengths and the dimensions of an N-D transform.

    Args:
        function: Name of the public function, for errors.
        x: The input.
        s: Lengths, where -1 is the length of the input; None for all lengths of the input.
        dim: Dimensions; None for the last ``len(s)``, or for all without ``s``.
        norm: The normalisation.
        bins: Whether the input has ``s[-1] // 2 + 1`` entries along the last entry of ``dim``.

    Raises:
        ShapeError: ``s`` and ``dim`` differ in length, a dimension is repeated, or a length is
            below one.
        DimensionError: A dimension does not exist.
        FlagError: ``norm`` is not one of torch's.
    """
    if norm is not None:
        checked_norm(function, norm)
    sizes = None if s is None else several(function, "s", s)
    dims = _dims(function, x, sizes, dim)
    if sizes is None:
        sizes = [-1] * len(dims)
    shape = x.shape
    for position, d in enumerate(dims):
        last = bins and position == len(dims) - 1
        if sizes[position] == -1:
            size: Any = 2 * (shape[d] - 1) if last else shape[d]
            sizes[position] = size
            if not isinstance(size, Tensor) and size < 1:
                raise ShapeError(_too_short(function, x, d, last))
        elif sizes[position] < 1:
            raise ShapeError(f"{function}: lengths in s must be at least 1 or -1, got {s}")
    return sizes, dims


def _dims(function: str, x: Tensor, sizes: list[int] | None, dim: Dims) -> list[int]:
    if dim is None:
        count = x.ndim if sizes is None else len(sizes)
        if count > x.ndim:
            raise ShapeError(
                f"{function}: s must have no more lengths than the input has dimensions, "
                f"got {count} for {x.ndim}"
            )
        return list(range(x.ndim - count, x.ndim))
    dims = [axis(function, x, d) for d in (dim if isinstance(dim, Sequence) else (dim,))]
    if sizes is not None and len(sizes) != len(dims):
        raise ShapeError(
            f"{function}: s and dim must have one length, got {len(sizes)} and {len(dims)}"
        )
    if len(set(dims)) != len(dims):
        raise ShapeError(f"{function}: dimensions in dim must differ, got {dim}")
    return dims


def _too_short(function: str, x: Tensor, dim: int, bins: bool) -> str:
    shape = tuple(x.shape)
    if not bins:
        return f"{function}: input must have points in dimension {dim}, got shape {shape}"
    return (
        f"{function}: input must have at least two bins in dimension {dim} if no length is "
        f"given, got shape {shape}"
    )
