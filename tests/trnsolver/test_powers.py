"""Powers and square roots of matrices: exact integers, SciPy, mpmath, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from mpmath import matrix, mp
from mpmath import sqrtm as exact_root

import trnsolver
from each_case import each_case
from trnsci.core.counters import counts
from trnsci.core.errors import (
    BackendError,
    ConvergenceError,
    DerivativeError,
    DTypeError,
    NotFiniteError,
    ShapeError,
    SingularMatrixError,
)
from trnsci.core.testing import launched, random_tensor, refusals_expected, unit_roundoff
from trnsolver._library import LIBRARY

WIDE = (torch.float32, torch.float64, torch.complex64, torch.complex128)


@each_case("backend", ["pytorch", "simulator"])
@each_case("exponent", [0, 1, 2, 3, 6, 10])
def test_powers_of_integers_are_exact(backend, exponent):
    a = random_tensor(3, 4, 4).mul(2).round()
    want = np.linalg.matrix_power(a.numpy().astype(np.int64), exponent)
    assert abs(want).max() < 2**24
    with trnsolver.backend(backend):
        found = trnsolver.matrix_power(a, exponent)
    assert np.array_equal(found, want)


@each_case("dtype", WIDE)
def test_negative_powers_are_those_of_the_inverse(dtype):
    a = random_tensor(2, 5, 5, dtype=dtype) + 3 * torch.eye(5)
    found = trnsolver.matrix_power(a, -3)
    product = found @ a @ a @ a
    bound = 8 * 5 * unit_roundoff(dtype) * float(torch.linalg.cond(a).max()) ** 3
    assert float((product - torch.eye(5)).abs().max()) <= bound


def test_powers_run_on_the_kernel_with_their_gradients():
    a = (random_tensor(2, 6, 6) / 2).requires_grad_()
    with trnsolver.backend("simulator"):
        with launched("matrix_power"):
            found = trnsolver.matrix_power(a, 7)
        with launched("matrix_power"):
            (grad,) = torch.autograd.grad(found.sum(), a)
    wide = a.detach().double().requires_grad_()
    (want,) = torch.autograd.grad(torch.linalg.matrix_power(wide, 7).sum(), wide)
    moduli = wide.detach().abs().requires_grad_()
    (size,) = torch.autograd.grad(torch.linalg.matrix_power(moduli, 7).sum(), moduli)
    # Products of matrices of twice the order; each entry is a sum of products of moduli.
    assert bool(((grad - want).abs() <= 7 * 13 * unit_roundoff(torch.float32) * size).all())


def test_the_first_refused_order():
    a = torch.eye(1025)
    with trnsolver.backend("simulator"):
        before = counts()
        with refusals_expected():
            trnsolver.matrix_power(a, 2)
        assert [reason for _, reason in (counts() - before).refusals] == [
            "the kernel takes orders up to 1024"
        ]
        with LIBRARY.requiring("1"), pytest.raises(BackendError, match="orders up to 1024"):
            trnsolver.matrix_power(a, 2)


REFUSED = {
    "not square": (ShapeError, "matrix_power: A must", lambda: (torch.ones(2, 3), 2)),
    "a fraction": (DTypeError, "matrix_power: n must be an integer", lambda: (torch.eye(2), 0.5)),
    "singular": (SingularMatrixError, "must not be singular", lambda: (torch.zeros(2, 2), -1)),
    "integers": (
        DTypeError,
        "matrix_power: A must be floating",
        lambda: (torch.ones(2, 2).int(), 2),
    ),
}


@each_case("name", REFUSED)
def test_what_is_refused_of_powers(name):
    error, text, arguments = REFUSED[name]
    with pytest.raises(error, match=text):
        trnsolver.matrix_power(*arguments())


# -- square roots ----------------------------------------------------------------------------------


def stable(n, dtype, *batch):
    """Nonsymmetric matrices whose eigenvalues are around 4."""
    return random_tensor(*batch, n, n, dtype=dtype) / n**0.5 + 4 * torch.eye(n)


@each_case("dtype", WIDE)
@each_case("n", [1, 2, 9])
def test_square_roots_have_the_residual_of_schurs_method(dtype, n):
    a = stable(n, dtype, 3)
    x = trnsolver.sqrtm(a)
    assert (x.shape, x.dtype) == (a.shape, dtype)
    norms = torch.linalg.matrix_norm(x)
    left = torch.linalg.matrix_norm(x @ x - a)
    assert bool((left <= 8 * n * unit_roundoff(dtype) * norms**2).all())
    assert bool((torch.linalg.eigvals(x).real > 0).all())


def test_a_root_in_forty_digits():
    a = stable(3, torch.float64)
    with mp.workdps(40):
        want = exact_root(matrix(a.tolist()))
    found = trnsolver.sqrtm(a)
    for i in range(3):
        for j in range(3):
            assert abs(mp.mpf(float(found[i, j])) - want[i, j]) <= 1e-14


def test_a_negative_eigenvalue_has_a_complex_root():
    a = torch.diag(torch.tensor([-4.0, 9.0], dtype=torch.float64))
    with pytest.raises(ConvergenceError, match="sqrtm: A has a negative eigenvalue"):
        trnsolver.sqrtm(a)
    x = trnsolver.sqrtm(a.to(torch.complex128))
    assert torch.allclose(x, torch.diag(torch.tensor([2j, 3], dtype=torch.complex128)))


def test_a_root_that_does_not_exist_is_no_result():
    with pytest.raises(ConvergenceError, match="sqrtm: A has no square root"):
        trnsolver.sqrtm(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    with pytest.raises(NotFiniteError, match="sqrtm: A must be finite"):
        trnsolver.sqrtm(torch.full((2, 2), torch.nan))
    with pytest.raises(ShapeError, match="sqrtm: A must be square"):
        trnsolver.sqrtm(torch.ones(2, 3))


def test_the_root_of_a_singular_matrix_has_no_derivative():
    a = torch.diag(torch.tensor([0.0, 4.0])).requires_grad_()
    x = trnsolver.sqrtm(a)
    assert torch.equal(x.detach(), torch.diag(torch.tensor([0.0, 2.0])))
    with pytest.raises(DerivativeError, match="sqrtm: the root of a singular A"):
        x.sum().backward()


def test_the_gradient_of_repeated_eigenvalues_is_that_of_the_equation():
    """Of c I: dX = dA / (2 sqrt(c))."""
    a = (9 * torch.eye(3, dtype=torch.float64)).requires_grad_()
    weights = random_tensor(3, 3, dtype=torch.float64)
    (grad,) = torch.autograd.grad((trnsolver.sqrtm(a) * weights).sum(), a)
    assert torch.allclose(grad, weights / 6, rtol=1e-14)


@each_case("dtype", [torch.float64, torch.complex128])
def test_second_derivatives(dtype):
    a = stable(3, dtype, 2).requires_grad_()
    assert torch.autograd.gradcheck(trnsolver.sqrtm, (a,), check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(trnsolver.sqrtm, (a,), fast_mode=True)


def test_half_precision_is_rounded_once():
    a = stable(4, torch.float32).half()
    want = scipy.linalg.sqrtm(a.double().numpy())
    found = trnsolver.sqrtm(a)
    assert found.dtype is torch.float16
    assert (abs(found.double().numpy() - want) <= 2.0**-11 * abs(want) + 1e-6).all()
