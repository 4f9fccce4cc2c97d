"""The contract of operations, for every operation of trntensor."""

from __future__ import annotations

from functools import partial

import torch

import trntensor
from trnsci.core.testing import random_tensor
from trnsci.core.testing.contract import ComplexContract, DerivativeContract, Sample
from trntensor._library import LIBRARY
from trntensor._paths import operations  # noqa: F401  (declares the operations)

A, B, C = random_tensor(2, 3, 4), random_tensor(5, 4, 2), random_tensor(3, 2)
ENERGIES = -3 + 0.25 * random_tensor(2, seed=4), 2 + 0.25 * random_tensor(3, seed=5)


class TestOperations(DerivativeContract):
    library = LIBRARY
    samples = (
        Sample("contract", lambda a, b: trntensor.einsum("bij,kjb->bki", a, b, alpha=1.5), (A, B)),
        Sample(
            "doublefloat_contract",
            lambda a, b: trntensor.einsum("bij,kjb->bki", a, b, precision="doublefloat"),
            (A, B),
            takes_float64=True,
        ),
        Sample("chain", lambda a, b, c: trntensor.einsum("lij,jk,im->lmk", a, b, c), (A, B[0], C)),
        Sample("mp2_energy", trntensor.mp2_energy, (random_tensor(2, 3, 4), *ENERGIES)),
        Sample(
            "doublefloat_mp2_energy",
            partial(trntensor.mp2_energy, precision="doublefloat"),
            (random_tensor(2, 3, 4), *ENERGIES),
            takes_float64=True,
        ),
    )


def of_complex(subscripts, **options):
    """Return the contraction of complex operands, for their parts."""
    return lambda *tensors: trntensor.einsum(
        subscripts, *map(torch.view_as_complex, tensors), **options
    )


X, Y = random_tensor(2, 3, 4, 2), random_tensor(5, 4, 2, 2, seed=1)


class TestComplexOperations(ComplexContract):
    library = LIBRARY
    samples = (
        Sample("contract", of_complex("bij,kjb->bki", alpha=1.5j), (X, Y)),
        Sample("contract", of_complex("lij,jk,im->lmk"), (X, Y[0], random_tensor(3, 2, 2))),
        Sample(
            "doublefloat_contract",
            of_complex("bij,kjb->bki", precision="doublefloat"),
            (X, Y),
            takes_float64=True,
        ),
    )
