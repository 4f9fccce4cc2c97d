"""Functions of matrices against SciPy and their definitions."""

import numpy as np
import pytest
import scipy.linalg
import torch
from torch.overrides import TorchFunctionMode

import trnsolver
from each_case import each_case
from oracles.solver_matrices import with_condition, with_values
from trnsci.core.errors import AccuracyWarning
from trnsci.core.testing import random_tensor, unit_roundoff
from trnsolver.signs import _quintic


@each_case("condition", [1.0, 1e4, 1e8])
@each_case("scale", [1e-14, 1.0, 1e14])
def test_inverse_square_roots_at_any_scale(condition, scale):
    values = np.logspace(0, -np.log10(condition), 16)
    a = scale * with_values(values)
    x = trnsolver.inv_sqrt_spd(a)
    # Eigenvalues are off by n u of the largest, so their roots by the condition times that.
    bound = 20 * 16 * unit_roundoff(torch.float64) * condition
    assert float((x @ a @ x - torch.eye(16)).abs().max()) <= bound
    assert float((x - x.mT).abs().max()) <= bound * float(x.abs().max())


def test_inverse_square_roots_of_complex_batches_and_tiny_matrices():
    z = random_tensor(3, 5, 5, dtype=torch.complex128)
    a = z @ z.mH + torch.eye(5)
    x = trnsolver.inv_sqrt_spd(a)
    assert float((x @ a @ x - torch.eye(5)).abs().max()) <= 1e-12
    with pytest.raises(trnsolver.NotPositiveDefiniteError):
        trnsolver.inv_sqrt_spd(torch.zeros(3, 3))


@each_case("bad", [torch.nan, torch.inf])
@each_case("place", [(0, 0), (2, 2), (4, 4), (3, 1)])
def test_inverse_square_roots_of_what_is_no_number(bad, place):
    # In a diagonal matrix a NaN stays with its eigenvalue, which is neither first nor last.
    a = torch.diag(torch.arange(1.0, 6.0))
    a[place] = bad
    with pytest.raises(trnsolver.NotFiniteError):
        trnsolver.inv_sqrt_spd(a)


def test_rounding_is_no_negative_eigenvalue_and_is_told():
    a = with_values(np.array([0.0, 1.0, 2.0]))
    with pytest.warns(AccuracyWarning, match="inv_sqrt_spd: eigenvalues below") as caught:
        assert bool(torch.isfinite(trnsolver.inv_sqrt_spd(a)).all())
    assert caught[0].filename == __file__


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e5])
def test_newton_schulz(condition):
    a = with_values(np.logspace(1, 1 - np.log10(condition), 32))
    x, steps, residual = result = trnsolver.inv_sqrt_spd_ns(a, max_iter=30, tol=1e-10)
    assert isinstance(steps, int)
    assert isinstance(residual, float)
    assert result.info.converged
    assert residual < 1e-10
    want = scipy.linalg.inv(scipy.linalg.sqrtm(a.numpy()))
    assert np.abs(x.numpy() - want).max() <= 1e-8 * np.abs(want).max()


def test_newton_schulz_stops_where_rounding_has_the_last_word():
    a = (with_values(np.linspace(1, 5, 128))).float()
    result = trnsolver.inv_sqrt_spd_ns(a, tol=1e-9, on_failure="ignore")
    assert result.iterations < 20
    assert result.info.reason == "stagnated"
    assert not result.info.converged
    assert result.residual < 1e-5
    limited = trnsolver.inv_sqrt_spd_ns(a, max_iters=2, on_failure="ignore")  # earlier spelling
    assert (limited.iterations, limited.info.reason) == (2, "limit")
    nan = trnsolver.inv_sqrt_spd_ns(torch.full((2, 2), float("nan")), on_failure="ignore")
    assert not nan.info.converged


def test_newton_schulz_gives_each_of_a_batch_its_own_end():
    a = torch.stack([2 * torch.eye(6).double(), with_values(np.logspace(0, -4, 6))])
    result = trnsolver.inv_sqrt_spd_ns(a, max_iter=40)
    assert result.info.converged
    steps = result.info.details["steps"]
    assert steps[0] < steps[1]
    for matrix, root in zip(a, result.x, strict=True):
        want = trnsolver.inv_sqrt_spd(matrix)
        assert torch.allclose(root, want, rtol=1e-6, atol=1e-6 * float(want.abs().max()))


def test_exponentials():
    a = random_tensor(3, 6, 6, dtype=torch.float64)
    want = np.stack([scipy.linalg.expm(m) for m in a.numpy()])
    assert np.abs(trnsolver.expm(a).numpy() - want).max() <= 1e-13 * np.abs(want).max()


