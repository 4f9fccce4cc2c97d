"""Formats against dense matrices: conversions, operators, selections, gradients."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

import trnsparse as ts
from drawn import examples
from each_case import each_case
from pairwise import pairwise

from .cases import DTYPES, FORMATS, dense_matrices, in_format, random_dense

few = examples(25)


@few
@given(dense=dense_matrices(), start=st.sampled_from(FORMATS), end=st.sampled_from(FORMATS))
def test_every_format_becomes_every_other_and_stays_the_matrix(dense, start, end):
    found = in_format(dense, start).asformat(end)
    assert found.format == end
    assert found.shape == tuple(dense.shape)
    assert torch.equal(found.to_dense(), dense)


@each_case("name", FORMATS)
@each_case("dtype", DTYPES, ids=str)
def test_conversions_keep_dtype_and_index_dtype(name, dtype):
    dense = random_dense(7, 9, dtype=dtype)
    csr = ts.from_dense(dense)
    narrow = ts.CSRMatrix(csr.values, csr.col_indices.int(), csr.row_ptrs.int(), csr.shape)
    matrix = narrow.asformat(name)
    assert matrix.dtype is dtype
    back = matrix.to_csr()
    assert back.dtype is dtype
    assert back.col_indices.dtype is back.row_ptrs.dtype is torch.int32
    assert torch.equal(back.to_dense(), dense)


@few
@given(dense=dense_matrices(), name=st.sampled_from(FORMATS), columns=st.integers(0, 3))
def test_products_are_those_of_the_dense_matrix(dense, name, columns):
    A = in_format(dense, name)
    x = torch.arange(dense.shape[1], dtype=dense.dtype) - 2
    B = (
        torch.arange(dense.shape[1] * columns, dtype=dense.dtype).reshape(dense.shape[1], columns)
        - 3
    )
    y = torch.arange(dense.shape[0], dtype=dense.dtype)
    # Sums of small integers are exact in any order.
    assert torch.equal(A @ x, dense @ x)

    assert torch.equal(A @ B, dense @ B)
    assert torch.equal(y @ A, y @ dense)
    assert torch.equal(A.T.to_dense(), dense.T)
    assert torch.equal(A.diagonal(), dense.diagonal())
    for dim in (0, 1):
        assert torch.equal(A.sum(dim), dense.sum(dim))
    assert A.sum() == dense.sum()


@each_case("name", FORMATS)
@each_case("dtype", DTYPES, ids=str)
def test_products_round_once(name, dtype):
    dense = random_dense(40, 33, dtype=dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    B = random_dense(33, 5, 1.0, seed=1, dtype=dtype)
    found = in_format(dense, name) @ B
    assert found.dtype is dtype
    want = dense.to(wide) @ B.to(wide)
    # 33 products and sums in float32 or wider, and one rounding to the dtype.
    width = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    scale = (dense.to(wide).abs() @ B.to(wide).abs()).real
    unit = torch.finfo(dtype).eps / 2
    bound = 2 * 34 * torch.finfo(width).eps * scale + unit * want.abs()
    assert ((found.to(wide) - want).abs() <= bound).all()


@few
@given(
    dense=dense_matrices(),
    name=st.sampled_from(FORMATS),
    dtype=st.sampled_from(DTYPES),
    index=st.sampled_from([torch.int32, torch.int64]),
)
def test_every_dtype_is_the_rounded_product_of_float64(dense, name, dtype, index):
    csr = ts.from_dense(dense.to(dtype))
    indices = csr.col_indices.to(index), csr.row_ptrs.to(index)
    options = {"block_size": 4} if name == "bsr" else {}
    A = ts.CSRMatrix(csr.values, *indices, csr.shape).asformat(name, **options)
    B = torch.arange(dense.shape[1] * 2, dtype=torch.float64).reshape(-1, 2) - 5
    # Sums of small integers are exact in float32, and rounded once from there.
    assert torch.equal(A @ B.to(dtype), (dense @ B).to(dtype))
    assert torch.equal(A.to_dense(), dense.to(dtype))
    assert torch.equal(
        (A.T @ A).to_dense().real.double(), (dense.T @ dense).to(dtype).real.double()
    )


def test_entries_that_come_twice_are_added_everywhere():
    values = torch.tensor([1.0, 2.0, 5.0])
    coo = ts.COOMatrix(values, torch.tensor([0, 0, 1]), torch.tensor([0, 0, 1]), (2, 2))
    want = torch.tensor([[3.0, 0.0], [0.0, 5.0]])
    assert torch.equal(coo.to_dense(), want)
    assert torch.equal(coo.to_csr().to_dense(), want)
    assert torch.equal(coo.to_csc().to_dense(), want)
    assert torch.equal(coo @ torch.eye(2), want)
    assert coo.nnz == 3
    assert coo.coalesce().nnz == coo.to_csr().nnz == 2
    csr = ts.CSRMatrix(values, torch.tensor([1, 1, 0]), torch.tensor([0, 2, 3]), (2, 2))
    assert torch.equal(csr.to_dense(), torch.tensor([[0.0, 3.0], [5.0, 0.0]]))
    assert torch.equal((csr**2).to_dense(), torch.tensor([[0.0, 9.0], [25.0, 0.0]]))
    assert csr[0, 1] == 3


def test_sums_of_bfloat16_are_rounded_once():
    many = torch.full((1, 300), 1.0, dtype=torch.bfloat16)
    A = ts.from_dense(many)
    assert (A @ A.T).to_dense().item() == 300
    places = torch.zeros(300, dtype=torch.int64)
    assert ts.COOMatrix(many[0], places, places, (1, 1)).to_csr().values.item() == 300


@few
@given(a=dense_matrices(), other=st.integers(0, 2**32 - 1))
def test_sums_and_products_element_by_element(a, other):
    b = random_dense(*a.shape, seed=other).round()
    A, B = ts.from_dense(a), ts.from_dense(b)
    assert torch.equal((A + B).to_dense(), a + b)
    assert torch.equal((A - B).to_dense(), a - b)
    assert torch.equal((A * B).to_dense(), a * b)
    assert torch.equal((A * b).to_dense(), a * b)
    assert torch.equal((-2 * A / 4).to_dense(), -0.5 * a)
    assert torch.equal((2.0 * A - 3.0 * B).to_dense(), 2 * a - 3 * b)
    row = torch.arange(a.shape[1], dtype=a.dtype)
    assert torch.equal((A * row).to_dense(), a * row)


def test_a_sum_keeps_entries_that_cancel():
    A = ts.from_dense(torch.eye(3))
    assert (A - A).nnz == 3
    assert (A - ts.from_dense(torch.ones(3, 3))).nnz == 9


@few
@given(a=dense_matrices(), columns=st.integers(0, 6), seed=st.integers(0, 99))
def test_sparse_times_sparse(a, columns, seed):
    b = random_dense(a.shape[1], columns, seed=seed).round()
    found = ts.from_dense(a) @ ts.from_dense(b)
    assert found.nnz == found.sum_duplicates().nnz
    assert torch.equal(found.to_dense(), a @ b)


def test_sparse_times_sparse_has_gradients():
    a, b = random_dense(5, 6), random_dense(6, 4, seed=1)
    A, B = ts.from_dense(a), ts.from_dense(b)

    def product(left, right):
        return (A.with_values(left) @ B.with_values(right)).values

    assert torch.autograd.gradcheck(product, (A.values.requires_grad_(), B.values.requires_grad_()))


KEYS = [
    np.s_[2],
    np.s_[2, :],
    np.s_[2, ::-2],
    np.s_[-3:, 6],
    np.s_[[0, 5], -7],
    np.s_[1, [2, 4, 2]],
    np.s_[:, [6, 0, 0]],
    np.s_[::2, ::-1],
    np.s_[-1],
    np.s_[1:4],
    np.s_[::2],
    np.s_[::-1],
    np.s_[[3, 0, 0]],
    np.s_[:, 1],
    np.s_[1:, 2:5],
    np.s_[[0, 2], 1:3],
    np.s_[5:2],
]


@each_case("key", KEYS, ids=str)
@each_case("name", FORMATS)
def test_selections_are_those_of_the_dense_matrix(key, name):
    dense = random_dense(6, 7)
    want = torch.from_numpy(dense.numpy()[key].copy())
    found = in_format(dense, name)[key]
    # An integer removes its dimension, as in NumPy, torch and SciPy's arrays.
    assert isinstance(found, torch.Tensor if want.ndim < 2 else ts.SparseMatrix)
    assert torch.equal(found.to_dense(), want)


@each_case("name, index, dtype", pairwise(FORMATS, [torch.int32, torch.int64], DTYPES), ids=str)
def test_rows_and_columns_are_vectors_with_gradients_and_batches(name, index, dtype):
    dense = random_dense(6, 7, dtype=dtype)
    csr = ts.from_dense(dense)
    csr = ts.CSRMatrix(csr.values, csr.col_indices.to(index), csr.row_ptrs.to(index), csr.shape)
    A = csr.asformat(name)
    data = torch.stack([A.entries, 2 * A.entries])
    dense = torch.stack([dense, 2 * dense])
    for key in (np.s_[1], np.s_[:, 3], np.s_[:, [5, 1, 5]], np.s_[2:, 1:4]):
        for values, want in ((data, dense), (data[0], dense[0])):
            values = values.clone().requires_grad_()
            found = A._with_data(values)[key]
            want = want[..., key, :] if key == 1 else want[(..., *key)]
            assert torch.equal(found.to_dense(), want)
            # Sums of integer weights: their gradients are exact in any order.
            dense_of = A._with_data(values).to_dense()
            picked = dense_of[..., key, :] if key == 1 else dense_of[(..., *key)]
            weights = torch.arange(picked.numel()).reshape(picked.shape).to(dtype)
            gradients = [
                torch.autograd.grad((x * weights).real.sum(), values)[0]
                for x in (found.to_dense(), picked)
            ]
            # Conversion of blocks to rows leaves out their zeros.
            assert torch.equal(*(torch.where(values != 0, g, 0) for g in gradients))


def test_derivatives_of_selections_in_every_mode():
    A = ts.from_dense(random_dense(6, 7))
    for key in (np.s_[2], np.s_[:, 4], np.s_[:, [6, 0, 6]], np.s_[[1, 1], ::2]):

        def selected(entries, key=key):
            found = A.with_values(entries)[key]
            return found if isinstance(found, torch.Tensor) else found.to_dense()

        leaf = A.values.clone().requires_grad_()
        assert torch.autograd.gradcheck(selected, leaf, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(lambda x: selected(x) ** 2, leaf, fast_mode=True)
        rows = torch.func.jacrev(selected)(A.values)
        assert torch.equal(rows, torch.func.jacfwd(selected)(A.values))
        many = torch.stack([A.values, -A.values])
        assert torch.equal(torch.vmap(selected)(many), torch.stack([selected(x) for x in many]))


def test_iteration_gives_rows():
    dense = random_dense(4, 5, 0.5)
    for row, want in zip(ts.from_dense(dense), dense, strict=True):
        assert torch.equal(row, want)


def test_entries_at_one_place_are_added_in_selections():
    places = torch.tensor([0, 0, 0, 1]), torch.tensor([2, 0, 2, 2])
    A = ts.COOMatrix(torch.tensor([1.0, 2.0, 4.0, 8.0]), *places, (2, 3))
    B = ts.CSRMatrix(A.values, places[1], torch.tensor([0, 3, 4]), (2, 3))
    for matrix in (A, B, A.to_csc(), A.to_bsr(2), A.to_ell()):
        assert matrix[0].tolist() == [2, 0, 5]
        assert matrix[:, 2].tolist() == [5, 8]
        assert matrix[:, [2, 2, 0]].to_dense().tolist() == [[5, 5, 2], [8, 8, 0]]


def test_an_ellipsis_stands_for_what_is_not_said():
    dense = random_dense(4, 5, 0.5)
    A = ts.from_dense(dense)
    assert torch.equal(A[...].to_dense(), dense)
    assert torch.equal(A[..., 1:3].to_dense(), dense[..., 1:3])
    assert torch.equal(A[2:, ...].to_dense(), dense[2:])
    assert A[[]].shape == (0, 5)
    for one in (1, np.int64(1), torch.tensor(1)):
        assert A[one, one].shape == ()
    for key in (None, "a", {}, (..., ...), 0.5):
        with pytest.raises(IndexError):
            A[key]


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_of_numpy_are_numbers(name):
    dense = random_dense(4, 5, 0.5)
    A = in_format(dense, name)
    for two in (np.float32(2), np.float64(2), np.int64(2)):
        for scaled in (two * A, A * two, A / (1 / two)):
            assert scaled.dtype is A.dtype
            torch.testing.assert_close(scaled.to_dense(), 2 * dense)


def test_masks_and_elements():
    dense = random_dense(6, 7)
    A = ts.from_dense(dense)
    mask = torch.tensor([True, False, False, True, True, False])
    assert torch.equal(A[mask].to_dense(), dense[mask])
    rows, columns = torch.tensor([0, 5, 2]), torch.tensor([1, -1, 3])
    assert torch.equal(A[rows, columns], dense[rows, columns])
    assert A[2, 3] == dense[2, 3]
    with pytest.raises(IndexError, match="outside"):
        A[6]
    with pytest.raises(ValueError, match="mask"):
        A[mask[:3]]


def test_selected_rows_carry_gradients():
    A = ts.from_dense(random_dense(6, 7)).requires_grad_()
    A[[1, 3]].to_dense().sum().backward()
    rows = A.pattern.row_indices
    assert torch.equal(A.grad, ((rows == 1) | (rows == 3)).double())


@pytest.mark.parametrize("name", FORMATS)
def test_gradients_reach_values_and_dense_operands(name):
    A = in_format(random_dense(6, 5), name)
    data = A._data.detach().requires_grad_()
    B = random_dense(5, 3, 1.0, seed=2).requires_grad_()

    def product(entries, right):
        return A._with_data(entries) @ right

    assert torch.autograd.gradcheck(product, (data, B))
    assert torch.autograd.gradgradcheck(product, (data, B), fast_mode=True)


def test_complex_gradients():
    A = ts.from_dense(random_dense(4, 5, dtype=torch.complex128))
    B = random_dense(5, 2, 1.0, seed=2, dtype=torch.complex128).requires_grad_()
    values = A.values.detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda v, b: A.with_values(v) @ b, (values, B))


def test_gradients_reach_a_dense_matrix_through_the_constructor():
    dense = random_dense(4, 5).requires_grad_()
    (ts.from_dense(dense) @ torch.ones(5, dtype=torch.float64)).sum().backward()
    assert torch.equal(dense.grad, (dense.detach() != 0).double())


@pytest.mark.parametrize("name", FORMATS)
def test_batches_on_one_pattern(name):
    A = in_format(random_dense(6, 5), name)
    many = A._with_data(torch.stack([A._data, 2 * A._data, -A._data]))
    dense = torch.stack([A.to_dense(), 2 * A.to_dense(), -A.to_dense()])
    assert many.batch_shape == (3,)
    assert torch.equal(many.to_dense(), dense)
    B = random_dense(5, 2, 1.0, seed=3)
    torch.testing.assert_close(many @ B, dense @ B)
    each = torch.stack([B, B + 1, B - 1])
    torch.testing.assert_close(many @ each, dense @ each)
    torch.testing.assert_close(A @ each, A.to_dense() @ each)
    torch.testing.assert_close(many.to_csr().T.to_dense(), dense.mT)


# -- SciPy and torch -------------------------------------------------------------------------------


@each_case("name", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@each_case("array", [True, False])
@each_case("dtype", [np.float32, np.float64, np.complex128])
def test_scipy_comes_in_as_it_is(name, array, dtype):
    dense = random_dense(6, 8).numpy().astype(dtype)
    made = getattr(sp, f"{name}_{'array' if array else 'matrix'}")(dense)
    found = ts.from_scipy(made)
    assert found.values.numpy().dtype == dtype
    assert np.array_equal(found.to_dense().numpy(), dense)
    assert ts.from_scipy(made, dtype=torch.complex64).dtype is torch.complex64


def test_scipy_csr_shares_memory_both_ways():
    made = sp.csr_array(random_dense(5, 5).numpy())
    found = ts.from_scipy(made)
    assert found.values.data_ptr() == made.data.ctypes.data
    assert found.col_indices.data_ptr() == made.indices.ctypes.data
    assert found.col_indices.dtype is torch.int32
    again = found.to_scipy()
    assert again.data.ctypes.data == made.data.ctypes.data


@each_case("name", ["csr", "csc", "bsr", "coo"])
@each_case("method", ["sort_indices", "sum_duplicates"])
def test_what_scipy_does_in_place_leaves_the_matrix_as_it_was(name, method):
    # Columns out of order, and one twice.
    indices, pointers = torch.tensor([3, 0, 1, 1, 2]), torch.tensor([0, 2, 2, 4, 5])
    values = torch.arange(1.0, 6.0)
    if name == "bsr":
        A = ts.BSRMatrix(values.reshape(5, 1, 1), indices, pointers, (4, 4), 1)
    elif name == "coo":
        A = ts.COOMatrix(values, torch.tensor([3, 0, 1, 1, 2]), indices, (4, 4))
    else:
        kind = {"csr": ts.CSRMatrix, "csc": ts.CSCMatrix}[name]
        A = kind(values, indices, pointers, (4, 4))
    x = torch.tensor([1.0, 10.0, 100.0, 1000.0])
    dense, want = A.to_dense(), A @ x
    theirs = A.to_scipy()
    if hasattr(theirs, method):
        getattr(theirs, method)()
    assert np.array_equal(theirs.toarray(), dense.numpy())
    assert torch.equal(A.to_dense(), dense)
    assert torch.equal(A @ x, want)
    assert torch.equal(A.T @ x, dense.T @ x)


@pytest.mark.parametrize("name", FORMATS)
def test_to_scipy_is_the_matrix(name):
    for shape in ((8, 4), (7, 5)):
        dense = random_dense(*shape)
        assert np.array_equal(in_format(dense, name).to_scipy().toarray(), dense.numpy())


@pytest.mark.parametrize("name", FORMATS)
def test_torch_sparse_there_and_back(name):
    for shape in ((8, 4), (7, 5)):
        dense = random_dense(*shape)
        made = in_format(dense, name)
        tensor = made.to_torch_sparse()
        assert torch.equal(tensor.to_dense(), dense)
        back = ts.from_torch_sparse(tensor)
        assert torch.equal(back.to_dense(), dense)
        if name in ("csr", "csc"):
            assert back.format == name
            assert back.values.data_ptr() == made.values.data_ptr()


def test_a_tensor_that_is_not_coalesced_comes_in_coalesced_with_gradients():
    values = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    places = torch.tensor([[1, 0, 1], [0, 1, 0]])
    found = ts.from_torch_sparse(torch.sparse_coo_tensor(places, values, (2, 2)))
    assert found.format == "coo"
    assert found.to_dense().tolist() == [[0, 2], [5, 0]]
    found.to_dense()[1, 0].backward()
    assert values.grad.tolist() == [1, 0, 1]


# -- what was wrong elsewhere ----------------------------------------------------------------------


def test_block_density_counts_blocks_that_reach_over_the_edge():
    full = ts.BSRMatrix.from_dense(torch.ones(20, 14), block_size=8)
    assert (full.n_blocks, full.grid, full.density) == (6, (3, 2), 1.0)
    assert ts.BSRMatrix.from_dense(torch.ones(3, 3)).density == 1.0
    assert ts.BSRMatrix.from_dense(torch.zeros(3, 3)).density == 0.0
    assert repr(full) == "BSRMatrix(shape=(20, 14), block_size=8, n_blocks=6, block_density=1.0000)"


def test_a_large_matrix_becomes_blocks_without_a_dense_one():
    n = 1_000_000
    places = torch.arange(0, n, 50_000)
    values = torch.ones(places.numel(), requires_grad=True)
    coo = ts.COOMatrix(values, places, places, (n, n))
    assert coo.to_bsr(16).n_blocks == places.numel()
    assert coo.detach().to_bsr(16).n_blocks == places.numel()


def test_thresholds():
    dense = torch.tensor([[1.0, 1e-12], [1e-15, 2.0]])
    assert ts.from_dense(dense, threshold=1e-10).nnz == 2
    bsr = ts.BSRMatrix.from_dense(torch.block_diag(dense, 1e-12 * dense), 2, threshold=1e-10)
    assert bsr.n_blocks == 1
    csr = ts.from_dense(torch.block_diag(dense, 1e-12 * dense))
    assert ts.BSRMatrix.from_csr(csr, 2, threshold=1e-10).n_blocks == 1
    for call in (ts.from_dense, ts.BSRMatrix.from_dense):
        with pytest.raises(ValueError, match="threshold must be at least 0"):
            call(dense, threshold=-1.0)


def test_repr_and_aliases():
    A = ts.eye_sparse(10)
    assert repr(A) == "CSRMatrix(shape=(10, 10), nnz=10, density=0.1000)"
    assert A.data is A.values
    assert A.indices is A.col_indices
    assert A.indptr is A.row_ptrs
    assert torch.equal(A.nnz_per_row(), torch.ones(10, dtype=torch.int64))
    assert A.to(torch.float64).dtype is torch.float64
    assert A.to(torch.float32) is A
    assert A.cpu() is A


@pytest.mark.parametrize("name", FORMATS)
def test_copies_and_pickles_after_use(name):
    dense = random_dense(6, 5)
    A = in_format(dense, name)
    x = torch.ones(5, dtype=torch.float64)
    A @ x
    A.T @ torch.ones(6, dtype=torch.float64)
    for again in (copy.deepcopy(A), pickle.loads(pickle.dumps(A))):
        assert type(again) is type(A)
        assert torch.equal(again @ x, A @ x)
        assert again._data.data_ptr() != A._data.data_ptr()
    with torch.no_grad():
        copy.copy(A)._data.zero_()
    assert not A.to_dense().any()


@each_case("name", ["csc", "coo", "bsr"])
@each_case("index", [torch.int32, torch.int64])
@each_case("recorded", [False, True])
def test_conversions_sum_or_keep_duplicates_and_index_dtypes(name, index, recorded):
    indices, pointers = torch.tensor([2, 0, 2, 1, 1]).to(index), torch.tensor([0, 3, 5]).to(index)
    values = torch.tensor([1.0, 2.0, 4.0, 0.0, 16.0])
    if name == "csc":
        A = ts.CSCMatrix(values, indices, pointers, (3, 2))
        want = [[2.0, 0.0], [0.0, 16.0], [5.0, 0.0]]
    elif name == "coo":
        A = ts.COOMatrix(values, torch.tensor([0, 0, 0, 1, 1]).to(index), indices, (2, 3))
        want = [[2.0, 0.0, 5.0], [0.0, 16.0, 0.0]]
    else:  # the last blocks extend past the edge
        blocks = values[:, None, None] * torch.tensor([[1.0, 0.0], [2.0, 3.0]])
        A = ts.BSRMatrix(blocks, indices, pointers, (3, 5), 2)
        want = [[2.0, 0, 0, 0, 5], [4.0, 6, 0, 0, 10], [0.0, 0, 16, 0, 0]]
    A = A.requires_grad_(recorded)
    want = torch.tensor(want)
    for made in (A, A.to_coo(), A.to_csr(), A.to_csc()):
        assert torch.equal(made.to_dense().detach(), want)
        assert made.requires_grad == recorded
    assert A.to_coo().row_indices.dtype is A.to_csr().row_ptrs.dtype is index
    assert A.to_coo().row_indices.diff().ge(0).all()
    if name != "bsr":
        assert A.to_coo().nnz == 5  # duplicates and zeros are kept
    else:
        assert A.to_csr().values.ne(0).all()
