"""QR, eigenvalues and singular values at doublefloat on kernels: clusters, low rank, any range.

Eigenvalues are judged by those of 40 digits. The bound of the level is 2^-43; products in
float64 that measure residuals add ``2 m 2^-53``.
"""

from __future__ import annotations

import pytest
import torch
from mpmath import mp

import trnblas
import trnrand
import trnsolver
from each_case import each_case
from pairwise import in_turn
from trnsci.core.backend.precision import precision
from trnsci.core.testing import random_tensor

from .test_doublefloat_factors import COMPLEX, LEVEL, REAL, orthogonal, run, spd

DTYPES = (REAL, COMPLEX)
SPREAD = {
    "apart": [1.0, 2, 3, -4, 0.5],
    "equal": [1.0, 1, 1, -2, 0],
    "falling": [1.0, 1e-4, 1e-8, 1e-12, 0],
    "nested": [1.0, 1 + 1e-6, 1 + 1e-6 + 1e-11, 1 + 1e-6 + 2e-11, -1],
}


def cluster(size, distance):
    return [1 + k * distance for k in range(size)] + [-0.5, 2.0]


def exact_values(a):
    with mp.workdps(40):
        if a.is_complex():
            rows = [[mp.mpc(z.real, z.imag) for z in row] for row in a.tolist()]
            return sorted(mp.eighe(mp.matrix(rows), eigvals_only=True))
        return sorted(mp.eigsy(mp.matrix(a.tolist()), eigvals_only=True))


def check_eigenpairs(values, dtype, seed=3):
    a = spd(values, seed, dtype)
    w, v = run(lambda: trnsolver.eigh(a), "jacobi_eigh")
    n, size = len(values), max(map(abs, values))
    rounding = 4 * n * 2.0**-53
    with mp.workdps(40):
        errors = [abs(mp.mpf(x) - y) for x, y in zip(w.tolist(), exact_values(a), strict=True)]
    assert max(errors) <= LEVEL * size
    left = torch.linalg.vector_norm(a @ v - v * w, dim=0)
    assert float(left.max()) <= (LEVEL * n**0.5 + rounding) * size
    assert float((v.mH @ v - torch.eye(n)).abs().max()) <= LEVEL + rounding


@each_case("dtype", DTYPES)
@each_case("kind", SPREAD)
def test_eigenpairs_of_any_distances(kind, dtype):
    check_eigenpairs(SPREAD[kind], dtype)


@each_case("distance", (1e-6, 1e-9, 1e-12))
@each_case("size", (2, 4))
def test_eigenvalues_of_clusters(size, distance):
    check_eigenpairs(cluster(size, distance), REAL)


@pytest.mark.slow
@each_case("distance", (1e-4, 1e-7, 1e-10, 1e-12))
@each_case("size", (2, 5, 10, 20))
def test_eigenvalues_of_larger_clusters(size, distance):
    check_eigenpairs(cluster(size, distance), REAL, seed=size)


def check_singular_values(values, rows, dtype, full=False):
    n = len(values)
    s = torch.tensor(values, dtype=REAL).abs()
    a = (orthogonal(rows, 5, dtype)[:, :n] * s) @ orthogonal(n, 6, dtype).mH
    u, found, vh = run(lambda: trnsolver.svd(a, full), "jacobi_svd")
    size, rounding = float(s.max()), 4 * rows * 2.0**-53
    assert torch.equal(found, found.sort(descending=True).values)
    # The matrix itself is rounded to float64 twice, which moves values by its roundings.
    assert float((found - s.sort(descending=True).values).abs().max()) <= (LEVEL + rounding) * size
    inside = u[:, :n].mH @ a @ vh.mH - torch.diag(found)
    assert float(inside.abs().max()) <= (2 * LEVEL + rounding) * size
    for frame in (u, vh.mH):
        gram = frame.mH @ frame - torch.eye(frame.shape[-1])
        assert float(gram.abs().max()) <= 2 * LEVEL + rounding


@each_case(("kind", "rows", "dtype"), in_turn(list(SPREAD), (5, 7), DTYPES))
def test_singular_values_of_any_distances(kind, rows, dtype):
    check_singular_values(SPREAD[kind], rows, dtype)


@each_case("dtype", DTYPES)
def test_full_and_low_rank_and_wide(dtype):
    check_singular_values([2.0, 1, 0], 5, dtype, full=True)
    a = random_tensor(2, 3, dtype=dtype)
    inverse = run(lambda: trnsolver.pinv(a), "jacobi_svd")
    assert (a @ inverse - torch.eye(2)).abs().max() <= 16 * LEVEL * torch.linalg.cond(a)
    low = a[:, :1] @ a[:1]
    inverse = run(lambda: trnsolver.pinv(low), "jacobi_svd")
    assert (low @ inverse @ low - low).abs().max() <= 16 * LEVEL * low.abs().max()


