"""CSC storage: compressed columns, the CSR form of the transpose on the same memory."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from trnsparse._paths.rows import run_column_spmv
from trnsparse._patterns.conversions import densified_columns
from trnsparse._patterns.layouts import as_torch_csc, parts_for_scipy
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.row_products import RowMatrix
from trnsparse.formats._storage.base import StoredMatrix
from trnsparse.formats._storage.checks import (
    check_compressed,
    check_indices,
    check_values,
    shape_of,
)


@dataclass(eq=False, repr=False)
class CSCStorage(StoredMatrix):
    """Entries by columns: values, row indices and column pointers."""

    values: Tensor
    row_indices: Tensor
    col_ptrs: Tensor
    shape: tuple[int, int]
    validate: InitVar[bool] = True
    _pattern_cache: Pattern | None = field(default=None, init=False)
    _product_cache: RowMatrix | None = field(default=None, init=False)

    def __post_init__(self, validate: bool) -> None:
        if not validate:
            return
        owner = "CSCMatrix"
        self.shape = shape_of(owner, self.shape)
        check_values(owner, "values", self.values, 1)
        check_indices(owner, self.values, 1, col_ptrs=self.col_ptrs, row_indices=self.row_indices)
        names, shape = ("col_ptrs", "row_indices"), (self.shape[1], self.shape[0])
        check_compressed(
            owner, names, self.col_ptrs, self.row_indices, shape, self.values.shape[-1]
        )

    @classmethod
    def _of(cls, values: Tensor, by_columns: Pattern) -> Self:
        shape = (by_columns.columns, by_columns.rows)
        pointers, indices = by_columns.exposed
        made = cls(values, indices, pointers, shape, validate=False)
        made._pattern_cache = by_columns
        return made

    @property
    def pattern(self) -> Pattern:
        """Positions of the entries, as the pattern of the transpose."""
        given = self.col_ptrs, self.row_indices, (self.shape[1], self.shape[0])
        cached = self._pattern_cache
        if cached is None or cached.snapshot is None or not cached.snapshot.holds(*given):
            cached = self._pattern_cache = Pattern.of(*given)
        return cached

    @property
    def _data(self) -> Tensor:
        return self.values

    def _with_data(self, data: Tensor) -> Self:
        return self._of(data, self.pattern)

    def _moved(self, device: torch.device) -> Self:
        pattern = self.pattern
        indices = pattern.indices.to(device), pattern.pointers.to(device)
        return type(self)(self.values.to(device), *indices, self.shape, validate=False)

    def _by_rows(self) -> tuple[Tensor, Pattern]:
        by_rows, order = self.pattern.transposed
        return self.values.index_select(-1, order), by_rows

    def to_dense(self) -> Tensor:
        """Return the dense matrix; duplicates are summed."""
        return densified_columns(self.values, self.pattern)

    def _product(self, b: Tensor) -> Tensor:
        held = RowMatrix.reused(self._product_cache, self.values, self.pattern)
        self._product_cache = held
        found = run_column_spmv(held, b)
        return super()._product(b) if found is None else found

    @property
    def nnz(self) -> int:
        """Number of stored entries, explicit zeros included."""
        return self.row_indices.shape[0]

    def to_scipy(self) -> Any:
        """Return SciPy's ``csc_array``; data are shared as in ``CSRMatrix.to_scipy``."""
        from scipy.sparse import csc_array

        return csc_array(parts_for_scipy(self.values, self.pattern), shape=self.shape)

    def to_torch_sparse(self) -> Tensor:
        """Return torch's CSC tensor, on the same memory."""
        return as_torch_csc(self.values, self.pattern)
