"""Log of the allocations of a run: origin and lifetime of each tensor.

Capacity and addresses are checked at the end of a run, from the lifetimes of all tiles. A loop may
allocate millions, so lifetimes that can no longer change a result are dropped from time to time:

- A tile is live from its first write to its last use, and a freed one is not used again. The first
  and last uses of tiles that are not freed divide the time into intervals. In each interval only
  the moment with the most live bytes matters: the log keeps the freed tiles that are live at that
  moment.
- The log keeps a placed tile that overlaps another in space and time, or will overlap one that is
  not freed if that one is used again.

Peaks are exact. If several equal tiles would collide with one tile in the same way, one of them is
kept.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import numpy as np

from nkisim.arch import Generation
from nkisim.diagnostics import assigned_name
from nkisim.dtypes import DType, float8_e8m0fnu
from nkisim.memory.layout import Form, through
from nkisim.memory.psum import Box, box_of, union_of
from nkisim.memory.region import MemoryRegion, is_on_chip

_FLOAT32 = np.dtype(np.float32)

Address = tuple[int, int]
"""Partition and byte offset of an explicitly placed tensor."""


@dataclass(slots=True, eq=False)
class Origin:
    """The request for an allocation and its line; shared by equal tiles of one line.

    Attributes:
        form: Shape, type, memory and place in the storage.
        name, address: Requested name and address.
        made: File and line of the allocation; line 0 for arguments.
        row_bytes: Bytes of the tensor in one partition; all of them in HBM.
        precise: Whether narrow floats are stored in their own type, not as float32.
        is_argument: True for arrays that the caller passed in.
    """

    form: Form
    name: str
    address: Address | None
    made: tuple[str, int]
    row_bytes: int
    precise: bool = True
    is_argument: bool = False

    def storage_dtype(self, dtype: DType) -> np.dtype[Any]:
        """Return the NumPy type that holds ``dtype`` here."""
        return dtype.numpy if self.precise else wide(dtype)

    def itemsize(self, dtype: DType) -> int:
        """Return the bytes of one element of ``dtype`` here."""
        return dtype.itemsize if self.precise else wide(dtype).itemsize

    def elements(self, itemsize: int) -> int:
        """Return the number of elements of ``itemsize`` bytes in the tensor."""
        rows = self.form.shape[0] if is_on_chip(self.form.buffer) else 1
        return rows * self.row_bytes // itemsize


def wide(dtype: DType) -> np.dtype[Any]:
    """Return the storage type when bfloat16 and float8 are stored as float32.

    Scales in float8_e8m0fnu remain bytes, because instructions read their bits.
    """
    narrow = dtype.kind == "float" and dtype.numpy != np.float16 and dtype is not float8_e8m0fnu
    return _FLOAT32 if narrow else dtype.numpy


class Lifetime:
    """The record of one allocation; it outlives the memory of the tile.

    Attributes:
        origin: The request for the allocation.
        first_use, last_use: Numbers of the first instruction that wrote it and of the last that
            used it, or -1.
        number: Number of a placed tile among the placed tiles of its source line, from 0.
        placed: Whether it shares the bytes of its memory with other placed tiles.
        reached: The partitions, and the bytes in each, that instructions have used of a placed
            tile. None before the first use, and for other tiles.
        region, shape, dtype, name, address: The values in the request.
        line: File and line of the allocation.
    """

    __slots__ = ("_form", "first_use", "last_use", "number", "origin", "placed", "reached")

    region: MemoryRegion = through("origin.form.buffer")
    shape: tuple[int, ...] = through("origin.form.shape")
    dtype: DType = through("origin.form.dtype")
    name: str = through("origin.name")
    address: Address | None = through("origin.address")
    line: tuple[str, int] = through("origin.made")

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.first_use = -1
        self.last_use = -1
        self.number = 0
        self.placed = False
        self.reached: Box | None = None
        self._form: Form | None = None

    @property
    def label(self) -> str:
        """The given name, else the name of the assigned variable, else "unnamed"."""
        return self.name or assigned_name(*self.line) or "unnamed"

    def called(self, operand: str) -> str:
        """Return the name for messages: the given one, else the operand's."""
        return f"`{self.name}`" if self.name else operand

    def reach(self, view: Any) -> None:
        """Extend ``reached`` by a view that is used; by the whole tile if its offset is unknown."""
        form = view.form
        if form is self._form:
            return  # the same part as last time
        self._form = form
        known = view.indirection is None
        box = box_of((form if known else self.origin.form).region, view._storage.pitch)
        self.reached = box if self.reached is None else union_of(self.reached, box)

    def written(self, clock: int) -> None:
        """Record that instruction number ``clock`` writes the tile."""
        self.last_use = clock
        if self.first_use < 0:
            self.first_use = clock


QUADRANT = 32
"""Partitions of a quarter of SBUF or PSUM."""

