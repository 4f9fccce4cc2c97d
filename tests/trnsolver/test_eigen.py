"""Eigenpairs against LAPACK in float64, by residual and orthogonality in units of n u."""

import numpy as np
import pytest
import scipy.linalg
import torch

import trnsolver
from each_case import each_case
from oracles.solver_matrices import SYMMETRIC, hilbert, with_values
from trnsci.core.errors import DerivativeError, FlagError
from trnsci.core.testing import random_tensor, unit_roundoff

DTYPES = (torch.float32, torch.float64)


def unit(a):
    return 20 * a.shape[-1] * unit_roundoff(a.real.dtype if a.is_complex() else a.dtype)


def assert_pairs(a, w, v, b=None):
    """Residual and orthogonality are at most 20 n u, relative to the norm of A."""
    size = torch.linalg.matrix_norm(a)
    bv = v if b is None else b @ v
    residual = torch.linalg.matrix_norm(a @ v - bv * w.unsqueeze(-2))
    assert bool((residual <= unit(a) * size).all())
    eye = torch.eye(v.shape[-1], dtype=v.dtype)
    assert float((v.mH @ bv - eye).abs().max()) <= unit(a)
    assert bool((w.diff(dim=-1) >= 0).all())


@each_case("dtype", DTYPES, ids=str)
@each_case("name", SYMMETRIC)
def test_every_family(name, dtype):
    a = SYMMETRIC[name].to(dtype)
    w, v = trnsolver.eigh(a)
    assert_pairs(a, w, v)
    want = scipy.linalg.eigvalsh(a.double().numpy())
    bound = unit(a) * max(np.abs(want).max(), 1e-300)
    assert np.abs(w.double().numpy() - want).max() <= bound
    assert np.abs(trnsolver.eigvalsh(a).double().numpy() - want).max() <= bound


def test_a_second_matrix_is_referred_to_the_generalized_problem():
    with pytest.raises(FlagError, match=r"tol must be a number, .*\(2, 2\); eigh_generalized"):
        trnsolver.eigh(torch.eye(2), torch.eye(2))


def test_batches_and_complex_matrices():
    z = random_tensor(2, 3, 7, 7, dtype=torch.complex128)
    a = z + z.mH
    w, v = trnsolver.eigh(a)
    assert w.dtype is torch.float64
    assert w.shape == (2, 3, 7)
    assert_pairs(a, w, v)


@pytest.mark.parametrize("subset", [(0, 2), (5, 9), (23, 23)])
def test_a_subset_is_that_of_all(subset):
    a = SYMMETRIC["indefinite"]
    w, v = trnsolver.eigh(a, subset=subset)
    first, last = subset
    assert w.shape == (last - first + 1,)
    want = np.linspace(-1, 1, 24)[first : last + 1]
    assert np.abs(w.numpy() - want).max() <= unit(a)
    assert_pairs(a, w, v)


def test_k_pairs_at_either_end_and_by_magnitude():
    values = np.array([-9.0, -1.0, 0.5, 2.0, 3.0, 8.0])
    a = with_values(values)
    assert np.allclose(trnsolver.eigh(a, k=2)[0], [-9, -1], atol=1e-13)
    assert np.allclose(trnsolver.eigh(a, k=2, which="largest")[0], [3, 8], atol=1e-13)
    w, v = trnsolver.eigh(a, k=3, which="magnitude")
    assert np.allclose(w, [-9, 3, 8], atol=1e-13)
    assert_pairs(a, w, v)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("condition", [1.0, 1e4])
def test_generalized(condition, dtype):
    n = 12
    z = random_tensor(n, n, dtype=dtype)
    a = z + z.mH
    c = random_tensor(n, n, dtype=dtype, seed=1)
    scale = torch.logspace(0, -np.log10(condition) / 2, n, dtype=torch.float64)
    q = torch.linalg.qr(c).Q * scale
    b = q @ q.mH
    b = 0.5 * (b + b.mH)
    w, v = trnsolver.eigh_generalized(a, b)
    want = scipy.linalg.eigh(a.numpy(), b.numpy(), eigvals_only=True)
    # The reduction loses the condition number of B (Higham, section 10).
    assert np.abs(w.numpy() - want).max() <= unit(a) * condition * np.abs(want).max()
    assert float((v.mH @ b @ v - torch.eye(n)).abs().max()) <= unit(a) * condition
    size = torch.linalg.matrix_norm(a) * torch.linalg.matrix_norm(v)
    assert float(torch.linalg.matrix_norm(a @ v - b @ v * w)) <= unit(a) * condition * float(size)
    few, _ = trnsolver.eigh_generalized(a, b, k=3)
    assert np.abs(few.numpy() - want[:3]).max() <= unit(a) * condition * np.abs(want).max()


