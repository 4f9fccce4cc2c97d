"""Choice of blocks for a product of matrices in split parts, and its HBM traffic.

A product of parts is the real product

    [A_re A_im] [[B_re, B_im], [-B_im, B_re]]

of the same rows, ``lefts`` times the contraction and ``outs`` times the columns, so the tiling of
that real product is used. It reserves space for one more copy of B on chip than the kernels use.
"""

from __future__ import annotations

from dataclasses import dataclass

from trnsci.core.errors import ShapeError
from trnsci.core.tiles.hardware import BANK, ITEMSIZE, TILE
from trnsci.core.tiles.tiling import Blocks, row_tiles
from trnsci.core.tiles.tiling_gemm import gemm_tiling


@dataclass(frozen=True)
class PartsTiling:
    """The tiling of a product of parts.

    Attributes:
        blocks: The ``blocks`` argument of the kernel.
        sbuf_bytes: Maximum SBUF bytes per partition, with double buffers for streamed operands.
        psum_banks: Maximum number of PSUM banks.
        hbm_bytes: Bytes read from and written to HBM.
    """

    blocks: Blocks
    sbuf_bytes: int
    psum_banks: int
    hbm_bytes: int


def parts_tiling(
    rows: int,
    columns: int,
    depth: int,
    dtype: str = "float32",
    generation: str | None = None,
    *,
    lefts: int = 2,
    outs: int = 2,
    wide: bool = False,
) -> PartsTiling:
    """Return the blocks for ``lefts`` parts of rows x depth times two of depth x columns.

    Args:
        rows: Rows of each left part and of the result, at least 1 like all sizes.
        columns: Columns of each right part.
        depth: The contraction.
        dtype: ``"float32"``, ``"bfloat16"`` or ``"float16"``, of all operands.
        generation: ``"gen2"``, ``"gen3"``, ``"gen4"`` or an instance name; None for the generation
            that the environment selects.
        lefts: Number of parts of the left operand: 1 if it is real, 2 if it is complex.
        outs: Number of parts of the result: 2, or 1 for a real result.
        wide: Whether a bfloat16 product is stored in float32.

    Raises:
        ValueError: A size is below 1, or the dtype or the generation is not valid.
    """
    if min(rows, columns, depth) < 1:
        raise ShapeError(
            f"parts_tiling: sizes must be at least 1, got M={rows}, N={columns}, K={depth}"
        )
    tiles = row_tiles(depth)
    found = gemm_tiling(
        rows,
        max(outs * columns, 2),  # a single column would be planned as a row
        lefts * TILE * tiles,
        dtype,
        generation,
    )
    blocks = found.blocks
    row_blocks = -(-row_tiles(rows) // blocks.row_tiles)
    column_blocks = -(-columns // column_step(columns, outs, blocks.column_tiles))
    left_reads, right_reads = column_blocks, row_blocks
    if blocks.depth_tiles >= lefts * tiles:
        left_reads = 1 if blocks.resident == "a" else left_reads
        right_reads = 1 if blocks.resident == "b" else right_reads
    size, out_size = ITEMSIZE[dtype], 4 if wide else ITEMSIZE[dtype]
    read = left_reads * lefts * rows * depth + right_reads * 2 * depth * columns
    written = outs * rows * columns * out_size
    # The plan assumes output rows in the dtype of the operands; correct their SBUF bytes.
    sbuf_bytes = found.sbuf_bytes + 2 * blocks.group * BANK * (out_size - size)
    return PartsTiling(blocks, sbuf_bytes, found.psum_banks, size * read + written)


def column_step(columns: int, outs: int, column_tiles: int) -> int:
    """Return the columns per block, with at most ``column_tiles`` column tiles over all parts."""
    most = column_tiles * BANK // outs
    count = (columns + most - 1) // most
    return (columns + count - 1) // count
