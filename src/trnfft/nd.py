"""Fourier transforms over several dimensions, with the arguments of ``torch.fft``.

:mod:`trnfft.transforms` describes tensor types and dtypes of input and result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trnfft._complex.arguments import has_complex
from trnfft._library import kernels_wanted
from trnfft._paths.arguments import HALF_SPECTRUM, REAL_INPUT, Dims, Norm, axes
from trnfft._paths.empty import empty_result, is_empty
from trnfft._paths.interleaved import joined, resized, split
from trnfft._paths.kinds import Spectrum, closed, closed_real, opened, opened_real, stored
from trnfft._planning.choice import LARGEST_IMAGE, LARGEST_RANK
from trnfft._planning.recipe import recipe
from trnfft.transforms import (
    DOUBLEFLOAT,
    Transform,
    doublefloat_refusal,
    fits,
    on_host,
    points,
    transform,
    transform_case,
)
from trnsci.core.backend.launch import Launcher
from trnsci.core.errors import ShapeError
from trnsci.core.examples import example
from trnsci.core.testing import random_tensor

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
_FORWARD = frozenset({"fftn", "rfftn", "hfftn"})
"""Transforms whose exponent has the sign of ``fft``."""


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
        s: Lengths along the dimensions in ``dim``, to which the input is truncated or zero-padded;
            -1 for the input's length.
        dim: Dimensions to transform, each at most once; by default the last ``len(s)``, or all
            without s.
        norm: As :func:`trnfft.fft`, for the product of the lengths.
        out: As :func:`trnfft.fft`.

    Raises:
        ShapeError: s and dim differ in length, a dimension is repeated, or a length is below one.
        IndexError: A dimension does not exist.
        FlagError: norm is not one of torch's.
    """
    return _result("fftn", input, s, dim, norm, out)


