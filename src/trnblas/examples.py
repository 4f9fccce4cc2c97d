"""Example calls of the public functions, one for each; see ``trnsci.core.examples``."""

from __future__ import annotations

import torch

from trnsci.core.examples import Example, example
from trnsci.core.testing import random_tensor

__all__ = ["EXAMPLES"]

_A, _B, _C = (random_tensor(4, 4, seed=seed) for seed in range(3))
_SPD = _A @ _A.mT + 4 * torch.eye(4)
_X, _Y = random_tensor(4, seed=3), random_tensor(4, seed=4)
_OCCUPIED, _VIRTUAL = -1 - _X[:2] ** 2, 1 + _X[:2] ** 2

_OF_VECTORS = {
    "asum": example(_X),
    "axpy": example(2.0, _X, _Y),
    "dgmm": example(_A, _X),
    "dot": example(_X, _Y),
    "dotc": example(_X, _Y),
    "geam": example(1.0, _A, 2.0, _B),
    "gemv": example(1.0, _A, _X),
    "ger": example(1.0, _X, _Y),
    "gerc": example(1.0, _X, _Y),
    "hemv": example(1.0, _A, _X),
    "her": example(1.0, _X),
    "her2": example(1.0, _X, _Y),
    "iamax": example(_X),
    "nrm2": example(_X),
    "rot": example(_X, _Y, 0.6, 0.8),
    "rotg": example(_X[0], _Y[0]),
    "scal": example(2.0, _X),
    "swap": example(_X, _Y),
    "symv": example(1.0, _A, _X),
    "syr": example(1.0, _X),
    "syr2": example(1.0, _X, _Y),
    "trmv": example(_SPD, _X),
    "trsv": example(_SPD, _X),
}
_OF_MATRICES = {
    "batched_gemm": example(1.0, _A[None], _B[None]),
    "batched_trsm": example(1.0, _SPD[None], _B[None]),
    "gemm": example(1.0, _A, _B),
    "gemmt": example(1.0, _A, _B),
    "grouped_gemm": example(1.0, [_A, _B], [_B, _C]),
    "hemm": example(1.0, _A, _B),
    "her2k": example(1.0, _A, _B),
    "herk": example(1.0, _A),
    "symm": example(1.0, _A, _B),
    "syr2k": example(1.0, _A, _B),
    "syrk": example(1.0, _A),
    "trmm": example(1.0, _A, _B),
    "trsm": example(1.0, _SPD, _B),
}
_ENERGIES = {
    "mp2.nki_batched_pair_energy": example(_A.reshape(2, 2, 4), _OCCUPIED, _VIRTUAL),
    "mp2.nki_fused_gemm_energy": example(_A[:2], _A[2:], -1.0, -2.0, _VIRTUAL),
    "mp2.nki_mp2_energy": example(_A, _OCCUPIED, _OCCUPIED, _VIRTUAL),
}

EXAMPLES: dict[str, Example] = {**_OF_VECTORS, **_OF_MATRICES, **_ENERGIES}
