"""Every value that the library returns can be pickled and copied, before and after its use."""

import copy
import io
import pickle

import pytest
import torch

import trnsparse as ts
from trnsparse.masks import AttentionMask

from .cases import FORMATS, in_format, spd_dense

DENSE = spd_dense(8, seed=3)
A = ts.from_dense(DENSE)
X = torch.linspace(-1, 1, 8, dtype=torch.float64)
EMPTY = ts.CSRMatrix(torch.ones(0), torch.ones(0).long(), torch.zeros(1).long(), (0, 0))


def attention(mask):
    return ts.block_sparse_attention(*(X.reshape(1, 8, 1),) * 3, mask)


PRECONDITIONERS = (
    *(ts.jacobi_preconditioner, ts.block_jacobi_preconditioner, ts.ssor_preconditioner),
    *(ts.ichol_preconditioner, ts.ilu_preconditioner),
)
VALUES = {
    **{name: (in_format(DENSE, name), lambda m: m @ X) for name in FORMATS},
    **{make.__name__: (make(A), lambda M: M(X)) for make in PRECONDITIONERS},
    "splu": (ts.splu(A), lambda lu: lu.solve(X)),
    "splu, complex": (ts.splu(A.to(torch.complex128)), lambda lu: lu.solve(X + 1j)),
    "splu, empty": (ts.splu(EMPTY), lambda lu: lu.solve(torch.ones(0))),
    "block_ordering": (ts.block_ordering(A, 4), lambda order: order.apply(A).to_dense()),
    "mask": (AttentionMask.from_dense(DENSE != 0, 4), attention),
    "cg": (ts.cg(A, X, tol=1e-10), lambda solution: solution.x),
    "power_iteration": (ts.power_iteration(A), lambda found: torch.as_tensor(found[0])),
}


def pickled(value):
    return pickle.loads(pickle.dumps(value))


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("name", VALUES)
def test_values_are_pickled_and_copied(name):
    value, use = VALUES[name]
    for again in (pickled, copy.copy, copy.deepcopy, saved):
        before = again(value)
        want = use(value)  # from here on the value has derived data, such as cached products
        for other in (before, again(value), again(again(value))):
            assert type(other) is type(value)
            assert torch.equal(use(other), want)


def test_a_factorization_is_that_of_its_copy():
    lu = ts.splu(A.with_values(A.values.clone()))
    want = lu.solve(X)
    again = copy.deepcopy(lu)
    assert (again.shape, again.nnz) == (lu.shape, lu.nnz)
    again.matrix.values.zero_()
    assert torch.equal(lu.solve(X), want)


def test_the_factors_of_changed_entries_are_not_pickled():
    """A copy solves with the matrix that was factored."""
    B = A.with_values(A.values.clone())
    lu = ts.splu(B)
    want = lu.solve(X)
    B.values.mul_(2)
    assert torch.equal(pickled(lu).solve(X), want)