def ifftn(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the inverse of :func:`fftn`; args and errors are the same."""
    return _result("ifftn", input, s, dim, norm, out)


def rfftn(
    input: Tensor,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return :func:`fftn` of a real tensor, with half the bins along the last entry of ``dim``.

    Raises:
        DTypeError: The input is complex.
        ShapeError, IndexError, FlagError: As :func:`fftn`; ShapeError also for an empty ``dim``.
    """
    return _result("rfftn", input, s, dim, norm, out)


def irfftn(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the real tensor whose :func:`rfftn` is ``input``.

    The default of the last length is ``2 * (bins - 1)``; other arguments are as in :func:`fftn`.

    Raises:
        ShapeError, IndexError, FlagError: As :func:`fftn`; ShapeError also for an empty ``dim``.
    """
    return _result("irfftn", input, s, dim, norm, out)


def hfftn(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the real :func:`fftn` of a Hermitian-symmetric signal.

    ``input`` is half of the signal along the last entry of ``dim``; arguments and errors are as in
    :func:`irfftn`.
    """
    return _result("hfftn", input, s, dim, norm, out)


def ihfftn(
    input: Tensor,
    s: Dims = None,
    dim: Dims = None,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return the inverse of :func:`hfftn`; arguments and errors are as in :func:`rfftn`."""
    return _result("ihfftn", input, s, dim, norm, out)


def fft2(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = _LAST_TWO,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return :func:`fftn` along the last two dimensions."""
    return _result("fft2", input, s, dim, norm, out)


def ifft2(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = _LAST_TWO,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return :func:`ifftn` along the last two dimensions."""
    return _result("ifft2", input, s, dim, norm, out)


def rfft2(
    input: Tensor,
    s: Dims = None,
    dim: Dims = _LAST_TWO,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return :func:`rfftn` along the last two dimensions."""
    return _result("rfft2", input, s, dim, norm, out)


def irfft2(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = _LAST_TWO,
    norm: Norm = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return :func:`irfftn` along the last two dimensions."""
    return _result("irfft2", input, s, dim, norm, out)


def hfft2(
    input: Spectrum,
    s: Dims = None,
    dim: Dims = _LAST_TWO,
    norm: Norm = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return :func:`hfftn` along the last two dimensions."""
    return _result("hfft2", input, s, dim, norm, out)


def ihfft2(
    input: Tensor,
    s: Dims = None,
    dim: Dims = _LAST_TWO,
    norm: Norm = None,
    *,
    out: Spectrum | None = None,
) -> Spectrum:
    """Return :func:`ihfftn` along the last two dimensions."""
    return _result("ihfft2", input, s, dim, norm, out)


def _result(function: str, input: Spectrum, s: Dims, dim: Dims, norm: Norm, out: Any) -> Any:
    """Validate the arguments and return a transform, in the tensor type of the input."""
    kind = function[:-1] + "n"
    held = opened_real(function, input) if kind in REAL_INPUT else opened(function, input)
    found = _transformed(function, kind, held.x, s, dim, norm)
    found = closed_real(found, held) if kind in HALF_SPECTRUM else closed(found, held)
    return found if out is None else stored(function, found, out)


def _transformed(function: str, kind: str, x: Any, s: Dims, dim: Dims, norm: Norm) -> Any:
    """Validate the other arguments and return the transform of a tensor."""
    sizes, dims = axes(function, x, s, dim, norm, bins=kind in HALF_SPECTRUM)
    if not dims and kind not in ("fftn", "ifftn"):
        raise ShapeError(f"{function}: dim must name at least one dimension, got none")
    if is_empty(x):
        result = empty_result(kind, x, sizes, dims)
        if result is not None:
            return result
    return transform_nd(kind, x, sizes, dims, norm)


# -- by torch or by kernels ------------------------------------------------------------------------


def transform_nd(kind: str, x: Any, s: Sequence[int], dims: Sequence[int], norm: Norm) -> Any:
    """Return the transform ``kind`` ("fftn", "irfftn"...) by torch or by kernels."""
    choice = kernels_wanted()
    if choice is None:
        if has_complex(x.device):
            return _on_torch(kind, x, s, dims, norm)
        return on_host(_on_torch, kind, x, s, dims, norm)
    together = 1 < len(dims) <= LARGEST_RANK and max(s) <= LARGEST_IMAGE
    operation: Transform = TRANSFORM_ND
    if together and choice.widening and choice.path != "pytorch":
        operation, together = DOUBLEFLOAT, not doublefloat_refusal(kind, tuple(s))
    if together and all(fits(kind, x, n, d, norm) for n, d in zip(s, dims, strict=True)):
        return operation.along(choice, kind, x, s, dims, norm)
    for single, size, dim in steps_of(kind, s, dims):
        x = transform(single, x, size, dim, norm)
    return x


def steps_of(kind: str, s: Sequence[int], dims: Sequence[int]) -> list[tuple[str, int, int]]:
    """Return a transform as transforms along one dimension each: kind, length, dimension."""
    kinds = ["fft" if kind in _FORWARD else "ifft"] * len(dims)
    if kind in REAL_INPUT or kind in HALF_SPECTRUM:
        kinds[-1] = kind[:-1]
    steps = list(zip(kinds, s, dims, strict=True))
    if kind in REAL_INPUT:
        steps.insert(0, steps.pop())  # the transforms of the other dimensions are complex
    return steps


def _on_torch(kind: str, x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm) -> Tensor:
    if x.is_meta and torch.__version__ < "2.12":  # whose results can leave their storage
        for single, size, dim in steps_of(kind, s, dims):
            x = getattr(torch.fft, single)(x, size, dim, norm)
        return x
    function: Callable[..., Tensor] = getattr(torch.fft, kind)
    return function(x, s, dims, norm)


# -- the operation ---------------------------------------------------------------------------------


def _transform_nd_launch(
    launch: Launcher, x: Tensor, is_complex: bool, kind: str, sizes: Any, norm: Any
) -> Tensor:
    from trnfft._kernels.n_d import n_d  # here, because they import NKI
    from trnfft._kernels.stacked_geometry import ImageGeometry
    from trnfft._kernels.stacked_image import stacked_image
    from trnfft._kernels.two_d import two_d
    from trnfft._planning.tables import constants

    chosen = recipe(kind, tuple(sizes), norm)
    for dim, size in enumerate(sizes[:-1], start=1):
        x = resized(x, dim, size)
    re, im = split(resized(x, len(sizes), points(chosen, sizes[-1])), is_complex)
    *leading, rows, columns = constants(chosen, launch.path)
    if isinstance(chosen.geometry, ImageGeometry):
        kernel, half = stacked_image, chosen.form == "half"
        return joined(launch(kernel, re, im, rows, columns, chosen.geometry, half))
    real = chosen.form == "hermitian"
    if not leading:
        return joined(launch(two_d, re, im, rows, columns, real))
    absent = [None] * (LARGEST_RANK - 2 - len(leading))
    return joined(launch(n_d, re, im, *leading, *absent, rows, columns, real))


TRANSFORM_ND = Transform(
    "transform_nd",
    _transform_nd_launch,
    examples={
        **{name: lambda: example(random_tensor(4, 8)) for name in __all__},
        **{
            name: lambda: example(random_tensor(4, 8, dtype=torch.complex64))
            for name in ("hfft2", "hfftn", "irfft2", "irfftn")
        },
        "fftn, 3-D": lambda: example(random_tensor(2, 3, 4)),
    },
    evidence=(
        transform_case("two_d", "2-D FFT", fft2, 2, 130, 20),
        transform_case("stacked_image", "2-D FFT by stacked factors", fft2, 1024, 20),
        transform_case("n_d", "n-D FFT", fftn, 6, 10, 12, 7),
    ),
)
