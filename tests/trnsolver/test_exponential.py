"""Products of exponentials with vectors, against SciPy, mpmath and the definition of the method."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import torch
from mpmath import mp

import trnblas
import trnsolver
import trnsparse
from each_case import each_case
from trnsci.core.counters import counts
from trnsci.core.errors import (
    ConvergenceError,
    DTypeError,
    FlagError,
    NotFiniteError,
    ShapeError,
)
from trnsci.core.testing import random_tensor, unit_roundoff
from trnsolver._matrix_functions.taylor import DEGREES, THETA, norm_of_power, scaling
from trnsolver.operators import LinearOperator

WIDE = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def exact(a, b, time=1.0):
    a, b = (np.asarray(x.to(torch.complex128)) for x in (a, b))
    return torch.from_numpy(scipy.linalg.expm(time * a) @ b)


def error(found, a, b, time=1.0):
    """The error relative to exp(|t A|) |b|, of which the terms of the series are parts."""
    scale = exact(a.abs().double(), b.abs().double(), abs(time)).abs().max()
    return float((found - exact(a, b, time)).abs().max() / scale)


@each_case("dtype", WIDE)
@each_case("norm", [0.01, 1.0, 10.0])
@each_case("columns", [None, 3])
def test_results_are_those_of_the_exponential(dtype, norm, columns):
    """Each of the ``m s`` terms has ``n`` roundings; backward errors are one rounding of A."""
    n = 6
    a = random_tensor(n, n, dtype=dtype)
    a = a * (norm / float(torch.linalg.matrix_norm(a, 1)))
    b = random_tensor(n, *([columns] if columns else []), dtype=dtype, seed=1)
    found = trnsolver.expm_multiply(a, b)
    assert (found.shape, found.dtype) == (b.shape, dtype)
    assert error(found, a, b) <= 4 * (n + norm) * unit_roundoff(dtype)


@each_case("endpoint", [None, True, False])
@each_case("span", [(0.0, 2.0), (0.5, -1.0), (1.0, 1.0)])
def test_times_are_those_of_scipy(endpoint, span):
    a, b = (random_tensor(5, n, dtype=torch.float64, seed=n) for n in (5, 2))
    options = dict(start=span[0], stop=span[1], num=4)
    if endpoint is not None:
        options["endpoint"] = endpoint
    found = trnsolver.expm_multiply(a, b, **options)
    times = np.linspace(*span, 4, endpoint=endpoint is not False)
    assert found.shape == (4, 5, 2)
    for time, entry in zip(times, found, strict=True):
        assert error(entry, a, b, time) <= 200 * unit_roundoff(torch.float64)
    if span[0] < span[1]:  # SciPy's results are wrong for times that decrease
        want = scipy.sparse.linalg.expm_multiply(a.numpy(), b.numpy(), **options)
        assert np.abs(found.numpy() - want).max() <= 1e-12 * np.abs(want).max()


def test_a_batch_is_its_entries():
    a, b = (
        random_tensor(2, 3, 4, 4, dtype=torch.float64),
        random_tensor(2, 3, 4, dtype=torch.float64),
    )
    found = trnsolver.expm_multiply(a, b)
    want = (torch.linalg.matrix_exp(a) @ b.unsqueeze(-1)).squeeze(-1)
    assert float((found - want).abs().max()) <= 1e-13 * float(want.abs().max())


def sparse(n=200):
    drawn = scipy.sparse.random_array((n, n), density=0.02, rng=np.random.default_rng(0))
    return (drawn - 3 * scipy.sparse.eye_array(n)).tocsr()


def forms():
    a = sparse()
    mine = trnsparse.from_scipy(a)
    order = a.shape[0]
    return {
        "sparse": mine,
        "scipy": a,
        "numpy": a.toarray(),
        "scipy operator": scipy.sparse.linalg.aslinearoperator(a),
        "function": lambda x: mine @ x,
        "operator": LinearOperator(lambda x: mine @ x, order=order),
    }


@each_case("form", list(forms()))
@each_case("columns", [None, 3])
def test_matrices_of_every_form(form, columns):
    a = sparse()
    b = random_tensor(200, *([columns] if columns else []), dtype=torch.float64)
    want = scipy.sparse.linalg.expm_multiply(a, b.numpy())
    found = trnsolver.expm_multiply(forms()[form], b)
    assert np.abs(found.numpy() - want).max() <= 1e-13 * np.abs(want).max()


def test_a_trace_changes_the_work_and_not_the_result():
    a, b = random_tensor(6, 6, dtype=torch.float64) - 30 * torch.eye(6), torch.ones(6).double()
    products = []

    def counted(x):
        products[-1] += 1
        return a @ x

    results = []
    for trace in (None, float(a.trace())):
        products.append(0)
        operator = LinearOperator(counted, lambda x: a.mT @ x, 6)
        results.append(trnsolver.expm_multiply(operator, b, traceA=trace))
    assert products[1] < products[0] / 2
    want = exact(a, b).real
    # Without the shift terms cancel, which are exp(60) times as large as the result.
    assert float((results[1] - want).abs().max()) <= 1e-13 * float(want.abs().max())


def test_derivatives_by_matrices_and_captured_tensors():
    a = random_tensor(4, 4, dtype=torch.float64).requires_grad_()
    b = random_tensor(4, 2, dtype=torch.float64).requires_grad_()
    weights = random_tensor(4, 2, dtype=torch.float64, seed=2)
    want = torch.autograd.grad((torch.linalg.matrix_exp(a) @ b * weights).sum(), (a, b))
    for form in (a, lambda x: a @ x):
        total = (trnsolver.expm_multiply(form, b) * weights).sum()
        for got, exactly in zip(torch.autograd.grad(total, (a, b)), want, strict=True):
            assert float((got - exactly).abs().max()) <= 1e-13 * float(exactly.abs().max())
    entries = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64).requires_grad_()
    held = trnsparse.from_dense(torch.diag(torch.ones(3, dtype=torch.float64)))
    total = trnsolver.expm_multiply(held.with_entries(entries), torch.ones(3).double()).sum()
    (got,) = torch.autograd.grad(total, entries)
    assert torch.allclose(got, entries.detach().exp(), rtol=1e-14)


def test_products_run_on_kernels():
    a, b = random_tensor(8, 8), random_tensor(8, 2, seed=1)
    before = counts()
    with trnblas.backend("simulator"):
        found = trnsolver.expm_multiply(a, b)
    since = counts() - before
    assert sum(since.launches.values()) > 5
    assert not since.fallbacks
    assert error(found, a, b) <= 4 * 20 * unit_roundoff(torch.float32)


REFUSED = {
    "not square": (ShapeError, "A must be square", lambda b: (torch.ones(4, 3), b)),
    "rows": (ShapeError, "B must fit A", lambda b: (torch.eye(3), b)),
    "batch": (ShapeError, "B must fit A", lambda b: (torch.ones(2, 4, 4), b.expand(3, 4))),
    "batch of an operator": (
        ShapeError,
        "B must be 1-D or 2-D",
        lambda b: (lambda x: x, b[None, :, None]),
    ),
    "NaN in B": (NotFiniteError, "B must be finite", lambda b: (torch.eye(4), b * torch.nan)),
    "NaN in A": (ConvergenceError, "A must be finite", lambda b: (torch.eye(4) * torch.nan, b)),
    "norm": (ConvergenceError, "million|1,000,000", lambda b: (1e30 * torch.ones(4, 4), b)),
    "start": (FlagError, "start and stop must be given", lambda b: (torch.eye(4), b, 1.0)),
    "num": (FlagError, "num must be", lambda b: (torch.eye(4), b, 0.0, 1.0, 0)),
    "infinite": (FlagError, "must be finite", lambda b: (torch.eye(4), b, 0.0, float("inf"))),
    "complex": (DTypeError, "A is complex", lambda b: (torch.eye(4) + 0j, b)),
    "no matrix": (DTypeError, "A must be", lambda b: ("eye", b)),
}


@each_case("name", REFUSED)
def test_what_is_refused(name):
    kind, text, arguments = REFUSED[name]
    with pytest.raises(kind, match=f"expm_multiply: .*({text})"):
        trnsolver.expm_multiply(*arguments(torch.ones(4)))


# -- the choice of degree and steps ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", THETA)
def test_thetas_are_those_of_the_definition(dtype):
    """``log(exp(-x) T_m(x)) = sum c_k x^k`` from exact fractions; its derivative is a quotient."""
    for degree, theta in list(zip(DEGREES, THETA[dtype], strict=True))[::3]:
        taylor = [Fraction(1)]
        for k in range(1, degree + 1):
            taylor.append(taylor[-1] / k)
        inverse = [Fraction(1)]
        for k in range(1, 100):
            inverse.append(-sum(taylor[j] * inverse[k - j] for j in range(1, min(k, degree) + 1)))
        with mp.workdps(50):
            size = [
                abs(mp.mpf(c.numerator) / c.denominator / taylor[degree].denominator)
                / (degree + 1 + k)
                for k, c in enumerate(inverse)
            ]

            def backward(x, size=size, degree=degree):
                return sum(c * mp.mpf(x) ** (degree + k) for k, c in enumerate(size))

            unit = mp.mpf(unit_roundoff(dtype))
            assert backward(theta - 2e-4) < unit < backward(theta + 2e-4)


def estimated(a, power=1):
    like = torch.ones(a.shape[0], 1, dtype=a.dtype)
    return norm_of_power(lambda x: a @ x, lambda x: a.mH @ x, like, power)


@each_case("dtype", [torch.float64, torch.complex128])
@each_case("power", [1, 2, 5])
def test_norms_are_estimated_from_below_within_a_factor_of_three(dtype, power):
    for seed in range(8):
        a = random_tensor(7, 7, dtype=dtype, seed=seed)
        norm = float(torch.linalg.matrix_norm(torch.linalg.matrix_power(a, power), 1))
        assert norm / 3 <= estimated(a, power) <= norm * (1 + 1e-12)


def test_nonnormal_matrices_take_fewer_products_than_their_norm_suggests():
    """A nilpotent matrix of norm 1000, whose second power is zero."""
    a = torch.zeros(6, 6, dtype=torch.float64)
    a[0, 5] = 1000.0
    like = torch.ones(6, 1, dtype=torch.float64)
    rule = scaling(lambda x: a @ x, lambda x: a.mT @ x, like)
    assert rule.degree * rule.steps <= 55
    found = trnsolver.expm_multiply(a, like)
    assert torch.equal(found, like + a @ like)
