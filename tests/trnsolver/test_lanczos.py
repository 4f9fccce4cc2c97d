"""Pairs of eigsh against LAPACK's of the whole matrix: values, residuals, bounds, derivatives."""

import warnings

import numpy as np
import pytest
import scipy.sparse.linalg as spl
import torch
from torch.autograd import gradcheck

import trnblas
import trnsolver
import trnsparse
from each_case import each_case
from pairwise import pairwise
from trnsci.core.counters import counts
from trnsci.core.errors import DerivativeError, FlagError, OperandError, ShapeError
from trnsci.core.testing import random_tensor
from trnsolver import eigsh

F64, C128 = torch.float64, torch.complex128


def laplacian(*sides):
    """Return the Laplacian of a grid, whose squares and cubes have multiple eigenvalues."""
    found = torch.zeros(1, 1, dtype=F64)
    for side in sides:
        one = 2 * torch.eye(side, dtype=F64)
        one -= torch.diag(torch.ones(side - 1, dtype=F64), 1)
        one -= torch.diag(torch.ones(side - 1, dtype=F64), -1)
        eyes = torch.eye(len(found), dtype=F64), torch.eye(side, dtype=F64)
        found = torch.kron(found, eyes[1]) + torch.kron(eyes[0], one)
    return found


def graph(n, edges):
    """Return the Laplacian of a random graph; each part of it that is not connected has a 0."""
    generator = torch.Generator().manual_seed(1)
    a = torch.zeros(n, n, dtype=F64)
    a[torch.randint(n, (edges,), generator=generator), torch.randint(n, (edges,))] = 1
    a = ((a + a.T) > 0).to(F64)
    a.fill_diagonal_(0)
    return torch.diag(a.sum(0)) - a


def of_values(values, dtype=F64):
    n = len(values)
    q = torch.linalg.qr(random_tensor(n, n, dtype=dtype, seed=n))[0]
    found = (q * torch.as_tensor(values, dtype=F64)) @ q.mH
    return (found + found.mH) / 2


def hermitian(n, dtype, seed=0):
    a = random_tensor(n, n, dtype=dtype, seed=seed)
    return (a + a.mH) / 2


MATRICES = {
    "1-D Laplacian": laplacian(60),
    "2-D Laplacian": laplacian(9, 9),
    "3-D Laplacian": laplacian(4, 4, 4),
    "graph": graph(80, 120),
    "random": hermitian(90, F64),
    "complex": hermitian(70, C128),
    "clustered": of_values([1 + 1e-9 * i for i in range(60)] + [3 + 1e-5 * i for i in range(10)]),
    "multiple": of_values([5.0] * 4 + [4.0] * 3 + [-7.0] * 2 + [i / 50 for i in range(51)]),
    "complex multiple": of_values([2.0] * 3 + [-2.0] * 3 + [0.5] * 40, C128),
    "low rank": of_values([1.0, -2.0] + [0.0] * 58),
    "decades": of_values([10.0**-i for i in range(12)] + [1e-12] * 40),
    "identity": torch.eye(50, dtype=F64),
    "zero": torch.zeros(45, 45, dtype=F64),
    "order 1": torch.full((1, 1), -3.0, dtype=F64),
}
WHICH = ("LM", "SM", "LA", "SA", "BE")


