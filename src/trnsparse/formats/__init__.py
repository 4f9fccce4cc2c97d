"""Sparse matrices in the formats CSR, CSC, COO, BSR and ELL, and their constructors."""

from __future__ import annotations

from trnsparse.formats._constructors import eye_sparse, from_dense, from_scipy, from_torch_sparse
from trnsparse.formats.matrices import (
    BSRMatrix,
    COOMatrix,
    CSCMatrix,
    CSRMatrix,
    ELLMatrix,
    SparseMatrix,
)

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
