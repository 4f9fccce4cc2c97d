"""The product of a matrix of dense blocks and a dense matrix, in one launch.

Layout   a block row on stationary columns, 128 of its rows at a time; the columns of its stored
         blocks, concatenated, on partitions in chunks of 128; the dense operand's columns move
Reuse    a panel of the dense operand stays in SBUF while its rows fit, loaded at first use; else
         each block row loads its own rows
Limits   any block size, any shape (edges are sliced); float32 or 16 bits, sums in float32; the
         last bank of columns has more than one, the caller adds one of zeros
Cost     per stored block of 128 one transpose and a product of 128 by 128 by N; DMA bytes of
         stored blocks, once per panel, and of rows of the dense operand that they touch
Lever    accumulation in PSUM along a block row without padding to the longest row; small blocks of
         a row share a chunk, so that a contraction over 8 columns does not leave 120 rows idle.
         The pattern is a compile-time argument; loops contain only its blocks
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, transpose_tile
from trnsci.core.tiles.hardware import TILE
from trnsparse._kernels.row_products import (
    add_chunk,
    new_sums,
    panels,
    store_nothing,
    store_sums,
)
from trnsparse._products.row_order import RESIDENT


class BlockRows(NamedTuple):
    """Positions of the stored blocks.

    Attributes:
        starts: Index of the first block of each block row, then the total.
        columns: The block column of each block.
    """

    starts: tuple[int, ...]
    columns: tuple[int, ...]


class Segment(NamedTuple):
    """Columns of one stored block in one chunk.

    Attributes:
        block: The block.
        offset: The first column within the block.
        width: The number of columns.
        row: The row of the dense operand that multiplies the first column.
        at: Position of the first column in the chunk.
    """

    block: int
    offset: int
    width: int
    row: int
    at: int


@nki.jit
def bsr_spmm(blocks: Tile, b: Tile, pattern: BlockRows, rows: int) -> Tile:
    """Return the product, (rows, N), in the dtype of the operands.

    Args:
        blocks: Stored blocks in the order of block rows, (blocks, size, size).
        b: Dense operand, (n, N) with N at least 2.
        pattern: Positions of the blocks.
        rows: Rows of the result, at most those of all block rows.
    """
    size = blocks.shape[1]
    depth, columns = b.shape
    out = nl.ndarray((rows, columns), dtype=b.dtype, buffer=nl.shared_hbm)
    item = 4 if b.dtype == nl.float32 else 2
    edges, resident = panels(columns, depth, item, RESIDENT)
    tiles = (depth + TILE - 1) // TILE
    # If blocks are multiples of a tile, chunks are tiles of the dense operand.
    resident = resident and size % TILE == 0
    for p in range(len(edges) - 1):
        c0, c1 = edges[p], edges[p + 1]
        cache, there = None, []
        if resident:
            cache = nl.ndarray((TILE, tiles, c1 - c0), dtype=b.dtype, buffer=nl.sbuf)
            for _ in range(tiles):
                there.append(False)
        for i in range(len(pattern.starts) - 1):
            chunks = row_chunks(pattern, i, size, depth)
            for m0 in range(i * size, min((i + 1) * size, rows), TILE):
                m1 = min(min(m0 + TILE, (i + 1) * size), rows)
                if len(chunks) == 0:
                    store_nothing(out, m0, m1, c0, c1)
                    continue
                sums = new_sums(m1 - m0, c1 - c0)
                for t in range(len(chunks)):
                    stationary = transposed_blocks(blocks, chunks[t], m0 - i * size, m1 - i * size)
                    if resident:
                        moving = cached_rows(cache, there, b, chunks[t], c0, c1)
                    else:
                        moving = gathered_rows(b, chunks[t], c0, c1)
                    add_chunk(sums, stationary, moving, t == 0)
                store_sums(out, m0, c0, sums)
    return out


def row_chunks(pattern: BlockRows, i: int, size: int, depth: int) -> list[list[Segment]]:
    """Return the columns of a block row's blocks in chunks of 128."""
    chunks: list[list[Segment]] = []
    at = TILE
    for k in range(pattern.starts[i], pattern.starts[i + 1]):
        first = pattern.columns[k] * size
        extent = min(size, depth - first)
        offset = 0
        while offset < extent:
            if at == TILE:
                chunks.append([])
                at = 0
            width = min(extent - offset, TILE - at)
            chunks[len(chunks) - 1].append(Segment(k, offset, width, first + offset, at))
            offset = offset + width
            at = at + width
    return chunks


def transposed_blocks(blocks: Tile, chunk: list[Segment], m0: int, m1: int) -> Tile:
    """Return the columns of a chunk on partitions, for rows ``m0`` to ``m1`` of their blocks."""
    last = chunk[len(chunk) - 1]
    width, rows = last.at + last.width, m1 - m0
    side_by_side = nl.ndarray((rows, width), dtype=blocks.dtype, buffer=nl.sbuf)
    for s in range(len(chunk)):
        part = chunk[s]
        nisa.dma_copy(
            dst=side_by_side[0:rows, part.at : part.at + part.width],
            src=blocks[part.block, m0:m1, part.offset : part.offset + part.width],
        )
    transposed = nl.ndarray((width, rows), dtype=blocks.dtype, buffer=nl.sbuf)
    transpose_tile(transposed, side_by_side)
    return transposed


def cached_rows(
    cache: Tile, there: list[bool], b: Tile, chunk: list[Segment], c0: int, c1: int
) -> Tile:
    """Return the rows of a chunk from the resident panel, loading them at first use."""
    row, width = chunk[0].row, chunk[0].width
    tile = row // TILE
    rows = cache[0:width, tile, 0 : c1 - c0]
    if not there[tile]:
        nisa.dma_copy(dst=rows, src=b[row : row + width, c0:c1])
        there[tile] = True
    return rows


def gathered_rows(b: Tile, chunk: list[Segment], c0: int, c1: int) -> Tile:
    """Return the rows of a chunk, loaded onto consecutive partitions."""
    last = chunk[len(chunk) - 1]
    rows = nl.ndarray((last.at + last.width, c1 - c0), dtype=b.dtype, buffer=nl.sbuf)
    for s in range(len(chunk)):
        part = chunk[s]
        nisa.dma_copy(
            dst=rows[part.at : part.at + part.width, 0 : c1 - c0],
            src=b[part.row : part.row + part.width, c0:c1],
        )
    return rows