@each_case("method", ["svd", "qdwh"])
@each_case("side", ["right", "left"])
@each_case("shape", [(7, 7), (9, 4), (4, 9)])
@each_case("dtype", [torch.float64, torch.complex128], ids=str)
def test_polar(method, side, shape, dtype):
    a = random_tensor(*shape, dtype=dtype)
    u, p = trnsolver.polar(a, side, method=method)
    want_u, want_p = scipy.linalg.polar(a.numpy(), side)
    assert np.abs(u.numpy() - want_u).max() <= 1e-12
    assert np.abs(p.numpy() - want_p).max() <= 1e-12
    assert torch.equal(p, p.mH) or method == "svd"


@each_case("method", ["svd", "qdwh"])
@each_case("side", ["right", "left"])
@each_case("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
def test_polar_factors_at_the_ends_of_the_numbers(method, side, dtype):
    a = torch.eye(6, dtype=dtype) + 0.1 * random_tensor(6, 6, dtype=dtype)
    info = torch.finfo(dtype)
    want_u, want_p = scipy.linalg.polar(a.to(torch.complex128).numpy(), side)
    # Twice the largest entry of P is no number, and the squares of small ones are zero.
    for unit in (0.9 * info.max / np.linalg.norm(want_p, 2), info.tiny / info.eps):
        assert unit < 1 or 2 * np.abs(want_p).max() > info.max / unit
        u, p = trnsolver.polar(a * unit, side, method=method)
        allowed = 20 * 6 * unit_roundoff(dtype)
        assert np.abs(u.numpy() - want_u).max() <= allowed * np.linalg.cond(want_p)
        assert np.abs(p.numpy() / unit - want_p).max() <= allowed * np.abs(want_p).max()


@pytest.mark.parametrize("condition", [1e0, 1e6, 1e12])
def test_qdwh_needs_few_factorizations_at_any_condition(condition):
    class Factorizations(TorchFunctionMode):
        count = 0

        def __torch_function__(self, function, types, args=(), kwargs=None):
            name = getattr(function, "__name__", "")
            self.count += name.startswith(("linalg_qr", "linalg_cholesky"))
            return function(*args, **(kwargs or {}))

    a = with_condition(condition, 20)
    with Factorizations() as seen:
        u = trnsolver.polar(a, method="qdwh")[0]
    assert 1 <= seen.count <= 8
    assert float((u.mT @ u - torch.eye(20)).abs().max()) <= 20 * 20 * unit_roundoff(torch.float64)


@each_case("shape", [(8, 8), (12, 5), (5, 12), (2, 3, 6, 4)])
@each_case("dtype", [torch.float32, torch.float64, torch.complex128], ids=str)
def test_signs(shape, dtype):
    a = random_tensor(*shape, dtype=dtype)
    u, _, vh = torch.linalg.svd(a, full_matrices=False)
    found = trnsolver.msign(a, polish=6)
    eps = torch.finfo(dtype).eps
    assert float((found - u @ vh).abs().max()) <= 200 * eps


def test_signs_are_exact_down_to_small_singular_values():
    a = with_condition(1e3, 16)
    want = trnsolver.polar(a).U
    assert float((trnsolver.msign(a) - want).abs().max()) <= 1e-6
    assert torch.equal(trnsolver.msign(torch.zeros(3, 2)), torch.zeros(3, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_signs_that_are_not_reached_are_reported(dtype):
    for condition in (1e6, 1e8, 1e12):
        a = with_condition(condition, 16).to(dtype)
        with pytest.warns(trnsolver.ConvergenceWarning, match="msign: not converged") as warned:
            found = trnsolver.msign(torch.stack([torch.eye(16, dtype=dtype), a]))
        assert warned[0].filename == __file__
        assert torch.equal(trnsolver.msign(a[:, :], on_failure="ignore"), found[1])
        with pytest.raises(trnsolver.ConvergenceError, match="msign"):
            trnsolver.msign(a[:12], on_failure="raise", steps=5)
    a = with_condition(1e5, 16).to(dtype)
    assert float((trnsolver.msign(a) - trnsolver.polar(a).U).abs().max()) <= 1e-3


@each_case("dtype", [None, torch.bfloat16], ids=str)
@each_case("shape", [(32, 32), (128, 16), (16, 128), (3, 64, 16)])
def test_updates_for_muon_have_singular_values_about_one(shape, dtype):
    g = random_tensor(*shape)
    update = trnsolver.orthogonalize(g, dtype=dtype)
    assert update.dtype is g.dtype
    sigma = torch.linalg.svdvals(update)
    inside = torch.linalg.svdvals(g) > 0.02 * torch.linalg.matrix_norm(g).unsqueeze(-1)
    # The polynomial maps [0.02, 1] into [0.68, 1.21] in five steps; bfloat16 adds 8 units.
    slack = 0 if dtype is None else 8 * torch.finfo(torch.bfloat16).eps
    assert float(sigma[inside].min()) >= 0.68 - slack
    assert float(sigma[inside].max()) <= 1.21 + slack


@pytest.mark.parametrize("shape", [(64, 32), (40, 32)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_updates_of_a_gradient_with_few_directions_stay_bounded(shape, dtype):
    m, n = shape
    g = random_tensor(m, 2) @ random_tensor(2, n, seed=1) + 1e-4 * random_tensor(m, n, seed=2)
    largest = float(torch.linalg.svdvals(trnsolver.orthogonalize(g, dtype=dtype))[0])
    assert 0.68 <= largest <= 1.3


def test_the_gram_form_is_the_same_update():
    tall = random_tensor(64, 16, dtype=torch.float64)
    plain = _quintic(tall / torch.linalg.matrix_norm(tall), 5, (3.4445, -4.775, 2.0315))
    assert torch.allclose(trnsolver.orthogonalize(tall), plain, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: trnsolver.cholesky(a @ a.mT + torch.eye(3)),
        lambda a: trnsolver.inv_spd(a @ a.mT + torch.eye(3)),
        lambda a: trnsolver.inv_sqrt_spd(a @ a.mT + torch.eye(3)),
        lambda a: trnsolver.inv_sqrt_spd_ns(a @ a.mT + torch.eye(3), tol=1e-13, max_iter=40)[0],
        lambda a: trnsolver.eigh(a + a.mT)[0],
        lambda a: trnsolver.eigh_generalized(a + a.mT, a @ a.mT + torch.eye(3))[0],
        lambda a: trnsolver.solve(a + 4 * torch.eye(3), a),
        lambda a: trnsolver.solve_spd(a @ a.mT + torch.eye(3), a),
        lambda a: trnsolver.pinv(a + 4 * torch.eye(3)),
        lambda a: trnsolver.lstsq(a[:, :2], a[:, 2]).solution,
        lambda a: trnsolver.svd(a)[1],
        lambda a: trnsolver.qr(a)[1],
        lambda a: trnsolver.lu(a)[2],
        lambda a: trnsolver.polar(a).P,
        lambda a: trnsolver.polar(a[:, :2]).U,
        lambda a: trnsolver.polar(a[:2], "left").U,
        lambda a: trnsolver.msign(a),
        lambda a: trnsolver.cholqr2(a)[0],
        trnsolver.expm,
        trnsolver.det,
    ],
)
def test_gradients(call):
    a = random_tensor(3, 3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(call, (a,), check_forward_ad=True, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: trnsolver.inv_sqrt_spd(torch.eye(3) * 2 + a + a.mT),
        lambda a: trnsolver.polar(torch.eye(3) + a).U,
        lambda a: trnsolver.polar(torch.eye(3)[:, :2] + a[:, :2]).U,
    ],
)
def test_gradients_where_eigenvalues_repeat(call):
    a = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(call, (a,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, (a,))


def test_gradients_of_each_of_a_batch():
    a = random_tensor(2, 3, 3, dtype=torch.float64)

    def energy(a):
        root = trnsolver.inv_sqrt_spd(a @ a.mT + torch.eye(3))
        return (root * root * a).sum() + (trnsolver.polar(a).U * a).sum()

    want = torch.stack([torch.func.grad(energy)(each) for each in a])
    got = torch.func.vmap(torch.func.grad(energy))(a)
    assert torch.allclose(got, want, rtol=0, atol=1e-12)


# What torch does when forward mode is first used.
@pytest.mark.parametrize("name", ["inv_sqrt_spd", "polar"])
def test_second_derivatives_in_both_modes(name):
    """Derivatives of roots and polar factors solve an equation, which is differentiated too."""
    root = with_condition(10.0, 4)

    def function(z):
        a = root @ root.mT + torch.eye(4) + 0.1 * (z + z.mT)
        return trnsolver.inv_sqrt_spd(a) if name == "inv_sqrt_spd" else trnsolver.polar(a + z)[0]

    z = random_tensor(4, 4, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradgradcheck(function, z, check_fwd_over_rev=True, fast_mode=True)
