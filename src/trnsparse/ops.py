"""Products, algebra and attention in one module."""

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
from trnsparse.attention import block_sparse_attention_tiled
from trnsparse.products import bsr_spmm, sddmm, spmm, spmv, spmv_symmetric
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
