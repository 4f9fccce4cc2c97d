"""Sparse matrices: by rows, by columns, as coordinates, in blocks and in even rows."""

from __future__ import annotations

from trnsparse.formats._base import SparseMatrix
from trnsparse.formats._constructors import eye_sparse, from_dense, from_scipy, from_torch_sparse
from trnsparse.formats.bsr import BSRMatrix
from trnsparse.formats.coo import COOMatrix
from trnsparse.formats.csc import CSCMatrix
from trnsparse.formats.csr import CSRMatrix
from trnsparse.formats.ell import ELLMatrix

__all__ = [
    "BSRMatrix",
    "COOMatrix",
    "CSCMatrix",
    "CSRMatrix",
    "ELLMatrix",
    "SparseMatrix",
    "eye_sparse",
    "from_dense",
    "from_scipy",
    "from_torch_sparse",
]
