"""Factorizations against LAPACK, and by their definitions, in units of rounding.

With u the unit roundoff and n the order, a backward stable factorization has a residual of at most
a small multiple of n u times the norm of A, and factors that are orthogonal to n u (Higham,
Accuracy and Stability, theorems 9.3, 10.3, 19.4). 20 n u is asked for, in the Frobenius norm.
"""

import numpy as np
import pytest
import scipy.linalg
import torch

import trnsolver
from each_case import each_case
from oracles.solver_matrices import GENERAL, SYMMETRIC, with_condition
from trnsci.core.testing import random_tensor, unit_roundoff

DTYPES = (torch.float32, torch.float64)


def allowed(a):
    return 20 * max(a.shape[-2:]) * unit_roundoff(a.real.dtype if a.is_complex() else a.dtype)


def assert_product(product, a):
    error = torch.linalg.matrix_norm(product - a)
    assert bool((error <= allowed(a) * torch.linalg.matrix_norm(a)).all())


def assert_orthonormal(q):
    eye = torch.eye(q.shape[-1], dtype=q.dtype)
    assert float(torch.linalg.matrix_norm(q.mH @ q - eye).max()) <= allowed(q)


@each_case("dtype", DTYPES, ids=str)
@each_case("name", GENERAL)
def test_lu_qr_and_svd_of_every_family(name, dtype):
    a = GENERAL[name].to(dtype)
    p, lower, upper = trnsolver.lu(a)
    growth = float(upper.abs().max() / a.abs().max())
    assert torch.equal(p @ p.mT, torch.eye(len(p), dtype=dtype))
    assert torch.equal(lower, lower.tril())
    assert torch.equal(upper, upper.triu())
    assert torch.equal(lower.diagonal(), torch.ones(len(p), dtype=dtype))
    assert growth < 10
    assert_product(p @ lower @ upper, a)

    q, r = trnsolver.qr(a)
    assert torch.equal(r, r.triu())
    assert_product(q @ r, a)
    assert_orthonormal(q)

    u, s, vh = trnsolver.svd(a)
    assert_product(u * s @ vh, a)
    assert_orthonormal(u)
    assert_orthonormal(vh.mH)
    want = scipy.linalg.svdvals(a.double().numpy())
    assert np.abs(s.double().numpy() - want).max() <= allowed(a) * want[0]
    assert bool((s.diff() <= 0).all())
    assert torch.allclose(trnsolver.svdvals(a), s, rtol=0, atol=allowed(a) * float(s[0]))


@each_case("dtype", DTYPES, ids=str)
@each_case("condition", [1e0, 1e3, 1e6])
def test_cholesky(condition, dtype):
    b = with_condition(condition**0.5)
    a = (b @ b.mT).to(dtype)
    lower = trnsolver.cholesky(a)
    assert torch.equal(lower, lower.tril())
    assert_product(lower @ lower.mT, a)
    assert torch.equal(trnsolver.cholesky(a, upper=True), lower.mT)


def test_the_lower_triangle_is_read():
    a = with_condition(10.0)
    a = a @ a.mT
    assert torch.equal(
        trnsolver.cholesky(a.tril() + 7 * torch.ones_like(a).triu(1)), trnsolver.cholesky(a)
    )


@each_case("shape", [(8, 5), (5, 8), (3, 7, 4), (2, 2, 4, 4), (1, 1), (4, 0), (0, 3, 3)])
@each_case("dtype", [torch.float64, torch.complex128], ids=str)
def test_any_shape_and_complex_numbers(shape, dtype):
    a = random_tensor(*shape, dtype=dtype)
    p, lower, upper = trnsolver.lu(a)
    q, r = trnsolver.qr(a)
    u, s, vh = trnsolver.svd(a)
    for product in (p @ lower @ upper, q @ r, (u * s.unsqueeze(-2)) @ vh):
        assert product.shape == a.shape
        assert a.numel() == 0 or float((product - a).abs().max()) <= allowed(a) * float(
            a.abs().max()
        )
    full_u, _, full_vh = trnsolver.svd(a, full_matrices=True)
    assert full_u.shape[-1] == shape[-2]
    assert full_vh.shape[-2] == shape[-1]


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
def test_cholqr2_is_orthonormal_up_to_the_root_of_the_precision(condition):
    n = 12
    a = with_condition(condition, n)
    tall = torch.from_numpy(np.linalg.qr(np.random.default_rng(3).standard_normal((90, n)))[0]) @ a
    q, r = trnsolver.cholqr2(tall)
    assert_product(q @ r, tall)
    assert_orthonormal(q)
    assert bool((r.diagonal() > 0).all())
    want = scipy.linalg.qr(tall.numpy(), mode="economic")[1]
    # R is determined to the condition number times rounding.
    error = np.abs(np.abs(want) - r.abs().numpy()).max()
    assert error <= condition * allowed(tall)


