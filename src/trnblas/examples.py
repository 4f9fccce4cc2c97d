"""Example calls of the public functions: those of the operations, and of functions without one."""

from __future__ import annotations

import torch

import trnblas.mp2  # noqa: F401  (declares the operations of energies)
from trnblas._library import LIBRARY
from trnsci.core.examples import Example, example
from trnsci.core.testing import random_tensor

_A, _B = (random_tensor(4, 4, seed=seed) for seed in range(2))
_SPD = _A @ _A.mT + 4 * torch.eye(4)
_X, _Y = random_tensor(4, seed=3), random_tensor(4, seed=4)

_WITHOUT_KERNEL = {
    "asum": example(_X),
    "copy": example(_X),
    "dgmm": example(_A, _X),
    "geam": example(1.0, _A, 2.0, _B),
    "gemv": example(1.0, _A, _X),
    "ger": example(1.0, _X, _Y),
    "gerc": example(1.0, _X, _Y),
    "hemv": example(1.0, _A, _X),
    "her": example(1.0, _X),
    "her2": example(1.0, _X, _Y),
    "iamax": example(_X),
    "iamin": example(_X),
    "rot": example(_X, _Y, 0.6, 0.8),
    "rotg": example(_X[0], _Y[0]),
    "rotm": example(_X, _Y, torch.tensor([0.0, 0.0, -0.5, 0.5, 0.0])),
    "rotmg": example(_X[0] ** 2, _Y[0] ** 2, _X[1], _Y[1]),
    "scal": example(2.0, _X),
    "swap": example(_X, _Y),
    "symv": example(1.0, _A, _X),
    "syr": example(1.0, _X),
    "syr2": example(1.0, _X, _Y),
    "trmv": example(_SPD, _X),
    "trsv": example(_SPD, _X),
}
EXAMPLES: dict[str, Example] = {**_WITHOUT_KERNEL, **LIBRARY.examples()}
