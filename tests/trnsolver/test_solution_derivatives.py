"""Derivatives of the iterative solvers of trnsparse and trnsolver, against the exact solution.

Systems are float64 of order 4 and condition below 10, solved to 1e-13: derivatives of first and
second order agree to 1e-9.
"""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

import trnsolver
import trnsparse
from trnsci.core.errors import ConvergenceWarning, DerivativeError, FlagError
from trnsci.core.testing import random_tensor

# What torch does when forward mode is first used.

N = 4
SIDE = random_tensor(N, dtype=torch.float64, seed=1)
FULL = 0.1 * random_tensor(N, N, dtype=torch.float64)
STORED = torch.tensor([[1, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 1]]).bool()
ROWS, COLUMNS = STORED.nonzero().T
SYMMETRIC = FULL + FULL.mT + 4 * torch.eye(N)
ENTRIES = SYMMETRIC[STORED]
LOW, HIGH = 3.6, 4.3  # of the eigenvalues
STEPS = 16  # of an iteration that is not told when to stop; errors fall by 5 in each


def dense(entries):
    return torch.zeros(N, N, dtype=entries.dtype).index_put((ROWS, COLUMNS), entries)


def csr(entries):
    return trnsparse.COOMatrix(entries, ROWS, COLUMNS, (N, N)).to_csr()


def as_function(matrix):
    return lambda v: matrix @ v


KINDS = {
    "dense": dense,
    "csr": csr,
    "coo": lambda entries: trnsparse.COOMatrix(entries, ROWS, COLUMNS, (N, N)),
    "bsr": lambda entries: trnsparse.BSRMatrix.from_csr(csr(entries), 2),
    "function": lambda entries: as_function(dense(entries)),
    "function of csr": lambda entries: as_function(csr(entries)),
}
EXACT = {"tol": 1e-13}
SOLVERS = {
    "trnsparse.cg": lambda a, b: trnsparse.cg(a, b, **EXACT).x,
    "trnsparse.minres": lambda a, b: trnsparse.minres(a, b, **EXACT).x,
    "trnsparse.chebyshev": lambda a, b: trnsparse.chebyshev(a, b, LOW, HIGH, STEPS).x,
    "trnsparse.richardson": lambda a, b: trnsparse.richardson(a, b, 0.25, STEPS).x,
    "trnsolver.cg": lambda a, b: trnsolver.cg(a, b, **EXACT).x,
    "trnsolver.minres": lambda a, b: trnsolver.minres(a, b, **EXACT).x,
    "trnsolver.bicgstab": lambda a, b: trnsolver.bicgstab(a, b, **EXACT).x,
    "trnsolver.gmres": lambda a, b: trnsolver.gmres(a, b, **EXACT).x,
    "trnsolver.fgmres": lambda a, b: trnsolver.fgmres(a, b, **EXACT).x,
}


def exact(entries, b):
    # Not by torch.linalg.solve, whose nested forward mode is wrong.
    return torch.linalg.inv(dense(entries)) @ b


def energy(function):
    return lambda entries, b: (function(entries, b) ** 2).sum()


def backward(function, *operands):
    leaves = [operand.clone().requires_grad_() for operand in operands]
    return torch.autograd.grad(energy(function)(*leaves), leaves)


def double_backward(function, *operands):
    leaves = [operand.clone().requires_grad_() for operand in operands]
    first = torch.autograd.grad(energy(function)(*leaves), leaves, create_graph=True)
    return torch.autograd.grad(sum((part**2).sum() for part in first), leaves)


FIRST = {
    "backward": backward,
    "grad": lambda f, *o: grad(energy(f), (0, 1))(*o),
    "jacrev": lambda f, *o: jacrev(f, (0, 1))(*o),
    "jvp": lambda f, *o: jvp(f, o, tuple(x.cos() for x in o))[1],
    "jacfwd": lambda f, *o: jacfwd(f, (0, 1))(*o),
}
SECOND = {
    "double backward": double_backward,
    "hessian": lambda f, *o: hessian(energy(f))(*o),
    "forward over forward": lambda f, *o: jacfwd(jacfwd(energy(f)))(*o),
    "vmap": lambda f, *o: vmap(f)(*(torch.stack([x, 1.1 * x]) for x in o)),
}


@cache
def of_the_exact_solution(transform):
    return transform(exact, ENTRIES, SIDE)


def assert_same(transform, solver, kind):
    def solved(entries, b):
        return SOLVERS[solver](KINDS[kind](entries), b)

    got = transform(solved, ENTRIES, SIDE)
    torch.testing.assert_close(got, of_the_exact_solution(transform), rtol=0, atol=1e-9)


# Fast are every solver with two kinds, and every kind with two solvers.
EVERY = [
    pytest.param(
        solver,
        kind,
        marks=()
        if kind in ("csr", "function") or solver in ("trnsparse.richardson", "trnsolver.gmres")
        else pytest.mark.slow,
    )
    for solver in SOLVERS
    for kind in KINDS
]


@pytest.mark.parametrize(("solver", "kind"), EVERY)
def test_first_derivatives(solver, kind):
    for transform in FIRST.values():
        assert_same(transform, solver, kind)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("solver", ["trnsparse.cg", "trnsparse.richardson", "trnsolver.gmres"])
def test_second_derivatives_and_vmap(solver, kind):
    for transform in SECOND.values():
        assert_same(transform, solver, kind)


def test_a_function_has_no_second_derivatives_and_no_vmap():
    for name in ("double backward", "hessian"):
        with pytest.raises(DerivativeError, match="first derivatives only"):
            assert_same(SECOND[name], "trnsolver.cg", "function")
    with pytest.raises(FlagError, match="give A as a matrix"):
        assert_same(SECOND["vmap"], "trnsolver.cg", "function")


def test_a_preconditioner_may_depend_on_what_is_differentiated():
    def solved(entries, b):
        diagonal = dense(entries).diagonal()
        return trnsparse.cg(csr(entries), b, M=lambda r: r / diagonal, **EXACT).x

    for transform in FIRST.values():
        got = transform(solved, ENTRIES, SIDE)
        torch.testing.assert_close(got, of_the_exact_solution(transform), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["dense", "csr", "function"])
@pytest.mark.parametrize(
    "solve",
    [
        lambda a, b: trnsparse.cg(a, b, max_iter=1, on_failure="ignore", **EXACT),
        lambda a, b: trnsparse.chebyshev(a, b, LOW, HIGH, 2),
        lambda a, b: trnsolver.gmres(a, b, max_iter=1, restart=1, on_failure="ignore", **EXACT),
    ],
)
def test_the_backward_of_a_solution_that_did_not_converge_warns(solve, kind):
    entries = ENTRIES.clone().requires_grad_()
    x = solve(KINDS[kind](entries), SIDE).x
    with pytest.warns(ConvergenceWarning, match="the solution did not converge") as caught:
        x.sum().backward()
    assert [warning.filename for warning in caught] == [__file__]


def test_the_system_of_a_backward_that_does_not_converge_warns_too():
    entries = ENTRIES.clone().requires_grad_()
    with pytest.warns(ConvergenceWarning, match="cg: not converged after 1 "):
        x = trnsparse.cg(KINDS["csr"](entries), SIDE, max_iter=1, **EXACT).x
    with pytest.warns(ConvergenceWarning) as caught:
        x.sum().backward()
    of_solution, of_system = (str(warning.message) for warning in caught)
    assert of_solution.startswith("cg: the solution did not converge")
    assert of_system.startswith("cg: not converged after 1 ")
