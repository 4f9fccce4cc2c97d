"""The contract of public functions, for trntensor."""

from __future__ import annotations

from typing import ClassVar

import torch

import trntensor as tt
from trnsci.core.testing import random_tensor
from trnsci.core.testing.public import PublicContract

CORES = ((1, 2, 2), (2, 3, 2), (2, 2, 1))
ENERGIES = (
    -3 + 0.25 * random_tensor(2, dtype=torch.float64, seed=4),
    2 + 0.25 * random_tensor(3, dtype=torch.float64, seed=5),
)


def tt_values(x):
    """Return what a tensor train determines: the tensor, not its cores."""
    return tt.tt_reconstruct(tt.tt_decompose(x, max_rank=2))


def tucker_values(x):
    return tt.tucker_reconstruct(*tt.tucker_decompose(x, ranks=(2, 2, 2)))


class TestPublicFunctions(PublicContract):
    package = tt
    calls: ClassVar = {
        "ao_to_mo_transform": (tt.ao_to_mo_transform, (3, 3, 4), (3, 2), (3, 1)),
        "cp_reconstruct": (
            lambda a, b, c, w: tt.cp_reconstruct([a, b, c], w),
            (2, 2),
            (3, 2),
            (2, 2),
            (2,),
        ),
        "einsum": (lambda a, b: tt.einsum("bij,kjb->bki", a, b), (2, 3, 4), (2, 4, 2)),
        "four_index_transform": (
            tt.four_index_transform,
            (3, 3, 3, 3),
            (3, 2),
            (3, 1),
            (3, 2),
            (3, 1),
        ),
        "multi_einsum": (
            lambda a, b: tt.multi_einsum(("ij,jk->ik", a, b), ("ij,ij->i", a, a)),
            (2, 3),
            (3, 2),
        ),
        "mp2_energy": (tt.mp2_energy, (2, 3, 4), *ENERGIES),
        "tt_decompose": (tt_values, (2, 3, 2)),
        "tt_inner": (lambda a, b, c: tt.tt_inner([a, b, c], [2 * a, b, c]), *CORES),
        "tt_norm": (lambda a, b, c: tt.tt_norm([a, b, c]), *CORES),
        "tt_reconstruct": (lambda a, b, c: tt.tt_reconstruct([a, b, c]), *CORES),
        "tt_round": (
            lambda a, b, c: tt.tt_reconstruct(tt.tt_round([a, b, c], max_rank=2)),
            *CORES,
        ),
        "tucker_decompose": (tucker_values, (2, 3, 2)),
        "tucker_reconstruct": (
            lambda g, a, b, c: tt.tucker_reconstruct(g, [a, b, c]),
            (2, 2, 2),
            (3, 2),
            (2, 2),
            (3, 2),
        ),
    }
