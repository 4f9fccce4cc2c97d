"""What of a pattern a streaming kernel computes at once, and where it is in memory.

Rows of blocks are taken together that have the same number of blocks. Where their queries and keys
lie at even steps, as in windows, they are views of the operands; where several rows see the same
blocks, as in dilated patterns and in heads that share keys, their queries become one long row.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnsci.core.constants import Constants
from trnsparse._attention_pattern import Bucket, buckets, pattern_of
from trnsparse._blocks import Array

__all__ = ["Part", "Steps", "parts_of"]

_SHORT = 4
"""Blocks of a row up to which adding a mask to all of them is cheaper than joining two results."""
_SHARED = 2
"""Rows that see the same blocks, on average, from which on they are computed as one."""


class Steps(NamedTuple):
    """Places ``first + i * outer + j * inner``, i of ``outer_count``, j of ``inner_count``."""

    first: int
    outer_count: int
    outer: int
    inner_count: int
    inner: int

    @property
    def apart(self) -> bool:
        """Whether all places are different because each run ends before the next begins."""
        run = self.inner * (self.inner_count - 1)
        inner = self.inner > 0 or self.inner_count == 1
        return inner and (self.outer > run or self.outer_count == 1)


class Part(NamedTuple):
    """Rows of blocks that torch's kernel computes at once.

    Attributes:
        rows: Numbers of the rows of blocks.
        columns: Numbers of the blocks that they see, one row after the other.
        row_steps: Rows by their steps, where they have such; then nothing need be gathered.
        column_steps: The same of the first block of each row, where the others follow it.
        blocks: Blocks in each row.
        together: How many rows see the same blocks, and are one row to the kernel.
        tables: The tables of the blocks, (rows or 1, blocks); None where all is seen.
        again: Whether the rows may have been computed in part before.
    """

    rows: Tensor
    columns: Tensor
    row_steps: Steps | None
    column_steps: Steps | None
    blocks: int
    together: int
    tables: Tensor | None
    again: bool


class _Plan(NamedTuple):
    """A part as arrays."""

    rows: Array
    columns: Array
    row_steps: Steps | None
    column_steps: Steps | None
    blocks: int
    together: int
    tables: Array
    plain: bool
    again: bool


def parts_of(pattern: tuple[int, ...], groups: int) -> list[Part]:
    """Return the parts of a pattern; those seen in full come first."""
    arrays = iter(_INDICES((pattern, groups), dtype=torch.int64))
    parts = []
    for plan in _plans(pattern, groups):
        rows, columns, tables = (next(arrays) for _ in range(3))
        chosen = None if plan.plain else tables
        steps = plan.row_steps, plan.column_steps
        parts.append(Part(rows, columns, *steps, plan.blocks, plan.together, chosen, plan.again))
    return parts


@lru_cache(maxsize=256)
def _plans(pattern: tuple[int, ...], groups: int) -> tuple[_Plan, ...]:
    found = pattern_of(pattern)
    plans: list[_Plan] = []
    # Short rows that all show the same are computed whole, with one mask for all of them.
    chosen = buckets(pattern, groups, streamed=True)
    whole = all(b.plain or (b.blocks <= _SHORT and _alike(b)) for b in chosen)
    if not whole:
        chosen = buckets(pattern, groups, split=True, streamed=True)
    seen = False
    for bucket in chosen:
        same: dict[tuple[int, ...], list[int]] = {}
        for row, columns in zip(bucket.rows, bucket.columns, strict=True):
            same.setdefault(tuple(columns), []).append(row)
        if bucket.plain and len(bucket.rows) >= _SHARED * len(same):
            plans += _shared(same, bucket.blocks)
        else:
            again = seen and not bucket.plain and not whole
            plans.append(_stepping(bucket, len(found.own), found.grid[0], again))
        seen = seen or bucket.plain
    return tuple(plans)


def _alike(bucket: Bucket) -> bool:
    """Return whether all rows show the same."""
    return all(tables == bucket.tables[0] for tables in bucket.tables)


def _shared(same: dict[tuple[int, ...], list[int]], blocks: int) -> list[_Plan]:
    """Return parts of rows that see the same blocks, by how many they are."""
    plans = []
    for together in sorted({len(rows) for rows in same.values()}):
        chosen = {c: rows for c, rows in same.items() if len(rows) == together}
        rows, columns = np.array(list(chosen.values())), np.array(list(chosen))
        none = np.zeros((1, blocks), np.int64)
        flat = rows.reshape(-1), columns.reshape(-1)
        plans.append(_Plan(*flat, None, None, blocks, together, none, True, False))
    return plans


def _stepping(bucket: Bucket, heads: int, down: int, again: bool) -> _Plan:
    """Return a part with its rows and columns by their steps, where they have such."""
    rows, columns, tables = (np.array(x) for x in (bucket.rows, bucket.columns, bucket.tables))
    outer = len({row // down for row in bucket.rows}) if heads > 1 else 1
    run = (columns == columns[:, :1] + np.arange(bucket.blocks)).all()
    # Rows that all show the same, as causal ones do, share one mask.
    if _alike(bucket):
        tables = tables[:1]
    steps = _regular(rows, outer), _regular(columns[:, 0], outer) if run else None
    flat = columns.reshape(-1)
    return _Plan(rows, flat, *steps, bucket.blocks, 1, tables, bucket.plain, again)


def _regular(places: Array, outer: int) -> Steps | None:
    """Return places by their steps, or None where they have none."""
    if len(places) % outer:
        return None
    cut = places.reshape(outer, -1)
    steps = [int(np.diff(cut, axis=axis).flat[0]) if cut.shape[axis] > 1 else 0 for axis in (0, 1)]
    first = int(cut[0, 0])
    even = first + steps[0] * np.arange(outer)[:, None] + steps[1] * np.arange(cut.shape[1])
    regular = (cut == even).all() and min(steps) >= 0
    return Steps(first, outer, steps[0], cut.shape[1], steps[1]) if regular else None


def _arrays(key: tuple[tuple[int, ...], int]) -> list[Array]:
    return [array for plan in _plans(*key) for array in (plan.rows, plan.columns, plan.tables)]


_INDICES: Constants[tuple[tuple[int, ...], int]] = Constants(_arrays, most_bytes=64 << 20)
