"""Complex matrices on kernels: one launch of the kernel for real matrices of twice the order.

Results are judged in complex128 by their definitions: products of factors give the matrix, unitary
factors the identity. A backward stable method on a real form of order 2n is off by at most ``40 u``
for each of its rows, times the condition number where a solution is compared.
"""

import numpy as np
import pytest
import torch

import trnblas
import trnsolver
from each_case import each_case
from pairwise import pairwise
from trnsci.core.counters import counts
from trnsci.core.testing import launched, random_tensor, refusals_expected, unit_roundoff
from trnsolver._factors.forms import orthonormal_half

UNIT = unit_roundoff(torch.float32)


@pytest.fixture(autouse=True)
def on_the_simulator():
    with trnsolver.backend("simulator"):
        yield


def bound(rows, condition=1.0):
    return 40 * UNIT * 2 * rows * condition


def drawn(*shape, seed=0):
    return torch.complex(random_tensor(*shape, seed=seed), random_tensor(*shape, seed=seed + 1))


def unitary(n, seed=0):
    return torch.linalg.qr(drawn(n, n, seed=seed).to(torch.complex128)).Q


def hermitian(values, seed=0):
    """A Hermitian matrix with these eigenvalues, rounded."""
    v = unitary(len(values), seed)
    a = (v * torch.as_tensor(np.asarray(values, float))) @ v.mH
    return ((a + a.mH) / 2).to(torch.complex64)


def with_values(values, m, seed=0):
    """A matrix of m rows with these singular values, rounded."""
    k = len(values)
    u, v = unitary(m, seed)[:, :k], unitary(k, seed + 5)
    return ((u * torch.as_tensor(np.asarray(values, float))) @ v.mH).to(torch.complex64)


def wide(*values):
    return tuple(x.to(torch.complex128 if x.is_complex() else torch.float64) for x in values)


def off(found, want):
    """The largest spectral norm of an error, relative to that of the matrix."""
    found, want = wide(found, want)
    size = torch.linalg.matrix_norm(want, 2).max()
    return float(torch.linalg.matrix_norm(found - want, 2).max() / (size if size else 1.0))


def assert_unitary(q, rows=None):
    eye = torch.eye(q.shape[-1]).expand(*q.shape[:-2], -1, -1)
    (q,) = wide(q)
    assert off(q.mH @ q, eye) <= bound(rows or q.shape[-2])


def assert_pairs(a, w, v):
    assert (w.dtype, v.dtype) == (torch.float32, torch.complex64)
    assert (w.diff(dim=-1) >= 0).all()
    assert_unitary(v)
    w, v = wide(w, v)
    assert off((v * w.unsqueeze(-2)) @ v.mH, a) <= bound(a.shape[-1])


