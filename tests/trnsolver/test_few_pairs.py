"""A few eigenpairs by LAPACK, and how good pairs are, against definitions in float64."""

import pytest
import scipy.linalg
import torch

import trnsolver
from each_case import each_case
from trnsci.core.testing import random_tensor, unit_roundoff
from trnsolver._eigen import quality

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def symmetric(n, dtype=torch.float64):
    z = random_tensor(n, n, dtype=dtype)
    return z + z.mH


def wide(value):
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


@each_case("dtype", DTYPES, ids=str)
@each_case("places", [(0, 0), (3, 6), (58, 59)], ids=str)
def test_pairs_of_any_dtype_and_layout(dtype, places):
    n = 60
    a = symmetric(n, dtype)
    first, last = places
    want = torch.linalg.eigvalsh(wide(a))[first : last + 1]
    bound = 20 * n * unit_roundoff(a.real.dtype) * float(want.abs().max() + a.abs().max())
    for given in (a, a.mT.contiguous().mT, a.repeat(1, 2)[:, :n], a.tril()):
        w, v = trnsolver.eigh(given, subset=places)
        assert w.shape == (last - first + 1,)
        assert v.dtype is dtype
        assert float((w.double() - want).abs().max()) <= bound
        assert float((wide(a) @ wide(v) - wide(v) * w).norm()) <= bound
        assert torch.equal(given.tril(), a.tril())


def test_what_lapack_does_not_find_is_found_by_the_whole(monkeypatch):
    a = symmetric(60)
    want = trnsolver.eigh(a, k=2)

    def fails(*given, **options):
        raise scipy.linalg.LinAlgError("no convergence")

    monkeypatch.setattr(scipy.linalg, "eigh", fails)
    got = trnsolver.eigh(a, k=2)
    assert float((got[0] - want[0]).abs().max()) <= 1e-13
    assert float((a @ got[1] - got[1] * got[0]).norm()) <= 1e-12


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pairs_are_judged_by_their_definition(dtype):
    a, off = symmetric(12, dtype), 0.01
    w, v = torch.linalg.eigh(a)
    v = v[:, 2:6] + off * random_tensor(12, 4, dtype=dtype, seed=1)
    w = w[2:6] + off
    size = float(a.norm())
    residuals = (wide(a) @ wide(v) - wide(v) * w).norm(dim=0)
    gram = wide(v).mH @ wide(v) - torch.eye(4)
    u = 30 * unit_roundoff(a.real.dtype)
    for given in (a, a.tril(), a.mT.contiguous().mT):
        info = quality.judged(given, w, v, 1.0, "given", 3, ("once",), size)
        # The norm of A is at least that of any image, and the claim is about the exact one.
        norm = float(((wide(a) @ wide(v)).norm(dim=0) / wide(v).norm(dim=0)).max())
        assert info.backward_error * float(torch.linalg.matrix_norm(wide(a), 2)) >= residuals.max()
        largest = float(residuals.max())
        assert largest <= info.backward_error * norm <= largest + 4 * u * size
        assert abs(info.orthogonality - float(gram.abs().max())) <= u
        bound = float(residuals.max()) / (1 - float(gram.abs().max()))
        assert bound <= info.forward_error <= bound * (1 + u) + 4 * u * size
        assert info.converged
        assert (info.method, info.iterations, info.precision) == ("given", 3, ("once",))
        # Of so large a residual the norm is looked for in the columns too.
        strict = quality.judged(given, w, v, 1e-12, "given", 3, (), size)
        longest = max(norm, float(wide(a).norm(dim=0).max()))
        assert largest <= strict.backward_error * longest <= largest + 4 * u * size
        assert not strict.converged


def test_pairs_that_are_no_numbers_are_not_good():
    a = symmetric(8)
    w, v = torch.linalg.eigh(a)
    for bad in (float("nan"), float("inf")):
        for spoilt in ((w.clone(), v), (w, v.clone())):
            spoilt[0 if spoilt[1] is v else 1][-1] = bad
            info = quality.judged(a, *spoilt, 1e-6, "given", 1, (), 1.0)
            assert not info.converged
            assert not info.forward_error < float("inf")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_size_of_a_matrix(dtype):
    a = random_tensor(9, 9, dtype=dtype)
    want = float(wide(a).norm())
    for given in (a, a.mT, a.repeat(1, 2)[:, :9].t().contiguous().t()):
        found = quality.frobenius_norm(given)
        assert abs(found - want) <= 100 * unit_roundoff(a.real.dtype) * want
    assert quality.frobenius_norm(a[:0, :0]) == 0
    big = torch.finfo(dtype).max
    assert quality.frobenius_norm(torch.full_like(a, big)) == float("inf")
