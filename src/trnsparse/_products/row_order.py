"""How the entries of a matrix by rows are handed to the kernels, and by which kernel.

Both kernels gather rows of the dense operand for 128 entries at a time. What differs is how many
such gathers there are, and whether the Tensor or the Vector engine sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trnsci.core.tiles.hardware import CORES, ITEMSIZE, TILE, resolve_generation

__all__ = ["RowPlan", "plan_rows", "segment_order", "tile_starts"]

Array = npt.NDArray[np.int64]

_PASSES = {"float32": 4, "bfloat16": 1}
"""Passes of the Tensor engine over moving columns."""


@dataclass(frozen=True)
class RowPlan:
    """What a product by rows would take.

    Attributes:
        one_hot: Gathers with the scatter as a product.
        segments: Gathers with rows sorted by length.
        one_hot_ns: Time of the first on the busiest engine, as the numbers of the core have it.
        segments_ns: Time of the second.
    """

    one_hot: int
    segments: int
    one_hot_ns: float
    segments_ns: float

    @property
    def way(self) -> str:
        """The one that takes less time; the one without products of zeros where they are equal."""
        return "segments" if self.segments_ns <= self.one_hot_ns else "one-hot"


def plan_rows(pointers: Array, columns: int, dtype: str, generation: str | None = None) -> RowPlan:
    """Return what a product with ``columns`` dense columns takes.

    Args:
        pointers: Where each row begins, and where the last ends.
        columns: Columns of the dense operand.
        dtype: Name of the dtype of both.
        generation: Of the NeuronCore; that of the environment, or gen2.
    """
    core = CORES[resolve_generation(generation)]
    starts = tile_starts(pointers)
    one_hot = sum(-(-int(count) // TILE) for count in np.diff(starts))
    lengths = np.sort(np.diff(pointers))[::-1]
    longest = lengths[::TILE]
    segments = int(longest.sum())
    entries = int(pointers[-1])
    gather = entries * columns * ITEMSIZE[dtype] / core.dma_bytes_per_ns
    product = (_PASSES[dtype] * columns + core.product_cycles) / core.tensor_ghz
    spread = (TILE + core.vector_cycles) / core.vector_ghz
    # The Vector engine reads two float32 operands, and the gathered rows a second time in bfloat16.
    vector = (2 * columns + core.vector_cycles) / core.vector_ghz
    return RowPlan(
        one_hot,
        segments,
        max(gather + one_hot * core.dma_ns, one_hot * product, one_hot * spread),
        max(gather + segments * core.dma_ns, segments * vector),
    )


def tile_starts(pointers: Array) -> Array:
    """Return where the entries of each 128 rows begin, and where the last end."""
    rows = len(pointers) - 1
    edges = np.append(np.arange(0, rows, TILE), rows)
    found: Array = pointers[edges]
    return found


def segment_order(pointers: Array) -> tuple[Array, Array, tuple[tuple[int, ...], ...]]:
    """Return rows by length, entries by slot, and how many rows have each slot.

    Rows are sorted from the longest to the shortest. Of each 128 of them the first entries come
    first, then the second ones of rows that have any, and so on.
    """
    lengths = np.diff(pointers)
    order = np.argsort(-lengths, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    row = np.repeat(np.arange(len(lengths)), lengths)
    slot = np.arange(len(row)) - pointers[:-1][row]
    place = np.lexsort((rank[row], slot, rank[row] // TILE))
    counts = []
    for first in range(0, len(order), TILE):
        own = lengths[order[first : first + TILE]]
        most = int(own[0]) if len(own) else 0
        more = np.searchsorted(-own, -np.arange(most), side="left")
        counts.append(tuple(int(count) for count in more))
    return order, place, tuple(counts)
