"""Example calls of the public functions; see ``trnsci.core.examples``.

``amg_preconditioner`` has none: PyAMG, which is optional, computes it.
"""

from __future__ import annotations

import torch

from trnrand import Generator
from trnsci.core.examples import Example, example
from trnsci.core.testing import random_tensor
from trnsparse._library import LIBRARY
from trnsparse.formats import BSRMatrix, CSRMatrix
from trnsparse.masks import causal_mask

_A, _B = random_tensor(4, 4), random_tensor(4, 4, seed=1)
_X = random_tensor(4, seed=3)
_SPD = _A @ _A.mT + 4 * torch.eye(4)
_ROWS, _BLOCKS = CSRMatrix.from_dense(_SPD), BSRMatrix.from_dense(_SPD, 2)
_EQUAL = CSRMatrix.from_dense(torch.eye(256))
_HEADS = random_tensor(1, 1, 256, 4, seed=8)
_INTEGRALS = torch.rand(4, 4, generator=torch.Generator().manual_seed(9))

_OF_A_MATRIX = {
    name: example(_ROWS)
    for name in [
        "ichol_preconditioner",
        "ilu_preconditioner",
        "jacobi_preconditioner",
        "power_iteration",
        "splu",
        "ssor_preconditioner",
    ]
}
_OF_A_SYSTEM = {
    name: example(_ROWS, _X)
    for name in ["cg", "minres", "spmv", "spmv_symmetric", "spsolve", "sptrsv"]
}
_SCREENING = {
    **{
        name: example(_INTEGRALS)
        for name in ["count_quartets", "schwarz_bounds", "screen_quartets", "sparsity_stats"]
    },
    "density_screen": example(_INTEGRALS, _A),
    **LIBRARY.examples(),
}
_OTHERS = {
    "block_jacobi_preconditioner": example(_BLOCKS),
    "block_sparse_attention": example(_HEADS, _HEADS, _HEADS, causal_mask(256, 128)),
    "cg, BSRMatrix": example(_BLOCKS, _X),
    "chebyshev": example(_ROWS, _X, 1.0, 9.0, 3),
    "diags": example([_X, 2.0], [0, 1]),
    "hstack": example([_ROWS, _BLOCKS]),
    "kron": example(_ROWS, _ROWS),
    "random_sparse": example((4, 4), 0.5, generator=Generator(3)),
    "richardson": example(_ROWS, _X, 0.1, 3),
    "sddmm": example(_ROWS, _A, _B),
    "spgemm": example(_ROWS, _ROWS),
    "spmm": example(_ROWS, _B),
    "vstack": example([_ROWS, _BLOCKS]),
    "spmm, BSRMatrix": example(_BLOCKS, _B),
    "spmm, equal rows": example(_EQUAL, random_tensor(256, 2)),
}

EXAMPLES: dict[str, Example] = {**_OF_A_MATRIX, **_OF_A_SYSTEM, **_SCREENING, **_OTHERS}
