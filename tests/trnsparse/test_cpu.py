"""Kernels on a CPU with MKL and without: what is computed is that of the dense matrix, either way.

All numbers are small enough, and all divisors units or twos, that every way of computing is exact.
"""

from contextlib import contextmanager
from functools import partial
from operator import matmul

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import trnsparse as ts
from drawn import examples
from each_case import each_case

from .cases import FORMATS

WAYS = [
    pytest.param(False, id="without MKL"),
    pytest.param(
        True,
        id="MKL",
        marks=pytest.mark.skipif(
            not torch.backends.mkl.is_available(), reason="torch has no MKL on this machine"
        ),
    ),
]
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


@contextmanager
def mkl(wanted):
    """Kernels are chosen as where torch has MKL, or has not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.mkl, "is_available", lambda: wanted)
        yield


@st.composite
def problems(draw, square=False):
    """A matrix, its dense form, a right-hand side and what a gradient begins with."""
    rows = draw(st.integers(1, 5))
    columns = rows if square else draw(st.integers(1, 5))
    width = draw(st.sampled_from([1, 2, 9]))
    dtype = draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    units = np.array([1, -1, 1j, -1j]) if dtype.is_complex else np.array([1, -1])

    def numbers(*shape):
        return torch.from_numpy(rng.choice(units, shape) * rng.choice([0, 1], shape)).to(dtype)

    dense = numbers(rows, columns)
    if square:
        dense.diagonal().copy_(torch.from_numpy(rng.choice([1, 2], rows) * rng.choice(units, rows)))
    else:
        dense[0, 0] = 1
    return dense, numbers(columns, width), numbers(rows, width)


def same_as_dense(sparse, dense, matrix, b, seed):
    """Compare results and gradients, by entries that are stored and by the right-hand side."""
    found_leaves = (matrix._data.detach().requires_grad_(), b.clone().requires_grad_())
    found = sparse(matrix._with_data(found_leaves[0]), found_leaves[1])
    by_data, by_b = torch.autograd.grad(found, found_leaves, seed)
    assert torch.equal(sparse(matrix, b), found)
    whole = matrix.to_dense().requires_grad_()
    right = b.clone().requires_grad_()
    wanted = dense(whole, right)
    by_whole, by_right = torch.autograd.grad(wanted, (whole, right), seed)
    assert torch.equal(found, wanted)
    assert torch.equal(by_b, by_right)
    stored = matrix._with_data(torch.ones_like(matrix._data)).to_dense() != 0
    assert torch.equal(matrix._with_data(by_data).to_dense(), by_whole * stored)


@pytest.mark.parametrize("wanted", WAYS)
@examples(100)
@given(name=st.sampled_from(list(FORMATS)), problem=problems(), size=st.sampled_from([1, 2, 3, 17]))
def test_products_and_their_gradients(name, wanted, problem, size):
    dense, b, seed = problem
    matrix = ts.from_dense(dense).asformat(name, **({"block_size": size} if name == "bsr" else {}))
    with mkl(wanted):
        same_as_dense(matmul, matmul, matrix, b, seed)
        same_as_dense(matmul, matmul, matrix, b[:, 0].contiguous(), seed[:, 0])


@pytest.mark.parametrize("wanted", WAYS)
@given(problem=problems())
def test_sampled_products_and_products_of_two_sparse_ones(wanted, problem):
    dense, b, seed = problem
    with mkl(wanted):
        A = ts.from_dense(dense)
        assert torch.equal(ts.sddmm(A, seed, b).to_dense(), (seed @ b.mT) * (dense != 0))
        assert torch.equal((A @ ts.from_dense(b)).to_dense(), dense @ b)
        assert torch.equal((A.transpose() @ A).to_dense(), dense.mT @ dense)


@pytest.mark.parametrize("wanted", WAYS)
@examples(160)
@given(lower=st.booleans(), trans=st.booleans(), unit=st.booleans(), problem=problems(square=True))
def test_substitutions_and_their_gradients(lower, trans, unit, wanted, problem):
    dense, b, seed = problem

    def defined(whole, right):
        part = whole.tril() if lower else whole.triu()
        part, upper = (part.mT, lower) if trans else (part, not lower)
        return torch.linalg.solve_triangular(part, right, upper=upper, unitriangular=unit)

    solve = partial(ts.sptrsv, lower=lower, trans=trans, unit=unit)
    with mkl(wanted):
        same_as_dense(solve, defined, ts.from_dense(dense), b, seed)


@pytest.mark.parametrize("wanted", WAYS)
@each_case("whole", [False, True])
@each_case("dtype", DTYPES, ids=str)
def test_a_diagonal_that_is_no_number_is_no_error_and_stays(dtype, whole, wanted):
    dense = torch.ones(3, 3, dtype=dtype)
    dense[1, 1] = torch.nan
    A = ts.from_dense(dense if whole else dense.tril())
    with mkl(wanted):
        found = ts.sptrsv(A, torch.ones(3, dtype=dtype))
    assert found.isnan().tolist() == [False, True, True]
    assert A.diagonal().isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("wanted", WAYS)
def test_substitution_neither_overflows_nor_rounds_where_the_definition_does_not(wanted):
    tiny, huge = 2.0**-1000, 2.0**1000
    A = ts.from_dense(torch.tensor([[tiny, 0.0], [huge, 1.0]], dtype=torch.float64))
    b = torch.tensor([0.0, 3.0], dtype=torch.float64)
    with mkl(wanted):
        assert torch.equal(ts.sptrsv(A, b), b)
        third = ts.from_dense(torch.tensor([[3.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
        found = ts.sptrsv(third, torch.tensor([1.0, 0.0], dtype=torch.float64))
    assert found.tolist() == [1 / 3, -1 / 3]