def assert_svd(a, u, s, vh):
    m, n = a.shape[-2:]
    assert (s.diff(dim=-1) <= 0).all()
    assert (s >= 0).all()
    assert_unitary(u, max(m, n))
    assert_unitary(vh.mH, max(m, n))
    u, s, vh = wide(u, s, vh)
    k = min(m, n)
    assert off((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a) <= bound(max(m, n))


def assert_qr(a, q, r):
    assert q.shape[-1] == min(a.shape[-2:])
    assert not r.tril(-1).any()
    assert_unitary(q)
    q, r = wide(q, r)
    assert off(q @ r, a) <= bound(max(a.shape[-2:]))


# -- factors ---------------------------------------------------------------------------------------


@each_case("n", [1, 2, 7, 63, 64, 65])
def test_cholesky_has_the_real_positive_diagonal_of_the_definition(n):
    a = hermitian(np.logspace(0, -2, n))
    with launched("cholesky"):
        factor = trnsolver.cholesky(a)
    assert not factor.triu(1).any()
    diagonal = factor.diagonal()
    assert (diagonal.real > 0).all()
    assert not diagonal.imag.any()
    (factor,) = wide(factor)
    assert off(factor @ factor.mH, a) <= bound(n)


def test_cholesky_reads_the_lower_triangle_and_the_real_diagonal():
    a = hermitian([1.0, 2.0, 5.0])
    spoiled = a.tril() + torch.triu(torch.full_like(a, torch.nan), 1)
    spoiled += 1j * torch.diag(torch.tensor([1.0, -2.0, 3.0]))
    assert torch.equal(trnsolver.cholesky(spoiled), trnsolver.cholesky(a))


@each_case(
    "shape", [(1, 1), (3, 1), (9, 4), (64, 64), (65, 2), (4, 9), (1, 3), (2, 5, 3), (2, 3, 5)]
)
def test_qr_of_any_shape(shape):
    a = drawn(*shape)
    with launched("cholesky_qr"):
        q, r = trnsolver.qr(a)
    assert_qr(a, q, r)
    diagonal = r.diagonal(dim1=-2, dim2=-1)
    assert (diagonal.real > 0).all()
    assert not diagonal.imag.any()


@each_case("condition", [1e2, 1e4, 1e6, 1e9])
def test_qr_of_nearly_dependent_columns(condition):
    a = with_values(np.logspace(0, -np.log10(condition), 8), 12)
    assert_qr(a, *trnsolver.qr(a))


def test_qr_of_dependent_columns():
    a = drawn(9, 5)
    a[:, 1] = 1j * a[:, 0]
    a[:, 3] = (1 + 2j) * a[:, 2] - a[:, 0]
    assert_qr(a, *trnsolver.qr(a))
    assert_qr(torch.zeros_like(a), *trnsolver.qr(torch.zeros_like(a)))
    flat = torch.ones(4, 4, dtype=torch.complex64)
    assert_qr(flat, *trnsolver.qr(flat))


SPECTRA = {
    "one": [2.0],
    "apart": np.linspace(-2, 3, 9),
    "all equal": np.ones(6),
    "pairs": np.repeat([1.0, 2.0, 4.0], 2),
    "clustered": np.repeat([1.0, 2.0], 4) + 1e-7 * np.arange(8),
    "low rank": [3.0, 1.0, 0, 0, 0, 0, 0],
    "graded": np.logspace(0, -8, 9),
    "opposite": [-1.0, -1.0, 1.0, 1.0, 1.0],
    "zero": np.zeros(4),
}


@each_case("spectrum", list(SPECTRA))
def test_eigh_with_eigenvalues_that_are_apart_repeated_or_clustered(spectrum):
    a = hermitian(SPECTRA[spectrum])
    with launched("jacobi_eigh"):
        w, v = trnsolver.eigh(a)
    assert_pairs(a, w, v)
    want = np.sort(np.asarray(SPECTRA[spectrum], float))
    assert np.abs(w.double().numpy() - want).max() <= bound(len(want)) * max(abs(want).max(), 1e-30)


@pytest.mark.slow
@each_case("n", [63, 64, 65])
def test_eigh_around_a_tile(n):
    values = np.round(3 * random_tensor(n).numpy())  # many are equal
    a = hermitian(values)
    assert_pairs(a, *trnsolver.eigh(a))


def test_eigh_reads_the_lower_triangle():
    a = hermitian([1.0, 2.0, 5.0])
    spoiled = a.tril() + torch.triu(drawn(3, 3), 1) + 1j * torch.diag(torch.ones(3))
    found, want = trnsolver.eigh(spoiled), trnsolver.eigh(a)
    assert torch.equal(found.eigenvalues, want.eigenvalues)
    assert torch.equal(found.eigenvectors, want.eigenvectors)


def test_half_of_a_tight_frame_is_chosen_from_any_mixture():
    # The worst frame for a choice has all vectors equally far from each other.
    for n in (1, 2, 5, 40):
        q, _ = np.linalg.qr(np.random.default_rng(n).standard_normal((2 * n, 2 * n)))
        frames = torch.from_numpy(q[0::2] + 1j * q[1::2])[None].to(torch.complex64)
        vectors, places = orthonormal_half(frames)
        assert_unitary(vectors)
        assert len(set(places[0].tolist())) == n


VALUES = {
    "apart": ([3.0, 2.0, 1.0], 5),
    "one column": ([2.0], 4),
    "one": ([2.0], 1),
    "repeated": ([2.0, 2.0, 1.0, 1.0], 6),
    "ill-conditioned": (np.logspace(0, -6, 6), 9),
    "low rank": ([2.0, 1.0, 0.0, 0.0], 7),
    "zero": ([0.0, 0.0], 3),
}


@each_case("values, wide_too, full", pairwise(list(VALUES), [False, True], [False, True]))
def test_svd(values, wide_too, full):
    values, m = VALUES[values]
    a = with_values(values, m)
    matrix = a.mH if wide_too else a
    with launched("jacobi_svd", "cholesky_qr"):
        u, s, vh = trnsolver.svd(matrix, full_matrices=full)
    assert_svd(matrix, u, s, vh)
    if full:
        assert u.shape[0] == u.shape[1]
        assert vh.shape[0] == vh.shape[1]
    assert np.abs(s.double().numpy() - np.asarray(values)).max() <= bound(m) * max(*values, 1)


@each_case("shape", [(6, 3), (3, 6), (4, 4), (2, 5, 2), (2, 2, 5), (1, 3)])
def test_full_real_svd(shape):
    a = random_tensor(*shape)
    with launched("jacobi_svd"):
        u, s, vh = trnsolver.svd(a, full_matrices=True)
    assert u.shape[-1] == shape[-2]
    assert vh.shape[-2] == shape[-1]
    assert_svd(a, u, s, vh)


@each_case("shape", [(5, 3), (3, 5), (1, 4), (4, 1), (2, 6, 4), (2, 4, 6)])
@each_case("draw", [random_tensor, drawn])
def test_rectangular_lu(shape, draw):
    a = draw(*shape)
    with launched("lu"):
        p, lower, upper = trnsolver.lu(a)
    want = torch.linalg.lu(a)
    for found, like in zip((p, lower, upper), want, strict=True):
        assert (found.shape, found.dtype) == (like.shape, like.dtype)
    k = min(shape[-2:])
    # The pivots of LAPACK, by |re| + |im|; the order of other rows is free.
    assert torch.equal(p[..., :k], want.P[..., :k])
    assert torch.equal(p.mT @ p, torch.eye(shape[-2], dtype=p.dtype).expand_as(p))
    assert not upper.tril(-1).any()
    assert not lower[..., :k, :].triu(1).any()
    assert (lower[..., :k, :].diagonal(dim1=-2, dim2=-1) == 1).all()
    assert (lower.abs() <= (1 + 2**-15) * (2**0.5 if a.is_complex() else 1)).all()
    assert off(p @ lower @ upper, a) <= bound(max(shape[-2:]))


@each_case("draw", [random_tensor, drawn])
def test_lu_of_rectangular_matrices_of_low_rank(draw):
    a = draw(6, 1) @ draw(1, 3)
    for matrix in (a, a.mT, torch.zeros_like(a[:4, :2]), torch.zeros_like(a[:2, :3])):
        with launched("lu"):
            p, lower, upper = trnsolver.lu(matrix)
        assert off(p @ lower @ upper, matrix) <= bound(6)


@each_case("shape", [(3, 5), (1, 4), (2, 4, 6)])
def test_wide_real_qr(shape):
    a = random_tensor(*shape)
    with launched("cholesky_qr"):
        q, r = trnsolver.qr(a)
    assert_qr(a, q, r)


# -- systems and functions -------------------------------------------------------------------------

N = 6
CONDITION = 10.0
POSITIVE = hermitian(np.logspace(0, -1, N))
SMALL = hermitian([1.0, 2.0, 4.0])
GENERAL = with_values(np.logspace(0, -1, N), N)
TALL = with_values(np.logspace(0, -1, 4), 9)
SIDES = drawn(N, 2, seed=3)


def exact(function, *operands):
    return function(*wide(*operands))


def root(a):
    w, v = torch.linalg.eigh(a)
    return (v * w.rsqrt()) @ v.mH


def sign(a):
    u, _, vh = torch.linalg.svd(a, full_matrices=False)
    return u @ vh


def pairs_product(a, b):
    """V of ``A V = B V diag(w)`` with ``V^H B V = I`` gives ``V diag(w) V^H = B^-1 A B^-1``."""
    w, v = wide(*trnsolver.eigh_generalized(a, b))
    return (v * w) @ v.mH


CALLS = {
    "solve": (
        ["lu"],
        lambda: trnsolver.solve(GENERAL, SIDES),
        (torch.linalg.solve, GENERAL, SIDES),
    ),
    "solve of a vector": (
        ["lu"],
        lambda: trnsolver.solve(GENERAL, SIDES[:, 0])[:, None],
        (torch.linalg.solve, GENERAL, SIDES[:, :1]),
    ),
    "inv": (["lu"], lambda: trnsolver.inv(GENERAL), (torch.linalg.inv, GENERAL)),
    "solve_spd": (
        ["cholesky"],
        lambda: trnsolver.solve_spd(POSITIVE, SIDES),
        (torch.linalg.solve, POSITIVE, SIDES),
    ),
    "inv_spd": (["cholesky"], lambda: trnsolver.inv_spd(POSITIVE), (torch.linalg.inv, POSITIVE)),
    "pinv": (["jacobi_svd"], lambda: trnsolver.pinv(TALL), (torch.linalg.pinv, TALL)),
    "pinv of wide": (
        ["jacobi_svd"],
        lambda: trnsolver.pinv(TALL.mH),
        (torch.linalg.pinv, TALL.mH),
    ),
    "lstsq": (
        ["jacobi_svd"],
        lambda: trnsolver.lstsq(TALL, drawn(9, 2)).solution,
        (lambda a, b: torch.linalg.pinv(a) @ b, TALL, drawn(9, 2)),
    ),
    "cg": (
        ["conjugate_gradients"],
        lambda: trnsolver.cg(POSITIVE, SIDES[:, 0], tol=1e-6, max_iter=16).x[:, None],
        (torch.linalg.solve, POSITIVE, SIDES[:, :1]),
    ),
    "cg of a real matrix": (
        ["conjugate_gradients"],
        lambda: trnsolver.cg(4 * torch.eye(N), SIDES[:, 0], tol=1e-6, max_iter=4).x[:, None],
        (lambda b: b / 4, SIDES[:, :1]),
    ),
    "inv_sqrt_spd": (["jacobi_eigh"], lambda: trnsolver.inv_sqrt_spd(POSITIVE), (root, POSITIVE)),
    "inv_sqrt_spd_ns": (
        ["inverse_root"],
        lambda: trnsolver.inv_sqrt_spd_ns(POSITIVE, tol=1e-6)[0],
        (root, POSITIVE),
    ),
    "msign": (["msign"], lambda: trnsolver.msign(TALL), (sign, TALL)),
    "orthogonalize": (
        ["msign"],
        lambda: trnsolver.orthogonalize(TALL, 20, coefficients=(1.875, -1.25, 0.375)),
        (sign, TALL),
    ),
    "polar": (["jacobi_svd"], lambda: trnsolver.polar(TALL).U, (sign, TALL)),
    "eigh_generalized": (
        ["cholesky", "jacobi_eigh"],
        lambda: pairs_product(GENERAL + GENERAL.mH, POSITIVE),
        (
            lambda a, b: torch.linalg.solve(b, torch.linalg.solve(b, a).mH),
            GENERAL + GENERAL.mH,
            POSITIVE,
        ),
    ),
    "eigvalsh": (
        ["jacobi_eigh"],
        lambda: trnsolver.eigvalsh(POSITIVE)[:, None],
        (lambda a: torch.linalg.eigvalsh(a)[:, None], POSITIVE),
    ),
    "svdvals": (
        ["jacobi_svd"],
        lambda: trnsolver.svdvals(TALL)[:, None],
        (lambda a: torch.linalg.svdvals(a)[:, None], TALL),
    ),
    "cholqr2": (
        ["cholesky_qr"],
        lambda: torch.linalg.multi_dot(list(trnsolver.cholqr2(TALL))),
        (lambda a: a, TALL),
    ),
}


@each_case("name", list(CALLS))
def test_kernels_compute_what_the_definition_says(name):
    kernels, call, want = CALLS[name]
    with launched(*kernels):
        found = call()
    power = 3 if name == "eigh_generalized" else 1  # two solutions, and a matrix of B's inverse
    assert off(found, exact(*want)) <= bound(9, CONDITION**power)


VIEWS = {
    "conjugate": lambda a: a.conj().resolve_conj().conj(),
    "transposed": lambda a: a.mT.contiguous().mT,
    "strided": lambda a: torch.stack([a, 0 * a], -1).flatten(-2)[..., ::2],
    "expanded": lambda a: a.expand(2, *a.shape),
}


@each_case("name", ["cholesky", "lu", "qr", "eigh", "inv", "pinv"])
def test_views_of_memory_are_read_as_they_are(name):
    function = getattr(trnsolver, name)
    want = function(SMALL)
    for name, view in VIEWS.items():
        found = function(view(SMALL))
        parts = zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]
        for got, like in parts:
            assert torch.equal(got, like.expand_as(got)), name


