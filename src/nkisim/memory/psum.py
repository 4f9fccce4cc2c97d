"""Accumulation state of PSUM: the elements that an accumulation group has opened.

``accumulate=None`` means that the first matmul into an element of a tensor since its allocation
overwrites and later ones add. Tensors placed at one address share bytes, but each has its own
state, which ends with the last view of the tensor. The state is stored per byte, so that
overlapping regions are correct. A table of whole regions is checked first, because nearly every
matmul writes exactly the region of an earlier one.

Bytes belong to the tensor that wrote them last. A group whose bytes another tensor has written is
no longer tracked. The cost of an instruction therefore depends on the groups that fit PSUM at the
same time, not on the number of tensors that were ever placed there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from nkisim.memory.written_map import Region

Box = tuple[int, int, int, int]
"""First and last row, and first and last byte in a row, ends excluded."""

_MOST_LATER = 64
"""Number of writes buffered before they are marked byte by byte."""


class AccumulationState:
    """The accumulation groups of one PSUM storage, by the tensor whose matmuls opened them.

    A tensor is identified by its owner, the object that is freed with its last view. The state does
    not keep owners alive, and deletes the groups of an owner when it is freed.
    """

    __slots__ = ("_last", "_opens", "_pitch", "_tensors", "_tracked")

    def __init__(self, pitch: int) -> None:
        self._pitch = pitch
        self._opens = 0
        self._tensors: WeakKeyDictionary[Any, _Groups] | None = None
        self._tracked: dict[_Group, _Groups] = {}
        self._last: tuple[ref[Any], Region] | None = None

    @property
    def tensors(self) -> int:
        """Number of tensors with groups."""
        return 0 if self._tensors is None else len(self._tensors)

    @property
    def tracked(self) -> int:
        """Number of groups whose bytes no other tensor has written."""
        return len(self._tracked)

    def goes_on(self, owner: Any, region: Region) -> bool:
        """Return whether the last matmul wrote ``region`` and nothing touched the storage since."""
        last = self._last
        return last is not None and last[1] is region and last[0]() is owner

    def opened(self, owner: Any, region: Region) -> np.ndarray | bool:
        """Return the elements of ``region`` opened by its owner's matmuls: all, none, or a mask."""
        groups = self._of(owner)
        return False if groups is None else groups.covers(region, box_of(region, self._pitch))

    def open(self, owner: Any, region: Region) -> None:
        """Record that a matmul wrote ``region``."""
        self._last = (ref(owner), region)
        if self._tensors is None:
            self._tensors = WeakKeyDictionary()
        own = self._tensors.get(owner)
        if own is None:
            own = self._tensors[owner] = _Groups(self._pitch)
        group = own.opened.get(region)
        if group is None or group.interrupted:
            self._interrupt(own, region)
            if group is None:
                group = own.open(region, box_of(region, self._pitch))
            self._tracked[group] = own
        self._opens += 1
        group.begin(self._opens)

    def write(self, owner: Any, region: Region) -> None:
        """Note that another engine wrote ``region``; it closes its owner's groups there."""
        self._last = None
        own = self._of(owner)
        if not self._tracked and own is None:
            return  # there is no group that it could interrupt
        self._interrupt(own, region)
        if own is not None:
            for group in own.close(region):
                self._tracked.pop(group, None)

    def read(self, region: Region) -> None:
        """Record that an engine read ``region``; groups that share bytes count as evicted."""
        self._last = None
        if self._tracked:
            for group in self._sharing(region):
                group.reads[region] = None

    def interrupted(self, owner: Any, region: Region) -> bool:
        """Return whether something else wrote part of ``region`` since its last matmul."""
        groups = self._of(owner)
        return groups is not None and groups.interrupted(region)

    def evicted(self, owner: Any, region: Region) -> bool:
        """Return whether part of ``region`` was read or overwritten since its last matmul."""
        groups = self._of(owner)
        return groups is not None and groups.evicted(region, box_of(region, self._pitch))

    def interleaved(self, owner: Any, region: Region) -> bool:
        """Return whether matmuls wrote elsewhere in the tensor since the last one into a region."""
        groups, group = self._of(owner), self._group(owner, region)
        if groups is None or group is None or group.interrupted:
            return False
        return any(other.began > group.began for other in groups.opened.values())

    def unread(self, owner: Any, region: Region) -> bool:
        """Return whether a matmul wrote ``region`` and nothing has touched it since."""
        group = self._group(owner, region)
        return group is not None and not group.evicted and not group.interrupted

    def _of(self, owner: Any) -> _Groups | None:
        return None if self._tensors is None else self._tensors.get(owner)

    def _group(self, owner: Any, region: Region) -> _Group | None:
        groups = self._of(owner)
        return None if groups is None else groups.opened.get(region)

    def _sharing(self, region: Region) -> list[_Group]:
        """Return the tracked groups that share bytes with a region."""
        pitch = self._pitch
        box = box_of(region, pitch)
        met = [group for group in self._tracked if _overlap(group.box, box)]
        if not met:
            return met
        dense = _fills(region, box)
        return [
            group for group in met if (dense and group.dense) or _share(group.region, region, pitch)
        ]

    def _interrupt(self, writer: _Groups | None, region: Region) -> None:
        """Interrupt the groups that overlap a region; groups of other tensors lose their bytes."""
        for group in self._sharing(region):
            group.interrupted = True
            if self._tracked[group] is not writer:
                group.reads[region] = None
                del self._tracked[group]


