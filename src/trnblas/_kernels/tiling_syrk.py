"""Block sizes of products with one computed triangle.

The result is split into square blocks of B rows. A block of the operand with the whole contraction
stays in SBUF while later blocks are streamed; on the diagonal it is multiplied with itself. With
b = M / B blocks, HBM traffic is about

    (b + 1) / 2 * M K + M M

elements, and M K + M M when the operand fits. A longer contraction is split too: the block
of the result stays in SBUF in float32, and both operands are streamed: about b M K + M M.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from trnsci.core.errors import FlagError, ShapeError
from trnsci.core.tiles.hardware import (
    BANK,
    CORES,
    ITEMSIZE,
    TILE,
    Generation,
    generation_stated,
    resolve_generation,
)
from trnsci.core.tiles.tiling import Blocks, Layout, Tiling, column_tiles, row_tiles
from trnsci.core.tiles.tiling_gemm import DEPTH_TILES, best, part, splits, stage_tiles

_BLOCK_TILES = BANK // TILE


def syrk_tiling(
    size: int,
    depth: int,
    dtype: str = "float32",
    generation: str | None = None,
    *,
    layout: Layout = "columns",
    operands: int = 1,
) -> Tiling:
    """Return the blocks for one triangle of a ``size x depth`` times ``depth x size`` product.

    Args:
        size: Rows and columns of the result, at least 1.
        depth: K, at least 1.
        dtype: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        generation: As in ``gemm_tiling``.
        layout: ``"rows"`` if no operand is transposed on chip.
        operands: 2 for SYR2K, a sum of two products. GEMMT uses the same blocks: it also holds
            two panels, computes half of the products and moves no more bytes.

    Raises:
        ValueError: A size is below 1, or the dtype or the generation is unknown.
    """
    if min(size, depth) < 1:
        raise ShapeError(f"syrk_tiling: sizes must be at least 1, got M={size}, K={depth}")
    if dtype not in ITEMSIZE:
        raise FlagError(f"syrk_tiling: dtype {dtype!r}, accepted: {', '.join(ITEMSIZE)}")
    wanted = resolve_generation(generation), generation_stated(generation)
    return _chosen(_Product(size, depth, dtype, *wanted, layout, operands))


class _Product(NamedTuple):
    """Shape, dtype and layout of the products of a triangle, and the generation that runs them.

    ``stated`` is whether the caller named the generation.
    """

    size: int
    depth: int
    dtype: str
    generation: Generation
    stated: bool
    layout: Layout
    operands: int


@lru_cache(maxsize=1024)
def _chosen(product: _Product) -> Tiling:
    return best(_price(product, *cut) for cut in _cuts(product.size, product.depth))


def _cuts(size: int, depth: int) -> Iterator[tuple[int, int, int]]:
    """Yield row tiles, depth tiles and buffers; block widths are whole banks if possible."""
    mt, kt = row_tiles(size), row_tiles(depth)
    for rows in splits(mt):
        if rows == mt or rows < _BLOCK_TILES or rows % _BLOCK_TILES == 0:
            for tiles in (kt, *(d for d in DEPTH_TILES if d < kt)):
                yield from ((rows, tiles, 2), (rows, tiles, 1))


def _price(product: _Product, rows: int, tiles: int, buffers: int) -> Tiling:
    """Return a tiling with its memory and cost."""
    size, depth, dtype, generation, stated, layout, operands = product
    core, item = CORES[generation], ITEMSIZE[dtype]
    mt, kt, step = row_tiles(size), row_tiles(depth), rows * TILE
    whole = tiles >= kt
    products = read = 0
    for first in range(0, size, step):
        last = min(first + step, size)
        later = range(last, size, step)
        # Rows read: this block, once or again for each later block, and every later block.
        read += (last - first) * (1 if whole else 1 + len(later)) + size - last
        wide = sum(column_tiles(min(step, size - j)) for j in later)
        products += sum(column_tiles(last - m) + wide for m in range(first, last, TILE))
    products *= operands * kt
    # Every tile of the computed triangle is transposed into its mirror image. Diagonal tiles are
    # transposed too, so that they are symmetric to the last bit.
    mirrored = mt * (mt + 1) // 2
    transposes = mirrored + (0 if layout == "rows" else operands * kt * -(-read // TILE))
    passes = 4 if item == 4 else 1
    streamed = operands * kt * TILE * mirrored
    tensor_ns = (passes * streamed + core.product_cycles * products) / core.tensor_ghz
    sums = streamed / (operands * kt) * -(-kt // tiles)
    vector_ns = (2 * sums + core.vector_cycles * products / kt) / core.vector_ghz
    turning = transposes * core.transpose_ns[dtype]
    blocks = Blocks(
        rows,
        column_tiles(min(step, size)),
        tiles,
        "",
        part(column_tiles(min(step, size)), 3 if core.transposes_on_tensor else 4),
        stage_tiles(tiles, item),
    )
    hbm_bytes = item * (operands * read * depth + size * size)
    return Tiling(
        blocks=blocks,
        generation=generation,
        dtype=dtype,
        buffers=buffers,
        sbuf_bytes=_sbuf_bytes(size, item, operands, blocks, whole, buffers),
        psum_banks=2 * blocks.group + (2 if core.transposes_on_tensor else 0),
        hbm_bytes=hbm_bytes,
        products=products,
        transposes=transposes,
        tensor_ns=tensor_ns + (turning if core.transposes_on_tensor else 0),
        vector_ns=vector_ns + (0 if core.transposes_on_tensor else turning),
        dma_ns=hbm_bytes / core.dma_bytes_per_ns,
        stated=stated,
    )


def _sbuf_bytes(
    size: int, item: int, operands: int, blocks: Blocks, whole: bool, buffers: int
) -> int:
    """Return bytes per partition: panels, staging buffers and output tiles."""
    extent = min(size, blocks.row_tiles * TILE)
    panel = operands * blocks.depth_tiles * extent * item
    several = blocks.row_tiles < row_tiles(size)
    if whole:
        total = panel * (1 + buffers if several else 1)
    else:
        total = buffers * panel * (2 if several else 1) + blocks.row_tiles * extent * 4
    staged = 2 * blocks.stage_tiles * TILE * item
    # Two output pieces and two mirrored tiles in float32, each with its part of C, and two masks.
    outgoing = 4 * (min(extent, BANK) + TILE) * 4 + 2 * TILE
    return total + staged + outgoing