@each_case("name", ["cholesky", "lu", "qr", "eigh", "svd", "inv", "pinv", "msign"])
def test_nothing_is_launched_for_no_matrices(name):
    found = getattr(trnsolver, name)(POSITIVE.expand(0, N, N))
    want = getattr(torch.linalg, name, torch.linalg.inv)(POSITIVE.expand(0, N, N))
    for got, like in zip(found, want, strict=True) if isinstance(found, tuple) else [(found, want)]:
        assert (got.shape, got.dtype) == (like.shape, like.dtype)


@refusals_expected()
def test_what_kernels_do_not_take_is_refused_and_counted():
    calls = (
        lambda: trnsolver.lu(GENERAL.to(torch.complex128)),
        lambda: trnsolver.cholesky(POSITIVE.to(torch.complex128)),
        lambda: trnsolver.eigh(POSITIVE.to(torch.complex128)),
        lambda: trnsolver.svd(TALL.to(torch.complex128)),
    )
    for call in calls:
        before = counts()
        call()
        since = counts() - before
        assert sum(since.refusals.values()) == 1
        assert not since.launches
        assert not since.fallbacks


def test_matrices_that_do_not_allow_it_are_named():
    indefinite = torch.tensor([[1.0, 2.0j], [-2.0j, 1.0]])
    with pytest.raises(trnsolver.NotPositiveDefiniteError):
        trnsolver.cholesky(indefinite)
    singular = torch.tensor([[1.0, 2.0j], [2.0j, -4.0]])
    with pytest.raises(trnsolver.SingularMatrixError):
        trnsolver.solve(singular, torch.ones(2, dtype=torch.complex64))
    for function in (trnsolver.eigh, trnsolver.svd):
        with pytest.raises(trnsolver.NotFiniteError):
            function(torch.full((2, 2), complex(0, torch.nan)))


