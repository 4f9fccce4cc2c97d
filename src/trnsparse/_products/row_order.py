"""Order of CSR entries for the product kernels, and the choice of the kernel.

Both kernels gather rows of the dense operand for 128 entries at a time. They differ in the number
of gathers, and in the engine that sums: Tensor or Vector.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trnsci.core.tiles.hardware import CORES, ITEMSIZE, TILE, resolve_generation

Array = npt.NDArray[np.int64]

_PASSES = {"float32": 4, "bfloat16": 1}
"""Passes of the Tensor engine over moving columns."""


@dataclass(frozen=True)
class RowPlan:
    """Predicted cost of a CSR product.

    Attributes:
        one_hot: Number of gathers with the scatter as a product.
        segments: Number of gathers with rows sorted by length.
        one_hot_ns: Time of ``one_hot`` on the busiest engine, by the core's hardware constants.
        segments_ns: Time of ``segments``.
    """

    one_hot: int
    segments: int
    one_hot_ns: float
    segments_ns: float

    @property
    def kernel(self) -> str:
        """The faster kernel, ``"segments"`` or ``"one-hot"``; ``"segments"`` if equal."""
        return "segments" if self.segments_ns <= self.one_hot_ns else "one-hot"


def plan_rows(pointers: Array, columns: int, dtype: str, generation: str | None = None) -> RowPlan:
    """Return the predicted cost of a product with ``columns`` dense columns.

    Args:
        pointers: Index of the first entry of each row, then nnz.
        columns: Columns of the dense operand.
        dtype: Name of the dtype of both operands.
        generation: Generation of the NeuronCore; default from the environment, or gen3.
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
    scatter = (TILE + core.vector_cycles) / core.vector_ghz
    # The Vector engine reads two float32 operands, and the gathered rows a second time in bfloat16.
    vector = (2 * columns + core.vector_cycles) / core.vector_ghz
    return RowPlan(
        one_hot,
        segments,
        max(gather + one_hot * core.dma_ns, one_hot * product, one_hot * scatter),
        max(gather + segments * core.dma_ns, segments * vector),
    )


def tile_starts(pointers: Array) -> Array:
    """Return the index of the first entry of each 128 rows, then nnz."""
    rows = len(pointers) - 1
    edges = np.append(np.arange(0, rows, TILE), rows)
    found: Array = pointers[edges]
    return found


def segment_order(pointers: Array) -> tuple[Array, Array, tuple[tuple[int, ...], ...]]:
    """Return rows by length, entries by slot, and the number of rows with each slot.

    Rows are sorted from longest to shortest. For each 128 rows the first entries come first, then
    the second entries of rows that have one, and so on.
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
