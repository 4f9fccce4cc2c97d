"""Products with the transpose of a CSR matrix, which reads its entries as they are stored."""

import pytest
import torch
from torch.autograd import forward_ad

import trnsparse as ts
from each_case import each_case

from .cases import DTYPES, in_format, random_dense

# torch's own forward mode imports a deprecated part of torch.

FORMS = {
    "T": lambda A, x: A.T @ x,
    "view": lambda A, x: A.transposed_view() @ x,
    "csc": lambda A, x: A.transpose().to_csc() @ x,
    "left": lambda A, x: x @ A,
}


def shuffled(dtype, index=torch.int64):
    """A 3 x 4 matrix with an empty row, columns out of order and a duplicate."""
    pointers, columns = torch.tensor([0, 3, 3, 6]), torch.tensor([2, 0, 2, 3, 1, 0])
    values = torch.tensor([1, 2, 4, 8, 16, 32]).to(dtype)
    return ts.CSRMatrix(values, columns.to(index), pointers.to(index), (3, 4))


@each_case("form", FORMS)
@each_case("dtype", [*DTYPES, torch.complex128])
@each_case("index", [torch.int32, torch.int64])
def test_transposed_products_of_integers_are_exact(form, dtype, index):
    A, x = shuffled(dtype, index), torch.tensor([1, 10, 100]).to(dtype)
    found = FORMS[form](A, x)
    assert found.dtype is dtype
    assert torch.equal(found, A.to_dense().mT @ x)
    apart = torch.stack([x, x], 1)[:, 0]
    assert not apart.is_contiguous()
    assert torch.equal(FORMS[form](A, apart), found)


@each_case("form", FORMS)
@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0), (3, 4)])
def test_transposed_products_without_entries_are_zero(form, shape):
    A = ts.from_dense(torch.zeros(shape))
    assert torch.equal(FORMS[form](A, torch.ones(shape[0])), torch.zeros(shape[1]))


@each_case("form", FORMS)
def test_bits_of_transposed_products_do_not_depend_on_earlier_calls(form):
    dense = random_dense(300, 200, 0.2, dtype=torch.float32)
    x = random_dense(300, 1, 1.0, 1, torch.float32)[:, 0]
    used, fresh = ts.from_dense(dense), ts.from_dense(dense)
    first = FORMS[form](used, x)
    used.transpose().matmul(x)
    used.T @ dense
    used.to_csc()
    used.T.to_csr()
    assert torch.equal(FORMS[form](used, x), first)
    fresh.transpose()
    assert torch.equal(FORMS[form](fresh, x), first)


def test_a_transpose_follows_the_entries_of_its_matrix():
    A, x = shuffled(torch.float64), torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)
    view = A.T
    assert view.format == "csc"
    assert view.values is A.values
    assert view.T.format == "csr"
    before = view @ x
    A.values.mul_(2)
    assert torch.equal(view @ x, 2 * before)
    A.values.data = A.values / 2
    assert torch.equal(view @ x, before)
    A.values = 3 * A.values
    assert torch.equal(A.T @ x, 3 * before)
    A.col_indices.copy_(3 - A.col_indices)
    assert torch.equal(A.T @ x, 3 * before.flip(0))
    assert A.transpose().format == "csr"
    A.transpose().values.zero_()
    assert torch.equal(A.T @ x, 3 * before.flip(0))


@each_case("name", ["csr", "csc", "coo", "bsr", "ell"])
def test_conjugate_transposes(name):
    dense = random_dense(6, 5, dtype=torch.complex128)
    A = in_format(dense, name)
    x = random_dense(6, 1, 1.0, 1, torch.complex128)[:, 0]
    torch.testing.assert_close(A.H @ x, dense.mH @ x)
    torch.testing.assert_close(A.H @ x.conj(), dense.mH @ x.conj())
    torch.testing.assert_close(x.conj() @ A, x.conj() @ dense)


@each_case("form", FORMS)
def test_transposed_products_have_derivatives_in_both_modes(form):
    dense = random_dense(6, 5)
    A = ts.from_dense(dense)
    x = random_dense(6, 1, 1.0, 1)[:, 0].requires_grad_()
    values = A.values.clone().requires_grad_()

    def product(values, x):
        return FORMS[form](A.with_values(values), x)

    assert torch.autograd.gradcheck(product, (values, x), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(product, (values, x))
    with forward_ad.dual_level():
        moved = forward_ad.make_dual(x.detach(), torch.ones_like(x))
        tangent = forward_ad.unpack_dual(FORMS[form](A, moved)).tangent
    torch.testing.assert_close(tangent, dense.sum(0))
    batch = torch.stack([x.detach(), 2 * x.detach()])
    torch.testing.assert_close(torch.vmap(lambda v: FORMS[form](A, v))(batch), batch @ dense)
