"""Names of published releases, against dense definitions."""

import torch

import trnsparse as ts
from trnsci.core.testing import random_tensor

DENSE = torch.tensor([[4.0, 1.0, 0.0], [0.0, 3.0, 0.0], [2.0, 0.0, 5.0]], dtype=torch.float64)
OTHER = torch.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 1.0], [3.0, 0.0, 1.0]], dtype=torch.float64)


def test_algebra():
    A, B = ts.from_dense(DENSE), ts.from_dense(OTHER)
    for found, want in (
        (ts.multiply(A, B), DENSE * OTHER),
        (ts.multiply(A, OTHER), DENSE * OTHER),
        (ts.power(A, 2.0), DENSE**2),
        (ts.sparse_add(A, B, 2.0, -3.0), 2 * DENSE - 3 * OTHER),
        (ts.sparse_scale(A, 3.0), 3 * DENSE),
        (ts.sparse_transpose(A.to_bsr(2)), DENSE.T),
        (ts.transpose(A), DENSE.T),
    ):
        assert isinstance(found, ts.CSRMatrix)
        assert torch.equal(found.to_dense(), want)
    assert ts.nnz_per_row(A).tolist() == [2, 1, 2]
    # One entry at (0, 0) twice: stored entries count, not elements.
    twice = ts.COOMatrix(torch.ones(2), torch.zeros(2).long(), torch.zeros(2).long(), (1, 1))
    assert ts.nnz_per_row(twice).tolist() == [2]


def test_functions_of_blocks():
    B = random_tensor(3, 2, dtype=torch.float64)
    blocks = ts.BSRMatrix.from_dense(DENSE, 2)
    torch.testing.assert_close(ts.bsr_spmm(blocks, B), DENSE @ B)
    assert torch.equal(ts.bsr_diagonal(blocks), DENSE.diagonal())
    assert ts.cg_bsr is ts.cg
    assert ts.chebyshev_bsr is ts.chebyshev
    assert ts.power_iteration_bsr is ts.power_iteration
    assert ts.richardson_bsr is ts.richardson
    assert ts.jacobi_preconditioner_bsr is ts.jacobi_preconditioner
