"""Searching, gathering, shuffling and compacting instructions of NKI 0.3.0, element by element.

Tiles are (partitions, elements) arrays of stored elements. The Vector engine compares the float32
values of what it searches; everything else here moves elements without touching them. What an
instruction does not write is passed in as ``old`` and comes back unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from oracles.elementwise import float32, widen

#: Values that one search instruction works on.
SLOTS = 8
#: Partitions that one core of the GpSimd engine is connected to.
CORE_PARTITIONS = 16
#: Partitions that a shuffle moves rows among.
QUADRANT = 32
#: Entry of a shuffle mask that leaves the row of the destination as it is.
KEEP = 255


def max8(src: np.ndarray) -> np.ndarray:
    """Float32 values: eight times the largest that is left in the row."""
    out = np.empty((len(src), SLOTS), np.float32)
    for p, row in enumerate(widen(src).tolist()):
        left = list(row)
        for slot in range(SLOTS):
            largest = max(left)
            out[p, slot] = largest
            left.remove(largest)
    return out


def _matches(row: list[float], values: list[float], slots: Iterable[int]) -> list[int | None]:
    """The position that each slot is paired with, or None.

    Slots take their turn in the given order; each takes the first position of its value that no
    slot before it took.
    """
    taken: set[int] = set()
    found: list[int | None] = [None] * len(values)
    for slot in slots:
        for position, element in enumerate(row):
            if element == values[slot] and position not in taken:
                taken.add(position)
                found[slot] = position
                break
    return found


def _all_ones_for_none(positions: list[list[int | None]], dtype: np.dtype) -> np.ndarray:
    ones = 2 ** (8 * dtype.itemsize) - 1
    return np.array([[ones if p is None else p for p in row] for row in positions], dtype)


def find_index8(data: np.ndarray, vals: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Where the eight values are; equal values take their positions from slot 0 to slot 7."""
    pairs = zip(widen(data).tolist(), widen(vals).tolist(), strict=True)
    found = [_matches(row, values, range(SLOTS)) for row, values in pairs]
    return _all_ones_for_none(found, dtype)


def match_replace8(
    data: np.ndarray, vals: np.ndarray, imm: float, index_dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """Float32 values after the replacement, and where it happened.

    Equal values take their positions from slot 7 to slot 0.
    """
    out = widen(data).copy()
    pairs = zip(out.tolist(), widen(vals).tolist(), strict=True)
    found = [_matches(row, values, reversed(range(SLOTS))) for row, values in pairs]
    for p, positions in enumerate(found):
        for position in positions:
            if position is not None:
                out[p, position] = float32(imm)
    return out, _all_ones_for_none(found, index_dtype)


def n_gather(data: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Each partition picks from its own elements."""
    out = np.empty(indices.shape, data.dtype)
    for p, i in np.ndindex(*indices.shape):
        out[p, i] = data[p, indices[p, i]]
    return out


def core_indices(index: np.ndarray, core: int, count: int) -> list[int]:
    """The first ``count`` indices of a core: down its partitions, then the next column."""
    flat = []
    for column in range(index.shape[1]):
        for lane in range(CORE_PARTITIONS):
            flat.append(int(index[CORE_PARTITIONS * core + lane, column]))
    return flat[:count]


def local_gather(
    old: np.ndarray, src: np.ndarray, index: np.ndarray, width: int, count: int | None
) -> np.ndarray:
    """Runs of ``width`` elements from each index on, the same for the 16 partitions of a core."""
    if count is None:
        count = CORE_PARTITIONS * index.shape[1]
    out = old.copy()
    for core in range(len(src) // CORE_PARTITIONS):
        rows = slice(CORE_PARTITIONS * core, CORE_PARTITIONS * (core + 1))
        for i, first in enumerate(core_indices(index, core, count)):
            out[rows, i * width : (i + 1) * width] = src[rows, first : first + width]
    return out


def stream_shuffle(old: np.ndarray, src: np.ndarray, mask: Sequence[int]) -> np.ndarray:
    """Row i of a quadrant becomes row mask[i] of the same quadrant of the source."""
    out = old.copy()
    for p in range(len(old)):
        entry = mask[p % QUADRANT]
        if entry != KEEP:
            out[p] = src[p - p % QUADRANT + entry]
    return out


def nonzero_with_count(
    old: np.ndarray, src: np.ndarray, index_offset: int, padding: int
) -> np.ndarray:
    """Positions of nonzeros, then padding, then how many there are, on every 16th partition."""
    out = old.copy()
    for p in range(0, len(src), CORE_PARTITIONS):
        found = [i + index_offset for i, value in enumerate(src[p].tolist()) if value != 0]
        out[p] = found + [padding] * (src.shape[1] - len(found)) + [len(found)]
    return out


def sequence_bounds(ids: Sequence[float]) -> tuple[list[int], list[int]]:
    """For each element where the run of its id starts and ends; zeros get (n, -1)."""
    n = len(ids)
    starts, ends = [], []
    for i, own in enumerate(ids):
        start, end = i, i + 1
        while start > 0 and ids[start - 1] == own:
            start -= 1
        while end < n and ids[end] == own:
            end += 1
        starts.append(n if own == 0 else start)
        ends.append(-1 if own == 0 else end)
    return starts, ends
