"""Substitution with a triangle of a sparse matrix.

torch solves on a GPU and, with MKL, on a CPU. Without MKL SuperLU solves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.core.numbers.conversions import array_of
from trnsparse._patterns.layouts import as_torch_csr, has_mkl
from trnsparse._patterns.pattern import Pattern


class Triangle:
    """A triangle of a matrix without duplicates, on any device, prepared for substitution.

    Args:
        values: Entries of the matrix; those of the other triangle are not read.
        pattern: Their positions.
        lower: Whether it is the lower triangle.
        unit: Whether the diagonal is assumed to be ones, and not read.
    """

    def __init__(self, values: Tensor, pattern: Pattern, lower: bool, unit: bool) -> None:
        values = values.detach().resolve_conj()
        if unit:  # stored diagonal entries may be zero
            values = values.masked_fill(pattern.row_indices == pattern.indices, 1.0)
        self.values, self.pattern = values, pattern
        self.lower, self.unit = lower, unit
        self._factors: Any = None
        self._without: Tensor | None = None

    def apply(self, b: Tensor, adjoint: bool) -> Tensor:
        """Return the solution for a vector or a matrix, outside of autograd's graph."""
        if not b.numel():
            return b.clone()
        right = b.detach().resolve_conj().contiguous()
        if has_mkl() or not b.is_cpu:
            return self._by_torch(right, adjoint)
        return self._by_superlu(right, adjoint)

    def _by_torch(self, right: Tensor, adjoint: bool) -> Tensor:
        values = self.values.conj().resolve_conj() if adjoint else self.values
        solve: Any = torch.triangular_solve
        found: Tensor = solve(
            right if right.ndim == 2 else right.unsqueeze(-1),
            as_torch_csr(values, self.pattern),
            upper=not self.lower,
            transpose=adjoint,
            unitriangular=self.unit,
        ).solution
        return found.reshape(right.shape)

    def _by_superlu(self, right: Tensor, adjoint: bool) -> Tensor:
        if self._factors is None:
            self._factor()
        if self._without is not None:
            right = right.index_fill(0, self._without, torch.nan)
        trans = "H" if self.lower != adjoint else "N"
        return torch.from_numpy(self._factors.solve(right.numpy(), trans=trans))

    def _factor(self) -> None:
        """Factor the upper triangle, or the adjoint of the lower one.

        In natural order with diagonal pivots the factors are the identity and the triangle, without
        rounding.
        """
        from scipy.sparse import csc_array, eye_array, triu
        from scipy.sparse.linalg import splu

        pattern, values = self.pattern, self.values
        if self.lower:  # the rows are the columns of the adjoint
            by_columns, values = pattern, values.conj().resolve_conj()
        else:
            by_columns, order = pattern.transposed
            values = values[order]
        parts = (array_of(t) for t in (values, by_columns.indices, by_columns.pointers))
        upper = csc_array(tuple(parts), shape=pattern.shape)
        if self.unit:
            ones = eye_array(pattern.rows, dtype=upper.dtype, format="csc")
            upper = triu(upper, 1, format="csc") + ones
        elif bool((by_columns.indices > by_columns.row_indices).any()):
            upper = triu(upper, format="csc")
        if not self.unit and np.isnan(found := upper.diagonal()).any():
            # SuperLU treats NaN as singular: NaN is put into the right-hand side instead.
            self._without = torch.from_numpy(np.isnan(found).nonzero()[0])
            upper = upper.copy()  # it shared the memory of the values
            upper.setdiag(np.where(np.isnan(found), 1, found))
        self._factors = splu(
            upper,
            permc_spec="NATURAL",
            diag_pivot_thresh=0.0,
            relax=1,
            panel_size=1,
            options={"Equil": False},
        )
