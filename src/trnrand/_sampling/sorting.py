"""Argsort of random keys: by buckets in a compiled loop, or by a sort of keys and indices."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from trnrand._stream import numba_loops


def sorting_order(keys: Tensor) -> Tensor:
    """Return the stable ascending order of a tensor of random int64, as indices."""
    if keys.is_cpu and keys.numel() > 1:
        if numba_loops.compiled_wanted(keys.numel()):
            return _bucket_order(keys)
        order = _packed_order(keys)
        if order is not None:
            return order
    return torch.argsort(keys, stable=True)


def _bucket_order(keys: Tensor) -> Tensor:
    from trnrand._sampling import compiled_integers

    count = keys.numel()
    bits = max(1, count.bit_length() - 4)  # about a dozen keys in each bucket
    # Flipping the sign bit makes the unsigned order equal to the signed one.
    numbers = keys.numpy().view(np.uint64) ^ np.uint64(1 << 63)
    starts = np.zeros((1 << bits) + 1, np.int64)
    order = torch.empty(count, dtype=torch.int64)
    shift = np.uint64(64 - bits)
    compiled_integers.order(numbers, shift, starts, np.empty_like(numbers), order.numpy())
    return order


def _packed_order(keys: Tensor) -> Tensor | None:
    """Return the order, or None if two keys differ at most in the low bits that indices replace.

    Indices are packed into the low bits: NumPy sorts values ten times as fast as torch argsorts.
    """
    count = keys.numel()
    bits = np.uint64((count - 1).bit_length())
    low = (np.uint64(1) << bits) - np.uint64(1)
    # Flipping the sign bit makes the unsigned order equal to the signed one.
    numbers = keys.numpy().view(np.uint64) ^ np.uint64(1 << 63)
    numbers &= ~low
    numbers |= np.arange(count, dtype=np.uint64)
    numbers.sort()
    upper = numbers >> bits
    if (upper[1:] == upper[:-1]).any():
        return None
    numbers &= low
    return torch.from_numpy(numbers.view(np.int64))
