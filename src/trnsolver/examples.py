"""Example calls of the public functions: those of the operations, and of functions without one."""

from __future__ import annotations

import torch

from trnsci.core.examples import Example, example
from trnsci.core.testing import random_tensor
from trnsolver._library import LIBRARY
from trnsolver._paths.batches import definite_example, definite_system

_OF_A_MATRIX = (
    "eig",
    "eigvals",
    "expm",
    "ichol_preconditioner",
    "jacobi_preconditioner",
    "schur",
    "sqrtm",
    "ssor_preconditioner",
)
EXAMPLES: dict[str, Example] = {
    "block_jacobi_preconditioner": definite_example(2),
    "eigh_tridiagonal": example(random_tensor(4), random_tensor(3, seed=1)),
    "expm_multiply": definite_system(),
    "eigsh": example(torch.diag(torch.arange(1.0, 41.0)), 2),
    "svds": example(torch.diag(torch.arange(1.0, 41.0)), 2),
    "lobpcg": example(torch.diag(torch.arange(1.0, 21.0)), 2),
    **{name: definite_example() for name in _OF_A_MATRIX},
    **{name: definite_system() for name in ("bicgstab", "fgmres", "gmres", "minres")},
    **LIBRARY.examples(),
}
