"""Constructors: from dense, SciPy and torch matrices, and the identity."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.core.arguments import floating, whole
from trnsci.core.errors import DTypeError, ShapeError
from trnsci.core.numbers.conversions import tensor_of
from trnsparse._patterns.pattern import Pattern
from trnsparse.formats.matrices import BSRMatrix, COOMatrix, CSCMatrix, CSRMatrix, SparseMatrix

_WIDEST = {"f": 8, "c": 16}
"""Item size in bytes of torch's widest floating-point and complex dtypes."""


def from_dense(A: Tensor, threshold: float = 0.0) -> CSRMatrix:
    """Return the CSR matrix of the entries of a dense matrix with magnitude above ``threshold``.

    Gradients by the values reach the dense matrix.

    Raises:
        ShapeError: ``A`` is not a matrix.
        FlagError: ``threshold`` is negative.

    Example:
        >>> from_dense(torch.eye(3)).nnz
        3
    """
    return CSRMatrix.from_dense(A, threshold)


def from_scipy(sp_matrix: Any, dtype: torch.dtype | None = None) -> CSRMatrix:
    """Return a SciPy sparse matrix or array of any format in CSR format.

    Args:
        sp_matrix: The SciPy matrix. Duplicates are summed, as in SciPy. A ``csr_array`` with
            columns in order shares its memory, and keeps its index dtype.
        dtype: Dtype of the values; None keeps SciPy's, but converts integers to float64.

    Raises:
        DTypeError: ``sp_matrix`` is not a SciPy matrix.
        ShapeError: It does not have two dimensions.
    """
    from scipy.sparse import issparse

    if not issparse(sp_matrix):
        raise DTypeError(f"from_scipy: takes a SciPy matrix, got {type(sp_matrix).__name__}")
    if len(sp_matrix.shape) != 2:
        raise ShapeError(f"from_scipy: takes two dimensions, got shape {sp_matrix.shape}")
    if sp_matrix.dtype.kind in "fc" and sp_matrix.dtype.itemsize > _WIDEST[sp_matrix.dtype.kind]:
        raise DTypeError(
            f"from_scipy: torch has no {sp_matrix.dtype}; convert it with astype first"
        )
    if sp_matrix.format == "coo":  # our conversion is faster than SciPy's
        made = _coo(sp_matrix).to_csr()
        return made if dtype is None else made.to(dtype)
    csr = sp_matrix.tocsr()
    shape = (int(csr.shape[0]), int(csr.shape[1]))
    values, indices, pointers = (tensor_of(a) for a in (csr.data, csr.indices, csr.indptr))
    if not (values.is_floating_point() or values.is_complex()):
        values = values.to(torch.float64)
    made = CSRMatrix(values, indices, pointers, shape, validate=False).sum_duplicates()
    return made if dtype is None else made.to(dtype)


def _coo(matrix: Any) -> COOMatrix:
    values, rows, columns = (tensor_of(a) for a in (matrix.data, *matrix.coords))
    if not (values.is_floating_point() or values.is_complex()):
        values = values.to(torch.float64)
    shape = (int(matrix.shape[0]), int(matrix.shape[1]))
    return COOMatrix(values, rows, columns, shape, validate=False)


def from_torch_sparse(tensor: Tensor) -> SparseMatrix:
    """Return torch's sparse tensor in the same format, on the same memory.

    A COO tensor that is not coalesced is coalesced first, and gradients of its values reach it.
    BSR tensors must have square blocks.

    Raises:
        DTypeError: ``tensor`` is dense, or has integer values.
        ShapeError: It does not have two dimensions, or its blocks are not square.
    """
    if not isinstance(tensor, Tensor) or tensor.layout is torch.strided:
        kind = "a dense tensor" if isinstance(tensor, Tensor) else type(tensor).__name__
        raise DTypeError(f"from_torch_sparse: takes a sparse tensor, got {kind}")
    if tensor.ndim != 2:
        raise ShapeError(f"from_torch_sparse: takes 2-D tensors, got shape {tuple(tensor.shape)}")
    shape = (tensor.shape[0], tensor.shape[1])
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce()
        places = tensor.indices()
        return COOMatrix(tensor.values(), places[0], places[1], shape)
    values = tensor.values()
    if tensor.layout is torch.sparse_csr:
        return CSRMatrix(values, tensor.col_indices(), tensor.crow_indices(), shape)
    if tensor.layout is torch.sparse_csc:
        return CSCMatrix(values, tensor.row_indices(), tensor.ccol_indices(), shape)
    if tensor.layout is torch.sparse_bsc or values.shape[-1] != values.shape[-2]:
        raise ShapeError(
            "from_torch_sparse: takes square blocks by rows; convert with to_sparse_csr() first"
        )
    indices = tensor.col_indices(), tensor.crow_indices()
    return BSRMatrix(values, *indices, shape, block_size=values.shape[-1])


def eye_sparse(
    n: int, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
) -> CSRMatrix:
    """Return the identity matrix of order ``n``."""
    n = whole("eye_sparse", "n", n, least=0, error=ShapeError)
    ones = torch.ones(n, dtype=dtype, device=device)
    floating("eye_sparse", "the dtype", ones)
    places = torch.arange(n + 1, device=device)
    pattern = Pattern(places, places[:-1].clone(), (n, n))
    return CSRMatrix._of(ones, pattern)