@each_case(
    ("kind", "dtype"),
    in_turn(("general", "falling", "zeros", "dependent", "wide", "range"), DTYPES),
)
def test_qr_of_any_rank_and_range(kind, dtype):
    a = random_tensor(6, 4, dtype=dtype, seed=2)
    if kind == "falling":
        a = (
            a
            @ torch.diag(torch.logspace(0, -12, 4, dtype=REAL)).to(dtype)
            @ orthogonal(4, 3, dtype)
        )
    if kind == "dependent":
        a[:, 2] = 3 * a[:, 0]
    if kind == "zeros":
        a[:, [0, 2]] = 0
    if kind == "range":
        a = a * torch.logspace(-60, 60, 4, dtype=REAL)
    if kind == "wide":
        a = a.mT.contiguous()
    q, r = run(lambda: trnsolver.qr(a), "cholesky_qr", "trsm")
    norm, rounding = torch.linalg.vector_norm, 12 * 2.0**-53
    assert ((a - q @ r).abs() <= (LEVEL + rounding) * norm(a, dim=0)).all()
    assert float((q.mH @ q - torch.eye(4)).abs().max()) <= LEVEL + rounding
    assert not r.tril(-1).any()


@each_case("function", ("eigh", "svd", "qr"))
def test_norms_beyond_float32(function):
    for scale in (1e-200, 1e200):
        a = spd([3.0, 2, 1], 4) * scale
        first, second, *_ = run(lambda a=a: getattr(trnsolver, function)(a))
        if function == "eigh":
            assert (first / scale - torch.tensor([1.0, 2, 3])).abs().max() <= 3 * LEVEL + 2.0**-49
        elif function == "svd":
            assert (second / scale - torch.tensor([3.0, 2, 1])).abs().max() <= 3 * LEVEL + 2.0**-49
        else:
            assert ((first @ second - a) / scale).abs().max() <= 6 * LEVEL


FUNCTIONS = ("eigvalsh", "svdvals", "polar", "inv_sqrt_spd", "cholqr2", "inv_sqrt_spd_ns", "msign")


@each_case("name", (*FUNCTIONS, "orthogonalize", "lstsq"))
def test_functions_of_these_run_nothing_on_torch(name):
    """Operands in float32 give what float64 gives, rounded once."""
    a = spd([1.0, 2, 5], 3).float()
    operands = (a, a[:, :2] + 1) if name == "lstsq" else (a,)
    found = run(lambda: getattr(trnsolver, name)(*operands))
    wanted = getattr(trnsolver, name)(*(x.double() for x in operands))
    for got, want in zip(parts(found), parts(wanted), strict=True):
        assert got.dtype in (torch.float32, torch.int64)
        assert (got - want).abs().max() <= 2.0**-23 * want.abs().max() + LEVEL


@each_case("name", ("rsvd", "eigh_randomized", "nystrom"))
def test_sketches_are_drawn_and_multiplied_on_kernels(name):
    a = spd([4.0, 3, 1e-3, 1e-3], 3).float()
    with trnrand.backend("simulator"):
        found = run(lambda: getattr(trnsolver, name)(a, 2))
    values = found[0] if name == "eigh_randomized" else found[1]
    # With power iterations, what is left out changes values by less than the rounding of A.
    allowed = 1e-2 if name == "nystrom" else 8 * 2.0**-24
    assert (values.sort().values - torch.tensor([3.0, 4])).abs().max() <= allowed


def parts(found):
    if isinstance(found, torch.Tensor):
        return (found,)
    return tuple(part for part in found if isinstance(part, torch.Tensor))


def test_gradients_of_spectra_are_those_of_float64():
    a = spd([1.0, 2, 4], 3).float()

    def loss(a):
        w, v = trnsolver.eigh(a)
        u, s, vh = trnsolver.svd(a + 0.25)
        q, r = trnsolver.qr(a[:, :2])
        return sum(
            (x**2 * torch.arange(1, 1 + x.numel()).reshape(x.shape)).sum()
            for x in (w, v, u, s, vh, q, r)
        )

    given, wide = a.clone().requires_grad_(), a.double().requires_grad_()
    run(lambda: loss(given).backward())
    loss(wide).backward()
    # The sum of a matrix and 0.25 is rounded to float32.
    assert (given.grad - wide.grad).abs().max() <= 64 * 2.0**-24 * wide.grad.abs().max()


def test_batches_and_refusals():
    batch = torch.stack([spd([1.0, 2, 3], 1), torch.eye(3, dtype=REAL), torch.zeros(3, 3)])
    w, v = run(lambda: trnsolver.eigh(batch))
    assert ((v * w[:, None]) @ v.mT - batch).abs().max() <= 9 * LEVEL
    q, r = run(lambda: trnsolver.qr(batch))
    assert (q @ r - batch).abs().max() <= 9 * LEVEL
    for value in (torch.nan, torch.inf):
        batch[0, 1, 0] = value
        with trnsolver.backend("simulator"), trnblas.backend("simulator"), precision("doublefloat"):
            with pytest.raises(trnsolver.NotFiniteError):
                trnsolver.eigh(batch)
            with pytest.raises(trnsolver.NotFiniteError):
                trnsolver.svd(batch)
