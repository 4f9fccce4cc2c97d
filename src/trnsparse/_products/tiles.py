"""Dense tiles of a CSR matrix, held for repeated products on kernels, and when they are faster.

A kernel gathers a row of the dense operand for each entry, or reads tiles of 128 by 128 that
contain entries, which is faster from about 30 entries per tile on. Tiles are built once, at the
second product with a matrix or on request, and only within ``LIMIT``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnsci.core.interop import version_of
from trnsci.core.numbers.conversions import dtype_name
from trnsci.core.tiles.hardware import CORES, ITEMSIZE, TILE, resolve_generation
from trnsparse._patterns.blocking import blocked
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.row_order import (
    GROUP,
    PANEL,
    RESIDENT,
    START_NS,
    TRANSFER_NS,
    RowPlan,
    plan_rows,
    product_ns,
)

LIMIT = 256 * 2**20
"""Most bytes of the tiles of a matrix."""

WORTH = 0.8
"""Share of the time of a gathered product up to which tiles are worth their memory."""


class Tiles(NamedTuple):
    """The dense tiles of a matrix that contain entries.

    Attributes:
        data: Element (k, t, m) is that of column k and row m of tile t, (128, tiles, 128).
        pattern: Positions of the tiles.
    """

    data: Tensor
    pattern: Pattern


@dataclass(frozen=True)
class ProductPlan:
    """Predicted times of a product on a NeuronCore; printing it shows a table.

    Attributes:
        rows: The kernels that gather.
        tiles: Number of tiles with entries, of ``grid`` in all.
        grid: Number of all tiles.
        tiles_bytes: Memory of the tiles.
        tiles_ns: Predicted time with tiles that the matrix holds.
        held: Whether the matrix holds them.
    """

    rows: RowPlan
    tiles: int
    grid: int
    tiles_bytes: int
    tiles_ns: float
    held: bool

    @cached_property
    def holds(self) -> bool:
        """Whether tiles are worth their memory, so that a second product builds them."""
        return self.tiles_bytes <= LIMIT and self.tiles_ns <= WORTH * self.rows.ns

    @property
    def kernel(self) -> str:
        """The kernel of the next product: ``"one-hot"``, ``"segments"`` or ``"tiles"``."""
        return "tiles" if self.held and self.holds else self.rows.kernel

    def __str__(self) -> str:
        state = "held" if self.held else "not held"
        if self.tiles_bytes > LIMIT:
            state = f"more than {LIMIT:,} bytes"
        choices = (
            ("one-hot", self.rows.one_hot_ns, f"{self.rows.one_hot} gathers"),
            ("segments", self.rows.segments_ns, f"{self.rows.segments} gathers"),
            ("tiles", self.tiles_ns, f"{self.tiles} of {self.grid} tiles, {state}"),
        )
        lines = [f"{name:<10}{ns / 1e3:>10,.1f} us  {what}" for name, ns, what in choices]
        return "\n".join([f"kernel    {self.kernel}", *lines])


def plan_product(
    pattern: Pattern, columns: int, dtype: str, generation: str | None = None, held: bool = False
) -> ProductPlan:
    """Return the predicted times of a product with ``columns`` dense columns.

    Args:
        pattern: Positions of the entries.
        columns: Columns of the dense operand.
        dtype: Name of the dtype of both operands.
        generation: Generation of the NeuronCore; default from the environment, or gen3.
        held: Whether the matrix holds its tiles.
    """
    starts = tile_pointers(pattern)
    rows, depth = -(-pattern.rows // TILE), -(-pattern.columns // TILE)
    count = int(starts[-1])
    core, item = CORES[resolve_generation(generation)], ITEMSIZE[dtype]
    panels = -(-columns // PANEL)
    tile_bytes, b_bytes = TILE * TILE * item, pattern.columns * columns * item
    loads = int((-(-np.diff(starts) // GROUP)).sum()) * panels
    resident = depth * min(columns, PANEL) * item <= RESIDENT
    loads += -(-depth // GROUP) * panels if resident else count * panels
    read = b_bytes if resident else count * TILE * columns * item
    moved = count * tile_bytes * panels + read + pattern.rows * columns * item
    dma = moved / core.dma_bytes_per_ns + (loads + rows * panels) * TRANSFER_NS
    first = min(GROUP, depth) * (tile_bytes + TILE * min(columns, PANEL) * item)
    product = count * product_ns(core, columns, dtype) + first / core.dma_bytes_per_ns
    gathers = plan_rows(pattern.pointers.cpu().numpy(), columns, dtype, generation)
    tiles_ns = START_NS + max(dma, product)
    return ProductPlan(gathers, count, rows * depth, count * tile_bytes, tiles_ns, held)


def tile_pointers(pattern: Pattern) -> np.ndarray:
    """Return the index of the first tile with entries of each row of tiles, then their number."""
    rows, depth = -(-pattern.rows // TILE), -(-pattern.columns // TILE)
    keys = pattern.row_indices.cpu().numpy() // TILE * depth + pattern.indices.cpu().numpy() // TILE
    counts = np.bincount(np.unique(keys) // max(depth, 1), minlength=rows)
    return np.concatenate([[0], np.cumsum(counts)])


class TileHolder:
    """The tiles of a matrix, and the choice of its products.

    Tiles are valid until the values are changed in place or moved.
    """

    __slots__ = ("_plans", "_tiles", "_values", "products")

    def __init__(self) -> None:
        self.products = 0
        self._plans: dict[tuple[int, torch.dtype, str], ProductPlan] = {}
        self._tiles: Tiles | None = None
        self._values = (0, 0)

    def holds(self, values: Tensor) -> bool:
        """Return whether tiles of these values are held."""
        return self._tiles is not None and self._values == _state(values)

    def hold(self, values: Tensor, pattern: Pattern) -> Tiles:
        """Return the tiles, built if they are not held."""
        if self._tiles is None or not self.holds(values):
            blocks, places = blocked(values.detach(), pattern, TILE)
            self._tiles = Tiles(blocks.permute(2, 0, 1).contiguous(), places)
            self._values = _state(values)
        return self._tiles

    def chosen(self, values: Tensor, pattern: Pattern, columns: int) -> Tiles | None:
        """Return the tiles if the next product uses them; the first product does not build them."""
        self.products += 1
        if self.products == 1 and not self.holds(values):
            return None
        key = columns, values.dtype, resolve_generation()
        if key not in self._plans:
            self._plans[key] = plan_product(pattern, columns, dtype_name(values.dtype), key[-1])
        return self.hold(values, pattern) if self._plans[key].holds else None


def _state(values: Tensor) -> tuple[int, int]:
    return values.data_ptr(), version_of(values)