def chosen(values, k, which, sigma=None):
    """Return the requested ones of all values, ascending, by SciPy's definition."""
    ranked = values if sigma is None else 1 / (values - sigma)
    order = np.argsort(-abs(ranked) if which == "LM" else abs(ranked), kind="stable")
    if which in ("LA", "SA", "BE"):
        order = np.argsort(ranked)
        ends = {"LA": (0, k), "SA": (k, 0), "BE": (k // 2, k - k // 2)}[which]
        order = np.concatenate([order[: ends[0]], order[len(order) - ends[1] :]])
    return np.sort(values[order[:k]])


def check(a, found, k, which, sigma=None, slack=1.0):
    """Assert that pairs are those requested, orthonormal, and within their bounds."""
    w, v, info = found.eigenvalues.double().cpu(), found.eigenvectors.to(C128), found.info
    wide = a.to(C128)
    exact = np.linalg.eigvalsh(wide.numpy())
    size = max(abs(exact).max(), np.finfo(float).tiny)
    assert info.converged, info
    n, eps = len(a), torch.finfo(found.eigenvalues.dtype).eps
    # Residuals converge to 16 eps; eigenvalues are as far apart as LAPACK's roundings.
    bound = slack * (32 + n**0.5) * eps * size
    assert abs(w.numpy() - chosen(exact, k, which, sigma)).max() <= bound
    residual = torch.linalg.vector_norm(wide @ v - v * w, dim=0)
    assert float(residual.max()) <= bound
    assert float((v.mH @ v - torch.eye(k)).abs().max()) <= 32 * n**0.5 * eps
    rounding = n * np.finfo(float).eps * size
    for value, limit in zip(w.tolist(), info.bounds, strict=True):
        assert abs(exact - value).min() <= limit + rounding
    assert len(info.bounds) == k


@each_case("name, which, part", pairwise(MATRICES, WHICH, ["one", "some", "all"]))
def test_pairs_are_those_requested(name, which, part):
    a = MATRICES[name]
    if which == "SM" and name in ("decades", "clustered", "random", "complex", "2-D Laplacian"):
        return  # inner values, which need a shift: below
    k = {"one": 1, "some": min(6, len(a)), "all": len(a)}[part]
    # Ritz values of magnitudes in a cluster are chosen at random.
    check(a, eigsh(a, k, which=which), k, which)


@each_case("kind", ["dense", "sparse"])
@each_case("name", ["1-D Laplacian", "3-D Laplacian", "complex", "random", "multiple"])
def test_shifts_select_by_the_inverse(name, kind):
    a = MATRICES[name]
    values = np.linalg.eigvalsh(a.numpy())
    middle = np.unique(values.round(6))
    sigma = float(middle[len(middle) // 2] * 0.4 + middle[len(middle) // 2 + 1] * 0.6)
    operand = a if kind == "dense" else trnsparse.from_dense(a)
    apart = float(abs(values - sigma).min())
    for which in ("LM", "LA", "SA", "BE"):
        found = eigsh(operand, 4, which=which, sigma=sigma)
        # The inverse is accurate to rounding times its condition number.
        slack = 4 * abs(values).max() / apart
        check(a, found, 4, which, sigma, slack)


def kinds(a):
    """Return a matrix in all forms that are accepted, and the options they need."""
    sparse = trnsparse.from_dense(a)
    first = {"v0": torch.ones(len(a), dtype=a.dtype)}
    return {
        "dense": (a, {}),
        "transposed": (a.T.contiguous().T, {}),
        "CSR": (sparse, {}),
        "COO": (sparse.to_coo(), {}),
        "CSC": (sparse.to_csc(), {}),
        "blocks": (trnsparse.BSRMatrix.from_dense(a, 6), {}),
        "function": (lambda v: a @ v, first),
        "operator": (trnsolver.LinearOperator(lambda v: a @ v, order=len(a)), first),
        "SciPy's operator": (spl.aslinearoperator(a.numpy()), {}),
        "SciPy's matrix": (sparse.to_scipy(), {}),
    }


@pytest.mark.parametrize("dtype", [torch.float32, F64, torch.complex64, C128], ids=str)
def test_kinds_of_matrices_give_the_same_pairs(dtype):
    a = hermitian(60, dtype)
    for kind, (operand, options) in kinds(a).items():
        found = eigsh(operand, 3, which="BE", **options)
        assert found.eigenvectors.dtype is dtype, kind
        check(a, found, 3, "BE")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_dtypes_are_rounded_once_and_bounded(dtype):
    a = hermitian(60, F64).to(dtype)
    for operand in (a, trnsparse.from_dense(a)):
        found = eigsh(operand, 3)
        assert found.eigenvalues.dtype is found.eigenvectors.dtype is dtype
        exact = torch.linalg.eigvalsh(a.double())
        for value, bound in zip(found.eigenvalues.double(), found.info.bounds, strict=True):
            assert float((exact - value).abs().min()) <= bound
        assert max(found.info.bounds) <= 4 * torch.finfo(dtype).eps * float(exact.abs().max())


def test_an_inverse_may_be_given_as_a_function():
    a = laplacian(50)
    inverse = torch.linalg.inv(a - 1.01 * torch.eye(50, dtype=F64))
    found = eigsh(lambda v: a @ v, 3, sigma=1.01, OPinv=lambda v: inverse @ v, v0=a[0])
    check(a, found, 3, "LM", 1.01, 500)


def test_seeds_and_first_vectors_decide_the_result():
    a = hermitian(60, F64)
    one, same, other = (eigsh(a, 2, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(one.eigenvectors, same.eigenvectors)
    assert not torch.equal(one.eigenvectors, other.eigenvectors)
    w, v = np.linalg.eigh(a.numpy())
    # An eigenvector as the first one spans an invariant space: the others are random.
    check(a, eigsh(a, 2, v0=torch.from_numpy(v[:, 3])), 2, "LM")
    check(a, eigsh(a, 5, ncv=9, which="LA"), 5, "LA")
    assert abs(eigsh(a, 2, tol=1e-3).eigenvalues.numpy() - chosen(w, 2, "LM")).max() < 0.1


def test_what_has_not_converged_is_bounded_too():
    a = laplacian(400)
    found = eigsh(a, 3, which="SA", max_iter=2, on_failure="ignore")
    assert found.info.reason == "limit"
    assert not found.info.converged
    exact = torch.linalg.eigvalsh(a)
    for value, bound in zip(found.eigenvalues, found.info.bounds, strict=True):
        assert float((exact - value).abs().min()) <= bound


REFUSED = (
    (lambda a: eigsh(a, 0), FlagError, "eigsh: k must be an integer from 1 to 12"),
    (lambda a: eigsh(a, 13), FlagError, "eigsh: k must be an integer"),
    (lambda a: eigsh(a, 2.0), FlagError, "eigsh: k"),
    (lambda a: eigsh(a, 2, which="LR"), FlagError, "which must be one of LM, SM, LA, SA, BE"),
    (lambda a: eigsh(a, 2, ncv=2), FlagError, "eigsh: ncv"),
    (lambda a: eigsh(a, 2, ncv=13), FlagError, "eigsh: ncv"),
    (lambda a: eigsh(a, 2, tol=-1.0), FlagError, "eigsh: tol"),
    (lambda a: eigsh(a, 2, max_iter=0), FlagError, "eigsh: max_iter"),
    (lambda a: eigsh(a, 2, sigma=float("nan")), FlagError, "eigsh: sigma"),
    (lambda a: eigsh(a, 2, sigma=0.0), trnsolver.SingularMatrixError, "A - sigma"),
    (
        lambda a: eigsh(trnsparse.from_dense(a), 2, sigma=0.0),
        trnsolver.SingularMatrixError,
        "A - sigma",
    ),
    (lambda a: eigsh(a, 2, OPinv=a), FlagError, "OPinv needs sigma"),
    (lambda a: eigsh(lambda v: v, 2, n=12, sigma=1.0), FlagError, "OPinv must be given"),
    (lambda a: eigsh(lambda v: v, 2), ShapeError, "n must give the order"),
    (lambda a: eigsh(a[:5], 2), ShapeError, "A must be square"),
    (lambda a: eigsh(a.expand(2, 12, 12), 2), ShapeError, "A must be 2-D"),
    (lambda a: eigsh(a, 2, v0=a[0, :5]), ShapeError, "v0 must have shape"),
    (lambda a: eigsh(a, 2, v0=0 * a[0]), trnsolver.NotFiniteError, "v0 must be finite"),
    (lambda a: eigsh(a, 2, v0=a[0] * (1 + 1j)), TypeError, "v0 is complex"),
    (lambda a: eigsh(a.long(), 2), TypeError, "A must be"),
    (lambda a: eigsh("A", 2, n=4), TypeError, "A must be"),
    (lambda a: eigsh(None, 2), TypeError, "A must be a matrix, an operator or a function"),
    (lambda a: eigsh(a, 2, sigma=1j), FlagError, "sigma must be a finite real number, got 1j"),
    (lambda a: eigsh(a / 0, 2), trnsolver.NotFiniteError, "must be finite"),
    (lambda a: eigsh(a.cumsum(0), 2), OperandError, r"A must be symmetric \(Hermitian\)"),
)


@each_case("place", range(len(REFUSED)))
def test_what_cannot_be_used_is_named(place):
    call, error, message = REFUSED[place]
    a = torch.zeros(12, 12, dtype=F64)
    a[0, 0] = a[1, 1] = 1
    with pytest.raises(error, match=message):
        call(a)


# -- derivatives -----------------------------------------------------------------------------------

APART = of_values([float(i * i) for i in range(1, 25)])


def tangent(which, sigma=None):
    def call(a):
        w, v = eigsh((a + a.mH) / 2, 3, which=which, sigma=sigma)
        return w, (v * v.conj()).real

    return call


@pytest.mark.parametrize(("which", "sigma"), [("LA", None), ("SA", None), ("LM", 30.0)])
def test_gradients_are_those_of_finite_differences_in_both_modes(which, sigma):
    a = APART.clone().requires_grad_()
    assert gradcheck(tangent(which, sigma), a, check_forward_ad=True, fast_mode=True)
    z = of_values([float(i * i) for i in range(1, 15)], C128).requires_grad_()
    assert gradcheck(tangent(which, sigma), z, check_forward_ad=True, fast_mode=True)


def test_gradients_reach_entries_and_captured_tensors():
    weights = random_tensor(24, 2, dtype=F64)

    def loss(pair):
        return pair[0].sum() + (pair[1] ** 2 * weights).sum()

    a = APART.clone().requires_grad_()
    (want,) = torch.autograd.grad(loss(tuple(x[..., -2:] for x in torch.linalg.eigh(a))), a)
    want = (want + want.T) / 2
    sparse = trnsparse.from_dense(APART)
    values = sparse.values.clone().requires_grad_()
    (got,) = torch.autograd.grad(loss(eigsh(sparse.with_values(values), 2, which="LA")), values)
    assert float((got.view(24, 24) - want).abs().max()) <= 1e-9
    scale = torch.ones((), dtype=F64, requires_grad=True)
    found = eigsh(lambda v: scale * (APART @ v), 2, which="LA", v0=APART[0])
    (got,) = torch.autograd.grad(loss(found), scale)
    assert float((got - (want * APART).sum()).abs()) <= 1e-9 * float(APART.abs().sum())


def test_derivatives_that_do_not_exist_are_named():
    for values in ([3.0, 3.0, 1.0, *[0.1] * 9], [3.0, 2.0, 2.0, *[0.1] * 9]):
        a = of_values(values).requires_grad_()
        _, v = eigsh(a, 2, which="LA")
        with pytest.raises(DerivativeError, match="multiple eigenvalue"):
            torch.autograd.grad((v**4).sum(), a)
    a = of_values([3.0, 3.0, *[0.1] * 10]).requires_grad_()
    (gradient,) = torch.autograd.grad(eigsh(a, 2).eigenvalues.sum(), a)  # that of the trace
    assert float((gradient @ gradient - gradient).abs().max()) <= 1e-12
    a = APART.clone().requires_grad_()
    with pytest.raises(DerivativeError, match="first derivatives only"):
        torch.autograd.grad(eigsh(a, 2).eigenvalues.sum(), a, create_graph=True)
    with pytest.raises(DerivativeError, match="first derivatives only"):
        torch.func.hessian(lambda a: eigsh(a, 2).eigenvalues.sum())(APART)


# -- kernels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_products_run_on_kernels(kind):
    a = hermitian(16, torch.float32)
    operand = a if kind == "dense" else trnsparse.from_dense(a)
    before = counts()
    with trnblas.backend("simulator"), trnsparse.backend("simulator"), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = eigsh(operand, 2, which="LA", ncv=9)
    launches = (counts() - before).launches
    # All but the products that measure the results, in float64.
    name = "gemm" if kind == "dense" else "spmm_one_hot"
    assert launches[name] == found.info.matvecs - 2, dict(launches)
    check(a, found, 2, "LA", slack=4)


# -- svds ------------------------------------------------------------------------------------------

RECTANGULAR = {
    "tall": random_tensor(90, 50, dtype=F64),
    "wide": random_tensor(50, 90, dtype=F64, seed=1),
    "square": random_tensor(60, 60, dtype=F64, seed=2),
    "complex": random_tensor(70, 50, dtype=C128, seed=3),
    "low rank": random_tensor(80, 2, dtype=F64) @ random_tensor(2, 60, dtype=F64),
    "multiple": torch.cat([of_values([4.0] * 3 + [2.0] * 2 + [0.1] * 45), torch.zeros(9, 50)]),
}


def check_triplets(a, found, k, dtype):
    u, s, vh = (part.to(C128) for part in found)
    exact = np.linalg.svd(a.to(C128).numpy(), compute_uv=False)
    eps = torch.finfo(dtype).eps
    assert found.info.converged
    assert all(part.dtype.to_real() is dtype.to_real() for part in found)
    for value, bound in zip(s.real.tolist(), found.info.bounds, strict=True):
        assert abs(exact - value).min() <= bound + len(a) * 2.0**-52 * exact[0]
    large = exact[:k] > eps**0.5 * exact[0]  # of smaller ones the squares are lost
    assert abs(s.real.numpy() - exact[:k])[large].max() <= 64 * eps * exact[0]
    assert abs(s.real.numpy() - exact[:k]).max() <= 64 * eps**0.5 * exact[0]
    for vectors in (u, vh.mH):
        assert float((vectors.mH @ vectors - torch.eye(k)).abs().max()) <= 400 * eps
    assert (
        float(torch.linalg.vector_norm(a.to(C128) @ vh.mH - u * s, dim=0).max())
        <= 400 * eps * (exact[0])
    )


@each_case("name", RECTANGULAR)
def test_singular_values_are_the_largest(name):
    a = RECTANGULAR[name]
    for k in (1, 5, min(a.shape)):
        check_triplets(a, trnsolver.svds(a, k), k, a.dtype)
    single = a.to(torch.complex64 if a.is_complex() else torch.float32)
    for operand in (single, trnsparse.from_dense(single), spl.aslinearoperator(single.numpy())):
        check_triplets(single, trnsolver.svds(operand, 3), 3, single.dtype)


def test_the_smallest_singular_values_and_those_of_functions():
    a = RECTANGULAR["square"]
    exact = torch.linalg.svdvals(a)
    found = trnsolver.svds(a, 3, which="SM", max_iter=3000)
    assert float((found.s - exact[-3:]).abs().max()) <= 1e-9
    found = trnsolver.svds(lambda v: a @ v, 3, v0=a[0])
    assert float((found.s - exact[:3]).abs().max()) <= 1e-13 * float(exact[0])


@pytest.mark.parametrize("name", ["tall", "wide", "complex"])
def test_gradients_of_singular_values_and_vectors(name):
    base = RECTANGULAR[name][:12, :9] if name != "wide" else RECTANGULAR[name][:9, :12]
    a = base.clone().requires_grad_()

    def call(a):
        u, s, vh = trnsolver.svds(a, 2)
        return s, (u * u.conj()).real, (u * s) @ vh

    assert gradcheck(call, a, check_forward_ad=True, fast_mode=True)


REFUSED_SVDS = (
    (lambda a: trnsolver.svds(a, 0), FlagError, "svds: k must be an integer from 1 to 5"),
    (lambda a: trnsolver.svds(a, 2, which="LA"), FlagError, "which must be one of LM, SM"),
    (lambda a: trnsolver.svds(a, 2, v0=a[:, 0]), ShapeError, "v0 must have shape"),
    (lambda a: trnsolver.svds(a[0], 2), ShapeError, "A must be 2-D"),
    (lambda a: trnsolver.svds(a * float("nan"), 2), trnsolver.NotFiniteError, "must be finite"),
    (lambda a: trnsolver.svds("A", 2, n=4), TypeError, "A must be"),
)


@each_case("place", range(len(REFUSED_SVDS)))
def test_what_svds_cannot_use_is_named(place):
    call, error, message = REFUSED_SVDS[place]
    with pytest.raises(error, match=message):
        call(RECTANGULAR["tall"][:8, :5])
