"""The energies on torch are what their definition gives in float64."""

import pytest
import torch

from oracles import blas_energy
from trnblas import nki
from trnsci.core.testing import random_tensor

from .agreement import array


@pytest.mark.parametrize("sizes", [(2, 3, 4), (3, 1, 2), (1, 4, 1)], ids=str)
def test_energies_on_torch(sizes):
    nocc, nvir, naux = sizes
    b = random_tensor(nocc, nvir, naux, dtype=torch.float64)
    occupied = -random_tensor(nocc, dtype=torch.float64, seed=1).abs() - 0.5
    virtual = random_tensor(nvir, dtype=torch.float64, seed=2).abs() + 0.1
    flat = b.reshape(nocc * nvir, naux)
    want = blas_energy.of_all_pairs(array(b), array(occupied), array(virtual)).value
    together = nki.nki_batched_pair_energy(b, occupied, virtual)
    from_t = nki.nki_mp2_energy(flat @ flat.T, occupied, occupied, virtual)
    pairs = sum(
        nki.nki_fused_gemm_energy(b[i], b[j], float(occupied[i]), float(occupied[j]), virtual)
        for i in range(nocc)
        for j in range(nocc)
    )
    chunks = sum(
        nki.nki_mp2_energy(
            (flat @ flat.T)[i * nvir : (i + 1) * nvir], occupied[i : i + 1], occupied, virtual
        )
        for i in range(nocc)
    )
    # At most 36 terms of products of four sums of four, each below 100 in size.
    for got in (together, from_t, pairs, chunks):
        assert abs(float(got) - want) <= 200 * 2.0**-53 * max(100.0, abs(want))