def test_cholqr2_says_when_it_cannot():
    with pytest.raises(trnsolver.NotPositiveDefiniteError, match="Gram"):
        trnsolver.cholqr2(with_condition(1e12))
    with pytest.raises(ValueError, match="rows"):
        trnsolver.cholqr2(torch.ones(2, 3))


@each_case("dtype", [torch.float64, torch.complex128], ids=str)
@each_case("shape", [(1, 1), (40, 3), (300, 30), (3000, 30)])
def test_cholqr2_of_one_matrix_is_that_of_a_batch(shape, dtype):
    a = random_tensor(*shape, dtype=dtype)
    q, r = trnsolver.cholqr2(a)
    assert_product(q @ r, a)
    assert_orthonormal(q)
    assert bool((r.diagonal().real > 0).all())
    of_batch = trnsolver.cholqr2(a.unsqueeze(0))
    assert float((q - of_batch.Q[0]).abs().max()) <= 1e-12


@each_case("dtype", [torch.float32, torch.float64], ids=str)
@each_case("size", [1e-37, 1e-22, 1.0, 1e22])
@each_case("condition", [1.0, 30.0, 300.0])
def test_cholqr2_is_exact_at_every_size_and_condition(condition, size, dtype):
    m, n = 512, 16
    left = np.linalg.qr(np.random.default_rng(5).standard_normal((m, n)))[0]
    a = (torch.from_numpy(left) @ with_condition(condition, n) * size).to(dtype)
    for given in (a, a.mT.contiguous().mT, a.clone().requires_grad_()):
        with torch.no_grad():
            q, r = trnsolver.cholqr2(given)
        assert_orthonormal(q)
        assert bool((r.diagonal() > 0).all())
        assert torch.equal(r, r.triu())
        off = torch.linalg.matrix_norm(q.double() @ r.double() - a.double())
        assert float(off) <= allowed(a) * float(torch.linalg.matrix_norm(a.double()))


@each_case("shape", [(30, 3), (3000, 30)])
@each_case("bad", ["zero", "equal", "twice", "nearly equal", "nan", "inf"])
def test_cholqr2_refuses_dependent_columns_at_every_size(shape, bad):
    a = random_tensor(*shape, dtype=torch.float64)
    a[:, 1] = {
        "zero": torch.zeros(shape[0]),
        "equal": a[:, 0],
        "twice": 2 * a[:, 0],
        "nearly equal": a[:, 0] + 1e-12 * a[:, 2],
        "nan": torch.full((shape[0],), torch.nan),
        "inf": torch.full((shape[0],), torch.inf),
    }[bad]
    with pytest.raises(trnsolver.NotPositiveDefiniteError, match="Gram"):
        trnsolver.cholqr2(a)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_schur(dtype):
    a = random_tensor(3, 9, 9, dtype=dtype)
    t, q = trnsolver.schur(a)
    assert_product(q @ t @ q.mT, a)
    assert_orthonormal(q)
    assert float(t.tril(-2).abs().max()) == 0
    below = t.diagonal(-1, -2, -1) != 0
    assert not bool((below[:, 1:] & below[:, :-1]).any()), "blocks of more than two rows"
    t, q = trnsolver.schur(a, output="complex")
    assert float((q @ t @ q.mH - a).abs().max()) <= allowed(a) * float(a.abs().max()) * 3
    result = trnsolver.schur(SYMMETRIC["indefinite"].to(dtype))
    assert result.T_ is result[0]
    assert result.Q is result[1]
    off = result.T_ - torch.diag(result.T_.diagonal())
    assert float(off.abs().max()) <= allowed(off) * 3


@each_case("shape", [(0, 0), (0, 4, 4), (3, 0, 0)], ids=str)
@each_case("output", ["real", "complex"])
def test_schur_forms_of_nothing(shape, output):
    t, q = trnsolver.schur(torch.empty(shape), output=output)
    assert t.shape == q.shape == shape
    assert t.dtype is q.dtype is (torch.float32 if output == "real" else torch.complex64)


def test_schur_forms_of_narrow_and_complex_matrices():
    a = random_tensor(6, 6)
    t, q = trnsolver.schur(a.half())
    assert t.dtype is q.dtype is torch.float16
    # A complex form has no narrow dtype that torch computes with.
    t, q = trnsolver.schur(a.half(), output="complex")
    assert t.dtype is q.dtype is torch.complex64
    assert float((q @ t @ q.mH - a.half().float()).abs().max()) <= 1e-5
    z = random_tensor(2, 6, 6, dtype=torch.complex128).mH
    t, q = trnsolver.schur(z)
    assert float((q @ t @ q.mH - z).abs().max()) <= 1e-13
    assert float(t.tril(-1).abs().max()) == 0


def test_a_schur_form_that_lapack_does_not_find(monkeypatch):
    def fails(*given, **options):
        raise scipy.linalg.LinAlgError("Schur form not found")

    monkeypatch.setattr(scipy.linalg, "schur", fails)
    with pytest.raises(trnsolver.ConvergenceError, match="schur: Schur form not found"):
        trnsolver.schur(torch.eye(4))
