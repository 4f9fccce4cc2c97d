"""Kernel launches of the operations on pairs of float32: scales and planes, and back to float64.

Terms are scaled by powers of two, not vectors: errors are relative to terms of any size. NaN and
infinities do not enter kernels; their terms are added in float64.
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
_NO_EXPONENT = -4000  # of a term that is 0: below that of every product


def doublefloat_axpy(launch: Launcher, alpha: Tensor, x: Tensor, y: Tensor) -> Tensor:
    factor = alpha.double().reshape(1)
    usable = torch.isfinite(x) & torch.isfinite(y) & torch.isfinite(factor)
    left, right = _finite(x, usable).reshape(-1), _finite(y, usable).reshape(-1)
    multiplier, of_multiplier = torch.frexp(factor.where(torch.isfinite(factor), 0))
    x_part, of_x = torch.frexp(left)
    y_part, of_y = torch.frexp(right)
    # The larger term of each element decides its scale; a term that is 0 does not.
    of_product = (of_multiplier + of_x).long().where(multiplier * x_part != 0, _NO_EXPONENT)
    common = torch.maximum(of_product, of_y.long().where(y_part != 0, _NO_EXPONENT))
    high, low = launch(
        vector_kernels.doublefloat_axpy,
        *planes(multiplier.reshape(1, 1)),
        *planes(_rows(times_power(x_part, of_product - common))),
        *planes(_rows(times_power(right, -common))),
    )
    total = (high.double() + low.double()).reshape(-1)[: x.numel()]
    result = times_power(total, common).reshape(x.shape)
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
    """Return a 0-d sum in float64, and the exponent of the power of two to multiply it with.

    The largest term is scaled to [1/4, 1), and both factors of a term have nearly one size. Beside
    an element of 1, one of 1e-40 would lose digits, though its term may be the largest.
    """
    left, of_left = torch.frexp(x.reshape(-1))
    right, of_right = torch.frexp(y.reshape(-1))
    of_terms = (of_left + of_right).long().where(left * right != 0, _NO_EXPONENT)
    largest = of_terms.max()
    half = (of_terms - largest).div(2, rounding_mode="floor")
    left, right = times_power(left, half), times_power(right, of_terms - largest - half)
    total = left.new_zeros(())
    for start in range(0, left.numel(), MOST_ELEMENTS):
        blocks = (_rows(side[start : start + MOST_ELEMENTS]) for side in (left, right))
        operands = [plane for block in blocks for plane in planes(block)]
        high, low = launch(vector_kernels.doublefloat_dot, *operands)
        total = total + (high.double() + low.double()).reshape(())
    return total, largest


def _finite(values: Tensor, usable: Tensor) -> Tensor:
    return values.double().masked_fill(~usable, 0)


def _exponent(values: Tensor) -> Tensor:
    """Return the exponent of the largest element, 0-d; 0 for zeros."""
    return row_exponents(values.reshape(1, -1)).reshape(())


def _rows(values: Tensor) -> Tensor:
    """Return a vector as 128 rows, padded with zeros."""
    return pad(values.reshape(-1), (0, -values.numel() % TILE)).reshape(TILE, -1)
