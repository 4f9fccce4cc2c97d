"""The state of a generator: nine 64-bit numbers in the memory of one int64 tensor.

It determines all further draws. In compiled graphs a draw is therefore an operator that reads and
writes this tensor, and a saved state is a copy of it.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnrand.errors import ParameterError
from trnsci.core.interop import without_modes, without_transforms

ENGINE, SEED, SEED_NEGATIVE, OFFSET, OFFSET_HIGH, CHILDREN, FORKS, RANK, SIZE = range(9)
"""Indices of the numbers; unsigned 64-bit numbers are stored as their bit patterns."""

_SLOTS = 9
_MAGIC, _FORMAT = b"trnr", 2
_HEADER = struct.Struct("<4sI")
_NUMBERS = struct.Struct(f"<{_SLOTS}Q")
_LENGTH = _HEADER.size + _NUMBERS.size


def new_state() -> Tensor:
    """Return a tensor of zeros with memory, independent of active torch modes."""
    with without_modes(), without_transforms():
        return torch.from_numpy(np.zeros(_SLOTS, np.int64))


def slots_of(state: Tensor) -> memoryview:
    """Return a view of the numbers of a state, unsigned, that shares its memory."""
    with without_modes(), without_transforms():
        numbers: Any = state.numpy().view(np.uint64)
    return memoryview(numbers)


def packed(slots: memoryview) -> Tensor:
    """Return the numbers as portable bytes, one-dimensional uint8."""
    saved = _HEADER.pack(_MAGIC, _FORMAT) + _NUMBERS.pack(*slots)
    return torch.frombuffer(bytearray(saved), dtype=torch.uint8)


def unpacked(state: Tensor) -> tuple[list[int], Tensor]:
    """Return the numbers that ``packed`` saved, and the bytes that follow them.

    Raises:
        ParameterError: ``state`` is not a saved state.
    """
    if not isinstance(state, Tensor) or state.dtype is not torch.uint8 or state.ndim != 1:
        raise ParameterError("set_state: state must be what get_state returned")
    saved = bytes(state[:_LENGTH].tolist())
    if len(saved) < _LENGTH or saved[:4] != _MAGIC:
        raise ParameterError(f"set_state: state is not of a trnrand Generator: {saved[:4]!r}")
    form = _HEADER.unpack_from(saved)[1]
    if form != _FORMAT:
        raise ParameterError(f"set_state: state has unknown format {form}")
    return list(_NUMBERS.unpack_from(saved, _HEADER.size)), state[_LENGTH:].cpu()
