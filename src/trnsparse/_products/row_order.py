"""Order of CSR entries for the product kernels, and the choice of the kernel.

Both kernels gather rows of the dense operand for 128 entries at a time. They differ in the number
of gathers, and in the engine that sums: Tensor or Vector.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trnsci.core.tiles.hardware import BANK, CORES, ITEMSIZE, TILE, Core, resolve_generation

Array = npt.NDArray[np.int64]

_PASSES = {"float32": 4, "bfloat16": 1, "float16": 1}
"""Passes of the Tensor engine over moving columns."""

PANEL = 4 * BANK
"""Columns of the dense operand that are multiplied at once."""

GROUP = 16
"""Tiles of one transfer of ``tiled_spmm``."""

RESIDENT = 96 * 1024
"""Bytes per partition of a panel of the dense operand that stays in SBUF."""

# Fitted to predictions of nkisim; tests/trnsparse/kernels/test_predictions.py limits the error.
START_NS = 14_000.0
"""Time of a launch, of its first load and of its last store."""
TRANSFER_NS = 230.0
"""Time of a transfer besides its bytes."""
_EXPOSED = 0.25


@dataclass(frozen=True)
class RowPlan:
    """Predicted cost of a CSR product.

    Attributes:
        one_hot: Number of gathers with the scatter as a product.
        segments: Number of gathers with rows sorted by length.
        one_hot_ns, segments_ns: Predicted time of a launch of each kernel.
    """

    one_hot: int
    segments: int
    one_hot_ns: float
    segments_ns: float

    @property
    def kernel(self) -> str:
        """The faster kernel, ``"segments"`` or ``"one-hot"``; ``"segments"`` if equal."""
        return "segments" if self.segments_ns <= self.one_hot_ns else "one-hot"

    @property
    def ns(self) -> float:
        """Predicted time of the faster kernel."""
        return min(self.one_hot_ns, self.segments_ns)


def plan_rows(pointers: Array, columns: int, dtype: str, generation: str | None = None) -> RowPlan:
    """Return the predicted cost of a product with ``columns`` dense columns.

    Args:
        pointers: Index of the first entry of each row, then nnz.
        columns: Columns of the dense operand.
        dtype: Name of the dtype of both operands.
        generation: Generation of the NeuronCore; default from the environment, or gen3.
    """
    core = CORES[resolve_generation(generation)]
    panels = -(-columns // PANEL)
    starts = tile_starts(pointers)
    one_hot = sum(-(-int(count) // TILE) for count in np.diff(starts))
    longest = np.sort(np.diff(pointers))[::-1][::TILE]
    segments = int(longest.sum())
    moved = int(pointers[-1]) * columns * ITEMSIZE[dtype] / core.dma_bytes_per_ns
    scatter = one_hot * panels * (TILE + core.vector_cycles) / core.vector_ghz
    # On gen2 the Vector engine reads two float32 operands in turn.
    reads = columns if core.fast_vector else 2 * columns
    vector = segments * (reads + panels * core.vector_cycles) / core.vector_ghz
    gathers = one_hot * panels, segments * panels
    # GpSimd also makes the descriptors that store 128 sorted rows at their places.
    scatters = 0 if in_order(pointers) else len(longest) * panels
    waits = [n * core.gather_ns for n in (gathers[0], gathers[1] + scatters)]
    # Sums of more than a bank of columns wait for a part of their gathers.
    exposed = _EXPOSED * moved if columns > BANK else 0.0
    dma = [moved + n * TRANSFER_NS for n in gathers]
    return RowPlan(
        one_hot,
        segments,
        START_NS
        + max(dma[0], waits[0], one_hot * product_ns(core, columns, dtype), scatter)
        + exposed,
        START_NS + max(dma[1], waits[1], vector) + exposed,
    )


def product_ns(core: Core, columns: int, dtype: str) -> float:
    """Return the time of the products of 128 stationary columns and moving ones."""
    passes, whole = _PASSES[dtype], columns // BANK
    rest = columns - whole * BANK
    moved = whole * BANK + (max(rest, TILE) if rest else 0)
    issues = (whole + (rest > 0)) * core.product_cycles * (2 if passes > 1 else 1)
    return (passes * moved + issues) / core.tensor_ghz


def in_order(pointers: Array) -> bool:
    """Return whether no row is longer than the one before it."""
    return bool((np.diff(pointers, 2) <= 0).all())


def tile_starts(pointers: Array) -> Array:
    """Return the index of the first entry of each 128 rows, then nnz."""
    rows = len(pointers) - 1
    edges = np.append(np.arange(0, rows, TILE), rows)
    found: Array = pointers[edges]
    return found


def chunk_columns(counts: Array) -> Array:
    """Return the index of the entry for each partition and chunk, (128, chunks).

    Chunk j has ``counts[j]`` entries, one per partition. If it has fewer than 128, the remaining
    partitions get the index of its last entry.
    """
    first = np.cumsum(counts) - counts
    found: Array = first + np.minimum(np.arange(TILE)[:, None], counts - 1)
    return found


def chunk_counts(starts: Array) -> Array:
    """Return the number of entries of each chunk.

    The entries of 128 rows are cut into chunks of 128 entries; the last chunk has the rest.
    """
    counts = [
        np.minimum(TILE, count - np.arange(0, count, TILE)) for count in np.diff(starts).tolist()
    ]
    return np.concatenate(counts) if counts else np.zeros(0, np.int64)


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
