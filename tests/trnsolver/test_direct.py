"""Direct solutions, inverses, least squares and determinants against LAPACK in float64."""

import numpy as np
import pytest
import scipy.linalg
import torch

import trnsolver
from each_case import each_case
from oracles.solver_matrices import GENERAL, hilbert, with_values
from trnsci.core.testing import random_tensor, unit_roundoff


def unit(a):
    return 20 * max(a.shape[-2:]) * unit_roundoff(a.real.dtype if a.is_complex() else a.dtype)


@each_case("dtype", [torch.float32, torch.float64], ids=str)
@each_case("name", GENERAL)
def test_solve_is_backward_stable_on_every_family(name, dtype):
    a = GENERAL[name].to(dtype)
    b = random_tensor(a.shape[-1], 3, dtype=dtype)
    x = trnsolver.solve(a, b)
    residual = torch.linalg.matrix_norm(b - a @ x)
    size = torch.linalg.matrix_norm(a) * torch.linalg.matrix_norm(x)
    assert float(residual) <= unit(a) * float(size)
    assert torch.equal(trnsolver.solve(a, b[:, 0]), torch.linalg.solve(a, b[:, 0]))


@pytest.mark.parametrize("condition", [1e0, 1e3, 1e6, 1e9])
def test_positive_definite_solutions(condition):
    a = with_values(np.logspace(0, -np.log10(condition), 20))
    b = random_tensor(20, 2, dtype=torch.float64)
    x = trnsolver.solve_spd(a, b)
    size = torch.linalg.matrix_norm(a) * torch.linalg.matrix_norm(x)
    assert float(torch.linalg.matrix_norm(b - a @ x)) <= unit(a) * float(size)
    inverse = trnsolver.inv_spd(a)
    off = torch.linalg.matrix_norm(inverse @ a - torch.eye(20))
    assert float(off) <= unit(a) * condition
    assert float(torch.linalg.matrix_norm(inverse - inverse.mT)) <= unit(a) * condition


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
def test_refinement_gives_float32_solutions_all_their_digits(condition):
    errors = {True: [], False: []}
    for seed in range(5):
        a = with_values(np.logspace(0, -np.log10(condition), 32), seed).float()
        b = random_tensor(32, seed=seed)
        want = np.linalg.solve(a.double().numpy(), b.double().numpy())
        for refined in errors:
            x = trnsolver.solve_spd(a, b, iterative_refinement=refined).double().numpy()
            errors[refined].append(np.abs(x - want).max() / np.abs(want).max())
    # The refined solution is the exact one, rounded; NumPy's is off by the condition in float64.
    assert max(errors[True]) <= 2 * unit_roundoff(torch.float32) + 1e-13 * condition
    assert np.median(errors[False]) > max(errors[True])


def test_batches_of_every_kind():
    a = random_tensor(2, 3, 5, 5, dtype=torch.float64) + 5 * torch.eye(5)
    spd = a @ a.mT
    matrices, vectors = random_tensor(2, 3, 5, 2, dtype=torch.float64), a[..., 0]
    for right in (matrices, vectors, matrices[0, 0], matrices[:1]):
        want = torch.linalg.solve(a, right)
        assert torch.allclose(trnsolver.solve(a, right), want)
    for right in (matrices, vectors, matrices[0, 0]):
        want = torch.linalg.solve(spd, right)
        assert torch.allclose(trnsolver.solve_spd(spd, right), want)
    assert torch.allclose(trnsolver.inv(a) @ a, torch.eye(5).double().expand_as(a))
    assert torch.allclose(trnsolver.inv_spd(spd) @ spd, torch.eye(5).double().expand_as(a))
    assert torch.allclose(trnsolver.pinv(a), torch.linalg.inv(a))
    assert trnsolver.lstsq(a[..., :3], matrices).solution.shape == (2, 3, 3, 2)
    assert trnsolver.lstsq(a[..., :3], vectors).solution.shape == (2, 3, 3)


def general(m, n, condition):
    """A matrix with singular values from 1 to the inverse of its condition."""
    rng = np.random.default_rng((m, n))
    k = min(m, n)
    u, v = (np.linalg.qr(rng.standard_normal((size, k)))[0] for size in (m, n))
    return torch.from_numpy((u * np.logspace(0, -np.log10(condition), k)) @ v.T)


