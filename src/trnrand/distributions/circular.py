"""The von Mises distribution, the circular analogue of the normal distribution.

By rejection from a wrapped Cauchy distribution (D. J. Best and N. I. Fisher, Applied Statistics 28,
1979). With q = 2 kappa + sqrt(1 + 4 kappa**2), a Cauchy angle is 2 atan(tan(t / 2) / sqrt(q)) of a
uniform angle t. This form is accurate for all kappa from 0, where it is uniform.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnrand._calls.arguments import Device, Parameter, Size, real
from trnrand._calls.calls import distribution
from trnrand._calls.requests import Request, prepared
from trnrand._sampling.pathwise import attached, expanded, von_mises_slope, wide, with_slopes
from trnrand._sampling.samplers import Offsets, accepted, at, each, float64, hypotenuse
from trnrand._stream.words import Domain, Source, paired, unit53
from trnrand.generator import Generator

__all__ = ["von_mises"]


def _von_mises(source: Source, count: int, loc: Parameter, kappa: Parameter) -> Tensor:
    return _wrapped(_centred(source, count, kappa) + loc)


def _von_mises_rule(request: Request, loc: Parameter, kappa: Parameter) -> Tensor:
    angle = wide(request, _centred, request.parameters["kappa"])
    moved = with_slopes(von_mises_slope, angle, expanded(kappa, request))
    return _wrapped(moved + attached(loc, request))


def _centred(source: Source, count: int, kappa: Parameter) -> Tensor:
    """Return von Mises samples around 0."""
    k = float64(kappa, source)
    q = 2 * k + hypotenuse(torch.ones_like(k), 2 * k)
    narrowing = torch.rsqrt(q)
    least = 0.5 + 0.5 / q

    def propose(offsets: Offsets, places: Offsets, attempt: int) -> tuple[Tensor, Tensor]:
        slots = unit53(paired(source.slots(Domain.VON_MISES, offsets, attempt)))
        tangent = at(narrowing, places) * torch.tan((slots[:, 0] - 0.5) * math.pi)
        square = tangent * tangent
        # kappa times the distance of the cosine from the pole of the proposal density.
        y = at(least, places) + 2 * at(k, places) * (square / (1 + square))
        good = torch.log(slots[:, 1]) <= 1 - y + torch.log(y)
        return 2 * torch.atan(tangent), good

    return accepted(count, propose)


def _wrapped(angle: Tensor) -> Tensor:
    """Return angles reduced to [-pi, pi]; one inside of the range is not rounded again."""
    reduced = angle - 2 * math.pi * torch.round(angle / (2 * math.pi))
    return torch.where(angle.abs() <= math.pi, angle, reduced)


@distribution(each(_von_mises), pathwise=_von_mises_rule)
def von_mises(
    *size: Size,
    loc: Parameter = 0.0,
    kappa: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Request:
    """Return angles with a density proportional to exp(kappa cos(x - loc)), from -pi to pi.

    Raises:
        ParameterError: ``kappa`` is negative, or another argument is outside of its range.
    """
    parameters = {
        "loc": real("von_mises", "loc", loc),
        "kappa": real("von_mises", "kappa", kappa, least=0.0),
    }
    return prepared("von_mises", size, dtype, generator, device, out, total, parameters)
