"""Cached constant tables that kernels need with every launch.

A table depends only on a key, such as the length of a transform. It is computed on the host and
cached for each device and dtype it is used with. A default device, fake tensors, inference mode and
derivatives are switched off while a table is computed, so that it is valid for every later call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from trnsci.core.interop import without_modes

K = TypeVar("K", bound=Hashable)


class Constants(Generic[K]):
    """An LRU cache of tables by key, device and dtype.

    Args:
        make: Function of a key that returns arrays.
        most_bytes: Limit on the total size of the tables; the newest one is never dropped.
    """

    def __init__(
        self, make: Callable[[K], Sequence[np.ndarray]], most_bytes: int = 256 << 20
    ) -> None:
        self._make = make
        self._most_bytes = most_bytes
        self._tables: OrderedDict[Any, tuple[Tensor, ...]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __call__(
        self, key: K, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, ...]:
        """Return the tables of a key; callers must not write to them."""
        place = key, torch.device(device), dtype
        with self._lock:
            if place in self._tables:
                self._tables.move_to_end(place)
                return self._tables[place]
        made = self._made(*place)
        with self._lock:
            if place not in self._tables:
                self._tables[place] = made
                self._bytes += _size(made)
            while self._bytes > self._most_bytes and len(self._tables) > 1:
                self._bytes -= _size(self._tables.popitem(last=False)[1])
            return self._tables.get(place, made)

    def clear(self) -> None:
        """Drop all tables."""
        with self._lock:
            self._tables.clear()
            self._bytes = 0

    def _made(self, key: K, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, ...]:
        with without_modes(), torch.inference_mode(False), torch.no_grad():
            return tuple(
                torch.tensor(array, device="cpu").to(device=device, dtype=dtype)
                for array in self._make(key)
            )


def _size(tensors: tuple[Tensor, ...]) -> int:
    return sum(tensor.nbytes for tensor in tensors)
