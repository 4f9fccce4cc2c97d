"""What the package shows, and what importing it costs."""

import inspect

import pytest

import trnsparse
from each_case import each_case
from fresh_process import printed_after

# Names, order and defaults that callers rely on.
SIGNATURES = {
    "CSRMatrix": "(values, col_indices, row_ptrs, shape, validate=True)",
    "COOMatrix": "(values, row_indices, col_indices, shape, validate=True)",
    "BSRMatrix": "(blocks, block_col_indices, block_row_ptrs, shape, block_size=128, "
    "validate=True)",
    "from_dense": "(A, threshold=0.0)",
    "from_scipy": "(sp_matrix, dtype=None)",
    "eye_sparse": "(n, dtype=torch.float32, device=None)",
    "spmv": "(A, x, alpha=1.0, y=None, beta=0.0)",
    "spmm": "(A, B, alpha=1.0, C=None, beta=0.0)",
    "spmv_symmetric": "(A, x, alpha=1.0, uplo='upper')",
    "bsr_spmm": "(A, B)",
    "sparse_add": "(A, B, alpha=1.0, beta=1.0)",
    "sparse_scale": "(A, alpha)",
    "sparse_transpose": "(A)",
    "nnz_per_row": "(A)",
    "schwarz_bounds": "(diagonal_integrals)",
    "screen_quartets": "(Q, threshold=1e-10, mode='pair')",
    "density_screen": "(Q, P, threshold=1e-10)",
    "sparsity_stats": "(Q, threshold=1e-10)",
    "screened_spmm": "(A, diag_integrals, B, threshold, *, col_integrals=None)",
    "cg_bsr": "(A, b, x0=None, tol=1e-06, max_iter=1000, M=None, *, rtol=None, atol=0.0, "
    "callback=None, on_failure='warn')",
    "chebyshev_bsr": "(A, b, lam_min, lam_max, K=50, x0=None, *, on_failure='warn')",
    "chebyshev_coeffs": "(lam_min, lam_max, K, dtype=torch.float32)",
    "richardson_bsr": "(A, b, omega, K=100, x0=None, *, on_failure='warn')",
    "power_iteration_bsr": "(A, v0=None, max_iter=100, tol=1e-09, *, on_failure='warn')",
    "jacobi_preconditioner_bsr": "(A)",
    "bsr_diagonal": "(A)",
}


@each_case("name", SIGNATURES)
def test_signatures(name):
    signature = inspect.signature(getattr(trnsparse, name))
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == SIGNATURES[name]


@pytest.mark.parametrize("module", ["formats", "ops", "screening", "iterative", "nki"])
def test_modules_that_callers_import_have_what_they_show(module):
    found = getattr(trnsparse, module)
    assert found.__name__ == f"trnsparse.{module}"
    assert all(hasattr(found, name) for name in found.__all__)


def test_importing_it_brings_in_neither_nki_nor_anything_optional():
    loaded = set(
        printed_after("torch", "import sys, trnsparse\nprint(json.dumps(sorted(sys.modules)))")
    )
    assert loaded.isdisjoint({"matplotlib", "nkisim", "numba", "pyamg", "scipy"})
