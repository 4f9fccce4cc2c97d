"""Sums, extremes and sums with dense tensors: what is not stored counts as zero."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import trnsparse as ts
from drawn import examples
from each_case import each_case
from pairwise import pairwise

from .cases import DTYPES, FORMATS, dense_matrices, in_format, random_dense

few = examples(25)
DIMS = (None, 0, 1)
REAL = [dtype for dtype in DTYPES if not dtype.is_complex]


def reduced(dense, name, dim):
    """The reduction of a dense matrix by torch."""
    function = {"max": torch.amax, "min": torch.amin, "sum": torch.sum}[name]
    return function(dense, dim=(-2, -1) if dim is None else dim - 2)


@few
@given(dense=dense_matrices(), name=st.sampled_from(FORMATS), dim=st.sampled_from((*DIMS, -1, -2)))
def test_reductions_are_those_of_the_dense_matrix(dense, name, dim):
    A = in_format(dense, name)
    place = dim if dim is None else dim % 2
    assert torch.equal(A.sum(dim), reduced(dense, "sum", place))
    if 0 in (dense.shape if dim is None else [dense.shape[dim]]):
        for call in (A.max, A.min, A.argmax):
            with pytest.raises(IndexError, match="no element to choose from"):
                call(dim)
        return
    for which in ("max", "min"):
        assert torch.equal(getattr(A, which)(dim), reduced(dense, which, place))
    # NumPy returns the first of equal elements.
    found, want = A.argmax(dim), np.argmax(dense.numpy(), axis=dim)
    assert found.dtype is torch.int64
    assert np.array_equal(found.numpy(), want)
    assert torch.equal(A.max(axis=dim), A.max(dim))


@few
@given(dense=dense_matrices(), dim=st.sampled_from(DIMS))
def test_reductions_are_those_of_scipy(dense, dim):
    S = ts.from_dense(dense).to_scipy()
    A = ts.from_scipy(S)
    if 0 in dense.shape:
        return

    def whole(found):
        return found if dim is None else np.asarray(found.toarray()).reshape(-1)

    assert np.array_equal(A.max(dim).numpy(), whole(S.max(axis=dim)))
    assert np.array_equal(A.min(dim).numpy(), whole(S.min(axis=dim)))
    want = np.asarray(S.argmax(axis=dim)).reshape(-1)
    assert np.array_equal(A.argmax(dim).numpy().reshape(-1), want)


@few
@given(
    places=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=9),
    values=st.lists(st.integers(-2, 2), min_size=9, max_size=9),
    name=st.sampled_from(FORMATS),
    dim=st.sampled_from(DIMS),
)
def test_duplicates_and_explicit_zeros_count_as_the_element_that_they_make(
    places, values, name, dim
):
    rows, columns = torch.tensor(places, dtype=torch.int64).reshape(-1, 2).T
    entries = torch.tensor(values[: len(places)], dtype=torch.float64)
    dense = torch.zeros(3, 4, dtype=torch.float64)
    dense.index_put_((rows, columns), entries, accumulate=True)
    A = ts.COOMatrix(entries, rows, columns, (3, 4))
    A = A.asformat(name, **({"block_size": 2} if name == "bsr" else {}))
    for which in ("max", "min", "sum"):
        assert torch.equal(getattr(A, which)(dim), reduced(dense, which, dim))
    assert np.array_equal(A.argmax(dim).numpy(), np.argmax(dense.numpy(), axis=dim))


@each_case("name, dtype, index", pairwise(FORMATS, REAL, [torch.int32, torch.int64]), ids=str)
def test_batches_dtypes_and_indices(name, dtype, index):
    csr = ts.from_dense(random_dense(6, 7, dtype=dtype))
    csr = ts.CSRMatrix(csr.values, csr.col_indices.to(index), csr.row_ptrs.to(index), csr.shape)
    one = csr.asformat(name)
    A = one._with_data(torch.stack([one.entries, -one.entries, 0 * one.entries]))
    dense = A.to_dense()
    for dim in DIMS:
        for which in ("max", "min"):
            found = getattr(A, which)(dim)
            assert found.dtype is dtype
            assert torch.equal(found, reduced(dense, which, dim))
        want = dense.flatten(1).argmax(-1) if dim is None else dense.argmax(dim - 2)
        assert torch.equal(A.argmax(dim), want)
        # At most seven terms, summed in float32 and rounded once.
        exact = reduced(dense.double(), "sum", dim)
        scale = reduced(dense.double().abs(), "sum", dim)
        bound = 42 * torch.finfo(torch.float32).eps * scale + torch.finfo(dtype).eps * exact.abs()
        assert ((A.sum(dim).double() - exact).abs() <= bound).all()


def test_sums_of_bfloat16_by_axis_are_rounded_once():
    A = ts.from_dense(torch.ones(300, 2, dtype=torch.bfloat16))
    assert A.sum(0).tolist() == [300, 300]


@each_case("name", FORMATS)
@each_case("dim", DIMS)
@each_case("which", ["max", "min", "sum"])
def test_gradients_are_those_of_the_dense_matrix(name, dim, which):
    # Ties of stored elements, of stored and missing zeros, and lines without missing ones.
    dense = torch.tensor([[0.0, 2, 2, 0], [-1, -1, -3, -1], [0, 0, 0, 0], [1, 0, -1, 1]]).double()
    A = in_format(dense, name, **({"block_size": 2} if name == "bsr" else {}))
    explicit = A.entries.clone()
    explicit.reshape(-1)[0] = 0  # a stored zero
    entries = explicit.requires_grad_()

    def ours(x):
        return getattr(A._with_data(x), which)(dim)

    def theirs(x):
        return reduced(A._with_data(x).to_dense(), which, dim)

    weights = torch.tensor([1.0, 2, 4, 8]).double() if dim is not None else torch.tensor(1.0)
    gradients = [
        torch.autograd.grad((f(entries) * weights).sum(), entries)[0] for f in (ours, theirs)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-15, atol=0)


@each_case("name", FORMATS)
@each_case("dim", DIMS)
def test_finite_differences(name, dim):
    # Without ties and zeros, where the functions are smooth.
    A = in_format(random_dense(5, 4, 0.6), name)
    for which in ("max", "min", "sum"):
        entries = random_dense(1, A.entries.numel(), 1.0, seed=4).reshape(A.entries.shape)
        entries.requires_grad_()
        function = lambda x, w=which: getattr(A._with_data(x), w)(dim)  # noqa: E731
        assert torch.autograd.gradcheck(function, entries, check_forward_ad=which == "sum")


def test_nan_and_infinities():
    inf, nan = torch.inf, torch.nan
    A = ts.from_dense(torch.tensor([[nan, 1, inf], [-inf, 0, 0], [inf, inf, -inf], [0, 5, nan]]))
    torch.testing.assert_close(A.max(1), torch.tensor([nan, 0, inf, nan]), equal_nan=True)
    torch.testing.assert_close(A.min(1), torch.tensor([nan, -inf, -inf, nan]), equal_nan=True)
    assert A.argmax(1).tolist() == [0, 1, 0, 2]
    assert A.max().isnan()
    assert A.argmax() == 0


@each_case("which", ["max", "min", "argmax"])
def test_reductions_that_have_no_meaning(which):
    with pytest.raises(TypeError, match=f"{which}: the entries must be real, got torch.complex64"):
        getattr(ts.eye_sparse(2, dtype=torch.complex64), which)()
    for dim in (2, -3, "rows", True):
        with pytest.raises(ValueError, match=f"{which}: dim must be None, 0 or 1, got"):
            getattr(ts.eye_sparse(2), which)(dim)
    with pytest.raises(ValueError, match="axis is another spelling of dim"):
        getattr(ts.eye_sparse(2), which)(0, axis=0)


@few
@given(
    a=dense_matrices(),
    name=st.sampled_from(FORMATS),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 99),
)
def test_sums_with_dense_tensors_are_dense(a, name, dtype, seed):
    d = random_dense(*a.shape, 0.8, seed=seed).round().to(dtype)
    a = a.to(dtype)
    A = in_format(a, name)
    assert torch.equal(A + d, a + d)
    assert torch.equal(d + A, d + a)
    assert torch.equal(A - d, a - d)
    assert torch.equal(d - A, d - a)
    row, column = d.sum(0), d.sum(1, keepdim=True)
    assert torch.equal(A + row, a + row)
    assert torch.equal(column - A, column - a)
    many = torch.stack([d, -d])
    assert torch.equal(A + many, a + many)
    batch = A._with_data(torch.stack([A.entries, 2 * A.entries]))
    assert torch.equal(batch - d, torch.stack([a, 2 * a]) - d)


@pytest.mark.parametrize("name", FORMATS)
def test_sums_with_dense_tensors_have_gradients(name):
    A = in_format(random_dense(5, 4), name)
    d = random_dense(5, 4, 1.0, seed=3).requires_grad_()
    entries = A.entries.clone().requires_grad_()

    def both(x, dense):
        B = A._with_data(x)
        return (B + dense) * (dense - B)

    assert torch.autograd.gradcheck(both, (entries, d), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(both, (entries, d), fast_mode=True)


def test_dense_operands_are_unchanged_and_duplicates_are_rounded_with_them_once():
    dense = torch.ones(1, 2, dtype=torch.bfloat16)
    values = torch.full((300,), 1.0, dtype=torch.bfloat16)
    places = torch.zeros(300, dtype=torch.int64)
    A = ts.COOMatrix(values, places, places, (1, 2))
    assert (A + dense).tolist() == [[300.0, 1.0]]  # 301 is between 300 and 302: to even
    assert dense.tolist() == [[1.0, 1.0]]


def test_sums_that_are_refused():
    A = ts.eye_sparse(3)
    for other in (1.0, torch.tensor(1.0), "a", None):
        with pytest.raises(TypeError, match="unsupported operand"):
            A + other
        with pytest.raises(TypeError, match="unsupported operand"):
            A - other
    with pytest.raises(ValueError, match=r"must broadcast to \(3, 3\), got \(2,\)"):
        A + torch.ones(2)
    with pytest.raises(ValueError, match=r"must broadcast to \(3, 3\), got \(4, 3\)"):
        torch.ones(4, 3) - A
    with pytest.raises(TypeError, match="one dtype"):
        A + torch.ones(3, 3, dtype=torch.float64)
    batch = A.with_values(torch.ones(2, 3))
    with pytest.raises(ValueError, match="the batches must broadcast"):
        batch + torch.ones(3, 3, 3)