def test_pseudo_inverses():
    rank_one = torch.ones(3, 3, dtype=torch.float64)
    found = trnsolver.pinv(rank_one)
    assert torch.allclose(rank_one @ found @ rank_one, rank_one)
    for shape in ((5, 3), (3, 5)):
        for dtype in (torch.float64, torch.complex128):
            a = random_tensor(*shape, dtype=dtype)
            want = scipy.linalg.pinv(a.numpy())
            assert np.abs(trnsolver.pinv(a).numpy() - want).max() <= unit(a) * 100
    tiny = torch.diag(torch.tensor([1.0, 1e-10, 1e-12], dtype=torch.float64))
    assert torch.count_nonzero(trnsolver.pinv(tiny, rcond=1e-6)) == 1
    assert torch.count_nonzero(trnsolver.pinv(tiny)) == 3


@pytest.mark.parametrize("rank", [6, 4])
@pytest.mark.parametrize("shape", [(9, 6), (6, 9)])
def test_least_squares_of_any_rank(shape, rank):
    m, n = shape
    a = random_tensor(m, rank, dtype=torch.float64) @ random_tensor(rank, n, dtype=torch.float64)
    b = random_tensor(m, 2, dtype=torch.float64)
    found = trnsolver.lstsq(a, b, singular_values=True)
    want, _, count, values = np.linalg.lstsq(a.numpy(), b.numpy(), rcond=None)
    assert np.abs(found.solution.numpy() - want).max() <= 1e-10
    assert int(found.rank) == rank == count
    assert np.abs(found.singular_values.numpy() - values).max() <= 1e-12
    left = np.linalg.norm(a.numpy() @ want - b.numpy(), axis=0) ** 2
    assert np.abs(found.residuals.numpy() - left).max() <= 1e-10


