"""Computations and lower bounds in the plans of all libraries."""

import pytest
import torch

import trnblas.distributed as blas
import trnfft.distributed as fft
import trnsolver.distributed as solver
import trnsparse
import trnsparse.distributed as sparse
import trntensor.distributed as tensor
from trnsci.core.distributed.layout import Layout
from trnsci.core.distributed.plans import Communication
from trnsci.core.errors import FlagError

N = 64
FACTOR = N**3 / 3 + 3 * N**3 / 32
"""Operations of a Cholesky factor by four panels, whose diagonal blocks are updated whole."""
BAND = torch.eye(N).roll(1, 1) + torch.eye(N).roll(-1, 1) + 4 * torch.eye(N)


def _square(ranks):
    return Layout.even((N, N), 0, ranks)


# Plans by number of ranks, with the operations of the definition, which ranks share.
PLANS = {
    "gemm": (lambda p: blas.plan("gemm", (N, N), (N, N), mesh=p), 2 * N**3),
    "syrk": (lambda p: blas.plan("syrk", (N, N), mesh=p), 2 * N**3),
    "trsm": (lambda p: blas.plan("trsm", (N, N), (N, 8), mesh=p), 8 * N**2),
    "trsm, many": (lambda p: blas.plan("trsm", (N, N), (N, 512), mesh=p), 512 * N**2),
    "fftn": (lambda p: fft.plan("fftn", (16, 16, 16), (p,), dtype=torch.complex64), None),
    "einsum": (lambda p: tensor.plan("einsum", "ij,jk->ik", (N, N), (N, N), mesh=p), 2 * N**3),
    "matmul": (lambda p: sparse.plan("matmul", _band(), _square(p)), 2 * 3 * N),
    "cholesky": (lambda p: solver.plan("cholesky", _square(p)), FACTOR),
    "solve_spd": (lambda p: solver.plan("solve_spd", _square(p)), FACTOR + 2 * N**2),
    "tsqr": (lambda p: solver.plan("tsqr", Layout.even((4096, 8), 0, p)), 6 * 4096 * 8**2),
    "lstsq": (lambda p: solver.plan("lstsq", Layout.even((4096, 8), 0, p)), None),
    "rsvd": (lambda p: solver.plan("rsvd", Layout.even((4096, 8), 0, p)), None),
    "msign": (lambda p: solver.plan("msign", Layout.even((4096, 8), 0, p)), None),
    "cg": (lambda p: solver.plan("cg", _square(p)), 2 * 2 * N**2 + 10 * N),
    "minres": (lambda p: solver.plan("minres", _square(p)), 2 * 2 * N**2 + 16 * N),
    "cg, sparse": (lambda p: solver.plan("cg", _square(p), A=_band()), 2 * 2 * 3 * N + 10 * N),
    "batched_pair_energy": (
        lambda p: blas.plan("batched_pair_energy", (8, 4, 32), mesh=p),
        None,
    ),
}


def _band():
    return trnsparse.CSRMatrix.from_dense(BAND)


def _flops(plan):
    computed = [step for step in plan.steps if step.kind == "compute"]
    return sum(sum(step.flops) for step in computed)


@pytest.mark.parametrize("name", PLANS)
def test_computations_have_operations_and_bytes_and_share_the_work(name):
    make, wanted = PLANS[name]
    for ranks in (1, 4):
        plan = make(ranks)
        computed = [step for step in plan.steps if step.kind == "compute"]
        assert computed
        for step in computed:
            assert len(step.flops) == len(step.hbm_bytes) == ranks
            assert min(step.flops) > 0
            assert min(step.hbm_bytes) > 0
        assert plan.predicted().seconds > 0
        if wanted is not None:
            # A quarter for terms of a lower order: diagonals, and factors of triangles of ranks.
            assert _flops(plan) == pytest.approx(wanted, rel=0.25)


def _jacobian(function, whole, own):
    """Return the rank of the derivative of a function of rows by the rows of other ranks."""
    if function(whole).numel() == 0 or own == slice(0, whole.shape[0]):
        return 0
    others = [row for row in range(whole.shape[0]) if not own.start <= row < own.stop]

    def changed(rows):
        return function(whole.index_copy(0, torch.tensor(others), rows))

    found = torch.autograd.functional.jacobian(changed, whole[others])
    return int(torch.linalg.matrix_rank(found.reshape(-1, len(others) * whole.shape[1])))


def _factor(A):
    lower = A.tril()
    return torch.linalg.cholesky(lower + lower.tril(-1).mT)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_lower_bounds_are_the_rank_of_the_derivative(ranks):
    generator = torch.Generator().manual_seed(ranks)
    tall = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    right = torch.randn(9, 2, generator=generator, dtype=torch.float64)
    square = tall @ tall.mT + torch.eye(9, dtype=torch.float64)
    layouts = Layout.even((9, 9), 0, ranks), Layout.even((9, 4), 0, ranks)
    wanted = [0, 0, 0]
    for rank in range(ranks):
        own = layouts[0].rows(rank)
        found = (
            _jacobian(lambda A, own=own: _factor(A)[own], square, own),
            _jacobian(lambda A: torch.linalg.cholesky(A.mT @ A), tall, own),
            _jacobian(lambda B: torch.linalg.lstsq(tall, B).solution, right, own),
        )
        wanted = [max(a, b) for a, b in zip(wanted, found, strict=True)]
    plans = (
        solver.plan("cholesky", layouts[0], dtype=torch.float64),
        solver.plan("tsqr", layouts[1], dtype=torch.float64),
        solver.plan("lstsq", layouts[1], right_sides=2, dtype=torch.float64),
    )
    assert [plan.lower_bound.bytes for plan in plans] == [8 * each for each in wanted]
    for plan in plans:
        assert plan.most_received >= plan.lower_bound.bytes


def test_a_plan_of_products_stands_for_the_matrix():
    layout = _square(4)
    product = sparse.plan("matmul", _band(), layout)
    with_matrix = solver.plan("cg", layout, iterations=7, A=_band())
    assert solver.plan("cg", layout, iterations=7, A=product) == with_matrix
    with pytest.raises(FlagError, match="plan of a product on 2 ranks, got 4"):
        solver.plan("cg", _square(2), A=product)
    assert isinstance(product, Communication)
