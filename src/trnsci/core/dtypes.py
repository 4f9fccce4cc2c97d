"""Names of dtypes, which is how plans, tilings and kernels speak of them."""

from __future__ import annotations

import torch

__all__ = ["dtype_name", "real_dtype"]

_REAL = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


def dtype_name(dtype: torch.dtype | str) -> str:
    """Return ``"float32"`` for ``torch.float32``, and a name as it is."""
    return str(dtype).removeprefix("torch.")


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of the parts of a complex one, and a real one as it is.

    ``dtype.to_real()`` says the same, which torch.compile cannot follow.
    """
    return _REAL.get(dtype, dtype)
