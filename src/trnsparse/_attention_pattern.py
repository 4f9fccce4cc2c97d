"""The pattern of an attention mask as operations and kernels take it: integers.

``Pattern`` reads the integers that ``AttentionMask.encoded`` makes. ``Bucket`` is what torch
computes at once: rows of blocks, of any heads, that have the same number of blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from trnsci.core.tracing import constant_to_compile
from trnsparse._blocks import Pair, block_counts

__all__ = ["Bucket", "Pattern", "buckets", "pattern_of"]

_HEADER = 7
_MOST_SCORES = 1 << 22
"""Scores that torch holds at once: 16 MiB, which caches of today hold."""
_MOST_GATHERED = 1 << 26
"""Scores of a call to a streaming kernel, which holds only what it reads and writes."""


class Pattern(NamedTuple):
    """The blocks of all heads.

    Attributes:
        lengths: Queries and keys.
        sizes: Rows and columns of a block.
        grid: Rows and columns of blocks.
        patterns: How many different patterns there are.
        own: The pattern of each head.
        starts: Where the blocks of each row of each pattern begin, and where the last ends.
        columns: The column of each block.
        which: The table of each block; 0 shows all of it.
        packed: Where the blocks of each head begin when those of all heads are in one row, and
            where the last ends.
    """

    lengths: Pair
    sizes: Pair
    grid: Pair
    patterns: int
    own: tuple[int, ...]
    starts: tuple[int, ...]
    columns: tuple[int, ...]
    which: tuple[int, ...]
    packed: tuple[int, ...]


class Bucket(NamedTuple):
    """Rows of blocks with the same number of blocks.

    Attributes:
        rows: Their numbers, counted over all heads.
        columns: For each of them its columns, counted over all heads of the keys.
        tables: For each of them the tables of its blocks.
        places: For each of them where its blocks are in the order of all heads' blocks.
        shared: The same, in the order of the one pattern that all heads have.
        blocks: Blocks in each row.
        plain: Whether all blocks show all.
    """

    rows: list[int]
    columns: list[list[int]]
    tables: list[list[int]]
    places: list[list[int]]
    shared: list[list[int]]
    blocks: int
    plain: bool


@lru_cache(maxsize=256)
def _pattern_of(encoded: tuple[int, ...]) -> Pattern:
    lengths, sizes = (encoded[0], encoded[1]), (encoded[2], encoded[3])
    patterns, heads, blocks = encoded[4:7]
    grid = block_counts(lengths, sizes)
    rows = patterns * grid[0]
    ends = np.cumsum([_HEADER, heads, rows + 1, blocks, blocks]).tolist()
    parts = [encoded[first:last] for first, last in pairwise(ends)]
    own, starts, columns, which = parts
    packed = [0]
    for pattern in own:
        count = starts[(pattern + 1) * grid[0]] - starts[pattern * grid[0]]
        packed.append(packed[-1] + count)
    return Pattern(lengths, sizes, grid, patterns, own, starts, columns, which, tuple(packed))


def pattern_of(encoded: Sequence[int]) -> Pattern:
    """Return the pattern that integers encode."""
    return _pattern_of(tuple(encoded))


@lru_cache(maxsize=256)
def _buckets(
    encoded: tuple[int, ...], groups: int, split: bool, streamed: bool
) -> tuple[Bucket, ...]:
    pattern = _pattern_of(encoded)
    rows, columns = pattern.grid
    heads_per_group = max(len(pattern.own) // max(groups, 1), 1)
    starts, which = np.array(pattern.starts), np.array(pattern.which, dtype=np.int64)
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
                place = at - starts[first] + pattern.packed[head]
                entry = head * rows + row, *(x.tolist() for x in (column, which[at], place, at))
                parts.setdefault(len(at), []).append(entry)
        for count in sorted(parts):
            most = _MOST_GATHERED if streamed else _MOST_SCORES
            many = max(1, most // (count * pattern.sizes[0] * pattern.sizes[1]))
            entries = parts[count]
            for start in range(0, len(entries), many):
                chunk = entries[start : start + many]
                lists: list[Any] = [list(x) for x in zip(*chunk, strict=True)]
                own, seen, tables, places, shared = lists
                plain = not any(any(numbers) for numbers in tables)
                found.append(Bucket(own, seen, tables, places, shared, count, plain))
    return tuple(found)


def buckets(
    encoded: Sequence[int], groups: int, split: bool = False, streamed: bool = False
) -> tuple[Bucket, ...]:
    """Return the rows of all heads in buckets.

    Args:
        encoded: The pattern.
        groups: Heads of the keys.
        split: Whether full and partial blocks of a row come apart, the full ones first.
        streamed: Whether scores are not held, so that more rows may be computed at once.
    """
    return _buckets(tuple(encoded), groups, split, streamed)


constant_to_compile(pattern_of)
constant_to_compile(buckets)
