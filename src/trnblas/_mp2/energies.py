"""MP2 energies on torch by their definition; the largest intermediate is one row of pairs.

With T[a, b] the integral (ia|jb) of a pair of occupied orbitals and D = eps_i + eps_j - eps_a -
eps_b, the energy of the pair is the sum of T (2 T - T^T) / D over the virtual orbitals a and b.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MOST_INTEGRALS = 2**24  # of one product, at the levels that store them


def orbitals_at_once(nocc: int, nvir: int) -> int:
    """Return the occupied orbitals whose integrals with all others are one product."""
    return max(1, _MOST_INTEGRALS // max(1, nocc * nvir * nvir))


def mp2_energy(
    t_flat: Tensor, eps_occ_chunk: Tensor, eps_occ_full: Tensor, eps_vir: Tensor
) -> Tensor:
    """Return the energy of pairs (i in a chunk, any j), from T of (ic * nvir, nocc * nvir)."""
    ic, nocc, nvir = eps_occ_chunk.numel(), eps_occ_full.numel(), eps_vir.numel()
    t = t_flat.reshape(ic, nvir, nocc, nvir)
    chunk, full, virtual = (x.reshape(-1) for x in (eps_occ_chunk, eps_occ_full, eps_vir))
    total = _wide(t_flat).new_zeros(())
    for i in range(ic):
        total = total + _row_energy(_wide(t[i]), chunk[i], full, virtual)
    return total


def pair_energy(b_i: Tensor, b_j: Tensor, eps_i: float, eps_j: float, eps_vir: Tensor) -> Tensor:
    """Return the energy of one pair, from the (nvir, naux) factors of both orbitals."""
    t = _wide(b_i) @ _wide(b_j).mT
    energies = eps_vir.reshape(-1)
    below = eps_i + eps_j - energies[:, None] - energies[None, :]
    return (t * (2 * t - t.mT) / below).sum()


def batched_pair_energy(b: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    """Return the energy of all ordered pairs, from B of (nocc, nvir, naux)."""
    wide = _wide(b)
    nocc, nvir, _ = b.shape
    occupied, virtual = eps_occ.reshape(-1), eps_vir.reshape(-1)
    flat = wide.flatten(0, 1)
    total = wide.new_zeros(())
    for i in range(nocc):
        row = (wide[i] @ flat.mT).reshape(nvir, nocc, nvir)
        total = total + _row_energy(row, occupied[i], occupied, virtual)
    return total


def _row_energy(t: Tensor, eps_i: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    """Return the energy of the pairs (i, any j), from T of (nvir, nocc, nvir)."""
    below = eps_i + eps_occ[None, :, None] - eps_vir[:, None, None] - eps_vir[None, None, :]
    return (t * (2 * t - t.transpose(0, 2)) / below).sum()


def _wide(values: Tensor) -> Tensor:
    """Return values in at least float32, for accurate sums of many terms."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
