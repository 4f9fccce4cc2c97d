"""The product with the elements of a dense matrix whose bound is above a cutoff."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.numbers.values import concrete

# Below this share of rows and columns, copying the needed part is faster.
_WORTH_A_COPY = 0.5


def screened_product(
    a: Tensor, row_bounds: Tensor, col_bounds: Tensor, b: Tensor, cutoff: float
) -> Tensor:
    """Return ``(a where row_bounds[i] * col_bounds[j] > cutoff, else 0) @ b``.

    Rows and columns without such elements are skipped if there are many.
    """
    if concrete(row_bounds, col_bounds) and row_bounds.is_cpu and a.numel():
        rows = (row_bounds * col_bounds.max() > cutoff).nonzero().squeeze(-1)
        columns = (col_bounds * row_bounds.max() > cutoff).nonzero().squeeze(-1)
        if rows.numel() * columns.numel() < _WORTH_A_COPY * a.numel():
            part = a.index_select(0, rows).index_select(1, columns)
            right = b.index_select(0, columns)
            product = _masked(part, row_bounds[rows], col_bounds[columns], right, cutoff)
            return product.new_zeros(a.shape[0], b.shape[1]).index_copy(0, rows, product)
    return _masked(a, row_bounds, col_bounds, b, cutoff)


def _masked(a: Tensor, rows: Tensor, columns: Tensor, b: Tensor, cutoff: float) -> Tensor:
    kept = torch.outer(rows, columns) > cutoff
    # Multiplication by the mask would give NaN for an infinite element that is screened out.
    return a.masked_fill(~kept, 0.0) @ b
