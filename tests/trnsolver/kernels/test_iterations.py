"""Kernels that iterate: signs of matrices, inverse square roots, conjugate gradients."""

import numpy as np
import pytest
import torch

from trnsci.core.backend.launch import Launcher
from trnsolver._kernels.cg import conjugate_gradients
from trnsolver._kernels.newton_schulz import inverse_root, msign
from trnsolver._library import LIBRARY

from .harness_solver import EPS, GENERATIONS, lower_only, run, with_spectrum

QUINTIC = (1.875, -1.25, 0.375)


def matrices(*shape):
    """Matrices of norm 1."""
    a = np.random.default_rng(shape).standard_normal(shape)
    return (a / np.linalg.norm(a, 2, axis=(-2, -1), keepdims=True)).astype(np.float32)


def quintic_steps(a, steps, first, third, fifth):
    x = a.astype(np.float64)
    for _ in range(steps):
        gram = x @ x.swapaxes(-1, -2)
        x = first * x + third * gram @ x + fifth * gram @ (gram @ x)
    return x


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("shape", [(1, 1), (10, 20), (20, 10), (130, 40), (130, 140)])
def test_signs_of_matrices(shape, generation):
    a = matrices(2, *shape)
    steps = 5
    got = run(msign, generation, a, steps, *QUINTIC)
    want = quintic_steps(a, steps, *QUINTIC)
    # A step multiplies an error by at most its slope at zero, and adds that of sums of n products.
    bound = 4 * QUINTIC[0] ** steps * EPS * max(shape) ** 0.5
    assert abs(got - want).max() <= bound


def test_signs_converge_to_orthogonal_matrices():
    a = matrices(1, 6, 9)
    got = run(msign, "gen3", a, 12, *QUINTIC)[0].astype(np.float64)
    u, _, vh = np.linalg.svd(a[0].astype(np.float64), full_matrices=False)
    np.testing.assert_allclose(got, u @ vh, atol=20 * 9 * EPS)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(("n", "condition"), [(1, 1.0), (5, 10.0), (20, 1e3)])
def test_inverse_roots(n, condition, generation):
    spectrum = 7 * np.logspace(0, -np.log10(condition), n)
    a = np.stack([with_spectrum(spectrum, seed) for seed in range(2)])
    z, steps, residual = run(inverse_root, generation, lower_only(a), 20, 1e-7)
    for k in range(2):
        wide = z[k].astype(np.float64)
        # Rounding of Z counts twice for the product, and by the condition of A.
        assert np.linalg.norm(wide @ a[k] @ wide - np.eye(n), 2) <= 20 * EPS * condition + 20 * EPS
        assert residual[k, 0] <= 1e-5
        assert 0 <= steps[k, 0] <= 20


@pytest.mark.slow
@pytest.mark.parametrize("n", [129, 200])
def test_inverse_roots_of_several_blocks(n):
    a = with_spectrum(np.logspace(0, -2, n))
    z, _, _ = run(inverse_root, "gen2", a[None], 20, 1e-7)
    wide = z[0].astype(np.float64)
    assert np.linalg.norm(wide @ a @ wide - np.eye(n), 2) <= 2000 * EPS


def test_finished_inverse_roots_stay_finished():
    a = np.stack([with_spectrum(np.ones(4)), with_spectrum(np.logspace(0, -3, 4))])
    few = run(inverse_root, "gen3", a, 25, 1e-7)
    many = run(inverse_root, "gen3", a, 35, 1e-7)
    for left, right in zip(few, many, strict=True):
        assert np.array_equal(left, right)
    assert few[1][0, 0] < few[1][1, 0]


def test_too_few_steps_are_seen():
    a = with_spectrum(np.logspace(0, -4, 6))[None]
    _, steps, residual = run(inverse_root, "gen3", a, 3, 1e-7)
    assert steps[0, 0] == 3
    assert residual[0, 0] > 0.1


def systems(n, condition, batch=2):
    spectrum = 3 * np.logspace(0, -np.log10(condition), n)
    a = np.stack([with_spectrum(spectrum, seed) for seed in range(batch)])
    rng = np.random.default_rng(n)
    b, x0 = (rng.standard_normal((batch, n)).astype(np.float32) for _ in range(2))
    return a, b, x0


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("n", [1, 20, 129])
def test_conjugate_gradients(n, generation):
    a, b, x0 = systems(n, 10.0)
    x, residuals = run(conjugate_gradients, generation, lower_only(a), b, x0, 1e-5, 25)
    assert residuals.shape == (2, 26)
    for k in range(2):
        wide = a[k].astype(np.float64)
        size = np.linalg.norm(b[k].astype(np.float64))
        start = np.linalg.norm(b[k] - wide @ x0[k]) / size
        np.testing.assert_allclose(residuals[k, 0], start, rtol=1e-4, atol=1e-6)
        assert residuals[k, -1] <= 1e-5
        # The residual of the recurrence and the true one differ by roundings of A x.
        assert np.linalg.norm(b[k] - wide @ x[k]) / size <= 1e-5 + 100 * EPS


def test_a_finished_system_stays():
    a, b, x0 = systems(6, 4.0)
    b[0] = a[0] @ x0[0]
    x, residuals = run(conjugate_gradients, "gen3", a, b, x0, 1e-5, 10)
    assert np.array_equal(x[0], x0[0])
    assert (residuals[0] == residuals[0, 0]).all()
    assert residuals[1, 0] > residuals[1, -1]


def test_a_right_side_of_zeros():
    a, b, x0 = systems(4, 4.0)
    x, residuals = run(conjugate_gradients, "gen3", a, 0 * b, 0 * x0, 1e-6, 3)
    assert not x.any()
    assert (residuals < 1e-12).all()


def test_no_positive_curvature_stops():
    a, b, x0 = systems(5, 4.0)
    x, _ = run(conjugate_gradients, "gen3", -a, b, x0, 1e-6, 4)
    assert np.array_equal(x, x0)


@pytest.mark.parametrize("name", ["msign", "inv_sqrt_spd_ns", "cg"])
def test_a_batch_is_one_launch(name):
    a, b, x0 = (torch.from_numpy(x) for x in systems(3, 4.0))
    arguments = {
        "msign": (a, 2, *QUINTIC),
        "inv_sqrt_spd_ns": (a, 5, 1e-6),
        "cg": (a, b, x0, 1e-6, 3),
    }[name]
    launch = Launcher("simulator")
    LIBRARY.operations[name].launch(launch, *arguments)
    assert launch.launches == 1
