"""Kernels with loops on the device, on one core and on both cores of a logical core."""

import numpy as np
import pytest

import nkisim
from trnsolver._eigen.tournament import packed_tables, slot_permutation
from trnsolver._kernels import cg, eigh_blocks, eigh_tile, newton_schulz, svd

BATCH = 3  # odd: one matrix is computed by both cores
LOOPS = {"nki": "0.6", "source": False}


def symmetric(n):
    a = np.random.default_rng(n).standard_normal((BATCH, n, n)).astype(np.float32)
    return a @ a.transpose(0, 2, 1) / n + np.eye(n, dtype=np.float32)


def vectors(n):
    return np.random.default_rng(0).standard_normal((BATCH, n)).astype(np.float32)


CALLS = {
    "eigh_tile": (
        eigh_tile.jacobi_eigh,
        lambda: (symmetric(4), packed_tables(4, 1), 2),
    ),
    "eigh_blocks": (
        eigh_blocks.block_jacobi_eigh,
        lambda: (symmetric(8), packed_tables(4, 1), tuple(slot_permutation(4)), 1),
    ),
    "svd": (
        svd.jacobi_svd,
        lambda: (symmetric(4), packed_tables(4, 1), 2, True),
    ),
    "newton_schulz": (newton_schulz.inverse_root, lambda: (symmetric(4), 2, 1e-6)),
    "cg": (
        cg.conjugate_gradients,
        lambda: (symmetric(4), vectors(4), np.zeros((BATCH, 4), np.float32), 1e-6, 2),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_both_cores_give_the_results_of_one(name):
    kernel, arguments = CALLS[name]
    alone = nkisim.check(kernel, lnc=1, **LOOPS)(*arguments())
    both = nkisim.check(kernel[2], lnc=2, **LOOPS)(*arguments())
    assert not [str(f) for f in (*alone, *both) if f.severity != "note"]
    for one, two in zip(alone.outputs, both.outputs, strict=True):
        np.testing.assert_array_equal(one, two)
    # Where LNC is 2 the compiler refuses the launch on one core.
    assert "C041" in nkisim.check(kernel, lnc=2, values=False, **LOOPS)(*arguments()).codes
    if name == "cg":  # the loops are what differs, so one time shows the split
        times = [
            nkisim.profile(k, "gen3", advice=False, nki="0.6")(*arguments()).latency_us
            for k in (kernel, kernel[2])
        ]
        assert times[1] < times[0]
