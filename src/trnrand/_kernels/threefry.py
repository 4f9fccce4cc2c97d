"""Threefry-4x32-20 (Salmon, Moraes, Dror and Shaw, SC'11): blocks of four words from their index.

Layout   a block per element; the four words of a block are contiguous in the result
Cost     218 instructions per tile of up to 128 x 1024 blocks, 155 on the Vector and 63 on the
         GpSimd engine: 6 for the counters, 12 for rounds 1 and 2, 10 for each other round, 4 for
         each of five key injections
Lever    wrapping sums on the GpSimd engine overlap rotations on the Vector engine; the constant
         parts of rounds 1 and 2 are computed on the host; the last injection writes words in
         stream order
"""

from __future__ import annotations

from trnrand._kernels.definitions import THREEFRY_ROTATIONS, THREEFRY_ROUNDS
from trnrand._kernels.operands import BLOCK_WORDS, THREEFRY_CONSTANTS, THREEFRY_INJECTIONS
from trnrand._kernels.words import Tile, added, bits, column, counters, rotated_xor, spread
from trnsci.core.nki import nl

_KEY, _X2, _X3, _X3_ROTATED = range(THREEFRY_CONSTANTS, THREEFRY_CONSTANTS + 4)


def threefry_blocks(parameters: Tile, first: int, rows: int, columns: int) -> Tile:
    """Return ``rows * columns`` blocks as uint32 (rows, columns, 4).

    Args:
        parameters: The words of ``threefry_operand`` on all partitions.
        first: Number of preceding blocks of the launch.
        rows: Partitions in use.
        columns: Blocks per partition.
    """
    words = nl.ndarray((rows, columns, BLOCK_WORDS), dtype=nl.uint32, buffer=nl.sbuf)
    x = first_rounds(parameters, first, rows, columns)
    for r in range(2, THREEFRY_ROUNDS):
        # Even rounds mix x0 with x1 and x2 with x3, odd ones x0 with x3 and x2 with x1.
        left, right = (1, 3) if r % 2 == 0 else (3, 1)
        rotations = THREEFRY_ROTATIONS[r % len(THREEFRY_ROTATIONS)]
        x[0] = added(x[0], x[left])
        x[2] = added(x[2], x[right])
        x[left] = rotated_xor(x[left], rotations[0], x[0])
        x[right] = rotated_xor(x[right], rotations[1], x[2])
        if r % 4 == 3:
            for i in range(BLOCK_WORDS):
                injected = spread(parameters, THREEFRY_INJECTIONS + r // 4 * 4 + i, x[i])
                last = r == THREEFRY_ROUNDS - 1
                x[i] = added(x[i], injected, words[0:rows, 0:columns, i] if last else None)
    return words


def first_rounds(parameters: Tile, first: int, rows: int, columns: int) -> list[Tile]:
    """Return the four words of the state after round 2.

    The first key injection of the block index's high word is part of the operand, and so are x2
    and x3 after round 1, which do not depend on the block index before round 2.
    """
    x0, x1 = counters(parameters, first, rows, columns)
    x0 = added(added(x0, spread(parameters, _KEY, x0)), x1)
    x1 = rotated_xor(x1, THREEFRY_ROTATIONS[0][0], x0)
    x0 = added(x0, spread(parameters, _X3, x0))
    x2 = added(x1, spread(parameters, _X2, x1))
    x3 = bits(x0, nl.bitwise_xor, column(parameters, _X3_ROTATED, x0))
    x1 = rotated_xor(x1, THREEFRY_ROTATIONS[1][1], x2)
    return [x0, x1, x2, x3]