@each_case("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
@each_case("shape", [(9, 6), (6, 6), (40, 1), (6, 9)], ids=str)
@each_case("condition", [1e0, 1e3, 1e6, 1e12])
def test_least_squares_with_and_without_singular_values(dtype, shape, condition):
    """Ranks are those by singular values; solutions are as good where the rank is full."""
    a = general(*shape, condition).to(dtype)
    b = random_tensor(shape[0], 3, dtype=dtype)
    fast, full = trnsolver.lstsq(a, b), trnsolver.lstsq(a, b, singular_values=True)
    assert fast.singular_values is None
    values = scipy.linalg.svdvals(a.numpy())
    eps = torch.finfo(dtype).eps
    assert int(fast.rank) == int(full.rank) == int((values > eps * max(shape) * values[0]).sum())
    # The gradient of the squared norm vanishes, up to the backward error of either method.
    slope = torch.linalg.matrix_norm(a.mH @ (b - a @ fast.solution))
    size = torch.linalg.matrix_norm(a) ** 2 * torch.linalg.matrix_norm(fast.solution)
    size = size + torch.linalg.matrix_norm(a) * torch.linalg.matrix_norm(b)
    if int(fast.rank) == min(shape):
        assert float(slope) <= unit(a) * float(size)
    left = torch.linalg.vector_norm(a @ fast.solution - b, dim=0) ** 2
    scale = torch.linalg.matrix_norm(a) * torch.linalg.matrix_norm(fast.solution)
    scale = float(scale + torch.linalg.matrix_norm(b))
    assert float((fast.residuals - left).abs().max()) <= unit(a) * scale**2
    assert torch.equal(full.rank, fast.rank)


@each_case("cut", [1e-2, 1e-5, 0.0])
def test_the_cutoff_decides_the_rank_of_least_squares(cut):
    a = general(12, 5, 1e3)
    b = random_tensor(12, 2, dtype=torch.float64)
    found = trnsolver.lstsq(torch.stack([a, general(12, 5, 1.0)]), b, rcond=cut)
    values = scipy.linalg.svdvals(a.numpy())
    assert found.rank.tolist() == [int((values > cut * values[0]).sum()), 5]
    want = np.linalg.lstsq(a.numpy(), b.numpy(), rcond=cut)[0]
    assert np.abs(found.solution[0].numpy() - want).max() <= 1e3**2 * unit(a) * np.abs(want).max()


def test_determinants():
    a = random_tensor(4, 5, 5, dtype=torch.float64)
    want = np.linalg.det(a.numpy())
    assert np.abs(trnsolver.det(a).numpy() - want).max() <= 1e-13 * np.abs(want).max()
    sign, logarithm = trnsolver.slogdet(a)
    assert np.allclose(sign * logarithm.exp(), want, rtol=1e-12)
    assert float(trnsolver.det(torch.empty(0, 0))) == 1
    sign, logarithm = trnsolver.slogdet(torch.zeros(2, 2))
    assert float(sign) == 0
    assert float(logarithm) == -np.inf


# -- errors ----------------------------------------------------------------------------------------

SINGULAR = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
INDEFINITE = torch.tensor([[1.0, 2.0], [2.0, 1.0]])
NAN = torch.tensor([[1.0, float("nan")], [float("nan"), 1.0]])


@pytest.mark.parametrize("call", [trnsolver.inv, lambda a: trnsolver.solve(a, torch.ones(2))])
def test_singular_matrices_are_named(call):
    with pytest.raises(trnsolver.SingularMatrixError, match="A must not be singular") as caught:
        call(SINGULAR)
    assert isinstance(caught.value, torch.linalg.LinAlgError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "call",
    [
        trnsolver.cholesky,
        trnsolver.inv_spd,
        lambda a: trnsolver.solve_spd(a, torch.ones(2)),
        lambda a: trnsolver.eigh_generalized(a, a),
        trnsolver.inv_sqrt_spd,
    ],
)
def test_matrices_that_are_not_positive_definite_are_named(call):
    with pytest.raises(trnsolver.NotPositiveDefiniteError, match="positive definite"):
        call(INDEFINITE)
    for bad in (NAN, torch.tensor([[2.0, 1.0], [1.0, float("nan")]])):
        with pytest.raises(trnsolver.LinAlgError):
            call(bad)


def test_the_operand_that_is_not_positive_definite_is_named():
    with pytest.raises(trnsolver.NotPositiveDefiniteError, match="B must be"):
        trnsolver.eigh_generalized(torch.eye(2), INDEFINITE)
    with pytest.raises(trnsolver.NotPositiveDefiniteError, match="B must be"):
        trnsolver.eigh_generalized(torch.eye(2), NAN)
    with pytest.raises(trnsolver.NotPositiveDefiniteError, match="block 1"):
        trnsolver.block_jacobi_preconditioner(torch.block_diag(torch.eye(2), NAN), 2)


@each_case("call", [trnsolver.eigh, trnsolver.eigvalsh, trnsolver.inv_sqrt_spd])
@each_case("dtype", [torch.float32, torch.complex128], ids=str)
@each_case("place", [(0, 0), (1, 0), (1, 1)])
def test_a_nan_in_a_small_block_does_not_end_as_a_number(call, dtype, place):
    block = torch.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=dtype)
    block[place] = block[place[::-1]] = float("nan")
    for rest in (0, 1, 30):
        for a in (
            torch.block_diag(block, torch.eye(rest)),
            torch.block_diag(torch.eye(rest), block),
        ):
            with pytest.raises(trnsolver.NotFiniteError, match="A must be finite"):
                call(a)
            with pytest.raises(trnsolver.NotFiniteError, match="A must be finite"):
                call(torch.stack([torch.eye(rest + 2, dtype=dtype), a]))


def test_a_nan_that_is_not_read_does_not_matter():
    a = torch.tensor([[2.0, float("nan")], [1.0, 2.0]])
    full = torch.tensor([[2.0, 1.0], [1.0, 2.0]])
    calls = (trnsolver.eigvalsh, lambda x: trnsolver.eigh(x).eigenvalues, trnsolver.inv_sqrt_spd)
    for call in (*calls, trnsolver.cholesky):
        torch.testing.assert_close(call(a), call(full))


@each_case(
    "call",
    [
        trnsolver.eigh,
        trnsolver.eigvalsh,
        trnsolver.svd,
        trnsolver.svdvals,
        trnsolver.polar,
        trnsolver.schur,
        lambda a: trnsolver.solve(a, torch.ones(2), target_forward_error=1e-3),
        lambda a: trnsolver.eigh(a, 1e-3),
        lambda a: trnsolver.eigh(a, k=1),
    ],
)
@each_case("bad", [NAN, torch.full((2, 2), float("inf"))], ids=["nan", "inf"])
def test_nan_and_infinity_are_named(call, bad):
    with pytest.raises(trnsolver.NotFiniteError, match="A must be finite"):
        call(bad)


