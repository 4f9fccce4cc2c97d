"""Direct solutions and substitutions, with their gradients."""

import pytest
import torch
from scipy.sparse.linalg import splu

import trnsparse as ts
from each_case import each_case

from .cases import FORMATS, in_format, random_dense, spd_dense

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def general(n, seed=0, dtype=torch.float64):
    return random_dense(n, n, 0.2, seed, dtype) + 4 * torch.eye(n, dtype=dtype)


@each_case("dtype", DTYPES, ids=str)
@each_case("name", FORMATS)
def test_solutions_are_those_of_the_dense_matrix(name, dtype):
    dense = general(12, dtype=dtype)
    b = random_dense(12, 3, 1.0, 1, dtype)
    A = in_format(dense, name)
    torch.testing.assert_close(ts.spsolve(A, b), torch.linalg.solve(dense, b))
    torch.testing.assert_close(ts.spsolve(A, b[:, 0]), torch.linalg.solve(dense, b[:, 0]))


# torch's first use of forward mode.
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_gradients_of_solutions_are_adjoint_solutions(dtype):
    A = ts.from_dense(general(5, dtype=dtype))
    values = A.values.detach().requires_grad_()
    b = random_dense(5, 2, 1.0, 1, dtype).requires_grad_()

    def solve(v, right):
        return ts.spsolve(A.with_values(v), right)

    assert torch.autograd.gradcheck(solve, (values, b))
    second = torch.autograd.gradgradcheck
    assert second(solve, (values, b), fast_mode=True, check_fwd_over_rev=True)


def test_a_symmetric_pattern_fills_less_than_in_the_order_for_any_pivots():
    n = 26
    one = 2 * torch.eye(n, dtype=torch.float64) - torch.diag(torch.ones(n - 1).double(), 1)
    one = one - torch.diag(torch.ones(n - 1).double(), -1)
    eye = torch.eye(n, dtype=torch.float64)
    dense = torch.kron(one, eye) + torch.kron(eye, one)
    dense = dense + torch.triu(dense, 1) / 4  # entries are not symmetric, the pattern is
    A = ts.from_dense(dense)
    b = random_dense(n * n, 1, 1.0, 1)[:, 0]
    factors = ts.splu(A)
    assert factors.nnz < splu(A.to_scipy().tocsc()).nnz
    torch.testing.assert_close(factors.solve(b), torch.linalg.solve(dense, b))


@pytest.mark.parametrize("zero", ["stored", "not stored"])
def test_a_symmetric_pattern_without_a_diagonal(zero):
    dense = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0], [0.0, 4.0, 5.0]])
    A = ts.from_dense(dense) + (
        0 * ts.eye_sparse(3) if zero == "stored" else 0 * ts.from_dense(dense)
    )
    b = torch.tensor([1.0, 2.0, 3.0])
    torch.testing.assert_close(ts.spsolve(A, b), torch.linalg.solve(dense, b))


def test_factors_are_kept_and_counted():
    dense = spd_dense(20)
    factors = ts.splu(ts.from_dense(dense))
    assert factors.nnz >= int((dense != 0).sum())
    for seed in range(2):
        b = random_dense(20, 1, 1.0, seed)
        torch.testing.assert_close(factors.solve(b), torch.linalg.solve(dense, b))
    assert ts.splu(ts.from_dense(torch.zeros(0, 0))).solve(torch.zeros(0)).shape == (0,)


@each_case("dtype", DTYPES, ids=str)
@each_case("unit", [False, True])
@each_case("trans", [False, True])
@each_case("lower", [False, True])
def test_substitution_reads_one_triangle(lower, trans, unit, dtype):
    dense = general(9, dtype=dtype)
    b = random_dense(9, 2, 1.0, 1, dtype)
    part = dense.tril() if lower else dense.triu()
    if unit:
        part = part - torch.diag(part.diagonal()) + torch.eye(9, dtype=dtype)
    part = part.mT if trans else part
    found = ts.sptrsv(ts.from_dense(dense), b, lower=lower, unit=unit, trans=trans)
    torch.testing.assert_close(found, torch.linalg.solve(part, b))
    found = ts.sptrsv(ts.from_dense(dense), b[:, 0], lower=lower, unit=unit, trans=trans)
    torch.testing.assert_close(found, torch.linalg.solve(part, b[:, 0]))


# torch's first use of forward mode.
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("trans", [False, True])
def test_gradients_of_substitution(unit, trans):
    A = ts.from_dense(general(3, dtype=torch.complex128))
    values = A.values.detach().requires_grad_()
    b = random_dense(3, 2, 1.0, 1, torch.complex128).requires_grad_()

    def solve(v, right):
        return ts.sptrsv(A.with_values(v), right, unit=unit, trans=trans)

    assert torch.autograd.gradcheck(solve, (values, b))
    second = torch.autograd.gradgradcheck
    assert second(solve, (values, b), fast_mode=True, check_fwd_over_rev=True)


def test_matrices_that_cannot_be_solved_with():
    singular = ts.from_dense(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
    missing = ts.from_dense(torch.tensor([[1.0, 0.0], [2.0, 0.0]]))
    with pytest.raises(ValueError, match="no inverse"):
        ts.spsolve(singular, torch.ones(2))
    with pytest.raises(ValueError, match="diagonal has a zero"):
        ts.sptrsv(missing, torch.ones(2))
    assert torch.equal(ts.sptrsv(missing, torch.ones(2), unit=True), torch.tensor([1.0, -1.0]))
    with pytest.raises(AssertionError, match="square"):
        ts.spsolve(ts.from_dense(torch.ones(2, 3)), torch.ones(2))
    with pytest.raises(AssertionError, match="agree in their rows"):
        ts.spsolve(ts.eye_sparse(2), torch.ones(3))
    for call in (ts.spsolve, ts.sptrsv):
        with pytest.raises(TypeError, match="A must be float32"):
            call(ts.eye_sparse(2, torch.bfloat16), torch.ones(2, dtype=torch.bfloat16))
