"""Transforms at the level ``doublefloat`` on kernels: scales, planes and the order of points.

Every transform of a batch is multiplied by a power of two, so that its 2-norm is below 1, and split
into two float32 planes; both are exact up to 2**-49 of each number. Transforms with an infinity or
a NaN do not enter the kernel: torch computes them in float64. Importing this module imports NKI.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from trnfft._kernels.doublefloat import doublefloat_transform
from trnfft._paths.arguments import HALF_SPECTRUM
from trnfft._paths.interleaved import resized
from trnfft._planning.doublefloat import DoublefloatPlan, doublefloat_plan
from trnfft._planning.tables import doublefloat_constants
from trnsci.core.backend.launch import Launcher
from trnsci.core.interop import is_fake
from trnsci.core.numbers.doublefloat import planes, row_exponents, times_power


def doublefloat_launch(
    reference: Callable[..., Tensor],
    launch: Launcher,
    x: Tensor,
    is_complex: bool,
    kind: str,
    sizes: Sequence[int],
    norm: Any,
) -> Tensor:
    """Return the transforms of a batch, with parts in a last dimension of two.

    Args:
        reference: The transform by torch, of the arguments from ``x`` on.
        launch: The launcher.
        x: The operand.
        is_complex: Whether its last dimension has the two parts.
        kind: Name of the transform.
        sizes: Points along each dimension.
        norm: Normalisation.
    """
    half, bins = kind in HALF_SPECTRUM, sizes[-1] // 2 + 1
    values = x.double()
    for place, size in enumerate(sizes, 1):
        last = half and place == len(sizes)
        values = resized(values, place, bins if last else size)
    if not is_complex:
        values = values[..., None]
    if half:
        values = resized(_counted(values, len(sizes), sizes[-1]), len(sizes), sizes[-1])
    flat = values.reshape(len(x), -1)
    usable = torch.isfinite(flat).all(1, keepdim=True)
    flat = flat.where(usable, 0.0)
    exponents = row_exponents(flat)
    norms = torch.linalg.vector_norm(times_power(flat, -exponents), dim=1, keepdim=True)
    exponents = exponents + row_exponents(norms)
    plan = doublefloat_plan(kind, tuple(sizes), norm)
    found = _spectra(launch, times_power(flat, -exponents).reshape(values.shape), plan)
    over = (-1, *(1,) * (found.ndim - 1))
    found = times_power(found, (exponents + plan.exponent).reshape(over))
    found = found[..., 0] if half else found
    if kind.startswith(("rfft", "ihfft")):
        found = found.narrow(len(sizes), 0, bins)
    if is_fake(x) or bool(usable.all()):
        return found.to(x.dtype).contiguous()
    rest = ~usable[:, 0]
    found[rest] = reference(x[rest].double(), is_complex, kind, sizes, norm)
    return found.to(x.dtype).contiguous()


def _counted(values: Tensor, place: int, n: int) -> Tensor:
    """Return the bins of a real signal, twice where a bin also represents its conjugate.

    The real part of the transform of these bins is the signal.
    """
    weights = values.new_full((values.shape[place], 1), 2.0)
    weights[0] = 1.0
    if n % 2 == 0:
        weights[-1] = 1.0
    counted = values * weights
    if place == 1 and values.shape[-1] == 2:  # the signal does not depend on these
        counted[:, 0, 1] = 0.0
        if n % 2 == 0:
            counted[:, -1, 1] = 0.0
    return counted


def _spectra(launch: Launcher, x: Tensor, plan: DoublefloatPlan) -> Tensor:
    """Return the transforms of (batch, *sizes, parts), with two parts in the last dimension."""
    batch, parts, chain = x.shape[0], x.shape[-1], plan.chain
    if plan.convolved:
        parts = 2
        placed = x.new_zeros(batch, math.prod(chain), 2)
        places = torch.from_numpy(plan.places[: plan.sizes[0]]).to(x.device)
        placed[:, places, : x.shape[-1]] = x
        x = placed
    passes, together = plan.passes(batch)
    outer = -(-batch // together)
    array = pad(
        x.reshape(batch, -1, parts).movedim(-1, 1), (0, 0, 0, 0, 0, outer * together - batch)
    )
    if together > 1 or len(chain) == 1:
        # Transforms beside each other are the columns: (outer, points, parts, together).
        array = array.reshape(outer, together, parts, -1).permute(0, 3, 2, 1)
    else:
        array = array.reshape(outer, parts, -1, chain[-1]).transpose(1, 2)
    array = array.reshape(-1, parts, array.shape[-1])
    found = launch(
        doublefloat_transform, *planes(array), *doublefloat_constants(plan, launch.path), passes
    )
    high, low = (plane.to(x.device).double() for plane in found)
    result = (high + low).reshape(outer * together, -1, 2, chain[-1])[:batch]
    if plan.convolved:
        return result.movedim(2, -1).reshape(batch, -1, 2)[:, places]
    result = result.movedim(2, 1).reshape(batch, 2, *chain)
    # Within a dimension, the axis that was contracted first is the fastest of the result.
    order, start = [0], 2
    for axes in plan.axes:
        order += range(start + len(axes) - 1, start - 1, -1)
        start += len(axes)
    return result.permute(*order, 1).reshape(batch, *plan.sizes, 2)
