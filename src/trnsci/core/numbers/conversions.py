"""Conversions: tensors and NumPy arrays, dtypes and their names, complex dtypes and real ones.

Arrays share the memory of tensors where possible. NumPy has no bfloat16; such arrays have the dtype
of ml_dtypes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def array_of(tensor: torch.Tensor) -> Any:
    """Return a CPU tensor as an array on the same memory.

    A lazy conjugation or negation is resolved into new memory.
    """
    try:
        return tensor.numpy()
    except (RuntimeError, TypeError):
        # The tensor requires a gradient while gradients are recorded, is lazily conjugated or
        # negated, or has a dtype that NumPy does not have.
        plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype is torch.bfloat16:
        import ml_dtypes  # imported only for bfloat16

        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return plain.numpy()


def read_only_array_of(tensor: torch.Tensor) -> np.ndarray:
    """Return the elements of any tensor as a dense, read-only array."""
    array: np.ndarray = array_of(tensor.detach().cpu().contiguous())
    # The array may share the caller's memory, which a kernel that writes to its argument must not
    # change.
    array.flags.writeable = False
    return array


def tensor_of(array: Any) -> torch.Tensor:
    """Return an array as a dense tensor, on the same memory if the array is writeable."""
    array = np.ascontiguousarray(array)
    if not array.flags.writeable:  # a kernel that returns its argument unchanged
        array = array.copy()
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


_REAL = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}
_COMPLEX = {real: kind for kind, real in _REAL.items()} | {torch.bfloat16: torch.complex64}


def dtype_name(dtype: torch.dtype | str) -> str:
    """Return ``"float32"`` for ``torch.float32``; a name is returned unchanged."""
    return str(dtype).removeprefix("torch.")


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of the real part of a complex dtype; a real dtype is returned unchanged.

    Equal to ``dtype.to_real()``, which torch.compile cannot trace.
    """
    return _REAL.get(dtype, dtype)


def complex_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the complex dtype with parts of a real dtype; a complex dtype is returned unchanged.

    Equal to ``dtype.to_complex()``, which torch.compile cannot trace.
    """
    return _COMPLEX.get(dtype, dtype)


def widest(x: torch.Tensor) -> torch.Tensor:
    """Return numbers in float64, complex ones in complex128."""
    return x.to(torch.complex128 if x.is_complex() else torch.float64)
