"""The pattern of an attention mask as integers, the argument of operations and kernels.

``Pattern`` decodes the integers of ``AttentionMask.encoded``. A ``Bucket`` is one batch of work in
torch: rows of blocks, of any head, with the same number of blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from trnsci.core.interop import constant_to_compile
from trnsparse._patterns.attention_blocks import Pair, block_counts

_HEADER = 7
_MOST_SCORES = 1 << 22
"""Scores that torch computes at once: 16 MiB, which fits into today's caches."""


class Pattern(NamedTuple):
    """The blocks of all heads.

    Attributes:
        lengths: Queries and keys.
        sizes: Rows and columns of a block.
        grid: Rows and columns of blocks.
        patterns: Number of distinct patterns; several heads may have the same one.
        own: Index of the pattern of each head.
        starts: Index of the first block of each row of each pattern, then the total.
        columns: The column of each block.
        which: The table of each block; 0 for a full block.
        packed: Index of the first block of each head when the blocks of all heads are stacked, then
            the total.
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
        rows: Row numbers, counted over all heads.
        columns: The block columns of each row, counted over all heads of the keys.
        tables: The tables of the blocks of each row.
        places: Indices of the blocks of each row among the blocks of all heads.
        shared: Indices of the blocks of each row in the pattern that all heads share.
        blocks: Blocks in each row.
        plain: Whether all blocks are full.
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
    """Return the decoded pattern."""
    return _pattern_of(tuple(encoded))


@lru_cache(maxsize=256)
def _buckets(encoded: tuple[int, ...], groups: int) -> tuple[Bucket, ...]:
    pattern = _pattern_of(encoded)
    rows, columns = pattern.grid
    heads_per_group = max(len(pattern.own) // max(groups, 1), 1)
    parts: dict[int, list[tuple[Any, ...]]] = {}
    for head, own in enumerate(pattern.own):
        group, begin = head // heads_per_group, own * rows
        for row in range(rows):
            first, last = pattern.starts[begin + row : begin + row + 2]
            if first == last:
                continue
            shift = pattern.packed[head] - pattern.starts[begin]
            entry = (
                head * rows + row,
                [column + group * columns for column in pattern.columns[first:last]],
                list(pattern.which[first:last]),
                list(range(first + shift, last + shift)),
                list(range(first, last)),
            )
            parts.setdefault(last - first, []).append(entry)
    found: list[Bucket] = []
    for count in sorted(parts):
        many = max(1, _MOST_SCORES // (count * pattern.sizes[0] * pattern.sizes[1]))
        entries = parts[count]
        for start in range(0, len(entries), many):
            chunk = zip(*entries[start : start + many], strict=True)
            numbers, seen, tables, places, shared = (list(x) for x in chunk)
            plain = not any(any(row) for row in tables)
            found.append(Bucket(numbers, seen, tables, places, shared, count, plain))
    return tuple(found)


def buckets(encoded: Sequence[int], groups: int) -> tuple[Bucket, ...]:
    """Return the rows of all heads in buckets, for ``groups`` heads of the keys."""
    return _buckets(tuple(encoded), groups)


constant_to_compile(pattern_of)
constant_to_compile(buckets)
