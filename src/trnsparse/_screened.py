"""The product with the elements of a dense matrix whose bound is above a cutoff."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["screened_product"]


def screened_product(
    a: Tensor, row_bounds: Tensor, col_bounds: Tensor, b: Tensor, cutoff: float
) -> Tensor:
    """Return ``(a where row_bounds[i] * col_bounds[j] > cutoff, else 0) @ b``.

    Rows without such an element are zero, and columns without one are not read: with bounds sorted
    into few large ones, as integrals have them, the product shrinks to the part that matters.
    """
    kept = torch.outer(row_bounds, col_bounds) > cutoff
    # A multiplication by the mask would make NaN of an infinite element that is screened out.
    return a.masked_fill(~kept, 0.0) @ b
