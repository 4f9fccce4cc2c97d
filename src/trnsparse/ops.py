"""Products and algebra under one name."""

from __future__ import annotations

from trnsparse.algebra import (
    multiply,
    nnz_per_row,
    power,
    sparse_add,
    sparse_scale,
    sparse_transpose,
    spgemm,
    transpose,
)
from trnsparse.products import bsr_spmm, sddmm, spmm, spmv, spmv_symmetric

__all__ = [
    "bsr_spmm",
    "multiply",
    "nnz_per_row",
    "power",
    "sddmm",
    "sparse_add",
    "sparse_scale",
    "sparse_transpose",
    "spgemm",
    "spmm",
    "spmv",
    "spmv_symmetric",
    "transpose",
]