@dataclass(slots=True, eq=False)
class _Group:
    """A region that matmuls of one tensor have written.

    Attributes:
        region: The region.
        box: Rows and bytes in a row that it reaches, ends excluded.
        dense: Whether it has all bytes of these rows and columns.
        reads: Regions that were read, or overwritten through another tensor, since its last matmul.
        interrupted: Whether something else wrote a part of it since its last matmul.
        began: Number of its last matmul in the order of the ``open`` calls of the storage.
    """

    region: Region
    box: Box
    dense: bool = field(init=False)
    reads: dict[Region, None] = field(default_factory=dict, init=False)
    interrupted: bool = field(default=False, init=False)
    began: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.dense = _fills(self.region, self.box)

    @property
    def evicted(self) -> bool:
        """Whether a part of it was read or overwritten since its last matmul."""
        return bool(self.reads)

    def begin(self, number: int) -> None:
        """Note that a matmul wrote it."""
        self.began = number
        self.interrupted = False
        self.reads.clear()


class _Groups:
    """The accumulation groups of one tensor.

    Attributes:
        opened: Groups by region, for regions that a matmul wrote and no other engine has written
            since through this tensor.
    """

    __slots__ = ("_closed", "_ever_opened", "_later", "_marks", "_pitch", "opened")

    def __init__(self, pitch: int) -> None:
        self._pitch = pitch
        self.opened: dict[Region, _Group] = {}
        self._closed: set[Region] = set()
        self._ever_opened: Box | None = None
        self._marks = _OpenBytes(pitch)
        self._later: list[tuple[Region, int]] = []

    def open(self, region: Region, box: Box) -> _Group:
        """Note that a matmul wrote a region that is not open."""
        group = self.opened[region] = _Group(region, box)
        self._closed.discard(region)
        self._ever_opened = box if self._ever_opened is None else union_of(self._ever_opened, box)
        self._mark(region, 1)
        return group

    def close(self, region: Region) -> list[_Group]:
        """Record that another engine wrote a region of this tensor; return the group it closed."""
        ended = [found for found, group in self.opened.items() if group.interrupted]
        self._closed.update(ended)
        self._mark(region, 0)
        return [self.opened.pop(found) for found in ended]

    def interrupted(self, region: Region) -> bool:
        """Return whether something else wrote part of ``region`` since its last matmul."""
        group = self.opened.get(region)
        return region in self._closed if group is None else group.interrupted

    def evicted(self, region: Region, box: Box) -> bool:
        """Return whether an open element of a region was read or overwritten since its matmul."""
        group = self.opened.get(region)
        if group is not None and not group.interrupted:
            return group.evicted
        # Several groups share the region; for each element the last group decides.
        overlapping = [g for g in self.opened.values() if _overlap(g.box, box)]
        if not any(g.evicted for g in overlapping):
            return False
        read = _OpenBytes(self._pitch)
        for group in sorted(overlapping, key=lambda g: g.began):
            read.mark(group.region, 0)
            for part in group.reads:
                read.mark(part, 1)
        return bool((read.of(region) & self.covers(region, box)).any())

    def covers(self, region: Region, box: Box) -> np.ndarray | bool:
        """Return the open elements of a region: all, none, or a mask."""
        if region in self.opened:
            return True
        if self._ever_opened is None or not _overlap(self._ever_opened, box):
            return False
        self._mark_all()
        mask = self._marks.of(region)
        if mask.all():
            return True
        return mask if mask.any() else False

    def _mark(self, region: Region, opened: int) -> None:
        """Mark the bytes of a region as open or closed, at the next query."""
        later = self._later
        if not later or later[-1] != (region, opened):
            later.append((region, opened))
        if len(later) > _MOST_LATER:
            self._mark_all()

    def _mark_all(self) -> None:
        for region, opened in self._later:
            self._marks.mark(region, opened)
        self._later.clear()


