"""The pattern of an attention mask as operations and kernels take it: integers.

``Pattern`` reads the integers that ``AttentionMask.encoded`` makes. ``Bucket`` is what torch
computes at once: rows of blocks, of any heads, that have the same number of blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from trnsci.core.tracing import constant_to_compile
from trnsparse._blocks import Pair, block_counts

__all__ = ["Bucket", "Pattern", "buckets", "pattern_of", "rows_without_blocks"]

_HEADER = 7
_MOST_SCORES = 1 << 22
"""Scores that torch holds at once: 16 MiB, which caches of today hold."""
_MOST_GATHERED = 1 << 26
"""Scores of a call to a streaming kernel, which holds only what it reads and writes."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """The blocks of all heads.

    Attributes:
        lengths: Queries and keys.
        sizes: Rows and columns of a block.
        patterns: How many different patterns there are.
        own: The pattern of each head.
        starts: Where the blocks of each row of each pattern begin, and where the last ends.
        columns: The column of each block.
        which: The table of each block; 0 shows all of it.
    """

    lengths: Pair
    sizes: Pair
    patterns: int
    own: tuple[int, ...]
    starts: tuple[int, ...]
    columns: tuple[int, ...]
    which: tuple[int, ...]

    @property
    def grid(self) -> Pair:
        """Rows and columns of blocks."""
        return block_counts(self.lengths, self.sizes)

    @property
    def heads(self) -> int:
        """How many heads there are."""
        return len(self.own)

    def stored(self, head: int) -> Pair:
        """Return where the blocks of a head begin and end among those of all patterns."""
        rows = self.grid[0]
        first = self.own[head] * rows
        return self.starts[first], self.starts[first + rows]

    def packed(self) -> tuple[int, ...]:
        """Return where the blocks of each head begin when those of all heads are in one row."""
        places = [0]
        for head in range(self.heads):
            first, last = self.stored(head)
            places.append(places[-1] + last - first)
        return tuple(places)


@dataclass(frozen=True)
class Bucket:
    """Rows of blocks with the same number of blocks.

    Attributes:
        rows: Their numbers, counted over all heads.
        columns: For each of them its columns, counted over all heads of the keys.
        tables: For each of them the tables of its blocks.
        places: For each of them where its blocks are in the order of all heads' blocks.
        shared: The same, in the order of the one pattern that all heads have.
        plain: Whether all blocks show all.
    """

    rows: list[int]
    columns: list[list[int]]
    tables: list[list[int]]
    places: list[list[int]]
    shared: list[list[int]]
    plain: bool

    @property
    def count(self) -> int:
        """Blocks in each row."""
        return len(self.columns[0])


@lru_cache(maxsize=256)
def _pattern_of(encoded: tuple[int, ...]) -> Pattern:
    lengths, sizes = encoded[0:2], encoded[2:4]
    patterns, heads, blocks = encoded[4:7]
    rows = patterns * block_counts((lengths[0], lengths[1]), (sizes[0], sizes[1]))[0]
    ends = np.cumsum([_HEADER, heads, rows + 1, blocks, blocks]).tolist()
    parts = [encoded[first:last] for first, last in pairwise(ends)]
    own, starts, columns, which = parts
    return Pattern(
        (lengths[0], lengths[1]), (sizes[0], sizes[1]), patterns, own, starts, columns, which
    )


def pattern_of(encoded: Sequence[int]) -> Pattern:
    """Return the pattern that integers encode."""
    return _pattern_of(tuple(encoded))


@lru_cache(maxsize=256)
def _buckets(encoded: tuple[int, ...], groups: int, split: bool) -> tuple[Bucket, ...]:
    pattern = _pattern_of(encoded)
    rows, columns = pattern.grid
    heads_per_group = max(pattern.heads // max(groups, 1), 1)
    starts, which = np.array(pattern.starts), np.array(pattern.which, dtype=np.int64)
    packed = pattern.packed()
    found: list[Bucket] = []
    for chosen in ((which == 0), (which != 0)) if split else (np.ones(len(which), bool),):
        parts: dict[int, list[tuple[Any, ...]]] = {}
        for head, own in enumerate(pattern.own):
            group, first = head // heads_per_group, own * rows
            for row in range(rows):
                at = np.arange(starts[first + row], starts[first + row + 1])
                at = at[chosen[at]]
                if not len(at):
                    continue
                column = np.array(pattern.columns)[at] + group * columns
                place = at - starts[first] + packed[head]
                entry = head * rows + row, *(x.tolist() for x in (column, which[at], place, at))
                parts.setdefault(len(at), []).append(entry)
        for count in sorted(parts):
            most = _MOST_GATHERED if split else _MOST_SCORES
            many = max(1, most // (count * pattern.sizes[0] * pattern.sizes[1]))
            entries = parts[count]
            for start in range(0, len(entries), many):
                chunk = entries[start : start + many]
                lists: list[Any] = [list(x) for x in zip(*chunk, strict=True)]
                own, seen, tables, places, shared = lists
                plain = not any(any(numbers) for numbers in tables)
                found.append(Bucket(own, seen, tables, places, shared, plain))
    return tuple(found)


def buckets(encoded: Sequence[int], groups: int, split: bool = False) -> tuple[Bucket, ...]:
    """Return the rows of all heads in buckets.

    Args:
        encoded: The pattern.
        groups: Heads of the keys.
        split: Whether full and partial blocks of a row come apart, the full ones first.
    """
    return _buckets(tuple(encoded), groups, split)


def rows_without_blocks(encoded: Sequence[int]) -> bool:
    """Return whether some row of some head has no block."""
    pattern = pattern_of(encoded)
    counts = np.diff(np.array(pattern.starts)).reshape(pattern.patterns, -1)
    return bool((counts[sorted(set(pattern.own))] == 0).any())


constant_to_compile(pattern_of)
constant_to_compile(buckets)
constant_to_compile(rows_without_blocks)
