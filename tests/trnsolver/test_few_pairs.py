"""A few eigenpairs by LAPACK, and the measured error of pairs, against definitions in float64."""

import scipy.linalg
import torch

import trnsolver
from each_case import each_case
from trnsci.core.testing import random_tensor, unit_roundoff

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


@each_case("order", [1, 5, 12])
def test_rounded_pairs_are_judged_by_their_definition(order):
    """Pairs of a bfloat16 matrix are rounded: their residuals are large, and the measures tight."""
    a = symmetric(order, torch.float32).bfloat16()
    size = float(wide(a).norm())
    u = 30 * unit_roundoff(torch.float32)
    for given in (a, a.tril(), a.mT.contiguous().mT):
        w, v = found = trnsolver.eigh(given, 1e-12, on_failure="ignore")
        info, w, v = found.info, w.double(), v.double()
        residuals = (a.double() @ v - v * w).norm(dim=0)
        off = float((v.mH @ v - torch.eye(order)).abs().max())
        largest = float(residuals.max())
        # The norm of A is at least that of any image and of any column.
        least = float(((a.double() @ v).norm(dim=0) / v.norm(dim=0)).max())
        least = max(least, float(a.double().norm(dim=0).max()))
        assert info.backward_error * float(torch.linalg.matrix_norm(a.double(), 2)) >= largest
        assert largest <= info.backward_error * least <= largest + 4 * u * size
        assert abs(info.orthogonality - off) <= u
        bound = largest / (1 - off)
        assert bound <= info.forward_error <= bound * (1 + u) + 4 * u * size
        assert info.converged == (largest == 0)