def test_generalized_reads_lower_triangles_and_takes_batches():
    z = random_tensor(2, 6, 6, dtype=torch.float64)
    a, b = z + z.mT, z @ z.mT + torch.eye(6)
    want = trnsolver.eigh_generalized(a, b).eigenvalues
    got = trnsolver.eigh_generalized(a.tril(), b.tril()).eigenvalues
    assert torch.allclose(got, want, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n", [5, 192])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_nobody_reads_above_the_diagonal(n, dtype):
    # From order 192 on LAPACK is given the rows of real matrices as columns.
    z = random_tensor(n, n, dtype=dtype)
    a = z + z.mH
    spoilt = torch.where(torch.ones(n, n).triu(1) > 0, torch.nan, a)
    for given in (spoilt, spoilt.mT.contiguous().mT):
        w, v = trnsolver.eigh(given)
        assert_pairs(a, w, v)
        assert float((w - torch.linalg.eigvalsh(a)).abs().max()) <= unit(a) * float(a.norm())
    definite = torch.where(torch.ones(n, n).triu(1) > 0, torch.nan, a @ a / n + torch.eye(n))
    x = trnsolver.inv_sqrt_spd(definite)
    assert float((x @ (a @ a / n + torch.eye(n)) @ x - torch.eye(n)).abs().max()) <= 1e-10
    spoilt[-1, 0] = torch.inf
    for function in (trnsolver.eigh, trnsolver.inv_sqrt_spd):
        with pytest.raises(trnsolver.NotFiniteError, match="finite"):
            function(spoilt)


def test_generalized_values_near_the_largest_number():
    unit = torch.finfo(torch.float32).max
    values = torch.tensor([0.25, 0.5, 0.75, 0.9]) * unit
    w, v = trnsolver.eigh_generalized(torch.diag(values), torch.eye(4))
    assert float((w / unit - values / unit).abs().max()) <= 1e-6
    assert float((v.abs() - torch.eye(4)).abs().max()) <= 1e-6


# -- with a tolerance ------------------------------------------------------------------------------

DECAYING = with_values(np.concatenate([-np.logspace(0, -6, 20), np.logspace(0.3, -6, 200)]))


def residual_of(a, w, v):
    return float(torch.linalg.vector_norm(a @ v - v * w, dim=0).max())


@pytest.mark.parametrize(
    ("method", "k", "which", "tol"),
    [
        ("exact", None, "smallest", 1e-12),
        ("chebyshev", 8, "smallest", 1e-6),
        ("chebyshev", 8, "largest", 1e-6),
        ("chebyshev", 8, "magnitude", 1e-6),
    ],
)
def test_each_way_reaches_its_tolerance_and_measures_it(method, k, which, tol):
    a = DECAYING
    w, v = result = trnsolver.eigh(a, tol, k=k, which=which, method=method)
    info = result.info
    assert info.method == method, info
    assert info.converged
    size = float(torch.linalg.matrix_norm(a, 2))
    actual = residual_of(a, w, v) / size
    assert actual <= info.backward_error * (1 + 1e-12) + 1e-16
    assert info.backward_error <= tol
    # A value is within the residual of an exact one (Weyl).
    exact = scipy.linalg.eigvalsh(a.numpy())
    distance = np.abs(w.numpy()[:, None] - exact).min(1).max()
    assert distance <= info.forward_error + 1e-14
    if k is not None and method == "chebyshev":
        want = trnsolver.eigh(a, k=k, which=which).eigenvalues
        assert torch.allclose(w, want, rtol=0, atol=2 * tol * size)


def test_a_way_that_fails_is_followed_by_the_exact_one():
    close = 1 + 1e-9 * np.arange(40)  # a filter does not separate them
    result = trnsolver.eigh(with_values(close), 1e-10, k=5, method="chebyshev")
    assert result.info.method == "exact"
    assert result.info.precision == ("chebyshev in float64, not enough", "exact in float64")
    assert result.info.converged
    assert np.abs(result.eigenvalues.numpy() - close[:5]).max() <= 1e-12


def test_a_tolerance_below_rounding_is_never_claimed():
    a = hilbert(30).float()
    with pytest.raises(trnsolver.AccuracyError, match="residual"):
        trnsolver.eigh(a, 1e-12, on_failure="raise")
    with pytest.warns(trnsolver.AccuracyWarning, match="residual") as warned:
        w, v = result = trnsolver.eigh(a, 1e-12)
    assert [w.filename for w in warned] == [__file__]
    assert_pairs(a, w, v)
    assert not result.info.converged
    assert result.info.backward_error > 1e-12
    assert not trnsolver.eigh(a, 1e-12, on_failure="ignore").info.converged


def test_a_tolerance_leaves_the_derivatives_of_the_exact_way():
    a = random_tensor(6, 6, dtype=torch.float64).requires_grad_()
    grads = []
    for options in ({"tol": 1e-8}, {}):
        values = trnsolver.eigh(a + a.mT, k=2, **options).eigenvalues
        grads += torch.autograd.grad(values.sum(), a)
    assert float((grads[0] - grads[1]).abs().max()) <= 1e-13
    with pytest.raises(DerivativeError, match="differentiated"):
        trnsolver.eigh(a + a.mT, 1e-8, k=1, method="chebyshev")


@pytest.mark.parametrize("options", [{"k": 3}, {"tol": 1e-8, "k": 3}, {"tol": 1e-8}], ids=str)
def test_views_that_arrays_do_not_know(options):
    # Conjugated, negated, and with a history that nobody asks for.
    z = random_tensor(16, 16, dtype=torch.complex128)
    hermitian = z + z.mH
    turned = (1j * (z - z.mH)).conj().imag.conj()
    turned = torch.complex(turned, turned).conj().imag
    cases = [hermitian.mH, hermitian.conj(), turned + turned.mT, (turned + turned.mT).mT]
    cases.append((turned + turned.mT).requires_grad_())
    with torch.no_grad():
        for a in cases:
            w = trnsolver.eigh(a, **options)[0]
            want = torch.linalg.eigvalsh(a)[: w.shape[0]]
            assert float((w - want).abs().max()) <= 1e-13 * float(want.abs().max() + 10)


def test_judging_reads_the_lower_triangle():
    a = random_tensor(20, 20, dtype=torch.float64)
    lower = a.tril() + a.tril(-1).mT
    for given in (a, a.mT.contiguous().mT):
        found = trnsolver.eigh(given, 1e-10, k=4)
        assert found.info.converged
        assert float((lower @ found[1] - found[1] * found[0]).norm()) <= 1e-12
        want = torch.linalg.vector_norm(lower @ found[1] - found[1] * found[0], dim=0).max()
        rounding = 24 * 2**-52 * float(a.norm()) * 2
        assert float(want) <= found.info.forward_error <= float(want) + rounding


def structured():
    rng = np.random.default_rng(5)
    z = rng.standard_normal((12, 12))
    falling = np.logspace(0, -7, 12)
    wilkinson = np.diag(abs(np.arange(21) - 10.0))
    wilkinson += np.diag(np.ones(20), 1) + np.diag(np.ones(20), -1)
    return {
        "wilkinson": wilkinson,
        "hilbert": scipy.linalg.hilbert(12),
        "graded": falling[:, None] * (z + z.T) * falling,
        "negative": -z @ z.T,
        "tiny": 1e-33 * (z + z.T),
        "huge": 1e33 * (z + z.T),
        "zeros": np.zeros((5, 5)),
    }


@each_case("method", ["exact", "chebyshev"])
@each_case("name", structured())
def test_the_bound_of_every_way_holds_and_its_pairs_are_the_wanted_ones(name, method):
    a = torch.from_numpy(structured()[name]).float()
    exact = np.linalg.eigvalsh(a.double().numpy())
    norm = abs(exact).max()
    wanted = {"smallest": exact[:2], "largest": exact[-2:]}
    wanted["magnitude"] = np.sort(exact[np.argsort(abs(exact))[-2:]])
    for which, tol in [(w, t) for w in wanted for t in (1e-3, 1e-6)]:
        w, _ = found = trnsolver.eigh(a, tol, k=2, which=which, method=method, on_failure="ignore")
        distances = abs(w.double().numpy()[:, None] - exact).min(1)
        assert distances.max() <= found.info.forward_error
        if found.info.converged:
            # Where magnitudes are equal, either sign is one of the largest.
            mine = abs(w.double().numpy()) if which == "magnitude" else w.double().numpy()
            theirs = abs(wanted[which]) if which == "magnitude" else wanted[which]
            off = abs(np.sort(mine) - np.sort(theirs)).max()
            assert off <= 4 * tol * norm + found.info.forward_error


def test_pairs_that_are_rounded_to_bfloat16_are_judged_as_they_are():
    a = random_tensor(12, 12).bfloat16()
    a = a + a.mT
    w, v = found = trnsolver.eigh(a, 1e-6, on_failure="ignore")
    exact = torch.linalg.eigvalsh(a.double())
    assert w.dtype is v.dtype is torch.bfloat16
    assert not found.info.converged
    assert float((w.double() - exact).abs().max()) <= found.info.forward_error
    assert trnsolver.eigh(a, 0.05).info.converged


def test_a_matrix_without_rows_has_no_pairs_whatever_the_tolerance(capfd):
    found = trnsolver.eigh(torch.empty(0, 0), 1e-3)
    assert found.info.converged
    assert capfd.readouterr() == ("", "")


def test_pairs_with_a_tolerance_are_exact_unless_the_filter_is_requested():
    a = with_values(np.linspace(-1, 1, 330))
    assert trnsolver.eigh(a, 1e-5, k=4).info.precision == ("exact in float64",)
    assert trnsolver.eigh(a, 1e-5, k=4, method="chebyshev").info.method == "chebyshev"


# -- lobpcg ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("generalized", [True, False])
def test_lobpcg(largest, generalized):
    n = 60
    a = torch.diag(torch.arange(1.0, n + 1, dtype=torch.float64)) + 0.1 * SYMMETRIC_60
    b = torch.eye(n, dtype=torch.float64) + 0.5 * SYMMETRIC_60 @ SYMMETRIC_60 / n
    given = b if generalized else None
    result = trnsolver.lobpcg(a, 4, given, tol=1e-9, largest=largest, max_iter=300)
    assert result.info.converged
    want = scipy.linalg.eigh(a.numpy(), b.numpy() if generalized else None, eigvals_only=True)
    w, v = result
    assert np.allclose(w, want[-4:] if largest else want[:4], rtol=1e-9)
    inner = v.mH @ (b @ v if generalized else v)
    assert float((inner - torch.eye(4)).abs().max()) < 1e-10


SYMMETRIC_60 = random_tensor(60, 60, dtype=torch.float64) / 10
SYMMETRIC_60 = SYMMETRIC_60 + SYMMETRIC_60.mT


def test_lobpcg_is_faster_with_a_preconditioner_and_takes_functions():
    n = 80
    diagonal = torch.logspace(0, 4, n, dtype=torch.float64)
    start = random_tensor(n, 3, dtype=torch.float64)
    slow = trnsolver.lobpcg(
        lambda v: diagonal * v, start, tol=1e-6, max_iter=100, on_failure="ignore"
    )
    fast = trnsolver.lobpcg(
        lambda v: diagonal * v, start, M=lambda r: r / diagonal, tol=1e-6, max_iter=400
    )
    assert fast.info.converged
    assert len(fast.info.residuals) < len(slow.info.residuals)
    assert torch.allclose(fast.eigenvalues, diagonal[:3], rtol=1e-6)
    assert not trnsolver.lobpcg(
        torch.diag(diagonal), 3, max_iter=2, on_failure="ignore"
    ).info.converged
