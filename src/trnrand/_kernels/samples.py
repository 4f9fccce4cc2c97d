"""Random words and samples of any number in one launch, from Philox or Threefry.

Layout   element e of the result is word e % 4 of block e // 4 after the operand's first block, or
         its sample. A tile holds up to 128 x 512 blocks of Philox or 128 x 1024 of Threefry,
         consecutive blocks on every partition, so each partition is one contiguous piece of the
         result. Tiles have as few columns as 128 partitions allow, at least 2: short requests use
         all partitions, too.
Limits   1 to 2^33 elements. Loops are unrolled: beyond 7e8 elements the program is longer than
         250,000 instructions per engine, which compilers may refuse. Launches begin at a block;
         ``first_block`` and ``drawn_words`` of ``operands`` give the words to draw and to skip for
         a request that begins inside a block.
Cost     per tile, the words (365 instructions for Philox, 228 of them on the Tensor engine; 218
         for Threefry) and the samples (0 for words, 2 for uniform, 20 for exponential, 36 for
         normal); one DMA out, one more for a ragged end
Lever    one launch per request, which reads one row of parameters and writes only samples
"""

from __future__ import annotations

from typing import Any

from trnrand._kernels.laws import exponentials, normals, uniforms
from trnrand._kernels.operands import BLOCK_WORDS
from trnrand._kernels.philox import philox_blocks, philox_factors
from trnrand._kernels.threefry import threefry_blocks
from trnrand._kernels.words import Tile
from trnsci.core.nki import nisa, nki, nl

ROWS = 128
COLUMNS = {"philox": 512, "threefry": 1024}
"""Largest number of blocks per partition of a tile; 512 words fill a PSUM bank (Philox)."""
TOGETHER = {"philox": 4, "threefry": 1}
"""Number of tiles whose rounds alternate, or one more; one Threefry tile keeps engines busy."""


@nki.jit
def philox_words(operand: Tile, count: int) -> Tile:
    """Return ``count`` words of Philox-4x32-10, uint32.

    Args:
        operand: ``philox_operand`` of the key and the first block; uint32, or int32 of its bits.
        count: Number of elements.
    """
    return draw(operand, count, "philox", "words", "uint32")


@nki.jit
def philox_uniform(operand: Tile, count: int, dtype: str = "float32") -> Tile:
    """Return ``count`` uniform samples of [0, 1): float32, bfloat16 or float16."""
    return draw(operand, count, "philox", "uniform", dtype)


@nki.jit
def philox_normal(operand: Tile, count: int) -> Tile:
    """Return ``count`` standard normal samples, float32."""
    return draw(operand, count, "philox", "normal", "float32")


@nki.jit
def philox_exponential(operand: Tile, count: int) -> Tile:
    """Return ``count`` exponential samples of rate 1, float32."""
    return draw(operand, count, "philox", "exponential", "float32")


@nki.jit
def threefry_words(operand: Tile, count: int) -> Tile:
    """Return ``count`` words of Threefry-4x32-20, uint32.

    Args:
        operand: ``threefry_operand`` of the key and the first block; uint32, or int32 of its bits.
        count: Number of elements.
    """
    return draw(operand, count, "threefry", "words", "uint32")


@nki.jit
def threefry_uniform(operand: Tile, count: int, dtype: str = "float32") -> Tile:
    """Return ``count`` uniform samples of [0, 1): float32, bfloat16 or float16."""
    return draw(operand, count, "threefry", "uniform", dtype)


@nki.jit
def threefry_normal(operand: Tile, count: int) -> Tile:
    """Return ``count`` standard normal samples, float32."""
    return draw(operand, count, "threefry", "normal", "float32")


@nki.jit
def threefry_exponential(operand: Tile, count: int) -> Tile:
    """Return ``count`` exponential samples of rate 1, float32."""
    return draw(operand, count, "threefry", "exponential", "float32")


def draw(operand: Tile, count: int, engine: str, law: str, dtype: str) -> Tile:
    """Return ``count`` samples of a distribution from the words of an engine."""
    out = nl.ndarray((count,), dtype=_element(dtype), buffer=nl.shared_hbm)
    width = operand.shape[1]
    loaded = nl.ndarray((ROWS, width), dtype=operand.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=loaded, src=operand.ap(pattern=[[0, ROWS], [1, width]]))
    parameters = loaded.view(nl.uint32)
    blocks = (count + BLOCK_WORDS - 1) // BLOCK_WORDS
    factors = philox_factors() if engine == "philox" else []
    for group in groups_of(tiles_of(blocks, COLUMNS[engine]), TOGETHER[engine]):
        if engine == "philox":
            words = philox_blocks(parameters, factors, group)
        else:
            words = []
            for tile in group:
                words.append(threefry_blocks(parameters, tile[0], tile[1], tile[2]))
        for i in range(len(group)):
            first, rows, columns = group[i]
            samples = words[i].reshape((rows, columns * BLOCK_WORDS))
            if law == "uniform":
                samples = uniforms(samples, dtype)
            elif law == "normal":
                samples = normals(samples)
            elif law == "exponential":
                samples = exponentials(samples)
            store(out, samples, first * BLOCK_WORDS)
    return out


def tiles_of(blocks: int, most: int) -> list[tuple[int, int, int]]:
    """Return the first block, the partitions and the blocks per partition of each tile.

    Tiles have 2 to ``most`` blocks per partition: some compilers reject a single moving column.
    """
    tiles = []
    for first in range(0, blocks, ROWS * most):
        here = min(ROWS * most, blocks - first)
        columns = max(2, (here + ROWS - 1) // ROWS)
        tiles.append((first, (here + columns - 1) // columns, columns))
    return tiles


def groups_of(tiles: list[tuple[int, int, int]], count: int) -> list[list[tuple[int, int, int]]]:
    """Return tiles in groups of ``count``; a single last one, often tiny, joins the last group."""
    groups = []
    for t in range(0, max(1, len(tiles) - 1), count):
        groups.append(tiles[t : t + count])
    groups[-1] += tiles[len(groups) * count :]
    return groups


def store(out: Tile, samples: Tile, start: int) -> None:
    """Write the rows of a tile contiguously, from ``start`` to at most the end of ``out``."""
    rows, columns = samples.shape
    count = min(rows * columns, out.shape[0] - start)
    whole = count // columns
    if whole > 0:
        pattern = [[columns, whole], [1, columns]]
        nisa.dma_copy(dst=out.ap(pattern=pattern, offset=start), src=samples[0:whole, 0:columns])
    rest = count - whole * columns
    if rest > 0:
        nisa.dma_copy(
            dst=out.ap(pattern=[[rest, 1], [1, rest]], offset=start + whole * columns),
            src=samples[whole : whole + 1, 0:rest],
        )


def _element(dtype: str) -> Any:
    if dtype == "uint32":
        return nl.uint32
    if dtype == "bfloat16":
        return nl.bfloat16
    if dtype == "float16":
        return nl.float16
    return nl.float32
