"""How operands of a product lie in panels, so that both are read from begin to end.

A panel holds some columns of a matrix, row by row. Those of the stationary operand are as wide as
the block of sums that stays in registers is high, those of the moving operand as wide as it is
wide. What is missing to a multiple of ``WIDTH`` columns is zero.
"""

__all__ = ["HEIGHT", "MOST_ROWS", "WIDTH", "packed_elements"]

HEIGHT, WIDTH = 8, 32
"""Rows and columns of the result that are summed at a time, and widths of the operands' panels."""

MOST_ROWS = 256
"""Rows of a panel for which there is room in the nearest cache."""


def packed_elements(depth: int, columns: int) -> int:
    """Return how many elements an operand has when it is packed."""
    return depth * -(-columns // WIDTH) * WIDTH