# With the weights of either row, the weighted bytes of live tiles never exceed four quarters of the
# memory, wherever the tiles are placed. A larger sum therefore shows that they do not fit.
SHARES = ((0, 1, 2, 3, 4), (0, 0, 2, 4, 4))
"""Weight of a tile in quarters of the partitions, indexed by the quarters that it needs."""

_FEWEST = 4096
"""Number of tiles below which nothing is dropped."""


@dataclass(slots=True)
class Line:
    """The placed tiles that one line of the kernel has allocated.

    Attributes:
        count: Their number.
        addresses: Their addresses.
    """

    count: int = 0
    addresses: set[Address] = field(default_factory=set)


class AllocationLog:
    """Lifetimes of the allocations of one core, in order.

    Attributes:
        lines: Placed tiles by file and line of their allocation.
        neighbours: Pairs of tiles that different lines placed one after the other, with a distance
            in bytes equal to the number of elements of the first tile. One pair per pair of lines
            and forms.

    Args:
        generation: Generation of the core.
        whole: Whether no lifetime is dropped, as a picture of the memory needs.
    """

    def __init__(self, generation: Generation, *, whole: bool) -> None:
        self.lines: dict[tuple[str, int], Line] = {}
        self.neighbours: list[tuple[Lifetime, Lifetime]] = []
        self._generation = generation
        self._whole = whole
        self._limit = _FEWEST
        self._entries: list[tuple[Lifetime, ref[Any]]] = []
        self._previous: dict[MemoryRegion, Lifetime] = {}
        self._seen: set[Any] = set()
        self._placed: dict[MemoryRegion, int] = {}
        self._automatic: dict[MemoryRegion, int] = {}

    def __iter__(self) -> Iterator[Lifetime]:
        return (life for life, _ in self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, life: Lifetime, owner: Any) -> None:
        """Add an allocation; ``owner`` is freed with its last view."""
        entries = self._entries
        entries.append((life, ref(owner)))
        if life.origin.address is not None:
            self._place(life)
        if len(entries) >= self._limit and not self._whole:
            self._drop()

    def dropped(self, region: MemoryRegion) -> tuple[int, int]:
        """Return how many used tiles with and without an address are no longer in the log."""
        return self._placed.get(region, 0), self._automatic.get(region, 0)

    def _place(self, life: Lifetime) -> None:
        """Record a placed tile."""
        origin = life.origin
        line = self.lines.get(origin.made)
        if line is None:
            line = self.lines[origin.made] = Line()
        life.number = line.count
        line.count += 1
        assert origin.address is not None
        line.addresses.add(origin.address)
        previous = self._previous.get(origin.form.buffer)
        self._previous[origin.form.buffer] = life
        if previous is None or previous.line == origin.made:
            return
        before = previous.origin
        key = before.form, before.made, origin.form, origin.made
        if key not in self._seen:
            self._seen.add(key)
            if _apart_by_elements(before, origin):
                self.neighbours.append((previous, life))

    def _drop(self) -> None:
        """Drop lifetimes that cannot change a result."""
        kept: set[Lifetime] = set()
        freed: list[Lifetime] = []
        for region in (MemoryRegion.sbuf, MemoryRegion.psum):
            tiles = [(life, owner()) for life, owner in self._entries if life.region is region]
            used = [(life, owner) for life, owner in tiles if life.first_use >= 0]
            alive = [life for life, owner in used if owner is not None]
            dead = [life for life, owner in used if owner is None]
            kept.update(life for life, owner in tiles if owner is not None)
            freed += dead
            unit = self._generation.psum_bank_bytes if region is MemoryRegion.psum else 1
            kept.update(_at_peaks(dead, alive, unit, self._generation.partitions))
            placed = [life for life, _ in used if life.address is not None]
            for pair in collisions(placed):
                kept.update(pair)
            kept.update(_may_collide(dead, alive))
            # One tile without an address is kept, for a finding to name.
            kept.update([life for life in dead if life.address is None][:1])
        for life in freed:
            if life not in kept:
                counts = self._automatic if life.address is None else self._placed
                counts[life.region] = counts.get(life.region, 0) + 1
        self._entries = [
            entry for entry in self._entries if entry[0] in kept or not is_on_chip(entry[0].region)
        ]
        self._limit = max(_FEWEST, 2 * len(self._entries))


