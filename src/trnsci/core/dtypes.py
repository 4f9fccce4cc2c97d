"""Names of dtypes, as plans, tilings and kernels use them, and real parts of complex dtypes."""

from __future__ import annotations

import torch

__all__ = ["dtype_name", "real_dtype"]

_REAL = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


def dtype_name(dtype: torch.dtype | str) -> str:
    """Return ``"float32"`` for ``torch.float32``; a name is returned unchanged."""
    return str(dtype).removeprefix("torch.")


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of the real part of a complex dtype; a real dtype is returned unchanged.

    Equal to ``dtype.to_real()``, which torch.compile cannot trace.
    """
    return _REAL.get(dtype, dtype)
