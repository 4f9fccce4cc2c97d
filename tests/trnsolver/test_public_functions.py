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
        "cholqr2": (lambda a: squared(ts.cholqr2(a)), TALL),
        "det": (ts.det, APART),
        "eigh": (lambda a: squared(ts.eigh(symmetric(a))), APART),
        "eigh_generalized": (
            lambda a, b: squared(ts.eigh_generalized(symmetric(a), positive(b))),
            APART,
            SMALL,
        ),
        "eigsh": (lambda a: squared(ts.eigsh(symmetric(a), 2)), APART),
        "eigvalsh": (lambda a: ts.eigvalsh(symmetric(a)), APART),
        "expm": (ts.expm, APART),
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
        "lu": (lambda a: ts.lu(a)[1:], APART),
        "minres": (lambda a, b: ts.minres(symmetric(a), b, **EXACT).x, APART, V),
        "msign": (ts.msign, APART),
        "orthogonalize": (lambda a: ts.orthogonalize(a, dtype=torch.float64), APART),
        "pinv": (ts.pinv, TALL),
        "polar": (lambda a: list(ts.polar(a))[:2], APART),
        "qr": (lambda a: squared(ts.qr(a)), TALL),
        "slogdet": (lambda a: ts.slogdet(a)[1], APART),
        "solve": (ts.solve, APART, V),
        "solve_spd": (lambda a, b: ts.solve_spd(positive(a), b), APART, V),
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
        if name not in ("eigh_generalized", "eigsh", "inv_sqrt_spd_ns", "svds")
    },
    **{
        name: with_side(name)
        for name in ("bicgstab", "cg", "fgmres", "gmres", "lstsq", "minres", "solve", "solve_spd")
    },
    "eigh_generalized": lambda a: ts.eigh_generalized(a, a),
    "inv_sqrt_spd_ns": lambda a: ts.inv_sqrt_spd_ns(a)[:1],
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
