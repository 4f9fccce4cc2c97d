"""Storage: bytes, with a map of the written ones and the accumulation state of PSUM.

A storage is a flat array of bytes. On chip it is laid out as ``partitions`` rows of ``pitch``
bytes. A tensor that the allocator may place anywhere owns its storage, since nothing else can
overlap it; tensors with an explicit address share one storage per memory, so that overlapping
addresses overlap here too.

Fresh bytes are not filled. The map of written bytes decides what a read may see: unwritten elements
are replaced by a sentinel when they are read (NaN, or 4 for integers), so a full write has no extra
cost.

A storage owns its bytes, with one exception: the storage of an argument may use the bytes of the
caller's array. It is ``borrowed`` then, and a writer calls ``own`` first, which makes a copy. So an
argument is copied only if the kernel writes to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from nkisim.memory.psum import AccumulationState
from nkisim.memory.written_map import Marks, Region, Runs

_BYTE = np.dtype(np.uint8)


Guards = Callable[[range], list[Any]]
"""Maps synchronisation numbers of a core to the storages they guard; None is all memory."""


class Sharing(Protocol):
    """Tracks the accesses of several cores to one storage; tensors are views of it."""

    def read(self, tensor: Any, core: int, epoch: int, instruction: str, guards: Guards) -> None:
        """Record a read; ``guards`` returns the storages of the reading core's barriers."""

    def write(self, tensor: Any, core: int, epoch: int, where: np.ndarray | None) -> None:
        """Note a write, of the elements where ``where`` is true."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class Storage:
    """A block of memory with its map of written bytes.

    Attributes:
        data: The bytes, flat.
        borrowed: True while they belong to the caller's array, and must not be written.
        pitch: Bytes per partition, at least 1; the whole size for HBM.
        complete: True once every byte was written, and none with garbage; then reads need no check.
        psum: Accumulation state of PSUM storages.
        shared: Access tracker, for storages that two cores use at the same time.
        shadow: Data of a tracker for the bytes; None while they are not tracked.
    """

    data: np.ndarray
    pitch: int
    complete: bool = False
    borrowed: bool = False
    shared: Sharing | None = field(default=None, init=False)
    shadow: Any = field(default=None, init=False)
    psum: AccumulationState | None = field(default=None, init=False)
    _written: Marks | None = field(default=None, init=False)

    @staticmethod
    def fresh(rows: int, pitch: int, psum: bool = False, written: bool = False) -> Storage:
        """Return a storage of ``rows`` partitions with undefined contents."""
        nbytes = rows * pitch
        made = Storage(np.empty(nbytes, _BYTE), pitch or 1, written or not nbytes)
        if psum:
            made.psum = AccumulationState(made.pitch)
        return made

    def own(self) -> None:
        """Copy borrowed bytes before a write."""
        if self.borrowed:
            self.data, self.borrowed = self.data.copy(), False

    def mark_written(self, start: int, runs: Runs) -> None:
        """Note that every element of a view was written."""
        if self.complete:
            return
        if runs.dense and runs.nbytes == self.data.size:
            self.complete = True
            self._written = None
            return
        marks = self._written
        if marks is None:
            marks = self._written = Marks(self.data.size)
        if marks.add(start, runs):
            self.complete = True
            self._written = None

    def mark_written_where(
        self, mask: np.ndarray, start: int, strides: tuple[int, ...], itemsize: int
    ) -> None:
        """Note that the elements of a view where ``mask`` is true were written."""
        if self.complete:
            return
        if self._written is None:
            self._written = Marks(self.data.size)
        self._written.add_where(mask, start, strides, itemsize)

    def mark_garbage(
        self, origins: np.ndarray, start: int, strides: tuple[int, ...], itemsize: int
    ) -> None:
        """Mark elements of a view as garbage, each with the number of its source finding."""
        if self._written is None:
            self._written = Marks(self.data.size, written=self.complete)
        self._written.add_garbage(origins, start, strides, itemsize)
        self.complete = False

    def sound(self, region: Region) -> bool:
        """Return whether every element of a view was written, and none with garbage."""
        if self.complete or 0 in region[1]:
            return True
        return self._written is not None and self._written.sound(region)

    def garbage(self, region: Region) -> np.ndarray | None:
        """Return the source finding's number per garbage element, else 0; None without garbage."""
        if self.complete or self._written is None:
            return None
        return self._written.garbage(region)

    def unwritten(self, region: Region) -> np.ndarray | None:
        """Return a mask of the elements with unwritten bytes, or None."""
        if self.complete or 0 in region[1]:
            return None
        if self._written is None:
            return np.ones(region[1], bool)
        return self._written.missing(region)
