"""How operands lie in the tiles of Intel AMX.

A tile is 16 lines of 64 bytes. An operand is packed into tiles of 32 rows and 16 columns: 16 lines
of 16 words, where a word holds one column's bfloat16 of two neighbouring rows. A line of a moving
tile is such a pair of rows; a line of a stationary tile is one column. What is missing to a
multiple of 32 rows and columns is zero.

Tiles of the same columns, which are summed over, follow each other and form a strip. All begin at
multiples of 64 bytes, or loading one would touch twice as many cache lines.
"""

__all__ = ["BLOCK", "DEPTH", "LINE", "SIDE", "TILE", "packed_shape"]

LINE = 64
"""Bytes of a line."""
SIDE = 16
"""Lines of a tile, columns of an operand in a tile, and float32 sums in a line."""
TILE = SIDE * LINE
"""Bytes of a tile."""
DEPTH = 32
"""Rows of an operand in a tile."""
BLOCK = 2 * SIDE
"""Rows and columns of the result that are summed at a time, in a square of four tiles."""


def packed_shape(depth: int, width: int) -> tuple[int, int]:
    """Return the strips of a packed matrix, an even number, and the words of each."""
    return -(-width // BLOCK) * 2, -(-depth // DEPTH) * TILE // 4
