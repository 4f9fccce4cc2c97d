"""Memory of the process that is used again for tiles.

Tiles come and go by the thousand, in few sizes. Memory that the system hands out anew has to be
cleared by it and lies in no cache; what a dead tile of the same size left has neither fault. So
bytes are taken from here, and given back by the last who held them, if no view of them is alive.

Tiles begin with a cache line, for most vector loads and stores of a tile that does not would touch
two lines.
"""

from __future__ import annotations

from functools import lru_cache
from sys import getrefcount
from typing import Any

import numpy as np

__all__ = [
    "LEAST",
    "LEAST_LENT",
    "Buffer",
    "Bytes",
    "give_back",
    "is_kept",
    "placeholder",
    "take",
]

# Small arrays are quick to make, and large ones not worth keeping.
LEAST, _MOST = 1 << 14, 1 << 22
LEAST_LENT = 1 << 16
"""Bytes from which on it is worth while to put a copy off."""

_KEPT_BYTES = 1 << 25

_LINE = 64
_SLACK = _LINE - 1
"""Bytes that a larger array has beyond those in use, so that these can begin with a line."""


class _Pool:
    """Dead memory, by its size."""

    def __init__(self) -> None:
        self.free: dict[int, list[np.ndarray]] = {}
        self.nbytes = 0


_pool = _Pool()


def take(nbytes: int) -> np.ndarray:
    """Return an array of bytes that nobody else holds; what is in it is anything."""
    if nbytes < LEAST:
        return np.empty(nbytes, np.uint8)
    dead = _pool.free.get(nbytes)
    if dead:
        try:
            found = dead.pop()
        except IndexError:  # another thread was faster
            return _new(nbytes)
        _pool.nbytes -= nbytes
        return found
    return _new(nbytes)


def is_kept(nbytes: int) -> bool:
    """Tell whether memory of a size is used again."""
    return LEAST <= nbytes <= _MOST


@lru_cache(maxsize=256)
def placeholder(nbytes: int) -> np.ndarray:
    """Return an array of bytes that stands for memory which nobody will look at."""
    return np.empty(nbytes, np.uint8)


def _new(nbytes: int) -> np.ndarray:
    room = np.empty(nbytes + _SLACK, np.uint8)
    skipped = -room.ctypes.data % _LINE
    return room[skipped : skipped + nbytes]


class Bytes:
    """Memory that can be another's for as long as it is only read.

    Attributes:
        data: The bytes, flat.
        room: Where they belong while ``data`` are another's, else None.
    """

    __slots__ = ("data", "room")

    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        self.room: np.ndarray | None = None

    def borrow(self, data: np.ndarray) -> None:
        """Have the bytes of an array that nobody writes to, until something is written here."""
        self.room, self.data = self.data, data

    def own(self) -> None:
        """Copy borrowed bytes, for they are about to be written."""
        if self.room is not None:
            self.room[...] = self.data
            self.data, self.room = self.room, None


class Buffer(Bytes):
    """Bytes that are given back when the buffer dies."""

    __slots__ = ()

    def __del__(self) -> None:
        give_back(self)


def give_back(holder: Bytes) -> None:
    """Keep the memory of a dying holder for the next who needs that size.

    Only memory that was taken here, and that nothing but the holder refers to: a view counts.
    """
    if holder.room is not None:
        holder.data, holder.room = holder.room, None
    if is_kept(holder.data.nbytes) and _references(holder) == _ALONE:
        data = holder.data
        taken_here = data.base is not None and data.base.nbytes - data.nbytes == _SLACK
        if taken_here and _pool.nbytes + data.nbytes <= _KEPT_BYTES:
            _pool.nbytes += data.nbytes
            _pool.free.setdefault(data.nbytes, []).append(data)


def _references(holder: Any) -> tuple[int, int]:
    # Views of views refer to the array that owns the memory.
    return getrefcount(holder.data), getrefcount(holder.data.base)


# What arrays count that only their holder has: how many references a call adds is Python's affair.
_ALONE = (0, 0)
_ALONE = _references(Buffer(_new(1)))