def test_nan_spreads_through_the_rest():
    assert bool(trnsolver.lu(NAN).U.isnan().any())
    assert bool(trnsolver.qr(NAN).Q.isnan().any())
    assert bool(trnsolver.det(NAN).isnan())
    assert bool(trnsolver.expm(NAN).isnan().any())


@each_case("name", ["cholesky", "inv", "inv_spd", "det", "slogdet", "expm", "eigh"])
@each_case("a", [torch.ones(2, 3), torch.ones(3), torch.tensor(1.0)], ids=str)
def test_matrices_that_are_not_square_are_refused(name, a):
    with pytest.raises(ValueError, match=f"{name}: A must be"):
        getattr(trnsolver, name)(a)


def test_wrong_kinds_are_refused():
    with pytest.raises(TypeError, match="floating point"):
        trnsolver.cholesky(torch.ones(2, 2, dtype=torch.int64))
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        trnsolver.eigh([[1.0]])
    with pytest.raises(ValueError, match="as many rows"):
        trnsolver.solve(torch.eye(3), torch.ones(4))
    with pytest.raises(ValueError, match="broadcast"):
        trnsolver.solve(torch.eye(3).expand(2, 3, 3), torch.ones(5, 3, 1))


@each_case(
    ("call", "shape"),
    [
        (trnsolver.cholesky, (0, 0)),
        (lambda a: trnsolver.eigh(a)[1], (0, 0)),
        (trnsolver.inv, (0, 0)),
        (trnsolver.inv_spd, (0, 0)),
        (trnsolver.expm, (0, 0)),
        (trnsolver.inv_sqrt_spd, (0, 0)),
        (lambda a: trnsolver.solve(a, torch.empty(0, 2)), (0, 2)),
        (lambda a: trnsolver.solve_spd(a, torch.empty(0)), (0,)),
        (lambda a: trnsolver.solve(a, torch.empty(0), target_forward_error=1e-3).x, (0,)),
        (lambda a: trnsolver.qr(a).R, (0, 0)),
        (lambda a: trnsolver.lu(a).L, (0, 0)),
        (lambda a: trnsolver.svd(a).s, (0,)),
        (trnsolver.pinv, (0, 0)),
        (trnsolver.msign, (0, 0)),
        (lambda a: trnsolver.inv_sqrt_spd_ns(a)[0], (0, 0)),
        (lambda a: trnsolver.cg(a, torch.empty(0)).x, (0,)),
    ],
)
def test_empty_matrices_have_empty_results(call, shape):
    assert call(torch.empty(0, 0)).shape == shape


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_narrow_dtypes_are_computed_in_float32_and_rounded_once(dtype):
    a = (hilbert(4) + torch.eye(4)).to(dtype)
    b = torch.ones(4, dtype=dtype)
    calls = {
        "cholesky": trnsolver.cholesky,
        "lu": lambda a: trnsolver.lu(a).L,
        "P": lambda a: trnsolver.lu(a).P,
        "qr": lambda a: trnsolver.qr(a).R,
        "svd": lambda a: trnsolver.svd(a).s,
        "eigh": lambda a: trnsolver.eigh(a)[0],
        "eigh_generalized": lambda a: trnsolver.eigh_generalized(a, a)[0],
        "solve": lambda a: trnsolver.solve(a, b.to(a.dtype)),
        "solve_spd": lambda a: trnsolver.solve_spd(a, b.to(a.dtype)),
        "inv_spd": trnsolver.inv_spd,
        "pinv": trnsolver.pinv,
        "inv_sqrt_spd": trnsolver.inv_sqrt_spd,
        "inv_sqrt_spd_ns": lambda a: trnsolver.inv_sqrt_spd_ns(a)[0],
        "cg": lambda a: trnsolver.cg(a, b.to(a.dtype)).x,
        "gmres": lambda a: trnsolver.gmres(a, b.to(a.dtype)).x,
        "schur": lambda a: trnsolver.schur(a).T_,
        "msign": trnsolver.msign,
        "expm": trnsolver.expm,
        "det": trnsolver.det,
    }
    for name, call in calls.items():
        got, want = call(a), call(a.float())
        assert got.dtype is dtype, name
        if name not in ("cg", "gmres"):
            assert torch.equal(got, want.to(dtype)), name
        else:
            assert torch.allclose(got.float(), want, rtol=2 * torch.finfo(dtype).eps), name
