"""Products, algebra and attention in one module, as in published releases."""

from __future__ import annotations

from trnsparse.products import sddmm, spgemm, spmm, spmv, spmv_symmetric
from trnsparse.published import (
    block_sparse_attention_tiled,
    bsr_spmm,
    multiply,
    nnz_per_row,
    power,
    sparse_add,
    sparse_scale,
    sparse_transpose,
    transpose,
)
from trnsparse.screening import screened_spmm

__all__ = [
    "block_sparse_attention_tiled",
    "bsr_spmm",
    "multiply",
    "nnz_per_row",
    "power",
    "screened_spmm",
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
