"""The contract of public functions, for trnsolver.

Matrices have condition numbers below 10, and gaps of singular values and eigenvalues above 1.
"""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

import trnsolver as ts
from each_case import each_case
from trnsci.core.testing import BACKENDS, random_tensor
from trnsci.core.testing.public import PublicContract

SMALL = 0.25 * random_tensor(3, 3, dtype=torch.float64)
APART = torch.diag(torch.tensor([1.0, 2.5, 4.5], dtype=torch.float64)) + SMALL
TALL = torch.cat([APART, 0.25 * random_tensor(1, 3, dtype=torch.float64, seed=1)])
V = (3,)
EXACT = {"tol": 1e-13}


def positive(a):
    return 0.25 * (a @ a.mT) + torch.eye(3, dtype=a.dtype, device=a.device)


def symmetric(a):
    return a + a.mT


def squared(pair):
    """Return values, and what does not depend on the signs of vectors."""
    return [part * part for part in pair]


class TestPublicFunctions(PublicContract):
    package = ts
    calls: ClassVar = {
        "bicgstab": (lambda a, b: ts.bicgstab(a, b, **EXACT).x, APART, V),
        "cg": (lambda a, b: ts.cg(positive(a), b, **EXACT).x, APART, V),
        "cholesky": (lambda a: ts.cholesky(positive(a)), APART),
        "cho_factor": (lambda a: list(ts.cho_factor(positive(a))), APART),
        "cholesky_solve": (
            lambda a, b: ts.cholesky_solve(ts.cho_factor(positive(a)), b),
            APART,
            V,
        ),
        "cholqr2": (lambda a: squared(ts.cholqr2(a)), TALL),
        "det": (ts.det, APART),
        "eig": (lambda a: [ts.eig(a)[0].real, ts.eig(a)[1].abs()], APART),
        "eigh": (lambda a: squared(ts.eigh(symmetric(a))), APART),
        "eigh_generalized": (
            lambda a, b: squared(ts.eigh_generalized(symmetric(a), positive(b))),
            APART,
            SMALL,
        ),
        "eigvals": (lambda a: ts.eigvals(a).real, APART),
        "eigh_tridiagonal": (
            lambda a: squared(ts.eigh_tridiagonal(a.diagonal(), a[0, 1:])),
            APART,
        ),
        "eigsh": (lambda a: squared(ts.eigsh(symmetric(a), 2)), APART),
        "eigvalsh": (lambda a: ts.eigvalsh(symmetric(a)), APART),
        "expm": (ts.expm, APART),
        "expm_multiply": (ts.expm_multiply, APART, V),
        "fgmres": (lambda a, b: ts.fgmres(a, b, **EXACT).x, APART, V),
        "gmres": (lambda a, b: ts.gmres(a, b, **EXACT).x, APART, V),
        "inv": (ts.inv, APART),
        "inv_spd": (lambda a: ts.inv_spd(positive(a)), APART),
        "inv_sqrt_spd": (lambda a: ts.inv_sqrt_spd(positive(a)), APART),
        "inv_sqrt_spd_ns": (
            lambda a: ts.inv_sqrt_spd_ns(positive(a), max_iter=8, tol=1e-13)[0],
            APART,
        ),
        "lstsq": (lambda a, b: ts.lstsq(a, b).solution, TALL, (4,)),
        "lu_factor": (lambda a: ts.lu_factor(a).LU, APART),
        "lu_solve": (lambda a, b: ts.lu_solve(ts.lu_factor(a), b, trans="T"), APART, V),
        "lu": (lambda a: ts.lu(a)[1:], APART),
        "matrix_power": (lambda a: ts.matrix_power(a, 3), APART),
        "minres": (lambda a, b: ts.minres(symmetric(a), b, **EXACT).x, APART, V),
        "msign": (ts.msign, APART),
        "orthogonalize": (lambda a: ts.orthogonalize(a, dtype=torch.float64), APART),
        "pinv": (ts.pinv, TALL),
        "polar": (lambda a: list(ts.polar(a))[:2], APART),
        "qr": (lambda a: squared(ts.qr(a)), TALL),
        "slogdet": (lambda a: ts.slogdet(a)[1], APART),
        "solve": (ts.solve, APART, V),
        "solve_banded": (lambda a, b: ts.solve_banded((1, 1), a, b), APART.roll(1, 0), V),
        "solve_spd": (lambda a, b: ts.solve_spd(positive(a), b), APART, V),
        "solve_tridiagonal": (
            lambda a, b: ts.solve_tridiagonal(a[0, 1:], a.diagonal(), a[2, :-1], b),
            APART,
            V,
        ),
        "sqrtm": (ts.sqrtm, APART),
        "svd": (lambda a: squared(ts.svd(a)), TALL),
        "svds": (lambda a: squared(ts.svds(a, 2)), TALL),
        "svdvals": (ts.svdvals, TALL),
    }


def of_square(name):
    return lambda a: getattr(ts, name)(a)


def with_side(name):
    return lambda a: getattr(ts, name)(a, a.detach().sum(-1))


EMPTY_OPERANDS = ((0, 0), (2, 0, 0), (0, 3, 3))
ON_EMPTY = {
    **{
        name: of_square(name)
        for name in TestPublicFunctions.calls
        if name not in ("eigh_generalized", "inv_sqrt_spd_ns", "solve_banded", "solve_tridiagonal")
        and name not in ("eigh_tridiagonal", "matrix_power")
        if name not in ("eigh_generalized", "eigsh", "inv_sqrt_spd_ns", "svds")
    },
    **{
        name: with_side(name)
        for name in ("bicgstab", "cg", "fgmres", "gmres", "lstsq", "minres", "solve", "solve_spd")
    },
    "cholesky_solve": lambda a: ts.cholesky_solve(ts.cho_factor(a), a.detach().sum(-1)),
    "eig": lambda a: [part.abs() for part in ts.eig(a)],
    "eigvals": lambda a: ts.eigvals(a).abs(),
    "lu_solve": lambda a: ts.lu_solve(ts.lu_factor(a), a.detach().sum(-1)),
    "expm_multiply": with_side("expm_multiply"),
    "eigh_tridiagonal": lambda a: ts.eigh_tridiagonal(a.sum(-2), a.sum(-2)[..., 1:]),
    "matrix_power": lambda a: ts.matrix_power(a, 2),
    "eigh_generalized": lambda a: ts.eigh_generalized(a, a),
    "inv_sqrt_spd_ns": lambda a: ts.inv_sqrt_spd_ns(a)[:1],
    "solve_banded": lambda a: ts.solve_banded((1, 1), torch.stack([a.sum(-2)] * 3, -2), a.sum(-1)),
    "solve_tridiagonal": lambda a: ts.solve_tridiagonal(
        a.sum(-2)[..., 1:], a.sum(-2), a.sum(-2)[..., 1:], a.sum(-1)
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@each_case("name", ON_EMPTY)
def test_empty_operands_have_gradients(name, backend):
    for shape in EMPTY_OPERANDS:
        found = []
        for path in (backend, "pytorch"):
            a = torch.zeros(shape, requires_grad=True)
            with ts.backend(path):
                result = ON_EMPTY[name](a)
                parts = [result] if isinstance(result, torch.Tensor) else list(result)
                parts = [part for part in parts if isinstance(part, torch.Tensor)]
                total = sum(part.sum() for part in parts if part.requires_grad)
                (gradient,) = torch.autograd.grad(total, a)
            assert gradient.shape == shape
            found.append([(part.shape, part.dtype, part.requires_grad) for part in parts])
        assert found[0] == found[1], shape
