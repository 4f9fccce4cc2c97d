"""Random sparse matrices, as dense arrays and in every format."""

import numpy as np
import torch
from hypothesis import strategies as st

import trnsparse as ts

FORMATS = ("csr", "csc", "coo", "bsr", "ell")
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64)


def random_dense(rows, columns, density=0.3, seed=0, dtype=torch.float64):
    """A matrix of which about ``density`` is nonzero, with empty and full rows by chance."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.5, 2.0, (rows, columns)) * rng.choice([-1, 1], (rows, columns))
    dense = torch.from_numpy(values * (rng.random((rows, columns)) < density))
    if dtype.is_complex:
        dense = dense * (1 + 0.5j)
    return dense.to(dtype)


def spd_dense(n, seed=0, dtype=torch.float64):
    """A sparse symmetric matrix whose diagonal outweighs the rest of each row."""
    half = random_dense(n, n, 3 / n, seed)
    both = half + half.T
    return (both + torch.diag(both.abs().sum(1) + 1)).to(dtype)


def in_format(dense, name, **options):
    if name == "bsr":
        options.setdefault("block_size", 4)
    return ts.from_dense(dense).asformat(name, **options)


def laplacian_1d(n, dtype=torch.float64):
    """The matrix of second differences, with eigenvalues 2 - 2 cos(k pi / (n + 1))."""
    dense = 2 * torch.eye(n, dtype=dtype)
    dense -= torch.diag(torch.ones(n - 1, dtype=dtype), 1)
    dense -= torch.diag(torch.ones(n - 1, dtype=dtype), -1)
    return dense


@st.composite
def dense_matrices(draw, max_size=9):
    """Dense matrices of small integers: empty ones, empty rows, one dense row, 1 x n, n x 1."""
    rows, columns = draw(st.integers(0, max_size)), draw(st.integers(0, max_size))
    kind = draw(st.sampled_from(["scattered", "empty", "dense row", "diagonal"]))
    dense = np.zeros((rows, columns))
    if rows and columns:
        if kind == "scattered":
            cells = st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1))
            for row, column in draw(st.lists(cells, max_size=rows * columns)):
                dense[row, column] = draw(st.integers(-4, 4))
        elif kind == "dense row":
            dense[draw(st.integers(0, rows - 1))] = np.arange(1, columns + 1)
        elif kind == "diagonal":
            np.fill_diagonal(dense, 3)
    return torch.from_numpy(dense)
