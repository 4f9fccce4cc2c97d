"""Tiling of a matrix product into tiles and blocks, and its cost.

A *tile* is the operand of one instruction: 128 rows of the result, 128 of the contraction, up to
512 columns (one PSUM bank in float32). A *block* is a run of tiles that stays in SBUF while it is
used. Column tiles begin at multiples of 128 and are nearly equal: 513 columns are cut into 256 and
257, never into 512 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from trnsci.core.tiles.hardware import BANK, CORES, ITEMSIZE, SMALLEST_SBUF, TILE, Generation

Layout = Literal["rows", "columns", "upper", "lower"]
"""Position of the contraction in an operand: on its rows, so that it is loaded directly; on its
columns, so that it is transposed on chip; or in a symmetric operand stored in one triangle."""


class Blocks(NamedTuple):
    """The block sizes of a product, as passed to its kernel.

    Attributes:
        row_tiles: Tiles of 128 rows in a block of the left operand.
        column_tiles: Column tiles in a block of the right operand.
        depth_tiles: Tiles of 128 of the contraction in a block of either.
        resident: The operand whose block stays in SBUF while blocks of the other are streamed; only
            when the blocks hold the whole contraction.
        group: Neighbouring column tiles that are accumulated together, each in a PSUM bank.
        stage_tiles: Tiles of the contraction loaded at once when an operand is transposed.
        matrices: Whole matrices of a batch that each transfer moves; 0 when blocks are moved.
    """

    row_tiles: int
    column_tiles: int
    depth_tiles: int
    resident: str
    group: int
    stage_tiles: int
    matrices: int = 0


@dataclass(frozen=True)
class Tiling:
    """A tiling with its memory use and its cost.

    Attributes:
        blocks: The block sizes, the kernel's argument.
        generation, dtype: The generation and dtype it was chosen for.
        buffers: 2 when the streamed operand is double-buffered, else 1.
        sbuf_bytes: SBUF bytes per partition, including space for a C of the same dtype.
        psum_banks: PSUM banks in use together: of two successive column groups, and of transposes.
        hbm_bytes: Bytes read from and written to HBM; reading C adds its own size.
        products: ``nc_matmul`` instructions.
        transposes: Tiles transposed on chip.
        tensor_ns, vector_ns, dma_ns: Busy times by the model.
        stated: Whether the generation was stated; if not, the tiling fits every generation.
    """

    blocks: Blocks
    generation: Generation
    dtype: str
    buffers: int
    sbuf_bytes: int
    psum_banks: int
    hbm_bytes: int
    products: int
    transposes: int
    tensor_ns: float
    vector_ns: float
    dma_ns: float
    stated: bool = True

    @property
    def sbuf_limit(self) -> int:
        """SBUF bytes per partition that the tiling may use."""
        return CORES[self.generation].sbuf_bytes if self.stated else SMALLEST_SBUF

    @property
    def time_ns(self) -> float:
        """Predicted time: compute and DMA overlap with two buffers, else they add up."""
        if self.buffers == 1:
            return max(self.tensor_ns, self.vector_ns) + self.dma_ns
        return max(self.tensor_ns, self.vector_ns, self.dma_ns)

    @property
    def fits(self) -> bool:
        """Whether the tiling fits the memories."""
        banks = CORES[self.generation].psum_banks
        return self.sbuf_bytes <= self.sbuf_limit and self.psum_banks <= banks


def row_tiles(extent: int) -> int:
    """Return the number of tiles of 128 that cover ``extent``."""
    return (extent + TILE - 1) // TILE


def column_tiles(extent: int) -> int:
    """Return the number of column tiles that cover ``extent`` columns."""
    return (extent + BANK - 1) // BANK


def column_start(tile: int, extent: int) -> int:
    """Return the first column of a column tile; ``extent`` for the tile after the last."""
    units = (extent + TILE - 1) // TILE
    tiles = (extent + BANK - 1) // BANK
    return min(extent, TILE * (tile * units // tiles))


def fewest_bytes(rows: int, columns: int, depth: int, dtype: str, generation: Generation) -> int:
    """Return a lower bound on the HBM bytes of any schedule of a product.

    Each operand is read and the result written at least once:

        M K + K N + M N

    and a memory of S elements allows no schedule with fewer transfers than

        2 M N K / sqrt(S) - 2 S

    (the tight bound of Smith, Lowery, Langou and van de Geijn, 2019). S is all of the usable SBUF
    and of PSUM. A blocked schedule reaches the first bound when one operand and a tile of the
    other fit in SBUF.
    """
    itemsize, core = ITEMSIZE[dtype], CORES[generation]
    held = TILE * (core.sbuf_bytes + core.psum_banks * BANK * 4) // itemsize
    once = rows * depth + depth * columns + rows * columns
    capacity = 2 * rows * columns * depth / held**0.5 - 2 * held
    return itemsize * max(once, int(capacity))
