"""Matrices from diagonals, from other matrices and at random, against SciPy and the definition."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

import trnrand
import trnsparse as ts
from drawn import examples
from each_case import each_case

from .cases import DTYPES, FORMATS, dense_matrices, in_format, random_dense

few = examples(25)


def is_canonical(A):
    """Whether the columns of each row increase, and the matrix passes its own checks."""
    ts.CSRMatrix(A.values, A.col_indices, A.row_ptrs, A.shape)
    keys = A.pattern.keys
    return A.pattern.canonical and bool((keys[1:] > keys[:-1]).all())


@few
@given(
    offsets=st.lists(st.integers(-4, 6), min_size=1, unique=True),
    shape=st.tuples(st.integers(1, 6), st.integers(1, 7)),
    seed=st.integers(0, 99),
)
def test_diags_is_that_of_scipy(offsets, shape, seed):
    offsets = [k for k in offsets if -shape[0] < k < shape[1]] or [0]
    lengths = [min(shape[0] + min(k, 0), shape[1] - max(k, 0)) for k in offsets]
    parts = [np.random.default_rng(seed).integers(1, 9, n).astype(float) for n in lengths]
    want = sp.diags_array(parts, offsets=offsets, shape=shape).toarray()
    found = ts.diags([torch.from_numpy(p) for p in parts], offsets, shape)
    assert np.array_equal(found.to_dense().numpy(), want)
    assert is_canonical(found)


@each_case("dtype", DTYPES, ids=str)
def test_diags_of_numbers_lists_and_tensors(dtype):
    want = sp.diags_array([-1.0, [1.0, 2, 3], 5], offsets=[-1, 0, 1], shape=(3, 3)).toarray()
    found = ts.diags([-1.0, torch.tensor([1, 2, 3], dtype=dtype), 5], [-1, 0, 1], (3, 3))
    assert found.dtype is dtype
    assert np.array_equal(found.to_dense().to(torch.complex128).numpy(), want)
    assert torch.equal(
        ts.diags([-1.0, [1, 2, 3], 5], [-1, 0, 1], dtype=dtype).to_dense(), found.to_dense()
    )
    one = torch.tensor([1, 2], dtype=dtype)
    assert torch.equal(ts.diags(one, -2).to_dense(), torch.diag(one, -2))
    assert torch.equal(ts.diags(one).to_dense(), torch.diag(one))
    assert ts.diags([], 0).shape == (0, 0)


def test_diags_infer_dtype_and_shape():
    assert ts.diags([1, 2, 3]).dtype is torch.float32
    assert ts.diags([1j, 2, 3]).dtype is torch.complex64
    assert ts.diags([[1.0, 2, 3], [4.0]], [0, -2]).shape == (3, 3)
    assert ts.diags([[1.0, 2], [3.0, 4.0]], [0, 1], (2, 4)).shape == (2, 4)


def test_diags_of_batches_have_gradients():
    main = random_dense(2, 4, 1.0).requires_grad_()
    upper = random_dense(1, 3, 1.0, seed=1)[0].requires_grad_()

    def made(x, y):
        return ts.diags([y, x], [1, 0]).to_dense()

    assert torch.equal(made(main, upper), torch.diag_embed(main) + torch.diag_embed(upper, 1))
    assert torch.autograd.gradcheck(made, (main, upper), check_forward_ad=True)


@few
@given(
    a=dense_matrices(4),
    b=dense_matrices(4),
    first=st.sampled_from(FORMATS),
    second=st.sampled_from(FORMATS),
)
def test_kron_is_that_of_dense_matrices(a, b, first, second):
    found = ts.kron(in_format(a, first), in_format(b, second))
    assert np.array_equal(found.to_dense().numpy(), np.kron(a.numpy(), b.numpy()))
    assert found.nnz == int(a.count_nonzero() * b.count_nonzero())
    assert is_canonical(found)


@few
@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    common=st.integers(0, 5),
    names=st.lists(st.sampled_from(FORMATS), min_size=4, max_size=4),
    vertical=st.booleans(),
)
def test_stacks_are_those_of_dense_matrices(sizes, common, names, vertical):
    shapes = [(n, common) if vertical else (common, n) for n in sizes]
    dense = [random_dense(*shape, 0.5, seed=n) for n, shape in enumerate(shapes)]
    parts = [in_format(d, name) for d, name in zip(dense, names, strict=False)]
    found = (ts.vstack if vertical else ts.hstack)(parts)
    assert torch.equal(found.to_dense(), torch.cat(dense, 0 if vertical else 1))
    assert is_canonical(found)


@each_case("dtype", DTYPES, ids=str)
@each_case("index", [torch.int32, torch.int64], ids=str)
def test_assembly_keeps_dtypes(dtype, index):
    A = ts.from_dense(random_dense(4, 4, 0.5, dtype=dtype))
    A = ts.CSRMatrix(A.values, A.col_indices.to(index), A.row_ptrs.to(index), A.shape)
    for made in (ts.kron(A, A), ts.hstack([A, A]), ts.vstack([A, A])):
        assert (made.dtype, made.col_indices.dtype, made.row_ptrs.dtype) == (dtype, index, index)
    # Products are rounded once: those of SciPy in a wider dtype.
    wide = torch.complex128 if dtype.is_complex else torch.float64
    want = torch.kron(A.to_dense().to(wide), A.to_dense().to(wide))
    bound = 3 * torch.finfo(dtype).eps * want.abs()
    assert ((ts.kron(A, A).to_dense().to(wide) - want).abs() <= bound).all()


def test_indices_that_int32_cannot_hold_become_int64():
    n = 50_000
    one = torch.zeros(1, dtype=torch.int32)
    pointers = torch.zeros(n + 1, dtype=torch.int32)
    A = ts.CSRMatrix(torch.ones(0), one[:0], pointers, (n, n))
    B = ts.CSRMatrix(torch.ones(1), one + n - 1, torch.tensor([0, 1]).int(), (1, n))
    found = ts.kron(B, B)
    assert found.shape == (1, n * n)
    assert found.col_indices.tolist() == [n * n - 1]
    assert ts.hstack([A, A]).col_indices.dtype is torch.int32


def test_duplicates_and_explicit_zeros_stay():
    A = ts.CSRMatrix(
        torch.tensor([1.0, 2.0, 0.0]), torch.tensor([1, 1, 0]), torch.tensor([0, 2, 3]), (2, 2)
    )
    dense = A.to_dense()
    for found, want in (
        (ts.kron(A, A), torch.kron(dense, dense)),
        (ts.hstack([A, A]), torch.cat([dense, dense], 1)),
        (ts.vstack([A, A]), torch.cat([dense, dense])),
    ):
        assert torch.equal(found.to_dense(), want)
        assert found.nnz == (9 if found.shape == (4, 4) and found.nnz == 9 else 6)
        assert not found.pattern.canonical


@each_case("name", FORMATS)
def test_gradients_and_batches(name):
    A, B = (
        in_format(random_dense(3, 3, 0.6), name),
        in_format(random_dense(3, 3, 0.6, seed=2), name),
    )
    # Without zeros, which conversion of blocks to rows leaves out.
    a, b = (torch.where(M.entries == 0, 0.75, M.entries).requires_grad_() for M in (A, B))
    for make in (
        ts.kron,
        lambda *parts: ts.hstack(parts),
        lambda *parts: ts.vstack(parts),
    ):

        def product(x, y, make=make):
            return make(A._with_data(x), B._with_data(y)).to_dense()

        assert torch.autograd.gradcheck(product, (a, b), check_forward_ad=True, fast_mode=True)
        many = torch.stack([A.entries, -A.entries])
        found = product(many, B.entries)
        assert torch.equal(found, torch.stack([product(x, B.entries) for x in many]))


REFUSED = {
    "offsets twice": (
        lambda: ts.diags([1.0, 2.0], [1, 1], (3, 3)),
        r"diags: offsets must differ, got \[1, 1\]",
    ),
    "numbers of both": (
        lambda: ts.diags([1.0], [0, 1], (3, 3)),
        "diags: diagonals and offsets must be as many, at least one, got 1 and 2",
    ),
    "none": (lambda: ts.diags([], []), "at least one, got 0 and 0"),
    "one for several": (lambda: ts.diags(1.0, [0, 1]), "at least one, got 1 and 2"),
    "no shape": (lambda: ts.diags(1.0), "shape must be given where every diagonal is a number"),
    "length": (
        lambda: ts.diags(torch.ones(3), 1, (3, 3)),
        r"offset 1 must have the 2 elements of its place in shape \(3, 3\), got shape \(3,\)",
    ),
    "outside": (lambda: ts.diags(1.0, 5, (3, 3)), "offset 5 must have the 0 elements"),
    "half an offset": (lambda: ts.diags(1.0, 0.5, (3, 3)), "offsets must be an integer, got float"),
    "words": (lambda: ts.diags("ab", 0), "diagonals must be tensors, sequences of numbers or"),
    "integers": (lambda: ts.diags(torch.tensor([1, 2])), "must be floating point or complex"),
    "dtypes": (
        lambda: ts.diags([torch.ones(2), torch.ones(2).double()], [0, 1]),
        "must have one dtype",
    ),
    "batches": (
        lambda: ts.diags([torch.ones(2, 3), torch.ones(3, 2)], [0, 1]),
        "diags: the batches must broadcast",
    ),
    "kron of dense": (
        lambda: ts.kron(torch.eye(2), ts.eye_sparse(2)),
        "kron: A must be a sparse matrix, got Tensor",
    ),
    "kron of dtypes": (
        lambda: ts.kron(ts.eye_sparse(2), ts.eye_sparse(2, torch.float64)),
        "kron: A and B must have one dtype",
    ),
    "no matrices": (lambda: ts.hstack([]), "at least one matrix"),
    "one matrix": (lambda: ts.vstack(ts.eye_sparse(2)), "must be a sequence of at least one"),
    "dense ones": (lambda: ts.vstack([torch.eye(2)]), "each matrix must be a sparse matrix"),
    "rows": (
        lambda: ts.hstack([ts.eye_sparse(2), ts.eye_sparse(3)]),
        r"hstack: matrices must have equal rows, got shapes \(2, 2\) and \(3, 3\)",
    ),
    "columns": (
        lambda: ts.vstack([ts.eye_sparse(2), ts.eye_sparse(3)]),
        "vstack: matrices must have equal columns",
    ),
    "density": (lambda: ts.random_sparse((2, 2), 1.5), "density must be from 0 to 1, got 1.5"),
    "no density": (lambda: ts.random_sparse((2, 2), float("nan")), "density must be from 0 to 1"),
    "a number as shape": (lambda: ts.random_sparse(4), "shape must be two integers, got 4"),
    "rows below 0": (lambda: ts.random_sparse((-1, 2)), "shape must be an integer of at least 0"),
    "integer entries": (
        lambda: ts.random_sparse((2, 2), dtype=torch.int64),
        "dtype must be floating point or complex",
    ),
    "no dtype": (lambda: ts.random_sparse((2, 2), dtype="float"), "dtype must be a torch.dtype"),
}


@each_case("name", REFUSED)
def test_refused_with_the_reason(name):
    call, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


# -- random matrices -------------------------------------------------------------------------------


@each_case("density", [0.0, 1e-3, 0.2, 0.5, 0.77, 1.0])
@each_case("shape", [(40, 50), (1, 7), (0, 3), (3, 0)], ids=str)
def test_random_matrices_have_the_number_of_entries(density, shape):
    A = ts.random_sparse(shape, density, generator=trnrand.Generator(1))
    assert A.shape == shape
    assert A.nnz == round(density * shape[0] * shape[1])
    assert is_canonical(A)
    assert ((A.values >= 0) & (A.values < 1)).all()


@each_case("dtype", DTYPES, ids=str)
def test_random_matrices_repeat_with_the_seed(dtype):
    first, again = (
        ts.random_sparse((30, 20), 0.3, dtype=dtype, generator=trnrand.Generator(5))
        for _ in range(2)
    )
    assert first.dtype is dtype
    assert torch.equal(first.to_dense(), again.to_dense())
    generator = trnrand.Generator(5)
    ts.random_sparse((30, 20), 0.3, dtype=dtype, generator=generator)
    other = ts.random_sparse((30, 20), 0.3, dtype=dtype, generator=generator)
    assert not torch.equal(first.to_dense(), other.to_dense())
    if dtype.is_complex:
        assert (first.values.imag > 0).any()


def test_every_place_is_equally_likely():
    draws, cells = 400, 24
    generator = trnrand.Generator(3)
    for density in (0.25, 0.75):
        counts = sum(
            (ts.random_sparse((4, 6), density, generator=generator).to_dense() != 0).double()
            for _ in range(draws)
        )
        # Chi-squared of 24 counts with one sum; their variance is draws * p * (1 - p) * 24 / 23.
        spread = draws * density * (1 - density) * cells / (cells - 1)
        chi = float(((counts - draws * density) ** 2).sum() / spread)
        assert 5 < chi < 53, chi  # of 23 degrees of freedom: outside with probability 4e-4


def test_a_large_random_matrix_takes_memory_of_its_entries():
    A = ts.random_sparse((10**6, 10**6), 1e-8, generator=trnrand.Generator(0))
    assert A.nnz == 10_000
    assert is_canonical(A)
