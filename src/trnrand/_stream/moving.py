"""Helpers of ``rsample``: parameters with gradients, and the noise that they transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from trnrand._paths.arguments import Device, Parameter, Size, real
from trnrand._paths.requests import Request, prepared
from trnrand._paths.transforms import beneath
from trnrand._sampling.gammas import gammas
from trnrand._sampling.pathwise import log_gamma_slope, moving
from trnrand._sampling.samplers import Sampler, sampled
from trnrand._stream.words import Source
from trnrand.distributions import continuous
from trnrand.generator import Generator

__all__ = [
    "detached",
    "every",
    "live",
    "located",
    "moving_gammas",
    "moving_normals",
    "place",
    "plain",
    "wide",
    "wide_rows",
    "with_values",
]

_P = TypeVar("_P")


# -- parameters ------------------------------------------------------------------------------------


def detached(value: _P) -> _P:
    """Return a parameter without its gradient."""
    return cast(_P, value.detach()) if isinstance(value, Tensor) else value


def plain(
    function: str,
    name: str,
    value: Parameter,
    *,
    above: float | None = None,
    least: float | None = None,
    finite: bool = True,
) -> Parameter:
    """Return a validated parameter without its gradient."""
    return real(function, name, detached(value), above=above, least=least, finite=finite)


def live(value: Parameter, request: Request, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return a parameter with its gradient, on the device of the request."""
    if isinstance(value, Tensor):
        return value.to(request.device, dtype)
    return torch.tensor(value, dtype=dtype, device=request.device)


def every(value: Parameter, request: Request) -> Tensor:
    """Return a parameter with its gradient in float64, expanded to one value per sample."""
    return live(value, request).expand(request.shape)


# -- noise -----------------------------------------------------------------------------------------


def place(request: Request) -> dict[str, Any]:
    """Return the generator, device and total of a request as keyword arguments."""
    return {
        "generator": request.generator,
        "device": request.device,
        "total": request.total,
    }


def wide(request: Request, noise: Sampler, *parameters: Parameter) -> Tensor:
    """Return the samples of a request in float64, drawn below the transforms of ``torch.func``."""
    in_float64 = replace(request, dtype=torch.float64)

    def draw(values: Sequence[Any], front: tuple[int, ...]) -> Tensor:
        return sampled(in_float64, noise, *values)

    return beneath(request.function, request.generator, draw, parameters)


def wide_rows(request: Request, noise: Sampler, *parameters: Parameter) -> Tensor:
    """Return three float64 values per sample, in the last dimension."""

    def draw(values: Sequence[Any], front: tuple[int, ...]) -> Tensor:
        others = [torch.empty(0, 2, dtype=torch.float64, device=request.device)]

        def first(source: Source, count: int, *values: Parameter) -> Tensor:
            rows = noise(source, count, *values)
            others.append(rows[:, 1:])
            return rows[:, 0]

        one = wide(request, first, *values)[..., None]
        return torch.cat([one, torch.cat(others).reshape(*one.shape[:-1], 2)], dim=-1)

    return beneath(request.function, request.generator, draw, parameters)


def with_values(differentiable: Tensor, values: Tensor) -> Tensor:
    """Return values with the derivatives of a tensor that differs from them by rounding errors."""
    # The difference of neighbouring numbers is exact, and so is the sum.
    return differentiable + (values - differentiable).detach()


def moving_normals(
    function: str,
    size: tuple[Size, ...],
    mean: Parameter,
    std: Parameter,
    dtype: torch.dtype | None,
    generator: Generator | None,
    device: Device,
    total: int | None,
) -> tuple[Request, Tensor]:
    """Return the request of a call, and normals with gradients in the working dtype."""
    parameters = {
        "mean": plain(function, "mean", mean),
        "std": plain(function, "std", std, least=0.0),
    }
    request = prepared(function, size, dtype, generator, device, None, total, parameters)
    z = continuous.normal(request.shape, dtype=request.working, **place(request))
    return request, z * live(std, request, z.dtype) + live(mean, request, z.dtype)


def located(
    law: Callable[..., Tensor],
    size: tuple[Size, ...],
    loc: Parameter,
    scale: Parameter,
    dtype: torch.dtype | None,
    generator: Generator | None,
    device: Device,
    total: int | None,
) -> Tensor:
    """Return samples of a location-scale distribution with gradients."""
    function = law.__name__
    parameters = {
        "loc": plain(function, "loc", loc),
        "scale": plain(function, "scale", scale, above=0.0),
    }
    request = prepared(function, size, dtype, generator, device, None, total, parameters)
    standard = law(request.shape, dtype=torch.float64, **place(request))
    return (standard * live(scale, request) + live(loc, request)).to(request.dtype)


def moving_gammas(request: Request, shape: Parameter) -> Tensor:
    """Return standard gamma samples in float64 with gradients."""
    samples = wide(request, gammas, plain(request.function, "shape", shape))
    return moving(_gamma_slope, samples, every(shape, request))


def _gamma_slope(x: Tensor, shape: Tensor) -> tuple[Tensor]:
    # The derivative of a sample that underflowed to 0 is 0.
    return (x * log_gamma_slope(x.clamp(min=1e-300).log(), shape)[0],)
