"""MP2 energies of pairs of orbitals on torch, and their derivatives, for trnblas and trntensor.

With T[a, b] the integral (ia|jb) of a pair and D = eps_i + eps_j - eps_a - eps_b, the energy of the
pair is the sum of T (2 T - T^T) / D over the virtual orbitals a and b. Its derivatives are
(4 T - 2 T^T) / D by T and -T (2 T - T^T) / D^2 by D. The largest intermediate is one row of pairs:
derivatives compute T again, because the kernels do not store it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trnsci.core.backend.derivatives import Gradients, Needed, Tangents, total

__all__ = [
    "Multiply",
    "energy_of_all_pairs",
    "energy_of_integrals",
    "energy_of_pair",
    "orbitals_at_once",
    "rules_of_all_pairs",
    "rules_of_pair",
]

Multiply: TypeAlias = Callable[[Tensor, Tensor, bool], Tensor]
"""``multiply(left, right, transposed)`` returns ``left @ right``, or ``left @ right.mT``."""

_MOST_INTEGRALS = 2**24  # of one product, at the levels that store them


def orbitals_at_once(nocc: int, nvir: int) -> int:
    """Return the occupied orbitals whose integrals with all others are one product."""
    return max(1, _MOST_INTEGRALS // max(1, nocc * nvir * nvir))


def energy_of_integrals(
    t_flat: Tensor, eps_occ_chunk: Tensor, eps_occ_full: Tensor, eps_vir: Tensor
) -> Tensor:
    """Return the energy of pairs (i in a chunk, any j), from T of (ic * nvir, nocc * nvir)."""
    ic, nocc, nvir = eps_occ_chunk.numel(), eps_occ_full.numel(), eps_vir.numel()
    t = t_flat.reshape(ic, nvir, nocc, nvir)
    chunk, full, virtual = (_wide(x).reshape(-1) for x in (eps_occ_chunk, eps_occ_full, eps_vir))
    found = _wide(t_flat).new_zeros(())
    for i in range(ic):
        row = _wide(t[i])
        below = _below(chunk[i], full, virtual)
        found = found + _energies(row, row.transpose(0, 2), below).sum()
    return found


def energy_of_pair(b_i: Tensor, b_j: Tensor, eps_i: float, eps_j: float, eps_vir: Tensor) -> Tensor:
    """Return the energy of one pair, from the (nvir, naux) factors of both orbitals."""
    t = _wide(b_i) @ _wide(b_j).mT
    return _energies(t, t.mT, _below_of_pair(eps_i, eps_j, eps_vir)).sum()


def energy_of_all_pairs(b: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    """Return the energy of all ordered pairs, from B of (nocc, nvir, naux).

    Pairs (i, j) and (j, i) have the same energy, so j > i counts twice and j < i is skipped.
    """
    wide, occupied, virtual = _wide(b), _wide(eps_occ).reshape(-1), _wide(eps_vir).reshape(-1)
    nocc, nvir, _ = b.shape
    # The sum of no elements: without orbitals, too, the energy has a gradient.
    found = wide[:0].sum() + occupied[:0].sum() + virtual[:0].sum()
    for i in range(nocc):
        t = (wide[i] @ wide[i:].flatten(0, 1).mT).reshape(nvir, nocc - i, nvir)
        below = _below(occupied[i], occupied[i:], virtual)
        pairs = _energies(t, t.transpose(0, 2), below).sum((0, 2))
        found = found + 2 * pairs.sum() - pairs[0]
    return found


# -- derivatives -----------------------------------------------------------------------------------


def rules_of_pair(multiply: Multiply) -> dict[str, Any]:
    """Return the rules of ``energy_of_pair``, whose products are those of an operation."""
    backward = partial(_pair_backward, multiply)
    return {"backward": backward, "jvp": partial(_along, backward)}


def rules_of_all_pairs(multiply: Multiply) -> dict[str, Any]:
    """Return the rules of ``energy_of_all_pairs``, whose products are those of an operation."""
    backward = partial(_all_pairs_backward, multiply)
    return {"backward": backward, "jvp": partial(_along, backward)}


def _pair_backward(multiply: Multiply, grad: Tensor, needed: Needed, *args: Any) -> Gradients:
    """Return G B_j for B_i, G^T B_i for B_j and minus the sums by D for the energies."""
    b_i, b_j, eps_i, eps_j, eps_vir = args
    first, second = _wide(b_i), _wide(b_j)
    t, below = multiply(first, second, True), _below_of_pair(eps_i, eps_j, eps_vir)
    slope = grad * _by_integrals(t, t.mT, below)
    for_i = multiply(slope, second, False).to(b_i.dtype) if needed[0] else None
    for_j = multiply(slope.mT, first, False).to(b_j.dtype) if needed[1] else None
    by_d = -grad * _by_difference(t, t.mT, below)
    for_virtual = _like(by_d.sum(0) + by_d.sum(1), eps_vir) if needed[4] else None
    return for_i, for_j, None, None, for_virtual


def _all_pairs_backward(
    multiply: Multiply, grad: Tensor, needed: Needed, b: Tensor, eps_occ: Tensor, eps_vir: Tensor
) -> Gradients:
    """Return 2 G_ij B_j, summed over j, for B_i, and the sums by D for the energies.

    Each pair is counted twice, as (i, j) and (j, i), with the same energy: hence the factor 2.
    """
    wide, occupied, virtual = _wide(b), _wide(eps_occ).reshape(-1), _wide(eps_vir).reshape(-1)
    nocc, nvir, _ = b.shape
    flat = wide.flatten(0, 1)
    for_b, for_occupied, for_virtual = [], [], []
    for i in range(nocc):
        t = multiply(wide[i], flat, True).reshape(nvir, nocc, nvir)
        swapped, below = t.transpose(0, 2), _below(occupied[i], occupied, virtual)
        if needed[0]:
            slope = grad * _by_integrals(t, swapped, below)
            for_b.append(2 * multiply(slope.reshape(nvir, nocc * nvir), flat, False))
        if needed[1] or needed[2]:
            by_d = grad * _by_difference(t, swapped, below)
            for_occupied.append(2 * by_d.sum())
            for_virtual.append(-by_d.sum((0, 1)) - by_d.sum((1, 2)))
    return (
        torch.stack(for_b).to(b.dtype) if needed[0] else None,
        _like(torch.stack(for_occupied), eps_occ) if needed[1] else None,
        _like(total(for_virtual), eps_vir) if needed[2] else None,
    )


def _along(backward: Callable[..., Gradients], tangents: Tangents, *args: Any) -> Tensor:
    """Return the sum of gradients times tangents."""
    one = _wide(args[0]).new_ones(())
    gradients = backward(one, [tangent is not None for tangent in tangents], *args)
    return total(
        [
            (_wide(gradient) * tangent).sum()
            for gradient, tangent in zip(gradients, tangents, strict=True)
            if gradient is not None and tangent is not None
        ]
    )


def _below(eps_i: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    """Return D of the pairs (i, any j), of (nvir, nocc, nvir)."""
    return (eps_i + eps_occ)[None, :, None] - eps_vir[:, None, None] - eps_vir


def _below_of_pair(eps_i: float, eps_j: float, eps_vir: Tensor) -> Tensor:
    energies = _wide(eps_vir).reshape(-1)
    return eps_i + eps_j - energies[:, None] - energies


def _energies(t: Tensor, swapped: Tensor, below: Tensor) -> Tensor:
    return t * (2 * t - swapped) / below


def _by_integrals(t: Tensor, swapped: Tensor, below: Tensor) -> Tensor:
    return (4 * t - 2 * swapped) / below


def _by_difference(t: Tensor, swapped: Tensor, below: Tensor) -> Tensor:
    return -t * (2 * t - swapped) / (below * below)


def _wide(values: Tensor) -> Tensor:
    """Return values in at least float32, for accurate sums of many terms."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _like(gradient: Tensor, energies: Tensor) -> Tensor:
    return gradient.reshape(energies.shape).to(energies.dtype)
