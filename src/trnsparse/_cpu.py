"""Which library's kernel computes on a CPU, of those that torch and SciPy have.

torch's kernels for sparse matrices on a CPU are MKL's. On processors that MKL does not run on torch
has some of its own, slower ones for products by rows, and none for blocks and triangles; SciPy's
loops and SuperLU compute there. What is asked here has nobody who watches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.core.arrays import array_of, tensor_of
from trnsparse._index import loops
from trnsparse._layouts import as_torch_csr
from trnsparse._patterns import Pattern

__all__ = ["HAS_MKL", "NATIVE", "Triangle", "blocks_by_mkl", "blocks_by_scipy", "product_by_rule"]

HAS_MKL: bool = torch._C.has_mkl
"""Whether torch computes by MKL."""

NATIVE = (torch.float32, torch.float64, torch.complex64, torch.complex128)
"""The dtypes that all of these kernels have."""

# Measured on one core of an x86-64 with AVX-512. MKL, behind torch, is the faster one, but for few
# multiplications, where the way to it is the longer one, and where most rows are empty.
_FEW_ENTRIES = 2_048
_FEW_PRODUCTS = 16_384
_MOSTLY_EMPTY = 4

# Below this block size a batched product is all overhead, and MKL's own loop over blocks is faster.
_SMALL_BLOCK = 16

# Measured on one core of an Arm Neoverse N1, without MKL. torch's own product with a vector is as
# fast as SciPy's and nearer; that with a matrix, on one thread always, takes up to eight times as
# long. SciPy's product of a block takes the columns one by one, that of a row all together, and
# torch calls for each block of a batch on its own.
_FEW_COLUMNS = 8
_FEW_BLOCK_PRODUCTS = 4_096
_MEDIUM_BLOCK = 16


# -- by rows ---------------------------------------------------------------------------------------


def product_by_rule(values: Tensor, pattern: Pattern, b: Tensor) -> Tensor:
    """Return a product with a vector or matrix in a dtype that both libraries have."""
    if b.ndim == 1:
        return torch.mv(pattern.as_torch(values), b)
    width = b.shape[1]
    if _scipy_is_faster(pattern.rows, pattern.entries, width) and loops() is not None:
        return _by_scipy(values, pattern, b, width)
    if width and HAS_MKL:
        # MKL writes its result; torch.mm clears it before, which takes as long as a product with
        # short rows. What torch has in MKL's place adds to it.
        return b.new_empty(pattern.rows, width).addmm_(pattern.as_torch(values), b, beta=0)
    return torch.mm(pattern.as_torch(values), b) if width else b.new_zeros(pattern.rows, 0)


def _scipy_is_faster(rows: int, entries: int, width: int) -> bool:
    if not HAS_MKL or (entries <= _FEW_ENTRIES and entries * width <= _FEW_PRODUCTS):
        return True
    return _MOSTLY_EMPTY * entries <= rows and torch.get_num_threads() == 1


def _by_scipy(values: Tensor, pattern: Pattern, b: Tensor, width: int) -> Tensor:
    data, right = pattern.as_array(values), array_of(b.contiguous())
    result = np.zeros((pattern.rows, width), data.dtype)
    loops().csr_matvecs(
        *pattern.shape, width, *pattern.arrays, data, right.reshape(-1), result.reshape(-1)
    )
    return torch.from_numpy(result)


# -- in blocks -------------------------------------------------------------------------------------


def blocks_by_mkl(blocks: Tensor, b: Tensor) -> bool:
    """Return whether a product of blocks and a matrix on a CPU is best computed by MKL."""
    size = blocks.shape[-1]
    return HAS_MKL and size < _SMALL_BLOCK and not b.shape[0] % size and b.is_floating_point()


def blocks_by_scipy(blocks: Tensor, pattern: Pattern, right: Tensor) -> Tensor | None:
    """Return a product of blocks as rows, or None where torch's batched product is faster.

    Args:
        blocks: The stored blocks, (nb, s, s).
        pattern: Where they are, in blocks.
        right: The dense operand in blocks of rows, (n, s, N).
    """
    if HAS_MKL or blocks.dtype not in NATIVE or (native := loops()) is None:
        return None
    size, width = blocks.shape[-1], right.shape[-1]
    by_blocks = width < _FEW_COLUMNS
    if size * size * width > _FEW_BLOCK_PRODUCTS if by_blocks else size > _MEDIUM_BLOCK:
        return None
    begin, columns = array_of(pattern.pointers), array_of(pattern.indices)
    data = array_of(blocks.contiguous()).reshape(-1)
    flat = array_of(right.contiguous()).reshape(-1)
    result = np.zeros((pattern.rows * size, width), data.dtype)
    shape = pattern.rows * size, pattern.columns * size
    if by_blocks:
        parts = (size, size, begin, columns, data, flat, result.reshape(-1))
        if width == 1:
            native.bsr_matvec(*pattern.shape, *parts)
        else:
            native.bsr_matvecs(*pattern.shape, width, *parts)
        return torch.from_numpy(result)
    # Elements are counted in the dtype of these.
    dtype = np.int64 if data.size > np.iinfo(begin.dtype).max else begin.dtype
    begin, columns = begin.astype(dtype, copy=False), columns.astype(dtype, copy=False)
    by_rows = np.empty(shape[0] + 1, dtype), np.empty(data.size, dtype), np.empty_like(data)
    native.bsr_tocsr(*pattern.shape, size, size, begin, columns, data, *by_rows)
    native.csr_matvecs(*shape, width, *by_rows, flat, result.reshape(-1))
    return torch.from_numpy(result)


# -- triangles -------------------------------------------------------------------------------------


class Triangle:
    """A triangle of a matrix without duplicates, on any device, to substitute with.

    Args:
        values: Its entries; those of the other triangle are not read.
        pattern: Where they are.
        lower: Whether it is the lower triangle.
        unit: Whether the diagonal is taken for ones, and not read.
    """

    def __init__(self, values: Tensor, pattern: Pattern, lower: bool, unit: bool) -> None:
        values = values.detach().resolve_conj()
        if unit:  # what is stored there may be zero
            values = values.masked_fill(pattern.row_indices == pattern.indices, 1.0)
        self.values, self.pattern = values, pattern
        self.lower, self.unit = lower, unit
        self._factors: Any = None
        self._without: Tensor | None = None

    def apply(self, b: Tensor, adjoint: bool) -> Tensor:
        """Return the solution for a matrix of right-hand sides, outside of autograd's graph."""
        if not b.numel():
            return b.clone()
        right = b.detach().resolve_conj().contiguous()
        if HAS_MKL or not b.is_cpu:
            return self._by_torch(right, adjoint)
        return self._by_superlu(right, adjoint)

    def _by_torch(self, right: Tensor, adjoint: bool) -> Tensor:
        values = self.values.conj().resolve_conj() if adjoint else self.values
        solve: Any = torch.triangular_solve
        found: Tensor = solve(
            right,
            as_torch_csr(values, self.pattern),
            upper=not self.lower,
            transpose=adjoint,
            unitriangular=self.unit,
        ).solution
        return found

    def _by_superlu(self, right: Tensor, adjoint: bool) -> Tensor:
        if self._factors is None:
            self._factor()
        if self._without is not None:
            right = right.index_fill(0, self._without, torch.nan)
        trans = "H" if self.lower != adjoint else "N"
        return tensor_of(self._factors.solve(array_of(right), trans=trans))

    def _factor(self) -> None:
        """Keep the factors of the upper triangle, or of the adjoint of the lower one.

        With its own order and the pivots on the diagonal these are the identity and the triangle:
        nothing is rounded.
        """
        from scipy.sparse import csc_array, eye_array, triu
        from scipy.sparse.linalg import splu

        pattern, values = self.pattern, self.values
        if self.lower:  # its rows are the columns of the adjoint
            by_columns, values = pattern, values.conj().resolve_conj()
        else:
            by_columns, order = pattern.transposed
            values = values[order]
        upper = csc_array((array_of(values), *by_columns.arrays[::-1]), shape=pattern.shape)
        if self.unit:
            ones = eye_array(pattern.rows, dtype=upper.dtype, format="csc")
            upper = triu(upper, 1, format="csc") + ones
        elif bool((by_columns.indices > by_columns.row_indices).any()):
            upper = triu(upper, format="csc")
        if not self.unit and np.isnan(found := upper.diagonal()).any():
            # SuperLU takes them for singular: they come in by the right-hand side.
            self._without = torch.from_numpy(np.isnan(found).nonzero()[0])
            upper = upper.copy()  # until here it is the memory of the values
            upper.setdiag(np.where(np.isnan(found), 1, found))
        self._factors = splu(
            upper,
            permc_spec="NATURAL",
            diag_pivot_thresh=0.0,
            relax=1,
            panel_size=1,
            options={"Equil": False},
        )
