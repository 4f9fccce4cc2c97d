"""Tiles: allocations on chip, and the parts of them that live on their own."""

from __future__ import annotations

from dataclasses import dataclass, field

from nkisim.memory import MemoryRegion

_MOST_PARTS = 32
"""Parts of an allocation with lifetimes of their own; bytes beyond them live together."""


@dataclass(slots=True, eq=False)
class Tile:
    """An allocation on chip, or a part of one in SBUF that is first accessed on its own.

    The compiler reuses the bytes of a part as soon as nothing needs it: products of blocks that
    fill SBUF still overlap with the loads of the next blocks.

    Attributes:
        name: Name of the allocation or of its variable.
        line: File and line of the allocation.
        region: SBUF or PSUM.
        row_bytes: Bytes in one partition.
        placed: Whether the allocation has an explicit address.
        core: Core that owns it.
        site: Equal for allocations made by the same line with the same shape.
        part: Index of the tile among the parts of its allocation.
        allocated_bytes: Bytes of the whole allocation in one partition.
        bank: Its PSUM bank; the tile itself where the allocator chooses.
        uses: Operations that access it, in program order.
    """

    name: str
    line: tuple[str, int]
    region: MemoryRegion
    row_bytes: int
    placed: bool
    core: int
    site: object
    part: int = 0
    allocated_bytes: int = 0
    bank: object = None
    uses: list[int] = field(default_factory=list)


class Parts:
    """The parts of an allocation, each the bytes that one access was the first to cover.

    Attributes:
        row_bytes: Bytes of the allocation in one partition.
        tiles: The parts.
    """

    __slots__ = ("_covered", "_covering", "_spans", "row_bytes", "tiles")

    def __init__(self, row_bytes: int) -> None:
        self.row_bytes = row_bytes
        self.tiles: list[Tile] = []
        self._spans: list[list[tuple[int, int]]] = []
        self._covered: list[tuple[int, int]] = []
        """The bytes of all parts, as sorted intervals."""
        self._covering: dict[tuple[int, int], list[Tile]] = {}

    def misses(self, columns: tuple[int, int]) -> bool:
        """Return whether at least one of these bytes is in no part, so that a part can be added."""
        if columns in self._covering or len(self.tiles) == _MOST_PARTS:
            return False
        return bool(_missing(self._covered, columns)) or not self.tiles

    def add(self, columns: tuple[int, int]) -> int:
        """Add a part with those of the bytes that no part has, and return their number.

        The last part that is allowed has all bytes that are left.
        """
        # Bytes that are new to an access are in no other part, so existing parts do not change.
        if len(self.tiles) == _MOST_PARTS - 1:
            taken = sum(tile.row_bytes for tile in self.tiles)
            self._spans.append([])
            return self.row_bytes - taken
        spans = _missing(self._covered, columns)
        self._spans.append(spans)
        self._covered = _joined(sorted([*self._covered, *spans]))
        return sum(end - start for start, end in spans)

    def covering(self, columns: tuple[int, int]) -> list[Tile]:
        """Return the parts that contain at least one of these bytes."""
        found = self._covering.get(columns)
        if found is None:
            start, end = columns
            found = [
                tile
                for tile, spans in zip(self.tiles, self._spans, strict=True)
                if any(a < end and start < b for a, b in spans)
            ]
            if len(self.tiles) == _MOST_PARTS and _missing(self._covered, columns):
                found.append(self.tiles[-1])
            self._covering[columns] = found
        return found


def _missing(covered: list[tuple[int, int]], wanted: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the sub-intervals of ``wanted`` outside of the sorted, disjoint ``covered``."""
    found = []
    start, end = wanted
    for a, b in covered:
        if b <= start:
            continue
        if a >= end:
            break
        if a > start:
            found.append((start, a))
        start = b
    if start < end:
        found.append((start, end))
    return found


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return sorted intervals with adjacent ones joined."""
    found: list[tuple[int, int]] = []
    for start, end in spans:
        if found and found[-1][1] >= start:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
