"""How a matrix product is cut into tiles and blocks, and what a cut costs.

A *tile* is what one instruction takes: 128 rows of the result, 128 of the contraction, up to 512
columns (one PSUM bank in float32). A *block* is the run of tiles that stays in SBUF while it is
used. Column tiles begin at multiples of 128 and are nearly equal: 513 columns are cut into 256 and
257, never into 512 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from trnsci.core.tiles.hardware import BANK, CORES, ITEMSIZE, TILE, Generation

__all__ = [
    "Blocks",
    "Layout",
    "Tiling",
    "column_start",
    "column_tiles",
    "fewest_bytes",
    "row_tiles",
]

Layout = Literal["rows", "columns", "upper", "lower"]
"""Where an operand keeps the contraction: on its rows, so that it is loaded as it stands, or on its
columns, so that it is transposed on chip; or a symmetric operand stored in one triangle."""


class Blocks(NamedTuple):
    """The cut of a product as its kernel takes it: small integers and one word.

    Attributes:
        row_tiles: Tiles of 128 rows in a block of the left operand.
        column_tiles: Column tiles in a block of the right operand.
        depth_tiles: Tiles of 128 of the contraction in a block of either.
        resident: The operand whose block stays while blocks of the other pass by; only when the
            blocks hold the whole contraction.
        group: Neighbouring column tiles that grow together, each in a PSUM bank.
        stage_tiles: Tiles of the contraction loaded at once when an operand is transposed.
    """

    row_tiles: int
    column_tiles: int
    depth_tiles: int
    resident: str
    group: int
    stage_tiles: int


@dataclass(frozen=True)
class Tiling:
    """A cut, what it occupies and what it costs.

    Attributes:
        blocks: What the kernel takes.
        generation, dtype: What it was chosen for.
        buffers: 2 when the operand that passes by has room for its next block, else 1.
        sbuf_bytes: Bytes per partition, with room for a C of the same dtype.
        psum_banks: Banks, with room for the next group.
        hbm_bytes: Bytes read from and written to HBM; reading C adds its own size.
        products: ``nc_matmul`` instructions.
        transposes: Tiles transposed on chip.
        tensor_ns, vector_ns, dma_ns: Busy times by the model.
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

    @property
    def time_ns(self) -> float:
        """Predicted time: the busiest part, or one after the other without a second buffer."""
        if self.buffers == 1:
            return max(self.tensor_ns, self.vector_ns) + self.dma_ns
        return max(self.tensor_ns, self.vector_ns, self.dma_ns)

    @property
    def fits(self) -> bool:
        """Tell whether the cut is inside the memories of its generation."""
        core = CORES[self.generation]
        return self.sbuf_bytes <= core.sbuf_bytes and self.psum_banks <= core.psum_banks


def row_tiles(extent: int) -> int:
    """Return how many tiles of 128 hold ``extent``."""
    return (extent + TILE - 1) // TILE


def column_tiles(extent: int) -> int:
    """Return how many column tiles hold ``extent`` columns."""
    return (extent + BANK - 1) // BANK


def column_start(tile: int, extent: int) -> int:
    """Return the first column of a column tile; that of the tile after the last is ``extent``."""
    units = (extent + TILE - 1) // TILE
    tiles = (extent + BANK - 1) // BANK
    return min(extent, TILE * (tile * units // tiles))


def fewest_bytes(rows: int, columns: int, depth: int, dtype: str, generation: Generation) -> int:
    """Return HBM bytes that no schedule of a product can go below.

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
