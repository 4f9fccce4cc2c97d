"""Kernel launches of the operations on pairs of float32: scales and planes, and back to float64.

Vectors are scaled by powers of two, so that their largest element is in [1/2, 1): float64 values of
any size are exact. NaN and infinities do not enter kernels; their terms are added in float64.
Importing this module imports NKI.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from trnblas._kernels import doublefloat_energy as energy_kernels
from trnblas._kernels import doublefloat_vectors as vector_kernels
from trnblas._precise.planes import joined, planes, row_exponents, times_power
from trnsci.core.backend.launch import Launcher
from trnsci.core.numbers.products import scaled
from trnsci.core.tiles.hardware import TILE

MOST_ELEMENTS = 16 * TILE * vector_kernels.WIDTH
"""Elements of one launch: with 16 tiles the error of a sum is at most 2**-41 of its moduli.

(9 + 3.1 (16 + 9 + 7)) u**2 = 108 u**2 from ``doublefloat_dot``, and 1 u**2 from the planes.
"""
_LARGEST_SHIFT = 1100  # exponents of nonzero float64 numbers are within it


def doublefloat_axpy(launch: Launcher, alpha: Tensor, x: Tensor, y: Tensor) -> Tensor:
    usable = torch.isfinite(x) & torch.isfinite(y)
    left, right, factor = _finite(x, usable), _finite(y, usable), alpha.double().reshape(1)
    of_factor, of_left, of_right = _exponent(factor), _exponent(left), _exponent(right)
    # The larger of both terms decides the scale; a term that is 0 does not.
    of_product = of_factor + of_left if bool(factor.any() and left.any()) else of_right
    common = torch.maximum(of_product, of_right) if bool(right.any()) else of_product
    high, low = launch(
        vector_kernels.doublefloat_axpy,
        *planes(times_power(factor, -of_factor).reshape(1, 1)),
        *planes(_rows(times_power(left, (of_factor - common).clamp(max=_LARGEST_SHIFT)))),
        *planes(_rows(times_power(right, -common))),
    )
    result = joined(high, low, common, torch.float64).reshape(-1)[: x.numel()].reshape(x.shape)
    result[~usable] = scaled(factor, x[~usable].double()) + y[~usable].double()
    return result.to(x.dtype)


def doublefloat_dot(launch: Launcher, x: Tensor, y: Tensor) -> Tensor:
    usable = torch.isfinite(x) & torch.isfinite(y)
    total, exponent = _inner_product(launch, _finite(x, usable), _finite(y, usable))
    others = (x[~usable].double() * y[~usable].double()).sum()
    return (times_power(total, exponent) + others).to(x.dtype)


def doublefloat_nrm2(launch: Launcher, x: Tensor) -> Tensor:
    usable = torch.isfinite(x)
    finite = _finite(x, usable)
    total, exponent = _inner_product(launch, finite, finite)
    others = x[~usable].double().square().sum()
    return (times_power(total.sqrt(), exponent // 2) + others.sqrt()).to(x.dtype)


def doublefloat_mp2_energy(
    launch: Launcher, t_flat: Tensor, eps_occ_chunk: Tensor, eps_occ_full: Tensor, eps_vir: Tensor
) -> Tensor:
    chunk, full, virtual = (x.double().reshape(-1) for x in (eps_occ_chunk, eps_occ_full, eps_vir))
    sizes = len(chunk), len(virtual), len(full), len(virtual)
    of_t = _exponent(t_flat)
    t = times_power(t_flat, -of_t)
    swapped = t.reshape(sizes).transpose(1, 3).reshape(t.shape)
    rows = (chunk[:, None] - virtual).reshape(-1, 1)
    columns = (full[:, None] - virtual).reshape(1, -1)
    of_gaps = torch.maximum(_exponent(rows), _exponent(columns))
    gaps = (times_power(gap, -of_gaps) for gap in (rows, columns))
    operands = [plane for values in (t, swapped, *gaps) for plane in planes(values)]
    high, low = launch(energy_kernels.doublefloat_mp2_energy, *operands)
    return joined(high, low, 2 * of_t - of_gaps, t_flat.dtype).reshape(())


def _inner_product(launch: Launcher, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return a 0-d sum in float64, and the exponent of the power of two to multiply it with."""
    of_x, of_y = _exponent(x), _exponent(y)
    left, right = times_power(x, -of_x).reshape(-1), times_power(y, -of_y).reshape(-1)
    total = left.new_zeros(())
    for start in range(0, left.numel(), MOST_ELEMENTS):
        blocks = (_rows(side[start : start + MOST_ELEMENTS]) for side in (left, right))
        operands = [plane for block in blocks for plane in planes(block)]
        high, low = launch(vector_kernels.doublefloat_dot, *operands)
        total = total + (high.double() + low.double()).reshape(())
    return total, of_x + of_y


def _finite(values: Tensor, usable: Tensor) -> Tensor:
    return values.double().masked_fill(~usable, 0)


def _exponent(values: Tensor) -> Tensor:
    """Return the exponent of the largest element, 0-d; 0 for zeros."""
    return row_exponents(values.reshape(1, -1)).reshape(())


def _rows(values: Tensor) -> Tensor:
    """Return a vector as 128 rows, padded with zeros."""
    return pad(values.reshape(-1), (0, -values.numel() % TILE)).reshape(TILE, -1)
