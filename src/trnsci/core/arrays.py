"""Between torch's tensors and NumPy's arrays, on one memory where that is possible.

NumPy has no bfloat16 of its own; arrays of it have the dtype of ml_dtypes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

__all__ = ["array_of", "read_only_array_of", "tensor_of"]


def array_of(tensor: torch.Tensor) -> Any:
    """Return a CPU tensor as an array on the same memory.

    A conjugation or negation that is still to be done is done, into new memory.
    """
    try:
        return tensor.numpy()
    except (RuntimeError, TypeError):
        # It has a gradient that is off at the moment, or something is still to be done.
        plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype is torch.bfloat16:
        import ml_dtypes  # which callers without bfloat16 need not wait for

        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return plain.numpy()


def read_only_array_of(tensor: torch.Tensor) -> np.ndarray:
    """Return the elements of any tensor as a dense array that nobody can write to."""
    array: np.ndarray = array_of(tensor.detach().cpu().contiguous())
    # The array may share the caller's memory, which a kernel that writes to its argument would
    # otherwise change.
    array.flags.writeable = False
    return array


def tensor_of(array: Any) -> torch.Tensor:
    """Return an array as a dense tensor, on the same memory if it may be written to."""
    array = np.ascontiguousarray(array)
    if not array.flags.writeable:  # an argument handed back as it came
        array = array.copy()
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
