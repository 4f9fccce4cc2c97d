"""Decompositions recover what was planted, and say how near they are."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

import trntensor as tt
from each_case import each_case
from trnsci.core.errors import (
    ConvergenceError,
    ConvergenceWarning,
    DTypeError,
    FlagError,
    NotFiniteError,
)
from trnsci.core.testing import random_tensor


def relative(x, y):
    return float(torch.linalg.vector_norm(x - y) / torch.linalg.vector_norm(x))


def planted_cp(shape, rank, noise=0.0, dtype=torch.float64):
    """Return a tensor of a rank, and the same with noise of a relative norm."""
    factors = [random_tensor(n, rank, dtype=dtype, seed=at) for at, n in enumerate(shape)]
    labels = "abcd"[: len(shape)]
    terms = ",".join(f"{x}r" for x in labels)
    exact = torch.from_numpy(np.einsum(f"{terms}->{labels}", *(f.numpy() for f in factors)))
    drawn = random_tensor(*shape, dtype=dtype, seed=9)
    return exact, exact + noise * exact.norm() / drawn.norm() * drawn


# -- canonical polyadic ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "rank", "init"),
    [
        *(((8, 6, 4), 3, "svd"), ((6, 5, 4), 2, "random"), ((9, 7), 2, "svd")),
        pytest.param((8, 6, 4), 3, "random", marks=pytest.mark.slow),
        pytest.param((6, 5, 4), 2, "svd", marks=pytest.mark.slow),
        pytest.param((9, 7), 2, "random", marks=pytest.mark.slow),
    ],
)
def test_cp_recovers_an_exact_tensor(shape, rank, init):
    exact, _ = planted_cp(shape, rank)
    factors, weights, report = tt.cp_decompose(
        exact, rank, max_iter=500, tol=1e-9, init=init, restarts=2, return_report=True
    )
    assert relative(exact, tt.cp_reconstruct(factors, weights)) <= 1e-7
    assert [tuple(f.shape) for f in factors] == [(n, rank) for n in shape]
    assert all(torch.allclose(f.norm(dim=0), weights.new_ones(rank)) for f in factors)
    assert report.converged
    assert report.error == report.errors[-1] <= 1e-7
    assert str(report.sweeps) in str(report)


def test_cp_of_a_noisy_tensor_has_the_theoretical_error():
    shape, rank, noise = (16, 15, 14), 3, 0.1
    exact, noisy = planted_cp(shape, rank, noise)
    factors, weights, report = tt.cp_decompose(noisy, rank, return_report=True)
    model = tt.cp_reconstruct(factors, weights)
    # Of the noise the model takes up its own number of parameters, and leaves the rest.
    freedom = rank * (sum(shape) - len(shape) + 1) / np.prod(shape)
    size = noise * float(exact.norm())
    assert abs(float((noisy - model).norm()) - size * (1 - freedom) ** 0.5) <= 0.02 * size
    # A chi-square of so many degrees of freedom is within a third of its mean by four deviations.
    assert float((exact - model).norm()) <= 1.34 * size * freedom**0.5
    assert abs(report.error - relative(noisy, model)) <= 1e-6


def test_cp_errors_never_grow():
    _, noisy = planted_cp((10, 9, 8), 3, 0.3)
    errors = tt.cp_decompose(noisy, 3, tol=1e-12, max_iter=60, return_report=True)[2].errors
    assert all(b <= a + 1e-12 for a, b in pairwise(errors))


def test_cp_of_four_modes_and_of_float32():
    exact, _ = planted_cp((6, 5, 4, 3), 2)
    factors, weights = tt.cp_decompose(exact.float(), 2, max_iter=300)
    assert weights.dtype is torch.float32
    assert relative(exact.float(), tt.cp_reconstruct(factors, weights)) <= 1e-4


def test_cp_of_zeros_and_of_more_terms_than_elements():
    factors, weights = tt.cp_decompose(torch.zeros(3, 4, 5), 2)
    assert torch.equal(tt.cp_reconstruct(factors, weights), torch.zeros(3, 4, 5))
    factors, weights = tt.cp_decompose(random_tensor(3, 4, 2), 6, max_iter=20, on_failure="ignore")
    assert all(bool(torch.isfinite(f).all()) for f in (*factors, weights))


def test_cp_with_missing_values():
    exact, _ = planted_cp((12, 11, 10), 2)
    mask = torch.from_numpy(np.random.default_rng(0).random(exact.shape) > 0.3)
    broken = torch.where(mask, exact, torch.nan)
    factors, weights, report = tt.cp_decompose(
        broken, 2, max_iter=500, tol=1e-8, mask=mask, return_report=True
    )
    # What is missing is found again, though nothing of it was seen.
    assert relative(exact, tt.cp_reconstruct(factors, weights)) <= 1e-6
    assert report.error <= 1e-7


def test_cp_without_negative_numbers():
    factors = [random_tensor(n, 3, dtype=torch.float64, seed=n).abs() for n in (9, 8, 7)]
    exact = tt.cp_reconstruct(factors, torch.ones(3, dtype=torch.float64))
    found, weights, report = tt.cp_decompose(
        exact, 3, max_iter=150, nonneg=True, on_failure="ignore", return_report=True
    )
    assert all(float(f.min()) >= 1e-10 for f in found)
    assert torch.equal(weights, torch.ones(3, dtype=torch.float64))
    assert relative(exact, tt.cp_reconstruct(found, weights)) <= 0.02
    assert abs(report.error - relative(exact, tt.cp_reconstruct(found, weights))) <= 1e-9
    # A tensor that has negative elements is approximated as far as that goes.
    signed = random_tensor(5, 4, 3)
    found, weights = tt.cp_decompose(signed, 2, nonneg=True, max_iter=20)
    assert all(float(f.min()) >= 0 for f in found)


def test_cp_from_where_one_was():
    _, noisy = planted_cp((8, 7, 6), 2, 0.01)
    factors, _ = tt.cp_decompose(noisy, 2)
    before = [f.clone() for f in factors]
    again = tt.cp_decompose(noisy, 2, factors=factors, max_iter=2, return_report=True)
    assert again[2].errors[0] <= 0.011
    assert all(torch.equal(a, b) for a, b in zip(factors, before, strict=True))
    for wrong in (factors[:2], [*factors[:2], factors[2][:, :1]]):
        with pytest.raises(ValueError, match="warm-start"):
            tt.cp_decompose(noisy, 2, factors=wrong)


def test_cp_of_a_batch():
    tensors = torch.stack([planted_cp((7, 6, 5), 2)[0], 2 + planted_cp((7, 6, 5), 1)[0]])
    factors, weights = tt.cp_decompose(tensors, 2, max_iter=80, batch=True)
    for at in range(2):
        model = tt.cp_reconstruct([f[at] for f in factors], weights[at])
        assert relative(tensors[at], model) <= 1e-5


@pytest.mark.parametrize(
    "decompose",
    [
        lambda x, **options: tt.cp_decompose(x, 2, max_iter=2, **options),
        lambda x, **options: tt.tucker_decompose(x, (2, 2, 2), max_iter=1, **options),
    ],
    ids=["cp_decompose", "tucker_decompose"],
)
def test_sweeps_that_do_not_converge_are_reported(decompose, request):
    x = random_tensor(5, 4, 3, dtype=torch.float64)
    name = request.node.callspec.id
    with pytest.warns(ConvergenceWarning, match=f"{name}: not converged: error") as warned:
        decompose(x)
    assert warned[0].filename == __file__
    assert not decompose(x, on_failure="ignore", return_report=True)[-1].converged
    with pytest.raises(ConvergenceError, match=name):
        decompose(x, on_failure="raise")
    with pytest.raises(ValueError, match="on_failure must be one of"):
        decompose(x, on_failure="never")


def test_cp_has_gradients():
    _, noisy = planted_cp((5, 4, 3), 2, 0.05)
    start = tt.cp_decompose(noisy, 2)[0]

    def size(x):
        factors, weights = tt.cp_decompose(
            x, 2, factors=start, max_iter=3, tol=0.0, on_failure="ignore"
        )
        return tt.cp_reconstruct(factors, weights).square().sum()

    assert torch.autograd.gradcheck(size, (noisy.clone().requires_grad_(),), fast_mode=True)


# -- Tucker ----------------------------------------------------------------------------------------


def orthonormal(factor):
    return float((factor.mH @ factor - torch.eye(factor.shape[1]).to(factor)).abs().max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128])
def test_tucker_at_full_rank_is_exact(dtype):
    x = random_tensor(4, 3, 5, dtype=dtype)
    core, factors = tt.tucker_decompose(x, (4, 3, 5))
    rounding = torch.finfo(dtype).eps
    assert relative(x, tt.tucker_reconstruct(core, factors)) <= 50 * rounding
    assert all(orthonormal(f) <= 50 * rounding for f in factors)


def test_tucker_of_a_noisy_tensor_has_the_theoretical_error():
    shape, ranks, noise = (16, 15, 14), (3, 2, 4), 0.05
    core = random_tensor(*ranks, dtype=torch.float64)
    bases = [
        torch.linalg.qr(random_tensor(n, r, dtype=torch.float64)).Q
        for n, r in zip(shape, ranks, strict=True)
    ]
    exact = tt.tucker_reconstruct(core, bases)
    drawn = random_tensor(*shape, dtype=torch.float64, seed=9)
    noisy = exact + noise * exact.norm() / drawn.norm() * drawn
    small, factors, report = tt.tucker_decompose(noisy, ranks, return_report=True)
    model = tt.tucker_reconstruct(small, factors)
    freedom = (np.prod(ranks) + sum((n - r) * r for n, r in zip(shape, ranks, strict=True))) / (
        np.prod(shape)
    )
    size = noise * float(exact.norm())
    assert abs(float((noisy - model).norm()) - size * (1 - freedom) ** 0.5) <= 0.02 * size
    assert float((exact - model).norm()) <= 1.34 * size * freedom**0.5
    assert all(orthonormal(f) <= 1e-12 for f in factors)
    assert abs(report.error - relative(noisy, model)) <= 1e-9
    # HOOI is no worse than where it begins.
    first = tt.tucker_decompose(noisy, ranks, max_iter=0)
    assert relative(noisy, model) <= relative(noisy, tt.tucker_reconstruct(*first)) + 1e-12


def test_tucker_ranks_by_error():
    _, noisy = planted_cp((12, 11, 10), 2, 1e-3)
    core, factors = tt.tucker_decompose(noisy, eps=1e-2)
    assert core.shape == (2, 2, 2)
    assert relative(noisy, tt.tucker_reconstruct(core, factors)) <= 1e-2


def test_tucker_of_a_batch_and_of_bad_ranks():
    x = torch.stack([planted_cp((6, 5, 4), 2)[0], planted_cp((6, 5, 4), 1)[0]])
    core, factors = tt.tucker_decompose(x, (2, 2, 2), batch=True)
    for at in range(2):
        assert relative(x[at], tt.tucker_reconstruct(core[at], [f[at] for f in factors])) <= 1e-7
    with pytest.raises(AssertionError, match="must be 3 ranks"):
        tt.tucker_decompose(x[0], (2, 2))
    with pytest.raises(ValueError, match=r"from 1 to the sizes \(6, 5, 4\), got \(2, 2, 5\)"):
        tt.tucker_decompose(x[0], (2, 2, 5))
    with pytest.raises(ValueError, match="either ranks or eps"):
        tt.tucker_decompose(x[0])


# -- tensor trains ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_trains_without_a_limit_are_exact(dtype):
    x = random_tensor(4, 5, 3, 2, dtype=dtype)
    cores = tt.tt_decompose(x, 20)
    assert [tuple(c.shape) for c in cores] == [(1, 4, 4), (4, 5, 6), (6, 3, 2), (2, 2, 1)]
    assert relative(x, tt.tt_reconstruct(cores)) <= 100 * torch.finfo(dtype).eps
    assert [tuple(c.shape) for c in tt.tt_decompose(x, 2)] == [
        (1, 4, 2),
        (2, 5, 2),
        (2, 3, 2),
        (2, 2, 1),
    ]


@pytest.mark.parametrize("eps", [0.3, 0.03])
def test_trains_hold_the_error_that_they_are_given(eps):
    _, noisy = planted_cp((8, 7, 6, 5), 2, 0.02)
    cores = tt.tt_decompose(noisy, eps=eps)
    assert relative(noisy, tt.tt_reconstruct(cores)) <= eps
    assert max(c.shape[2] for c in cores) <= 2 if eps > 0.02 else True


def test_trains_are_within_the_bound_of_the_best():
    _, noisy = planted_cp((8, 7, 6), 2, 0.1)
    cores = tt.tt_decompose(noisy, 2)
    error = float((noisy - tt.tt_reconstruct(cores)).norm())
    tails = [
        torch.linalg.svdvals(noisy.reshape(rows, -1))[2:].square().sum() for rows in (8, 8 * 7)
    ]
    # Oseledets: the squares of the tails of all unfoldings add up to at least that of the error.
    assert error <= float(sum(tails)) ** 0.5 * (1 + 1e-12)


def test_rounding_gives_back_what_a_train_needs():
    exact, _ = planted_cp((6, 5, 4, 3), 2)
    cores = tt.tt_decompose(exact)
    # Twice the same train, side by side: ranks double, and the tensor doubles.
    doubled = []
    for at, core in enumerate(cores):
        if at == 0:
            doubled.append(torch.cat([core, core], 2))
        elif at == len(cores) - 1:
            doubled.append(torch.cat([core, core], 0))
        else:
            zero = torch.zeros_like(core)
            rows = torch.cat([core, zero], 2), torch.cat([zero, core], 2)
            doubled.append(torch.cat(rows, 0))
    assert relative(2 * exact, tt.tt_reconstruct(doubled)) <= 1e-13
    small = tt.tt_round(doubled, eps=1e-10)
    assert [c.shape[2] for c in small] == [2, 2, 2, 1]
    assert relative(2 * exact, tt.tt_reconstruct(small)) <= 1e-10
    assert max(c.shape[2] for c in tt.tt_round(doubled, 1)) == 1
    loose = tt.tt_round(cores, eps=0.5)
    assert relative(exact, tt.tt_reconstruct(loose)) <= 0.5


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_inner_products_without_the_tensors(dtype):
    x, y = (random_tensor(4, 3, 5, 2, dtype=dtype, seed=s) for s in (0, 1))
    a, b = tt.tt_decompose(x), tt.tt_decompose(y)
    assert torch.allclose(tt.tt_inner(a, b), torch.vdot(x.flatten(), y.flatten()), rtol=1e-11)
    assert torch.allclose(tt.tt_norm(a), x.norm(), rtol=1e-12)
    with pytest.raises(ValueError, match=r"trains must be of one shape, got \(4, 3, 5, 2\)"):
        tt.tt_inner(a, tt.tt_decompose(y[:3]))
    with pytest.raises(ValueError, match="cores must be"):
        tt.tt_reconstruct(a[:2])


def test_trains_of_a_batch_and_their_gradients():
    x = random_tensor(2, 4, 3, 2, dtype=torch.float64)
    cores = tt.tt_decompose(x, 2, batch=True)
    for at in range(2):
        want = tt.tt_reconstruct(tt.tt_decompose(x[at], 2))
        assert torch.allclose(tt.tt_reconstruct([c[at] for c in cores]), want, atol=1e-12)
    single = x[0].clone().requires_grad_()

    def size(x):
        return tt.tt_reconstruct(tt.tt_decompose(x, 2)).square().sum()

    assert torch.autograd.gradcheck(size, (single,), fast_mode=True)


# -- all of them -----------------------------------------------------------------------------------


def test_a_report_draws_itself():
    pytest.importorskip("matplotlib")
    _, noisy = planted_cp((6, 5, 4), 2, 0.1)
    report = tt.cp_decompose(noisy, 2, return_report=True)[2]
    axes = report.plot()
    assert axes.lines[0].get_ydata().tolist() == list(report.errors)
    assert axes.get_yscale() == "log"
    assert report.plot(axes) is axes


def test_what_cannot_be_decomposed():
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        tt.tt_decompose(torch.ones(3), 2)
    with pytest.raises(TypeError, match=r"one of float32, float64, got torch.int64"):
        tt.cp_decompose(torch.ones(3, 3, dtype=torch.int64), 2)
    with pytest.raises(ValueError, match="rank must be an integer of at least 1"):
        tt.cp_decompose(torch.ones(3, 3), 0)
    with pytest.raises(ValueError, match="init must be svd or random"):
        tt.cp_decompose(torch.ones(3, 3), 1, init="zeros")
    with pytest.raises(ValueError, match="mask must be bool"):
        tt.cp_decompose(torch.ones(3, 3), 1, mask=torch.ones(3, 3))
    with pytest.raises(ValueError, match="batch goes with"):
        tt.cp_decompose(torch.ones(2, 3, 3), 1, batch=True, nonneg=True)


def test_decompositions_run_on_kernels():
    from trnsci.core.counters import counts

    exact, _ = planted_cp((6, 5, 4), 2)
    x = exact.float()
    with tt.backend("simulator"):
        before = counts()
        factors, weights = tt.cp_decompose(x, 2, max_iter=10, on_failure="ignore")
        model = tt.cp_reconstruct(factors, weights)
        launches = (counts() - before).launches
    assert launches["contract"] >= 8
    assert relative(x, model) <= 1e-2


@each_case("dtype", [torch.float32, torch.float64], ids=str)
@each_case(
    "call",
    [
        lambda x: tt.cp_decompose(x, 2, 3, on_failure="ignore"),
        lambda x: tt.cp_decompose(x, 2, 3, batch=True),
        lambda x: tt.tucker_decompose(x, (1, 1, 1)),
        lambda x: tt.tucker_decompose(x, eps=0.1),
        lambda x: tt.tt_decompose(x, 1),
        lambda x: tt.tt_decompose(x, eps=0.1),
        lambda x: tt.tt_round([x[:1], x[..., :1]], 1),
    ],
)
def test_what_is_not_finite_is_refused(call, dtype):
    x = random_tensor(2, 2, 2, dtype=dtype)
    call(x)
    for bad in (torch.nan, torch.inf, -torch.inf):
        x[0, 1, 0] = bad
        with pytest.raises(NotFiniteError, match="must be finite, got NaN or infinity"):
            call(x)


def test_what_is_not_finite_is_refused_where_tangents_are_taken():
    with forward_ad.dual_level(), pytest.raises(NotFiniteError, match="tt_decompose: tensor must"):
        tt.tt_decompose(torch.full((2, 2, 2), torch.nan), 1)


def test_numbers_whose_sum_overflows_are_decomposed():
    x = torch.full((2, 2, 2), 1e38)
    cores = tt.tt_decompose(x, 1)
    assert float((tt.tt_reconstruct(cores) / 1e38 - 1).abs().max()) <= 1e-5


def test_missing_values_may_be_no_numbers():
    x = random_tensor(3, 3, 3)
    x[0, 1, 2] = torch.nan
    factors, weights = tt.cp_decompose(x, 2, mask=~x.isnan(), on_failure="ignore")
    assert bool(tt.cp_reconstruct(factors, weights).isfinite().all())


@each_case(
    ("call", "words"),
    [
        (
            lambda x, f: tt.cp_decompose(x, 2, mask=[True]),
            "cp_decompose: mask must be a torch.Tensor, got list",
        ),
        (
            lambda x, f: tt.cp_decompose(x, 2, factors=[f, None, f]),
            "cp_decompose: factors[1] must be a torch.Tensor, got NoneType",
        ),
        (
            lambda x, f: tt.cp_reconstruct([f, None], x[0, 0]),
            "cp_reconstruct: factors[1] must be a torch.Tensor, got NoneType",
        ),
        (
            lambda x, f: tt.cp_reconstruct(None, x[0, 0]),
            "cp_reconstruct: factors must be a sequence of torch.Tensor, got NoneType",
        ),
        (
            lambda x, f: tt.cp_reconstruct([f], None),
            "cp_reconstruct: weights must be a torch.Tensor, got NoneType",
        ),
        (
            lambda x, f: tt.tucker_reconstruct(x, [f, None, f]),
            "tucker_reconstruct: factors[1] must be a torch.Tensor, got NoneType",
        ),
        (
            lambda x, f: tt.tucker_reconstruct(None, [f]),
            "tucker_reconstruct: core must be a torch.Tensor, got NoneType",
        ),
        (
            lambda x, f: tt.tt_reconstruct([x, None]),
            "tt_reconstruct: cores[1] must be a torch.Tensor, got NoneType",
        ),
        (
            lambda x, f: tt.tt_inner([x], None),
            "tt_inner: right must be a sequence of torch.Tensor, got NoneType",
        ),
    ],
)
def test_what_is_no_tensor_is_named(call, words):
    with pytest.raises(DTypeError, match=re.escape(words)):
        call(random_tensor(1, 2, 1), random_tensor(2, 2))


# -- sizes -----------------------------------------------------------------------------------------

NOISY = tt.cp_reconstruct(
    [random_tensor(n, 3, dtype=torch.float64, seed=n) for n in (8, 9, 7)],
    torch.ones(3, dtype=torch.float64),
) + 0.01 * random_tensor(8, 9, 7, dtype=torch.float64, seed=1)
KNOWN = torch.arange(NOISY.numel()).reshape(NOISY.shape) % 7 > 0


def cp_model(x, **options):
    return tt.cp_reconstruct(*tt.cp_decompose(x, 3, 10, on_failure="ignore", **options))


MODELS = {
    "cp": cp_model,
    "cp, random": lambda x: cp_model(x, init="random"),
    "cp, masked": lambda x: cp_model(x, mask=KNOWN),
    "cp, batch": lambda x: tt.cp_decompose(torch.stack([x, 3 * x]), 3, 10, batch=True)[1],
    "cp, not negative": lambda x: cp_model(x.abs(), nonneg=True),
    "tucker": lambda x: tt.tucker_reconstruct(*tt.tucker_decompose(x, (3, 3, 3))),
    "tucker, eps": lambda x: tt.tucker_reconstruct(*tt.tucker_decompose(x, eps=0.3)),
    "train": lambda x: tt.tt_reconstruct(tt.tt_decompose(x, max_rank=3)),
    "train, eps": lambda x: tt.tt_reconstruct(tt.tt_decompose(x, eps=0.3)),
    "train, round": lambda x: tt.tt_reconstruct(tt.tt_round(tt.tt_decompose(x), eps=0.3)),
    "norm of a train": lambda x: tt.tt_norm(tt.tt_decompose(x)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_models_scale_with_the_tensor(name, dtype):
    model, x = MODELS[name], NOISY.to(dtype)
    want = model(x)
    exponents = math.log2(torch.finfo(dtype).max)
    for share in (-0.9, -0.3, 0.6, 0.9) if dtype == torch.float32 else (-0.9, 0.9):
        exponent = round(share * exponents)
        found = model(x * 2.0**exponent).double() / 2.0**exponent
        assert float((found - want).abs().max()) <= 1e-3 * float(want.abs().max()), exponent


TOLERANCES = {
    "cp, tol": lambda x, value: tt.cp_decompose(x, 2, tol=value),
    "cp of a batch, tol": lambda x, value: tt.cp_decompose(x, 2, tol=value, batch=True),
    "tucker, tol": lambda x, value: tt.tucker_decompose(x, (2, 2, 2), tol=value),
    "tucker, eps": lambda x, value: tt.tucker_decompose(x, eps=value),
    "train, eps": lambda x, value: tt.tt_decompose(x, eps=value),
    "train, round, eps": lambda x, value: tt.tt_round(tt.tt_decompose(x), eps=value),
}


@each_case("name", TOLERANCES)
@each_case("value", [-1.0, -1e-300, math.nan, math.inf, -math.inf])
def test_tolerances_that_no_error_can_have_are_refused(name, value):
    argument = name.split(", ")[-1]
    with pytest.raises(FlagError, match=f"{argument} must be finite and at least 0"):
        TOLERANCES[name](random_tensor(3, 4, 2), value)
