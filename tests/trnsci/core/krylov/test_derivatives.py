"""Derivatives of solutions: those of the exact solution, for every kind of matrix."""

import pytest
import torch

import trnsolver
import trnsparse
from trnsci.core.errors import DerivativeError
from trnsci.core.testing import random_tensor

# torch's own forward mode imports a deprecated part of torch.

N = 4
Z = random_tensor(N, N, dtype=torch.float64) / 2
POSITIVE = Z @ Z.mT + torch.eye(N)
GENERAL = Z + 2 * torch.eye(N)
B = random_tensor(N, dtype=torch.float64, seed=1)

FORMATS = {
    "csr": trnsparse.from_dense,
    "coo": lambda a: trnsparse.from_dense(a).to_coo(),
    "bsr": lambda a: trnsparse.BSRMatrix.from_dense(a, 2),
}
SPARSE = {
    "cg": lambda a, b: trnsparse.cg(a, b, tol=1e-14).x,
    "preconditioned cg": lambda a, b: (
        trnsparse.cg(a, b, tol=1e-14, M=trnsparse.jacobi_preconditioner(a)).x
    ),
    "minres": lambda a, b: trnsparse.minres(a, b, tol=1e-14).x,
    "chebyshev": lambda a, b: trnsparse.chebyshev(a, b, 0.9, 6.0, K=36).x,
    "richardson": lambda a, b: trnsparse.richardson(a, b, 0.45, K=48).x,
}
DENSE = {
    "cg": lambda a, b: trnsolver.cg(a, b, tol=1e-14).x,
    "minres": lambda a, b: trnsolver.minres(a, b, tol=1e-14).x,
    "bicgstab": lambda a, b: trnsolver.bicgstab(a, b, tol=1e-14).x,
    "gmres": lambda a, b: trnsolver.gmres(a, b, tol=1e-14).x,
    "sparse front": lambda a, b: trnsparse.cg(a, b, tol=1e-14).x,
}


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("name", SPARSE)
def test_gradients_by_the_entries_of_sparse_matrices(name, columns):
    if columns and name == "minres":
        pytest.skip("minres takes one right-hand side")
    like = trnsparse.from_dense(POSITIVE)
    b = torch.stack([B, 2 * B + 1], -1) if columns else B
    values = like.values.clone().requires_grad_()
    side = b.clone().requires_grad_()

    def mine(values, b):
        return SPARSE[name](like.with_values(values), b)

    def dense(values, b):
        return torch.linalg.solve(like.with_values(values).to_dense(), b)

    grad = torch.randn(b.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = torch.autograd.grad((mine(values, side) * grad).sum(), (values, side))
    want = torch.autograd.grad((dense(values, side) * grad).sum(), (values, side))
    torch.testing.assert_close(found, want, rtol=1e-8, atol=1e-10)
    tangents = torch.ones_like(values), torch.ones_like(b)
    _, moved = torch.func.jvp(mine, (values.detach(), b), tangents)
    _, expected = torch.func.jvp(dense, (values.detach(), b), tangents)
    torch.testing.assert_close(moved, expected, rtol=1e-8, atol=1e-10)
    pulled = torch.func.grad(lambda v, b: (mine(v, b) * grad).sum(), argnums=(0, 1))
    torch.testing.assert_close(pulled(values.detach(), b), want, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("format", FORMATS)
def test_gradients_of_every_format(format):
    a = FORMATS[format](POSITIVE).requires_grad_()
    side = B.clone().requires_grad_()
    x = trnsparse.cg(a, side, tol=1e-14).x
    x.sum().backward()
    y = torch.linalg.solve(POSITIVE, torch.ones(N, dtype=torch.float64))
    torch.testing.assert_close(side.grad, y, rtol=1e-9, atol=0)
    want = -torch.outer(y, x.detach())
    got = a._with_data(a.grad).to_dense()
    torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-12)


def test_second_derivatives_by_the_entries():
    # With half a step for each 2, the error falls to a fifth or less in a step.
    near_2 = torch.tensor([[2.2, 0.1, 0.0], [0.3, 1.9, -0.2], [0.0, 0.0, 2.1]])
    like = trnsparse.from_dense(near_2.double())
    values = like.values.clone().requires_grad_()
    side = B[:3].clone().requires_grad_()

    def mine(values, b):
        return trnsparse.richardson(like.with_values(values), b, 0.5, K=24).x

    assert torch.autograd.gradcheck(mine, (values, side), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(mine, (values, side))


@pytest.mark.parametrize("name", DENSE)
def test_torch_func_and_forward_mode_of_dense_matrices(name):
    a = GENERAL if name in ("bicgstab", "gmres") else POSITIVE
    solve = DENSE[name]

    def loss(function):
        return lambda a, b: (function(a, b) ** 2).sum()

    both = torch.func.grad(loss(solve), argnums=(0, 1))
    want = torch.func.grad(loss(torch.linalg.solve), argnums=(0, 1))
    torch.testing.assert_close(both(a, B), want(a, B), rtol=1e-8, atol=1e-10)
    tangents = torch.ones_like(a), torch.ones_like(B)
    found = torch.func.jvp(loss(solve), (a, B), tangents)
    expected = torch.func.jvp(loss(torch.linalg.solve), (a, B), tangents)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)
    batch = torch.func.vmap(lambda b: solve(a, b))(torch.stack([B, 2 * B]))
    torch.testing.assert_close(batch, torch.stack([solve(a, B), solve(a, 2 * B)]))


def test_complex_gradients():
    a = POSITIVE + 0.2j * (Z - Z.mT)
    b = torch.complex(B, B.flip(0))
    like = trnsparse.from_dense(a)

    def mine(values, b):
        return trnsparse.cg(like.with_values(values), b, tol=1e-14).x

    def dense(values, b):
        return torch.linalg.solve(like.with_values(values).to_dense(), b)

    operands = like.values.clone().requires_grad_(), b.clone().requires_grad_()
    found = torch.autograd.grad(mine(*operands).abs().sum(), operands)
    want = torch.autograd.grad(dense(*operands).abs().sum(), operands)
    torch.testing.assert_close(found, want, rtol=1e-8, atol=1e-10)


def test_functions_of_both_fronts_have_first_derivatives():
    for solver in (trnsolver.cg, trnsparse.cg):
        scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        b = B.clone().requires_grad_()
        x = solver(lambda v, s=scale: s * (POSITIVE @ v), b, tol=1e-13).x
        want = torch.linalg.solve(2 * POSITIVE, B)
        by_scale, by_b = torch.autograd.grad(x.sum(), (scale, b), retain_graph=True)
        assert float(by_scale) == pytest.approx(-float(want.sum()) / 2, rel=1e-9)
        inverse = torch.linalg.inv(2 * POSITIVE).sum(0)
        torch.testing.assert_close(by_b, inverse, rtol=1e-9, atol=0)
        with pytest.raises(DerivativeError, match="first derivatives"):
            torch.autograd.grad(x.sum(), scale, create_graph=True)
    assert not trnsparse.cg(POSITIVE, B).x.requires_grad
