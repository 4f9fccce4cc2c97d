"""Philox-4x32-10 (Salmon, Moraes, Dror and Shaw, SC'11): blocks of four words from their index.

Layout   a block per element; the four words of a block are contiguous in the result
Cost     365 instructions per tile of up to 128 x 512 blocks: 228 on the Tensor engine, 96 on
         Vector, 22 on GpSimd and 19 on Scalar; 25 for the operands of products
Lever    host-made round keys leave no 32-bit addition in the rounds; products run on four engines,
         and the rounds of up to four tiles alternate, so that none of them waits; the last round
         writes the words in stream order
"""

from __future__ import annotations

from trnrand._kernels.byte_products import Tile, Words, load_factors, new_words, product
from trnrand._kernels.byte_terms import terms
from trnrand._kernels.definitions import PHILOX_M0, PHILOX_M1, PHILOX_ROUNDS
from trnrand._kernels.operands import (
    BLOCK_WORDS,
    PHILOX_FIRST,
    PHILOX_KEYS,
    PHILOX_MULTIPLIERS,
)
from trnrand._kernels.words import bits, column, counters, spread, xored
from trnsci.core.nki import nl

_TERMS = (terms(PHILOX_M0), terms(PHILOX_M1))


def philox_factors() -> list[list[Tile]]:
    """Return the operands of the products that all tiles share."""
    return load_factors(_TERMS)


def philox_blocks(
    parameters: Tile, factors: list[list[Tile]], tiles: list[tuple[int, int, int]]
) -> list[Tile]:
    """Return the blocks of some tiles, uint32 (rows, columns, 4) each.

    Args:
        parameters: The words of ``philox_operand`` on all partitions.
        factors: The operands that ``philox_factors`` returns.
        tiles: For each tile the number of blocks before it in the launch, its partitions and its
            blocks per partition, 2 to 512.
    """
    words, states = [], []
    for tile in tiles:
        first, rows, columns = tile
        words.append(nl.ndarray((rows, columns, BLOCK_WORDS), dtype=nl.uint32, buffer=nl.sbuf))
        low, high = counters(parameters, first, rows, columns)
        # In round 1 the product of c2 is the same for all blocks and part of the operand.
        c3 = new_words(rows, columns)
        high0 = multiplied(parameters, factors, 0, low, c3)
        c0 = bits(high, nl.bitwise_xor, column(parameters, PHILOX_FIRST, low))
        c2 = bits(high0, nl.bitwise_xor, column(parameters, PHILOX_FIRST + 1, low))
        states.append([c0, None, c2, c3.words])
    for r in range(1, PHILOX_ROUNDS):
        for t in range(len(tiles)):
            last = words[t] if r == PHILOX_ROUNDS - 1 else None
            states[t] = one_round(parameters, factors, r, states[t], last)
    return words


def one_round(
    parameters: Tile,
    factors: list[list[Tile]],
    r: int,
    state: list[Tile],
    out: Tile | None,
) -> list[Tile]:
    """Return the four words after round ``r``, in the blocks ``out`` if given."""
    c0, c1, c2, c3 = state
    rows, columns = c0.shape
    dst0, dst2, lows = None, None, []
    if out is None:
        for _ in range(2):
            lows.append(new_words(rows, columns))
    else:
        dst0, dst2 = out[0:rows, 0:columns, 0], out[0:rows, 0:columns, 2]
        for i in (3, 1):
            upper = out.view(nl.uint16)[0:rows, 0:columns, 2 * i + 1]
            lows.append(Words(out[0:rows, 0:columns, i], upper))
    high0 = multiplied(parameters, factors, 0, c0, lows[0])
    high1 = multiplied(parameters, factors, 1, c2, lows[1])
    key = PHILOX_KEYS + 2 * (r - 1)
    if c1 is None:  # in round 2 it is a constant, and part of the key
        found0 = bits(high1, nl.bitwise_xor, column(parameters, key, c0), dst=dst0)
    else:
        keyed = bits(c1, nl.bitwise_xor, column(parameters, key, c0))
        found0 = xored(keyed, high1, dst0)
    keyed = bits(c3, nl.bitwise_xor, column(parameters, key + 1, c0))
    return [found0, lows[1].words, xored(keyed, high0, dst2), lows[0].words]


def multiplied(
    parameters: Tile, factors: list[list[Tile]], which: int, word: Tile, low: Words
) -> Tile:
    """Return the high word of the product with a constant of Philox, and write the low word."""
    constant = spread(parameters, PHILOX_MULTIPLIERS + which, word)
    return product(word, _TERMS[which], constant, factors[which], low)
