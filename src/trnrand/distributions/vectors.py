"""The multivariate normal distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from trnrand._calls.arguments import Device, Parameter, Size, real
from trnrand._calls.calls import Shape, broadcast_shape, distribution
from trnrand._calls.requests import Request, prepared_vectors
from trnrand._calls.transforms import beneath, holds
from trnrand._paths.samples import fill_stream
from trnrand._sampling.pathwise import attached
from trnrand.errors import ParameterError, ShapeError
from trnrand.generator import Generator

__all__ = ["multivariate_normal"]


def _vectors(mean: Tensor, covariance: Tensor, size: Shape, **_: object) -> Shape:
    batch = size if size else broadcast_shape(mean.shape[:-1], covariance.shape[:-2])
    return *batch, mean.shape[-1]


def _multivariate_normal(request: Request) -> Tensor:
    mean, factor = request.parameters.values()
    z = _standard(request)
    return request.result(
        _rotated(z, request.typed(factor, z.dtype)).add_(request.typed(mean, z.dtype))
    )


def _normals_rule(request: Request, mean: Parameter, covariance: Parameter) -> Tensor:
    z = beneath(request.function, request.generator, lambda *_: _standard(request), ())
    both = attached(covariance, request)
    factor = torch.linalg.cholesky((both + both.mT) / 2).to(z.dtype)
    return _rotated(z, factor) + attached(mean, request, z.dtype)


def _standard(request: Request) -> Tensor:
    """Return standard normals in the shape of a request, in the working dtype."""
    samples = request.buffer(request.working)
    fill_stream("normal", request.source(), samples)
    return samples.view(request.shape)


def _rotated(z: Tensor, factor: Tensor) -> Tensor:
    """Return the product of a factor, or one per batch member, with vectors."""
    return z @ factor.mT if factor.ndim == 2 else (factor @ z[..., None])[..., 0]


@distribution(
    _multivariate_normal, pathwise=_normals_rule, leading=2, shape=_vectors, kind="normal"
)
def multivariate_normal(
    mean: Tensor,
    covariance: Tensor,
    *size: Size,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Request:
    """Return normal vectors with this mean and covariance, of shape (*size, d).

    ``mean`` has shape (..., d), ``covariance`` (..., d, d). Their leading dimensions broadcast to
    ``size``, the batch shape of the vectors, and give its default. The covariance may be asymmetric
    up to the rounding errors of sums of products in its dtype; its mean with its transpose is used.

    Raises:
        ParameterError: The shapes do not fit, or the covariance is not positive definite.
    """
    function = "multivariate_normal"
    means, factor = _checked(function, mean, covariance)
    batch = {"mean": means[..., 0], "covariance": factor[..., 0, 0]}
    width = means.shape[-1]
    request = prepared_vectors(function, size, width, batch, dtype, generator, device, total)
    return request._replace(parameters={"mean": means, "covariance": factor})


def _checked(function: str, mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the Cholesky factor of a symmetric covariance, in float64."""
    means, spread = real(function, "mean", mean), real(function, "covariance", covariance)
    shapes = [tuple(torch.as_tensor(p).shape) for p in (means, spread)]
    if not isinstance(means, Tensor) or not means.shape[-1]:
        raise ShapeError(f"{function}: mean must have shape (..., d), got {shapes[0]}")
    square = shapes[0][-1:] * 2
    if not isinstance(spread, Tensor) or shapes[1][-2:] != square:
        trailing = ", ".join(map(str, square))
        raise ShapeError(
            f"{function}: covariance must have shape (..., {trailing}), got {shapes[1]}"
        )
    # A covariance is a sum of products, and |a b| <= |a| |b| bounds its rounding errors: n eps for
    # n terms. sqrt(eps) allows 1 / sqrt(eps) terms.
    given = covariance.dtype if covariance.dtype.is_floating_point else torch.float64
    deviations = spread.diagonal(dim1=-2, dim2=-1).clamp(min=0.0).sqrt()
    allowed = deviations[..., :, None] * deviations[..., None, :] * torch.finfo(given).eps ** 0.5
    factor, failure = torch.linalg.cholesky_ex((spread + spread.mT) / 2)
    if not (holds((spread - spread.mT).abs() <= allowed) and holds(failure == 0)):
        raise ParameterError(f"{function}: covariance must be symmetric and positive definite")
    return means, factor
