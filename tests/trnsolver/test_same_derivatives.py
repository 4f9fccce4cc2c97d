"""Derivatives are the same on kernels and on torch, whatever the direction.

Tangents need not be symmetric where the matrix is, and gradients may be complex where the result is
real: torch.linalg has a convention for these, which all paths follow. Only gradients by the phases
of vectors are left out, which nothing determines.
"""

import pytest
import torch

import trnsolver as ts
from each_case import each_case
from trnsci.core.testing import random_tensor, unit_roundoff

N = 4


def positive(a):
    return a @ a.mH + 3 * torch.eye(N, dtype=a.dtype)


def squared(parts):
    return [part * part.conj() for part in parts]


def general(a):
    return a + 3 * torch.eye(*a.shape[-2:], dtype=a.dtype)


SIDE = random_tensor(N, 2, dtype=torch.complex64, seed=7)


def side(a):
    return (SIDE if a.is_complex() else SIDE.real).to(a.dtype)


# The matrix, and a function of it. Condition numbers are below 20, and gaps above 0.2.
CALLS = {
    "cg": (positive, lambda a: ts.cg(a, side(a)[:, 0], tol=1e-6).x),
    "cholesky": (positive, ts.cholesky),
    "cholesky, upper": (positive, lambda a: ts.cholesky(a, upper=True)),
    "cholqr2": (general, lambda a: squared(ts.cholqr2(a))),
    "eigh": (positive, lambda a: squared(ts.eigh(a))),
    "eigh_generalized": (positive, lambda a: ts.eigh_generalized(a, general(a.detach()))[0]),
    "eigvalsh": (positive, ts.eigvalsh),
    "inv": (general, ts.inv),
    "inv_spd": (positive, ts.inv_spd),
    "inv_sqrt_spd": (positive, ts.inv_sqrt_spd),
    "lu": (general, lambda a: ts.lu(a)[1:]),
    "lu of a tall one": (lambda a: general(a)[:, :2], lambda a: ts.lu(a)[1:]),
    "lu of a wide one": (lambda a: general(a)[:2], lambda a: ts.lu(a)[1:]),
    "msign": (general, ts.msign),
    "pinv": (general, ts.pinv),
    "polar": (general, lambda a: list(ts.polar(a))[:2]),
    "qr": (general, lambda a: squared(ts.qr(a))),
    "qr of a tall one": (lambda a: general(a)[:, :2], lambda a: squared(ts.qr(a))),
    "qr of a wide one": (lambda a: general(a)[:2], lambda a: squared(ts.qr(a))),
    "solve": (general, lambda a: ts.solve(a, side(a))),
    "solve_spd": (positive, lambda a: ts.solve_spd(a, side(a))),
    "svd": (general, lambda a: squared(ts.svd(a))),
    "svdvals": (general, ts.svdvals),
}


def listed(value):
    return [value] if isinstance(value, torch.Tensor) else list(value)


def derivatives(function, a):
    """Return the results, the pullback of arbitrary gradients, and the push of a tangent."""
    point = a.clone().requires_grad_()
    results = listed(function(point))
    given = [random_tensor(*r.shape, dtype=r.dtype, seed=i) for i, r in enumerate(results)]
    (pulled,) = torch.autograd.grad(results, point, given)
    tangent = random_tensor(*a.shape, dtype=a.dtype, seed=9)
    pushed = torch.func.jvp(lambda x: tuple(listed(function(x))), (a,), (tangent,))[1]
    return [r.detach() for r in results], pulled, pushed


def compared(name, dtype):
    matrix, function = CALLS[name]
    a = matrix(random_tensor(N, N, dtype=dtype))
    with ts.backend("pytorch"):
        want = derivatives(function, a.to(torch.promote_types(dtype, torch.float64)))
    with ts.backend("simulator"):
        found = derivatives(function, a)
    for got, expected in zip(
        (*found[0], found[1], *found[2]), (*want[0], want[1], *want[2]), strict=True
    ):
        # Results are off by 20 n roundings times the condition, and derivatives by its square.
        allowed = 20 * N * unit_roundoff(torch.float32) * 20 * 20
        scale = max(1.0, float(expected.abs().max()))
        assert float((got - expected).abs().max()) <= allowed * scale


QUICK = ("cholesky", "cholesky, upper", "inv_spd", "lu of a tall one", "solve_spd")


@each_case("name", QUICK)
@each_case("dtype", [torch.float32, torch.complex64], ids=str)
def test_any_direction_has_the_same_derivative_on_kernels(name, dtype):
    compared(name, dtype)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@each_case("name", [name for name in CALLS if name not in QUICK])
@each_case("dtype", [torch.float32, torch.complex64], ids=str)
def test_any_direction_has_the_same_derivative_in_iterations(name, dtype):
    compared(name, dtype)
