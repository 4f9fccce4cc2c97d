"""Philox-4x32-10 (Salmon, Moraes, Dror and Shaw, SC'11): blocks of four words from their index.

Layout   a block per element; the four words of a block are contiguous in the result
Cost     327 instructions per tile of up to 128 x 1024 blocks, 172 on the Vector and 155 on the
         GpSimd engine: 5 for the counters, 17 for round 1, 33 for round 2, 34 for each other round
Lever    host-made round keys leave no 32-bit addition in the rounds; the two products of a round
         keep both engines busy; the last round writes the words in stream order
"""

from __future__ import annotations

from trnrand._kernels.definitions import PHILOX_ROUNDS
from trnrand._kernels.operands import (
    BLOCK_WORDS,
    PHILOX_FIRST,
    PHILOX_KEYS,
    PHILOX_MULTIPLIERS,
)
from trnrand._kernels.words import Tile, bits, column, counters, products, xored
from trnsci.core.nki import nl

_M0, _M1 = PHILOX_MULTIPLIERS, PHILOX_MULTIPLIERS + 3


def philox_blocks(parameters: Tile, first: int, rows: int, columns: int) -> Tile:
    """Return ``rows * columns`` blocks as uint32 (rows, columns, 4).

    Args:
        parameters: The words of ``philox_operand`` on all partitions.
        first: Number of preceding blocks of the launch.
        rows: Partitions in use.
        columns: Blocks per partition.
    """
    words = nl.ndarray((rows, columns, BLOCK_WORDS), dtype=nl.uint32, buffer=nl.sbuf)
    low, high = counters(parameters, first, rows, columns)
    # In round 1 the product of c2 is the same for all blocks and part of the operand.
    highs, lows = products(parameters, [low], [_M0], [])
    c0 = bits(high, nl.bitwise_xor, column(parameters, PHILOX_FIRST, low))
    c2 = bits(highs[0], nl.bitwise_xor, column(parameters, PHILOX_FIRST + 1, low))
    c1, c3 = None, lows[0]
    for r in range(1, PHILOX_ROUNDS):
        ends = []
        if r == PHILOX_ROUNDS - 1:
            for i in range(BLOCK_WORDS):
                ends.append(words[0:rows, 0:columns, i])
        low_ends = [ends[3], ends[1]] if ends else []
        highs, lows = products(parameters, [c0, c2], [_M0, _M1], low_ends)
        key = PHILOX_KEYS + 2 * (r - 1)
        c0 = bits(highs[1], nl.bitwise_xor, column(parameters, key, low))
        if c1 is not None:  # in round 2 it is a constant, and part of the key
            c0 = xored(c0, c1, ends[0] if ends else None)
        c2 = bits(highs[0], nl.bitwise_xor, column(parameters, key + 1, low))
        c2 = xored(c2, c3, ends[2] if ends else None)
        c1, c3 = lows[1], lows[0]
    return words
