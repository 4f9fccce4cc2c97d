"""Names of dtypes, which is how plans, tilings and kernels speak of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["dtype_name"]


def dtype_name(dtype: torch.dtype | str) -> str:
    """Return ``"float32"`` for ``torch.float32``, and a name as it is."""
    return str(dtype).removeprefix("torch.")
