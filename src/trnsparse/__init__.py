"""Sparse matrices, screening and block-sparse attention on torch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsci import __version__ as __version__
from trnsci.core.backend.library import surface
from trnsci.core.errors import NkiFallbackWarning
from trnsparse._library import LIBRARY
from trnsparse.assembly import diags, hstack, kron, random_sparse, vstack
from trnsparse.attention import block_sparse_attention
from trnsparse.direct import SparseLU, splu, spsolve, sptrsv
from trnsparse.formats import (
    BSRMatrix,
    COOMatrix,
    CSCMatrix,
    CSRMatrix,
    ELLMatrix,
    SparseMatrix,
    eye_sparse,
    from_dense,
    from_scipy,
    from_torch_sparse,
)
from trnsparse.iterative import (
    cg,
    chebyshev,
    chebyshev_coeffs,
    chebyshev_steps,
    minres,
    power_iteration,
    richardson,
)
from trnsparse.masks import (
    AttentionMask,
    causal_mask,
    dilated_mask,
    global_window_mask,
    local_window_mask,
)
from trnsparse.orderings import BlockOrdering, bandwidth, block_ordering, permuted, rcm
from trnsparse.pictures import plot_pattern
from trnsparse.preconditioners import (
    amg_preconditioner,
    block_jacobi_preconditioner,
    ichol_preconditioner,
    ilu_preconditioner,
    jacobi_preconditioner,
    ssor_preconditioner,
)
from trnsparse.products import sddmm, spgemm, spmm, spmv, spmv_symmetric
from trnsparse.screening import (
    count_quartets,
    density_screen,
    schwarz_bounds,
    screen_quartets,
    screened_spmm,
    sparsity_stats,
)

if TYPE_CHECKING:
    from trnsparse import nki as nki
    from trnsparse import ops as ops

    HAS_NKI: bool

__all__ = [
    "HAS_NKI",
    "AttentionMask",
    "BSRMatrix",
    "BlockOrdering",
    "COOMatrix",
    "CSCMatrix",
    "CSRMatrix",
    "ELLMatrix",
    "NkiFallbackWarning",
    "SparseLU",
    "SparseMatrix",
    "amg_preconditioner",
    "backend",
    "bandwidth",
    "block_jacobi_preconditioner",
    "block_ordering",
    "block_sparse_attention",
    "causal_mask",
    "cg",
    "chebyshev",
    "chebyshev_coeffs",
    "chebyshev_steps",
    "count_quartets",
    "density_screen",
    "diags",
    "dilated_mask",
    "eye_sparse",
    "from_dense",
    "from_scipy",
    "from_torch_sparse",
    "get_backend",
    "global_window_mask",
    "hstack",
    "ichol_preconditioner",
    "ilu_preconditioner",
    "jacobi_preconditioner",
    "kron",
    "local_window_mask",
    "minres",
    "permuted",
    "plot_pattern",
    "power_iteration",
    "random_sparse",
    "rcm",
    "richardson",
    "schwarz_bounds",
    "screen_quartets",
    "screened_spmm",
    "sddmm",
    "set_backend",
    "sparsity_stats",
    "spgemm",
    "splu",
    "spmm",
    "spmv",
    "spmv_symmetric",
    "spsolve",
    "sptrsv",
    "ssor_preconditioner",
    "vstack",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
backend = LIBRARY.backend
__getattr__, __dir__ = surface(__name__, LIBRARY, {"nki": "trnsparse.nki", "ops": "trnsparse.ops"})
