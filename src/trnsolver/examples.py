"""Example calls of the public functions; see ``trnsci.core.examples``."""

from __future__ import annotations

import torch

from trnsci.core.examples import Example, example
from trnsci.core.testing import random_tensor

_A, _X = random_tensor(4, 4), random_tensor(4, seed=3)
_SPD = _A @ _A.mT + 4 * torch.eye(4)

_OF_A_MATRIX = {
    name: example(_SPD)
    for name in [
        "cholesky",
        "cholqr2",
        "det",
        "eigh",
        "eigvalsh",
        "expm",
        "ichol_preconditioner",
        "inv",
        "inv_spd",
        "inv_sqrt_spd",
        "inv_sqrt_spd_ns",
        "jacobi_preconditioner",
        "lu",
        "msign",
        "orthogonalize",
        "pinv",
        "polar",
        "qr",
        "schur",
        "slogdet",
        "ssor_preconditioner",
        "svd",
        "svdvals",
    ]
}
_OF_A_SYSTEM = {
    name: example(_SPD, _X)
    for name in ["bicgstab", "fgmres", "gmres", "lstsq", "minres", "solve", "solve_spd"]
}
_OTHERS = {
    "block_jacobi_preconditioner": example(_SPD, 2),
    "cg": example(torch.eye(2), _X[:2], max_iter=1),
    "eigh_generalized": example(_A + _A.mT, _SPD),
    "eigh_randomized": example(_SPD, 2, 1),
    "hutch_plus_plus": example(_SPD, 6),
    "lobpcg": example(torch.diag(torch.arange(1.0, 21.0)), 2),
    "nystrom": example(_SPD, 2),
    "rsvd": example(_SPD, 2, oversampling=1),
}

EXAMPLES: dict[str, Example] = {**_OF_A_MATRIX, **_OF_A_SYSTEM, **_OTHERS}
