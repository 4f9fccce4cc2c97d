"""Randomized methods: error bounds in expectation, and the same numbers for the same seed."""

import math

import numpy as np
import pytest
import torch

import trnsolver
from each_case import each_case
from oracles.solver_matrices import orthogonal, with_values
from trnrand import Generator
from trnsci.core.testing import random_tensor

VALUES = 2.0 ** -np.arange(40.0)
FALLING = with_values(VALUES)
TALL = torch.from_numpy(orthogonal(60, 1)[:, :40] * VALUES @ orthogonal(40, 2))


def test_rsvd_is_near_the_best_approximation():
    k = 6
    u, s, vh = trnsolver.rsvd(TALL, k)
    error = float(torch.linalg.matrix_norm(TALL - u * s @ vh, 2))
    # The best has the error of the next singular value; power steps make the factor about one.
    assert VALUES[k] * (1 - 1e-12) <= error <= 1.1 * VALUES[k]
    assert np.abs(s.numpy() - VALUES[:k]).max() <= 1e-6
    assert float((u.mT @ u - torch.eye(k)).abs().max()) <= 1e-13
    wide = trnsolver.rsvd(TALL.mT, k)
    assert np.abs(wide.s.numpy() - VALUES[:k]).max() <= 1e-6
    batch = trnsolver.rsvd(torch.stack([TALL, 2 * TALL]), k)
    assert torch.allclose(batch.s[1], 2 * batch.s[0])


def test_eigh_randomized_has_the_largest_magnitudes():
    signs = np.where(np.arange(40) % 2, -1.0, 1.0)
    a = with_values(VALUES * signs)
    w, v = trnsolver.eigh_randomized(a, 5)
    assert np.abs(w.numpy() - np.sort((VALUES * signs)[:5])).max() <= 1e-6
    assert float(torch.linalg.matrix_norm(a @ v - v * w)) <= 1e-4


def test_seeds_repeat_and_generators_move_on():
    first, again = trnsolver.rsvd(TALL, 3, seed=5), trnsolver.rsvd(TALL, 3, seed=5)
    assert torch.equal(first.U, again.U)
    generator = Generator(5)
    assert torch.equal(trnsolver.rsvd(TALL, 3, seed=generator).U, first.U)
    assert not torch.equal(
        trnsolver.rsvd(TALL, 3, seed=generator, power_iterations=0).U,
        trnsolver.rsvd(TALL, 3, seed=5, power_iterations=0).U,
    )


def test_nystrom():
    k = 10
    u, values = trnsolver.nystrom(FALLING, k)
    error = float(torch.linalg.matrix_norm(FALLING - u * values @ u.mT, 2))
    # Tropp et al. 2017, theorem 4.1 with p = k - r - 1: some r makes this a bound in expectation.
    tails = [VALUES[r] + r / (k - r - 1) * VALUES[r:].sum() for r in range(1, k - 1)]
    assert error <= 10 * min(tails)
    assert bool((values >= 0).all())
    by_products = trnsolver.nystrom(lambda v: FALLING.float() @ v, k, n=40)
    product = (by_products.U * by_products.eigenvalues @ by_products.U.mT).double()
    assert float(torch.linalg.matrix_norm(FALLING - product, 2)) <= 10 * min(tails)
    with pytest.raises(trnsolver.NotPositiveDefiniteError):
        trnsolver.nystrom(-FALLING, k)


@each_case("dtype", [torch.float32, torch.float64])
@each_case("share", [-0.95, -0.5, 0.5, 0.9])
def test_results_scale_with_the_matrix(dtype, share):
    """By a power of two, which is exact, between the smallest and the largest numbers."""
    limits = torch.finfo(dtype)
    edge = limits.max if share > 0 else 1 / limits.tiny
    scale = 2.0 ** round(share * math.log2(edge))
    a = FALLING.to(dtype)
    for call in (trnsolver.rsvd, trnsolver.eigh_randomized, trnsolver.nystrom):
        for one, many in zip(call(a, 6), call(a * scale, 6), strict=True):
            size = scale if one.ndim == 1 else 1
            if size == 1:  # vectors up to their sign
                many = many * (one * many).sum(-2 if one.shape[0] == 40 else -1, True).sign()
            bound = 1e3 * limits.eps * float(one.abs().max())
            assert float((many / size - one).abs().max()) <= bound, call
    one, many = (trnsolver.hutch_plus_plus(x, 30) for x in (a, a * scale))
    assert float(many.value) / scale == pytest.approx(float(one.value), rel=1e3 * limits.eps)
    assert many.standard_error / scale == pytest.approx(one.standard_error, rel=1e4 * limits.eps)


def test_traces():
    a = with_values(np.logspace(0, -2, 200))
    trace = float(a.trace())
    errors = []
    for seed in range(8):
        estimate = trnsolver.hutch_plus_plus(a, 60, seed=seed)
        errors.append((estimate.value - trace) / estimate.standard_error)
        assert estimate.matvecs <= 60
    # Means of 20 samples, in units of their estimated deviation: five are beyond any luck.
    assert max(map(abs, errors)) < 5
    assert len(set(errors)) == 8
    exact = trnsolver.hutch_plus_plus(a[:10, :10], 60)
    assert exact.value == pytest.approx(float(a[:10, :10].trace()), rel=1e-13)
    low = random_tensor(50, 4, dtype=torch.float64)
    found = trnsolver.hutch_plus_plus(low @ low.mT, 30)
    assert found.value == pytest.approx(float((low * low).sum()), rel=1e-10)
    function = trnsolver.hutch_plus_plus(lambda v: 2 * v, 30, n=30)
    assert abs(function.value - 60) <= 5 * function.standard_error


def test_ranks_that_are_not_there_are_refused():
    for call in (trnsolver.rsvd, trnsolver.eigh_randomized, trnsolver.nystrom):
        for k in (0, 41):
            with pytest.raises(ValueError, match="k must be"):
                call(FALLING, k)


def test_the_gradient_of_a_trace_is_the_identity_on_average():
    a = with_values(np.linspace(1, 2, 40)).requires_grad_()
    samples = 10
    gradients = []
    for seed in range(200):
        (gradient,) = torch.autograd.grad(trnsolver.hutch_plus_plus(a, 30, seed=seed).value, a)
        gradients.append(gradient)
    mean = torch.stack(gradients).mean(0)
    # Entries off the diagonal are means of 200 times 10 products of signs, of variance 1 each.
    assert float((mean - torch.eye(40)).abs().max()) <= 6 / (200 * samples) ** 0.5
    # A function is differentiated by what it captures; the estimate is linear in a factor.
    factor = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    found = trnsolver.hutch_plus_plus(lambda v: factor * v, 30, n=30)
    (gradient,) = torch.autograd.grad(found.value, factor)
    assert float(gradient) == pytest.approx(float(found.value.detach()) / 2, rel=1e-6)


def test_sketches_are_drawn_in_a_graph_from_a_generator_that_was_made_outside():
    a = FALLING

    def call(function):
        generator = Generator(3)
        compiled = torch.compile(
            lambda x: tuple(function(x, 2, seed=generator)), fullgraph=True, backend="eager"
        )
        return compiled(a), tuple(function(a, 2, seed=Generator(3)))

    for function in (trnsolver.rsvd, trnsolver.eigh_randomized):
        found, want = call(function)
        torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-9)
    torch.compiler.reset()