class _OpenBytes:
    """A mark per byte of the rows and columns that a tensor uses; the rest of PSUM is closed."""

    __slots__ = ("_box", "_marks", "_pitch")

    def __init__(self, pitch: int) -> None:
        self._pitch = pitch
        self._box: Box = (0, 0, 0, 0)
        self._marks = np.zeros((0, 0), np.uint8)

    def mark(self, region: Region, opened: int) -> None:
        """Mark the bytes of a region."""
        self._bytes(region)[...] = opened

    def of(self, region: Region) -> np.ndarray:
        """Return a mask of the open elements of a region."""
        return np.asarray(self._bytes(region).all(axis=-1))

    def any(self, region: Region) -> bool:
        """Return whether a byte of a region is open."""
        return bool(self._bytes(region).any())

    def _bytes(self, region: Region) -> np.ndarray:
        """Return the marks of a region; the bytes of an element are along the last dimension."""
        start, shape, strides, itemsize = region
        pitch = self._pitch
        self._reach(box_of(region, pitch))
        top, _, left, _ = self._box
        width = self._marks.shape[1]
        row, byte = divmod(start, pitch)
        steps = []
        for stride in strides:
            rows, rest = divmod(abs(stride), pitch)
            step = rows * width + rest
            steps.append(step if stride >= 0 else -step)
        first = (row - top) * width + byte - left
        return np.ndarray((*shape, itemsize), np.uint8, self._marks, first, (*steps, 1))

    def _reach(self, box: Box) -> None:
        """Extend the marks to a box."""
        old = self._box
        if self._marks.size:
            box = union_of(old, box)
        if box == old:
            return
        top, bottom, left, right = self._box = box
        marks = np.zeros((bottom - top, right - left), np.uint8)
        if self._marks.size:
            inner = slice(old[0] - top, old[1] - top), slice(old[2] - left, old[3] - left)
            marks[inner] = self._marks
        self._marks = marks


def union_of(a: Box, b: Box) -> Box:
    """Return the smallest box around two boxes."""
    return min(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), max(a[3], b[3])


def _overlap(a: Box, b: Box) -> bool:
    """Return whether two boxes overlap."""
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def _fills(region: Region, box: Box) -> bool:
    """Return whether a region has all bytes of its box; it has no byte twice."""
    nbytes = math.prod(region[1]) * region[3]
    return nbytes == (box[1] - box[0]) * (box[3] - box[2])


@lru_cache(maxsize=4096)
def _share(a: Region, b: Region, pitch: int) -> bool:
    """Return whether two regions share bytes."""
    marks = _OpenBytes(pitch)
    marks.mark(a, 1)
    return marks.any(b)


@lru_cache(maxsize=4096)
def box_of(region: Region, pitch: int) -> Box:
    """Return the first and last row, and byte in a row, that a region may reach, ends excluded."""
    start, shape, strides, itemsize = region
    row, byte = divmod(start, pitch)
    rows, columns = [row, row + 1], [byte, byte + itemsize]
    for extent, stride in zip(shape, strides, strict=True):
        span, unit = (columns, 1) if abs(stride) < pitch else (rows, pitch)
        span[stride > 0] += (extent - 1) * (stride // unit)
    return rows[0], rows[1], columns[0], columns[1]
