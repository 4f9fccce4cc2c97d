"""Derivatives of MP2 energies; their matrix products are operations with kernels.

With T the integrals of a pair and D its energy differences (see ``energies``), the energy of the
pair has the derivatives (4 T - 2 T^T) / D by T and -T (2 T - T^T) / D^2 by D. T is recomputed, one
row of pairs at a time, because the kernels do not store it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trnblas.matrix_products import multiplied
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents, total


def pair_energy_backward(
    grad: Tensor,
    needed: Needed,
    b_i: Tensor,
    b_j: Tensor,
    eps_i: float,
    eps_j: float,
    eps_vir: Tensor,
) -> Gradients:
    """Return G B_j for B_i, G^T B_i for B_j and minus the sums by D for the energies."""
    first, second = _wide(b_i), _wide(b_j)
    virtual = eps_vir.reshape(-1)
    t = multiplied(first, second, "N", "T")
    below = eps_i + eps_j - virtual[:, None] - virtual[None, :]
    for_i = for_j = for_virtual = None
    slope = grad * _by_t(t, t.mT, below)
    if needed[0]:
        for_i = multiplied(slope, second, "N", "N").to(b_i.dtype)
    if needed[1]:
        for_j = multiplied(slope, first, "T", "N").to(b_j.dtype)
    if needed[4]:
        by_d = grad * _by_difference(t, t.mT, below)
        for_virtual = _like(-by_d.sum(0) - by_d.sum(1), eps_vir)
    return for_i, for_j, None, None, for_virtual


def pair_energy_jvp(
    tangents: Tangents, b_i: Tensor, b_j: Tensor, eps_i: float, eps_j: float, eps_vir: Tensor
) -> Tensor:
    """Return the sum of gradients times tangents."""
    return _along(pair_energy_backward, tangents, b_i, b_j, eps_i, eps_j, eps_vir)


def batched_pair_energy_backward(
    grad: Tensor, needed: Needed, b: Tensor, eps_occ: Tensor, eps_vir: Tensor
) -> Gradients:
    """Return 2 G_ij B_j, summed over j, for B_i, and the sums by D for the energies.

    Each pair is counted twice, as (i, j) and (j, i), with the same energy: hence the factor 2.
    """
    wide = _wide(b)
    nocc, nvir, _ = b.shape
    if not nocc:
        return _zeros(needed, b, eps_occ, eps_vir)
    occupied, virtual = eps_occ.reshape(-1), eps_vir.reshape(-1)
    flat = wide.flatten(0, 1)
    for_b, for_occupied, for_virtual = [], [], []
    for i in range(nocc):
        t = multiplied(wide[i], flat, "N", "T").reshape(nvir, nocc, nvir)
        swapped = t.transpose(0, 2)
        below = occupied[i] + occupied[None, :, None]
        below = below - virtual[:, None, None] - virtual[None, None, :]
        if needed[0]:
            slope = grad * _by_t(t, swapped, below)
            for_b.append(multiplied(slope.reshape(nvir, nocc * nvir), flat, "N", "N", 2.0))
        if needed[1] or needed[2]:
            by_d = grad * _by_difference(t, swapped, below)
            for_occupied.append(2 * by_d.sum())
            for_virtual.append(-by_d.sum((0, 1)) - by_d.sum((1, 2)))
    return (
        torch.stack(for_b).to(b.dtype) if needed[0] else None,
        _like(torch.stack(for_occupied), eps_occ) if needed[1] else None,
        _like(total(for_virtual), eps_vir) if needed[2] else None,
    )


def batched_pair_energy_jvp(
    tangents: Tangents, b: Tensor, eps_occ: Tensor, eps_vir: Tensor
) -> Tensor:
    """Return the sum of gradients times tangents."""
    return _along(batched_pair_energy_backward, tangents, b, eps_occ, eps_vir)


def _along(backward: Callable[..., Gradients], tangents: Tangents, *args: Tensor | float) -> Tensor:
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    one = _wide(tensors[0]).new_ones(())
    needed = [tangent is not None for tangent in tangents]
    gradients = backward(one, needed, *args)
    return total(
        [
            (_wide(gradient) * tangent).sum()
            for gradient, tangent in zip(gradients, tangents, strict=True)
            if gradient is not None and tangent is not None
        ]
    )


def _by_t(t: Tensor, swapped: Tensor, below: Tensor) -> Tensor:
    return (4 * t - 2 * swapped) / below


def _by_difference(t: Tensor, swapped: Tensor, below: Tensor) -> Tensor:
    return -t * (2 * t - swapped) / (below * below)


def _wide(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _like(gradient: Tensor, energies: Tensor) -> Tensor:
    return gradient.reshape(energies.shape).to(energies.dtype)


def _zeros(needed: Needed, *operands: Tensor) -> Gradients:
    return tuple(
        torch.zeros_like(x) if each else None for each, x in zip(needed, operands, strict=True)
    )
