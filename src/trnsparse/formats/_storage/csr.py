"""CSR storage: compressed rows, the format of products and the base of conversions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from trnsci.core.errors import DTypeError, OperandError, ShapeError
from trnsci.core.numbers.conversions import dtype_name
from trnsparse._paths.rows import run_spmm, spmm_like
from trnsparse._patterns.conversions import compressed, merged, transposed
from trnsparse._patterns.dense import nonzero_entries
from trnsparse._patterns.index import counted
from trnsparse._patterns.layouts import as_torch_csr, parts_for_scipy
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.algebra import added
from trnsparse._products.row_products import RowMatrix
from trnsparse._products.sparse_products import sparse_product
from trnsparse._products.tiles import LIMIT, ProductPlan, plan_product
from trnsparse.formats._storage.base import StoredMatrix, check_same_shape
from trnsparse.formats._storage.checks import (
    check_compressed,
    check_indices,
    check_values,
    shape_of,
)


@dataclass(eq=False, repr=False)
class CSRStorage(StoredMatrix):
    """Entries by rows: values, column indices and row pointers."""

    values: Tensor
    col_indices: Tensor
    row_ptrs: Tensor
    shape: tuple[int, int]
    validate: InitVar[bool] = True
    _pattern_cache: Pattern | None = field(default=None, init=False)
    _product_cache: RowMatrix | None = field(default=None, init=False)

    def __post_init__(self, validate: bool) -> None:
        if not validate:
            return
        owner = "CSRMatrix"
        self.shape = shape_of(owner, self.shape)
        check_values(owner, "values", self.values, 1)
        check_indices(owner, self.values, 1, row_ptrs=self.row_ptrs, col_indices=self.col_indices)
        check_compressed(
            owner,
            ("row_ptrs", "col_indices"),
            self.row_ptrs,
            self.col_indices,
            self.shape,
            self.values.shape[-1],
        )

    @classmethod
    def _of(cls, values: Tensor, pattern: Pattern) -> Self:
        pointers, indices = pattern.exposed
        made = cls(values, indices, pointers, pattern.shape, validate=False)
        made._pattern_cache = pattern
        return made

    @classmethod
    def from_dense(cls, dense: Tensor, threshold: float = 0.0) -> Self:
        """Return the entries of a dense matrix with a magnitude above ``threshold``."""
        return cls._of(*nonzero_entries("from_dense", dense, threshold))

    # -- provided by each format -------------------------------------------------------------------

    @property
    def pattern(self) -> Pattern:
        """Positions of the entries; shared with matrices derived from this one."""
        given = self.row_ptrs, self.col_indices, self.shape
        cached = self._pattern_cache
        if cached is None or cached.snapshot is None or not cached.snapshot.holds(*given):
            cached = self._pattern_cache = Pattern.of(*given)
        return cached

    @property
    def _data(self) -> Tensor:
        return self.values

    def _with_data(self, data: Tensor) -> Self:
        return self._of(data, self.pattern)

    def with_values(self, values: Tensor) -> Self:
        """Return the matrix of this pattern with other values, (..., nnz)."""
        if values.shape[-1:] != (self.nnz,):
            raise ShapeError(
                f"with_values: values must end in {self.nnz} entries, got {tuple(values.shape)}"
            )
        return self._with_data(values)

    def _moved(self, device: torch.device) -> Self:
        pattern = self.pattern
        indices = pattern.indices.to(device), pattern.pointers.to(device)
        return type(self)(self.values.to(device), *indices, self.shape, validate=False)

    def _by_rows(self) -> tuple[Tensor, Pattern]:
        return self.values, self.pattern

    @property
    def nnz(self) -> int:
        """Number of stored entries, explicit zeros included."""
        return self.col_indices.shape[0]

    @property
    def data(self) -> Tensor:
        """SciPy's name for ``values``."""
        return self.values

    @property
    def indices(self) -> Tensor:
        """SciPy's name for ``col_indices``."""
        return self.col_indices

    @property
    def indptr(self) -> Tensor:
        """SciPy's name for ``row_ptrs``."""
        return self.row_ptrs

    # -- formats -----------------------------------------------------------------------------------

    def sum_duplicates(self) -> Self:
        """Return the matrix with sorted columns and duplicates summed; itself if canonical.

        In a graph of torch.compile, whose shapes do not depend on indices, the number of entries
        does not change: the first entry of a place has the sum, duplicates are explicit zeros.
        """
        values, pattern = merged(self.values, self.pattern)
        return self if pattern is self.pattern else self._of(values, pattern)

    def transpose(self) -> Self:
        """Return the transpose in CSR format, columns in order."""
        return self._of(*transposed(self.values, self.pattern))

    def to_scipy(self) -> Any:
        """Return SciPy's ``csr_array``; not for a batch.

        Its data share memory with the values if the columns of each row are in order and without
        duplicates; its indices are copies.
        """
        from scipy.sparse import csr_array

        _single("to_scipy", self)
        if self.dtype in (torch.bfloat16, torch.float16):
            raise DTypeError(f"to_scipy: SciPy has no sparse {self.dtype}; convert it first")
        return csr_array(parts_for_scipy(self.values, self.pattern), shape=self.shape)

    def to_torch_sparse(self) -> Tensor:
        """Return torch's CSR tensor, on the same memory."""
        _single("to_torch_sparse", self)
        return as_torch_csr(self.values, self.pattern, narrow=False)

    # -- algebra -----------------------------------------------------------------------------------

    def _product(self, b: Tensor) -> Tensor:
        return run_spmm(self._matrix, b)

    def _products_like(self, b: Tensor) -> Callable[[Tensor], Tensor]:
        return spmm_like(self._matrix, b)

    @property
    def _matrix(self) -> RowMatrix:
        held = RowMatrix.reused(self._product_cache, self.values, self.pattern)
        self._product_cache = held
        return held

    def product_plan(self, columns: int, generation: str | None = None) -> ProductPlan:
        """Return the predicted times of the kernels of a product with a dense matrix.

        Args:
            columns: Columns of the dense matrix.
            generation: As in ``trnfft.plan``.
        """
        matrix = self._matrix
        held = matrix.tiles.holds(matrix.values)
        return plan_product(self.pattern, columns, dtype_name(self.dtype), generation, held)

    def hold_tiles(self) -> Self:
        """Build the dense tiles for products on kernels now, not at the second product.

        Tiles take 128 x 128 elements for each block with an entry. In a product with them, a NaN or
        an infinity of the dense operand reaches all rows of the blocks that it multiplies.

        Raises:
            ShapeError: The matrix is a batch, or its tiles would take more than 256 MiB.
        """
        _single("hold_tiles", self)
        plan = self.product_plan(1)
        if plan.tiles_bytes > LIMIT:
            raise ShapeError(
                f"hold_tiles: tiles take {plan.tiles_bytes:,} bytes, accepted: up to {LIMIT:,}"
            )
        self._matrix.tiles.hold(self.values, self.pattern)
        return self

    def nnz_per_row(self) -> Tensor:
        """Return the number of stored entries of each row, int64 (m,)."""
        return counted(self.pattern.pointers).to(torch.int64)

    def added(self, other: Self, alpha: Any = 1.0, beta: Any = 1.0) -> Self:
        """Return ``alpha * self + beta * other`` on the union of both patterns."""
        check_same_shape("add", self, other)
        values, pattern = added(
            self.values * alpha, self.pattern, other.values * beta, other.pattern
        )
        return self._of(values, pattern)

    def spgemm(self, other: Self) -> Self:
        """Return the sparse product of two sparse matrices; zero sums may be omitted."""
        if self.shape[1] != other.shape[0]:
            raise OperandError(
                f"spgemm: the inner dimensions must agree, got {self.shape} and {other.shape}"
            )
        if self.dtype is not other.dtype:
            raise DTypeError(
                f"spgemm: both matrices must have one dtype, got {self.dtype} and {other.dtype}"
            )
        return self._of(*sparse_product(self._matrix, other._matrix))

    def eliminate_zeros(self) -> Self:
        """Return the matrix without explicit zeros."""
        _single("eliminate_zeros", self)
        nonzero = self.values.detach().ne(0).nonzero().squeeze(-1)
        rows = self.pattern.row_indices[nonzero]
        parts = (self.values[nonzero], rows, self.pattern.indices[nonzero])
        return self._of(*compressed(*parts, self.shape))


def _single(function: str, matrix: CSRStorage) -> None:
    if matrix.batch_shape:
        raise ShapeError(
            f"{function}: takes one matrix, not a batch {matrix.batch_shape} on one pattern"
        )
