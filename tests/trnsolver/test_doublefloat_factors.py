"""Factors and solutions at doublefloat on kernels, for any condition number and any range.

Residuals are measured in float64, whose rounding, ``m 2^-53`` of the same terms, is added to the
bound of 2^-43. That of systems beyond a condition number of 1e10 is measured in 40 digits.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from mpmath import mp

import trnblas
import trnsolver
from each_case import each_case
from pairwise import pairwise
from trnsci.core.backend.precision import precision
from trnsci.core.counters import counts
from trnsci.core.errors import KernelError, NkiFallbackWarning
from trnsci.core.testing import random_tensor
from trnsolver._library import LIBRARY
from trnsolver.errors import NotPositiveDefiniteError, SingularMatrixError

LEVEL = 2.0**-43
REAL, COMPLEX = torch.float64, torch.complex128


def run(call, *kernels):
    """The result of a call at the level, which ran these kernels and nothing on torch."""
    before = counts()
    with trnsolver.backend("simulator"), trnblas.backend("simulator"), precision("doublefloat"):
        found = call()
    since = counts() - before
    assert {*kernels, "doublefloat_gemm"} <= set(since.launches)
    assert not since.fallbacks
    assert not since.refusals
    return found


def orthogonal(n, seed, dtype=REAL):
    return torch.linalg.qr(random_tensor(n, n, dtype=dtype, seed=seed))[0]


def with_values(values, seed, dtype=REAL):
    """A matrix with these singular values."""
    n = len(values)
    values = torch.as_tensor(values, dtype=REAL)
    return (orthogonal(n, seed, dtype) * values) @ orthogonal(n, seed + 1, dtype).mH


def spd(values, seed, dtype=REAL):
    q = orthogonal(len(values), seed, dtype)
    a = (q * torch.as_tensor(values, dtype=REAL)) @ q.mH
    return (a + a.mH) / 2


def spectrum(n, condition, kind):
    """Values falling evenly, or all but one equal."""
    if kind == "even":
        return np.logspace(0, -np.log10(condition), n)
    return np.r_[np.ones(n - 1), 1 / condition]


def share(residual, rows, columns):
    """The largest residual of ``rows @ columns``, over the bound of the level."""
    norm = torch.linalg.vector_norm
    terms = norm(rows, dim=-1, keepdim=True) * norm(columns, dim=-2, keepdim=True)
    rounding = rows.shape[-1] * 2.0**-53
    return float((residual.abs() / terms.clamp_min(1e-300)).max()) / (LEVEL + 2 * rounding)


@each_case(
    "condition, kind, dtype", pairwise((1e2, 1e8, 1e13), ("even", "one small"), (REAL, COMPLEX))
)
def test_factors_of_any_condition_number(condition, kind, dtype):
    values = spectrum(7, condition, kind)
    a = with_values(values, 3, dtype)
    p, lower, upper = run(lambda: trnsolver.lu(a), "lu", "trsm")
    assert share(p.mH @ a - lower @ upper, lower, upper) <= 1
    assert torch.equal(lower.triu(), torch.eye(7, dtype=dtype))
    assert not upper.tril(-1).any()
    assert lower.abs().max() <= (2**0.5 if dtype.is_complex else 1) + 2.0**-5
    a = spd(values, 5, dtype)
    factor = run(lambda: trnsolver.cholesky(a), "cholesky", "trsm")
    assert share(a - factor @ factor.mH, factor, factor.mH) <= 1
    assert not factor.triu(1).any()


@each_case("shape", [(1, 1), (6, 3), (3, 6), (2, 5, 5), (2, 0, 4, 3), (130, 130)])
def test_lu_of_any_shape(shape):
    a = random_tensor(*shape, dtype=REAL)
    if not a.numel():
        with precision("doublefloat"):
            assert trnsolver.lu(a).U.shape == (2, 0, 3, 3)
        return
    p, lower, upper = run(lambda: trnsolver.lu(a), "lu")
    assert share(p.mH @ a - lower @ upper, lower, upper) <= 1


def graded(n, seed, rows=True, columns=True):
    """Entries from 1e-60 to 1e60, beyond the range of float32."""
    a = random_tensor(n, n, dtype=REAL, seed=seed)
    scale = torch.logspace(-30, 30, n, dtype=REAL)[torch.randperm(n)]
    return a * (scale[:, None] if rows else 1) * (scale.flip(0) if columns else 1)


@each_case("rows", (True, False))
@each_case("columns", (True, False))
def test_factors_of_graded_matrices(rows, columns):
    torch.manual_seed(1)
    a = graded(7, 2, rows, columns)
    p, lower, upper = run(lambda: trnsolver.lu(a), "lu")
    assert share(p.mH @ a - lower @ upper, lower, upper) <= 1
    b = a @ torch.ones(7, 1, dtype=REAL)
    x = run(lambda: trnsolver.solve(a, b), "lu", "trsm")
    size = torch.linalg.vector_norm(a, dim=1, keepdim=True) * torch.linalg.vector_norm(x)
    assert ((a @ x - b).abs() <= (LEVEL + 14 * 2.0**-53) * (size + b.abs())).all()
    scale = torch.logspace(-60, 60, 7, dtype=REAL)
    s = spd(np.linspace(1, 2, 7), 4) * scale * scale[:, None]
    factor = run(lambda: trnsolver.cholesky(s), "cholesky")
    assert share(s - factor @ factor.mH, factor, factor.mH) <= 1


def test_singular_and_indefinite_matrices_are_told():
    a = torch.tensor([[1.0, 2, 3], [2, 4, 6], [1, 1, 1]], dtype=REAL)
    _, _, upper = run(lambda: trnsolver.lu(a), "lu")
    assert upper.diagonal().abs().min() == 0
    with pytest.raises(SingularMatrixError, match="a pivot is zero"):
        run(lambda: trnsolver.solve(a, a[0]), "lu")
    zeros = torch.zeros(2, 3, 3, dtype=REAL)
    p, lower, upper = run(lambda: trnsolver.lu(zeros), "lu")
    assert torch.equal(p @ lower @ upper, zeros)
    for values in ([1.0, 1, -1e-3], [1.0, 1, -1e-9], [-1.0, 1, 1]):
        with pytest.raises(NotPositiveDefiniteError):
            run(lambda v=values: trnsolver.cholesky(spd(v, 3)), "cholesky")


@each_case("function", ("lu", "solve", "inv", "cholesky"))
@each_case("value", (torch.nan, torch.inf))
def test_what_is_not_finite_is_computed_by_torch_and_counted(function, value):
    a = torch.eye(3, dtype=REAL)
    a[2, 1] = value
    operands = (a, a[0]) if function == "solve" else (a,)

    def told():
        try:
            found = getattr(trnsolver, function)(*operands)
        except trnsolver.LinAlgError:
            return True
        parts = found if function == "lu" else [found]
        return not all(bool(torch.isfinite(x).all()) for x in parts)

    before = counts()
    with (
        trnsolver.backend("simulator"),
        trnblas.backend("simulator"),
        precision("doublefloat"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", NkiFallbackWarning)
        assert told()
    assert (counts() - before).fallbacks


@each_case("dtype", (REAL, COMPLEX))
@each_case("condition", (1e3, 1e9))
def test_determinants(condition, dtype):
    """Of factors with backward errors of the level, whose effect is the condition number."""
    a = with_values(spectrum(6, condition, "one small"), 8, dtype)
    value = run(lambda: trnsolver.det(a), "lu")
    sign, logarithm = run(lambda: trnsolver.slogdet(a), "lu")
    with mp.workdps(40):
        want = complex(mp.det(mp.matrix([[mp.mpmathify(complex(z)) for z in row] for row in a])))
    allowed = 6 * condition * LEVEL
    assert abs(complex(value) - want) <= allowed * abs(want)
    assert abs(complex(sign) - want / abs(want)) <= allowed
    assert abs(float(logarithm) - np.log(abs(want))) <= allowed
    swapped = run(lambda: trnsolver.det(a[[1, 0, 2, 3, 4, 5]]), "lu")
    assert abs(complex(swapped + value)) <= 2 * allowed * abs(want)
    assert run(lambda: trnsolver.det(torch.ones(2, 3, 3, dtype=dtype)), "lu").tolist() == [0, 0]


@each_case("rows", (5, 3))
def test_least_squares_have_the_rank_and_the_residual_of_the_level(rows):
    a = random_tensor(rows, 4, dtype=REAL) @ torch.diag(torch.logspace(0, -6, 4, dtype=REAL))
    b = random_tensor(rows, 2, dtype=REAL, seed=3)
    found = run(lambda: trnsolver.lstsq(a, b), "jacobi_svd")
    assert int(found.rank) == min(rows, 4)
    left = a @ found.solution - b
    size = torch.linalg.matrix_norm(a, 2) * torch.linalg.vector_norm(found.solution, dim=0)
    allowed = 16 * LEVEL * (size + torch.linalg.vector_norm(b, dim=0))
    gradient = torch.linalg.vector_norm(a.mT @ left, dim=0)
    condition = torch.linalg.cond(a)
    assert (gradient <= condition**0.5 * allowed).all()
    low = a[:, :2] @ random_tensor(2, 4, dtype=REAL, seed=9)
    assert int(run(lambda: trnsolver.lstsq(low, b), "jacobi_svd").rank) == 2


# -- systems ---------------------------------------------------------------------------------------


def exact_residual(a, x, b):
    """``B - A X`` in 40 digits, rounded."""
    with mp.workdps(40):
        left = mp.matrix(b.tolist()) - mp.matrix(a.tolist()) * mp.matrix(x.tolist())
        return torch.tensor([[float(v) for v in row] for row in left.tolist()], dtype=REAL)


def of_condition(number, n):
    """System ``number`` of a sequence, with its condition number from 1e2 to 1e14."""
    condition = 10 ** (2 + 12 * (number % 50) / 49)
    a = with_values(spectrum(n, condition, ("even", "one small")[number % 2]), 7 * number)
    return a, random_tensor(n, 1, dtype=REAL, seed=number), condition


def attempted(a, b):
    """The solution by kernels, or None where they say that they cannot reach the level."""
    with (
        LIBRARY.requiring("1"),
        trnsolver.backend("simulator"),
        trnblas.backend("simulator"),
        precision("doublefloat"),
    ):
        try:
            return trnsolver.solve(a, b)
        except KernelError:
            return None


@pytest.mark.parametrize(
    ("numbers", "order"),
    [(range(0, 50, 5), 7), pytest.param(range(200), 16, marks=pytest.mark.slow)],
)
def test_no_system_claims_more_than_it_has(numbers, order):
    """A result is within the level, for each row of A and column of X; up to 1e10 there is one.

    ``python -m pytest -m slow -s -k claims`` of this file prints the largest share of the bound.
    """
    shares, refused = [], []
    for number in numbers:
        a, b, condition = of_condition(number, order)
        x = attempted(a, b)
        if x is None:
            assert condition > 1e10, number
            refused.append(condition)
            continue
        size = torch.linalg.vector_norm(a, dim=1, keepdim=True) * torch.linalg.vector_norm(x)
        share = float((exact_residual(a, x, b).abs() / (LEVEL * (size + b.abs()))).max())
        assert share <= 1, number
        shares.append(share)
    print(f"\n{len(shares)} solved, largest share {max(shares):.3g}, refused at {refused}")


@each_case("condition", (1e3, 1e8, 1e12))
@each_case("target", (1e-12, 1e-6))
def test_a_target_has_a_bound_that_is_kept(condition, target):
    """The bound of ``info`` is compared with the error of a solution in 60 digits."""
    a = with_values(spectrum(8, condition, "even"), 5)
    b = random_tensor(8, 1, dtype=REAL)
    before = counts()
    with trnsolver.backend("simulator"), trnblas.backend("simulator"), precision("doublefloat"):
        x, info = trnsolver.solve(a, b, target_forward_error=target, on_failure="ignore")
    since = counts() - before
    assert "lu" in since.launches
    assert not since.fallbacks
    assert not since.refusals
    with mp.workdps(60):
        exact = mp.lu_solve(mp.matrix(a.tolist()), mp.matrix(b.tolist()))
        errors = [abs(mp.mpf(v) - e) for v, e in zip(x[:, 0].tolist(), exact, strict=True)]
        error = max(errors) / max(map(abs, exact))
    assert error <= info.forward_error
    assert info.converged == (info.forward_error <= target)


@each_case("count", (1, 6))
def test_gmres_and_factors_at_the_level_correct_what_single_factors_do_not(count):
    """Up to four columns GMRES takes one float32 factorization; for more, there are several."""
    a = with_values(spectrum(8, 1e11, "one small"), 5)
    before = counts()
    x = run(lambda: trnsolver.solve(a, random_tensor(8, count, dtype=REAL)), "lu")
    assert x.shape == (8, count)
    assert ((counts() - before).launches["lu"] == 1) == (count == 1)


def test_a_system_that_no_method_solves_is_said_to_be_one():
    """A row and column beyond 2^-45 of the others, which powers of two do not balance."""
    hilbert = torch.tensor([[1.0 / (i + j + 1) for i in range(14)] for j in range(14)], dtype=REAL)
    x = attempted(hilbert, hilbert.sum(-1, keepdim=True))
    if x is not None:
        left = exact_residual(hilbert, x, hilbert.sum(-1, keepdim=True)).abs()
        rows = torch.linalg.vector_norm(hilbert, dim=1, keepdim=True)
        assert (
            left <= LEVEL * (rows * torch.linalg.vector_norm(x) + hilbert.sum(-1)[:, None])
        ).all()


@each_case("dtype", (torch.float32, torch.complex64))
def test_gradients_of_solutions_and_factors_are_those_of_float64(dtype):
    a = spd([1.0, 2, 3, 5], 3, COMPLEX if dtype.is_complex else REAL).to(dtype)
    b = random_tensor(4, 2, dtype=dtype, seed=4)

    def loss(a, b):
        x = trnsolver.solve(a, b)
        factor = trnsolver.cholesky(a @ a.mH)
        upper = trnsolver.lu(a + torch.eye(4)).U
        return sum((v.abs() ** 2).sum() for v in (x, factor, upper))

    found, wanted = [], []
    for results, wide in ((found, False), (wanted, True)):
        leaves = [v.to(COMPLEX if dtype.is_complex else REAL) if wide else v for v in (a, b)]
        leaves = [v.detach().clone().requires_grad_() for v in leaves]
        if wide:
            loss(*leaves).backward()
        else:
            run(lambda given=leaves: loss(*given).backward(), "lu", "cholesky")
        results += [v.grad for v in leaves]
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype is dtype
        # a @ a.mH and a sum are rounded to float32 before they are factorized.
        assert (got - want).abs().max() <= 40 * 2.0**-24 * want.abs().max()


@each_case("name", ("solve", "inv"))
def test_solutions_beyond_the_range_of_their_dtype_are_infinite(name):
    """Of a matrix that is not singular."""
    a = 2.0**-140 * torch.tensor([[1.0, 0.5], [0.0, 2.0]])
    operands = (a,) if name == "inv" else (a, torch.eye(2))
    found = run(lambda: getattr(trnsolver, name)(*operands), "lu")
    assert found[0].tolist() == [torch.inf, -torch.inf]
    assert found[1].tolist() == [0, torch.inf]


@each_case("name", ("solve", "inv"))
@pytest.mark.filterwarnings("ignore::trnsci.core.errors.NkiFallbackWarning")
def test_a_matrix_that_no_power_of_two_brings_near_1_is_said(name):
    """Its inverse is beyond float64, and so are the scaled right-hand sides: a refusal, no loop."""
    a = 2.0**-1040 * torch.tensor([[1.0, 0.5], [0.25, 2.0]], dtype=REAL)
    operands = (a,) if name == "inv" else (a, torch.eye(2, dtype=REAL))
    before = counts()
    with trnsolver.backend("simulator"), trnblas.backend("simulator"), precision("doublefloat"):
        with LIBRARY.requiring("1"), pytest.raises(KernelError, match="infinity"):
            getattr(trnsolver, name)(*operands)
        try:
            found = getattr(trnsolver, name)(*operands)
        except SingularMatrixError:
            found = None
    assert (counts() - before).fallbacks
    assert found is None or not found.isfinite().any()
