"""MP2 energies on torch: pairs i <= j only, with the integrals of one i at a time."""

from __future__ import annotations

import torch
from torch import Tensor


def torch_mp2_energy(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    """Return the energy of all pairs, from B of (nocc, nvir, naux).

    Pairs (i, j) and (j, i) have the same energy, so j > i counts twice and j < i is skipped. The
    energy of a pair is the sum of T (2 T - T') / D over (a, b).
    """
    wide = torch.promote_types(B.dtype, torch.float32)
    B, eps_occ, eps_vir = B.to(wide), eps_occ.to(wide), eps_vir.to(wide)
    nocc, nvir, _ = B.shape
    above = eps_vir[:, None, None] + eps_vir
    # The sum of no elements: without orbitals, too, the energy has a gradient.
    total = B[:0].sum() + eps_occ[:0].sum() + eps_vir[:0].sum()
    for i in range(nocc):
        rest = B[i:].flatten(0, 1)
        t = (B[i] @ rest.mT).reshape(nvir, nocc - i, nvir)
        weights = (eps_occ[i] + eps_occ[i:])[:, None] - above
        pairs = (t * (2 * t - t.transpose(0, 2)) / weights).sum((0, 2))
        total = total + 2 * pairs.sum() - pairs[0]
    return total
