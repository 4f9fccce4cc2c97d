"""Memory that is used again.

Tiles come and go by the thousand, in few sizes. Memory that the system hands out anew has to be
cleared by it and lies in no cache; what a dead tile of the same size left has neither fault. So
bytes are taken from here, and given back by the last who held them, if no view of them is alive.
"""

from __future__ import annotations

from sys import getrefcount

import numpy as np

__all__ = ["Buffer", "give_back", "take"]

# Small arrays are quick to make, and large ones not worth keeping.
_LEAST, _MOST = 1 << 14, 1 << 22
_KEPT_BYTES = 1 << 25


class _Pool:
    """Dead memory, by its size."""

    def __init__(self) -> None:
        self.free: dict[int, list[np.ndarray]] = {}
        self.nbytes = 0


_pool = _Pool()


def take(nbytes: int) -> np.ndarray:
    """Return an array of bytes that nobody else holds; what is in it is anything."""
    dead = _pool.free.get(nbytes)
    if dead:
        try:
            found = dead.pop()
        except IndexError:  # another thread was faster
            return np.empty(nbytes, np.uint8)
        _pool.nbytes -= nbytes
        return found
    return np.empty(nbytes, np.uint8)


class Buffer:
    """Bytes that are given back when the buffer dies.

    Attributes:
        data: The bytes, flat.
    """

    __slots__ = ("data",)

    def __init__(self, data: np.ndarray) -> None:
        self.data = data

    def __del__(self) -> None:
        give_back(self)


def give_back(holder: Buffer) -> None:
    """Keep the ``data`` of a dying holder for the next who needs that size.

    Only memory that the array owns, and that nothing but the holder refers to: a view counts.
    """
    if _LEAST <= holder.data.nbytes <= _MOST and _references(holder) <= _ALONE:
        data = holder.data
        if data.base is None and _pool.nbytes + data.nbytes <= _KEPT_BYTES:
            _pool.nbytes += data.nbytes
            _pool.free.setdefault(data.nbytes, []).append(data)


def _references(holder: Buffer) -> int:
    return getrefcount(holder.data)


# What an array counts that only its holder has: how many references a call adds is Python's affair.
_ALONE = 0
_ALONE = _references(Buffer(np.empty(1, np.uint8)))