def device_bytes(tile: Lifetime | Origin, unit: int = 1) -> int:
    """Return bytes per partition on the device, rounded up to whole units."""
    origin = tile.origin if isinstance(tile, Lifetime) else tile
    nbytes = math.prod(origin.form.shape[1:]) * origin.form.dtype.itemsize
    return -(-nbytes // unit) * unit


def space(tile: Lifetime | Origin) -> tuple[int, int, int, int]:
    """Return the first and last partition and byte of a placed tensor, ends excluded.

    The space is the part that instructions have used. It is the whole tensor for an ``Origin``, and
    if the use is unknown.
    """
    if isinstance(tile, Lifetime) and tile.reached is not None:
        return tile.reached
    origin = tile.origin if isinstance(tile, Lifetime) else tile
    assert origin.address is not None
    partition, byte = origin.address
    return partition, partition + origin.form.shape[0], byte, byte + device_bytes(origin)


def collisions(placed: Sequence[Lifetime]) -> list[tuple[Lifetime, Lifetime]]:
    """Return a pair (earlier, later) for each tensor that begins where another is still live.

    The edges of all tensors cut the memory into cells. For each cell, the loop stores the tensor
    that came last and the end of its lifetime. If a new tensor overlaps any live tensor, it also
    overlaps the one that lives longest, so one end per cell is enough.
    """
    spaces = [space(tile) for tile in placed]
    rows = {edge: i for i, edge in enumerate(sorted({e for s in spaces for e in s[:2]}))}
    columns = {edge: i for i, edge in enumerate(sorted({e for s in spaces for e in s[2:]}))}
    until = np.full((len(rows), len(columns)), -1)
    owner = np.zeros_like(until)
    found = []
    for first, number in sorted((tile.first_use, i) for i, tile in enumerate(placed)):
        top, bottom, left, right = spaces[number]
        here = slice(rows[top], rows[bottom]), slice(columns[left], columns[right])
        busy, last = until[here], placed[number].last_use
        if not busy.size:
            continue
        worst = busy.argmax()
        if busy.flat[worst] >= first:
            other = int(owner[here].flat[worst])
            found.append((placed[min(other, number)], placed[max(other, number)]))
        longer = busy < last
        busy[longer] = last
        owner[here][longer] = number
    return found


def _at_peaks(
    dead: Sequence[Lifetime], alive: Sequence[Lifetime], unit: int, partitions: int
) -> list[Lifetime]:
    """Return the freed tiles live at the peak of each interval between uses of ``alive`` tiles."""
    if not dead:
        return []
    first = np.array([tile.first_use for tile in dead])
    last = np.array([tile.last_use for tile in dead])
    edges = np.unique([use for tile in alive for use in (tile.first_use, tile.last_use)])
    # Between two edges a tile that is not freed is live all the time or never.
    points = np.union1d(first, edges).astype(np.int64)
    segment = np.searchsorted(edges, points) + np.searchsorted(edges, points, "right")
    begun, ended = (
        np.searchsorted(np.sort(first), points, "right"),
        np.searchsorted(np.sort(last), points),
    )
    by_first, by_last = np.argsort(first, kind="stable"), np.argsort(last, kind="stable")
    needs: dict[Origin, tuple[int, int]] = {}
    for tile in dead:
        if tile.origin not in needs:
            rows = min(-(-tile.shape[0] // QUADRANT), partitions // QUADRANT)
            needs[tile.origin] = rows, device_bytes(tile, unit)
    moments = []
    for shares in SHARES:
        weights = np.array([shares[needs[t.origin][0]] * needs[t.origin][1] for t in dead])
        opened = np.concatenate([[0], np.cumsum(weights[by_first])])
        closed = np.concatenate([[0], np.cumsum(weights[by_last])])
        order = np.lexsort((points, closed[ended] - opened[begun], segment))
        leads = np.flatnonzero(np.diff(segment[order], prepend=-1))
        moments.append(points[order[leads]])
    times = np.unique(np.concatenate(moments))
    covers = np.searchsorted(times, first) < np.searchsorted(times, last, "right")
    return [tile for tile, kept in zip(dead, covers, strict=True) if kept]


def _may_collide(dead: Sequence[Lifetime], alive: Sequence[Lifetime]) -> list[Lifetime]:
    """Return freed tiles that collide with an ``alive`` tile if that tile is used again."""
    waiting = [tile for tile in alive if tile.address is not None]
    if not waiting:
        return []
    alike: dict[Origin, list[Lifetime]] = {}
    for tile in dead:
        if tile.address is not None:
            alike.setdefault(tile.origin, []).append(tile)
    found = []
    for origin, tiles in alike.items():
        tiles.sort(key=lambda tile: tile.first_use)
        firsts = [tile.first_use for tile in tiles]
        here = space(origin)
        for other in waiting:
            there = space(other.origin)  # all of it: later uses may extend ``reached``
            meets = here[0] < there[1] and there[0] < here[1]
            if meets and here[2] < there[3] and there[2] < here[3]:
                found += tiles[bisect_right(firsts, other.last_use) :][:1]
                found += [tile for tile in tiles if tile.last_use >= other.first_use][:1]
    return found


def _apart_by_elements(a: Origin, b: Origin) -> bool:
    """Return whether ``b`` begins as many bytes after ``a`` as ``a`` has elements per partition."""
    assert a.address is not None and b.address is not None
    elements = math.prod(a.form.shape[1:])
    apart = b.address[1] - a.address[1]
    return a.form.dtype.itemsize > 1 and a.address[0] == b.address[0] and apart == elements