def test_conjugate_gradients_take_the_steps_of_the_complex_recurrence():
    a, b = hermitian([1.0, 2.0, 4.0, 1.0, 2.0, 4.0]), drawn(6, seed=4)
    result = trnsolver.cg(a, b, tol=1e-5, max_iter=12)
    # Three eigenvalues: a polynomial of degree 3 is zero at all of them.
    assert (result.iterations, result.converged) == (3, True)


def test_conjugate_views_keep_their_values_in_graphs():
    # torch.compile runs operators where such views are read without the conjugation.
    def each(a):
        return [f(a) for f in (trnsolver.cholesky, trnsolver.pinv, trnsolver.inv)]

    graph = torch.compile(lambda a: each(a.conj()), fullgraph=True, backend="aot_eager")
    for got, want in zip(graph(SMALL), each(SMALL.conj().resolve_conj()), strict=True):
        assert torch.equal(got, want)


def test_inverses_are_in_float32_under_autocast():
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(trnsolver.inv(POSITIVE.real), trnsolver.inv(POSITIVE.real.clone()))
        assert trnsolver.inv(POSITIVE.real).dtype is torch.float32


def test_a_lower_level_of_products_is_not_that_of_factors():
    with trnblas.precision("bfloat16"):
        assert_svd(TALL, *trnsolver.svd(TALL))
