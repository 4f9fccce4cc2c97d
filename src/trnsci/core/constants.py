"""Tables that kernels need with every launch, made once and kept where they are used.

A table depends on a key alone: the length of a transform, a window. It is made on the host, brought
to the device of its first use in a dtype, and stays there. What is in force while a table is made
does not reach it: a default device, fake tensors, inference mode and derivatives are all set aside,
so that a table first needed by such a call is a table for all others.
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

__all__ = ["Constants"]

K = TypeVar("K", bound=Hashable)


class Constants(Generic[K]):
    """Tables by key, device and dtype, of which the ones not used for longest are dropped.

    Args:
        make: Function of a key that returns arrays.
        most_bytes: How much memory the tables may take together; the newest one always stays.
    """

    def __init__(
        self, make: Callable[[K], Sequence[np.ndarray]], most_bytes: int = 256 << 20
    ) -> None:
        self._make = make
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Any, tuple[Tensor, ...]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __call__(
        self, key: K, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, ...]:
        """Return the tables of a key; nobody may write to them."""
        place = key, torch.device(device), dtype
        with self._lock:
            if place in self._kept:
                self._kept.move_to_end(place)
                return self._kept[place]
        made = self._made(*place)
        with self._lock:
            if place not in self._kept:
                self._kept[place] = made
                self._bytes += _size(made)
            while self._bytes > self._most_bytes and len(self._kept) > 1:
                self._bytes -= _size(self._kept.popitem(last=False)[1])
            return self._kept.get(place, made)

    def clear(self) -> None:
        """Forget all tables."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def _made(self, key: K, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, ...]:
        with without_modes(), torch.inference_mode(False), torch.no_grad():
            return tuple(
                torch.tensor(array, device="cpu").to(device=device, dtype=dtype)
                for array in self._make(key)
            )


def _size(tensors: tuple[Tensor, ...]) -> int:
    return sum(tensor.nbytes for tensor in tensors)
