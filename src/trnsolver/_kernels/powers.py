"""Powers of square matrices by repeated squaring, all products in one launch.

The binary digits of the exponent decide which squares are multiplied. The power and the square
commute, so that the transpose of the square is the left operand of both products.

Layout   block matrices (see ``block_matrix``): the square, its transpose and the power
Limits   order at most 1024, whose blocks of rows fill the eight PSUM banks; exponents are at least
         1 and constants of the program
Cost     a product of n^3 terms and a transpose for each digit after the first, and a product for
         each further digit that is 1
Lever    one read and one write; products replace their operand strip by strip, so that three
         matrices suffice
"""

from __future__ import annotations

from trnsci.core.nki import nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsolver._kernels.block_matrix import (
    copy_matrix,
    load_matrix,
    multiply_in_place,
    new_matrix,
    store_matrix,
    transpose_matrix,
)
from trnsolver._kernels.limits import POWER_ORDER, block_width


@nki.jit
def matrix_power(a: Tile, exponent: int) -> Tile:
    """Return the powers of matrices (batch, n, n), with an exponent of at least 1."""
    batch, n = a.shape[0], a.shape[1]
    assert n <= POWER_ORDER, f"matrix_power: order at most {POWER_ORDER}, got {n}"
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    width = block_width(n)
    blocks = (n + width - 1) // width
    for q in range(batch):
        square = new_matrix(width, blocks, blocks * width)
        transposed = new_matrix(width, blocks, blocks * width)
        power = new_matrix(width, blocks, blocks * width)
        load_matrix(square, a, q)
        rest, started = exponent, False
        while rest > 0:
            last = rest == 1
            if not (last and not started):
                transpose_matrix(transposed, square)
            if rest % 2 == 1:
                if started:
                    multiply_in_place(transposed, power)
                else:
                    copy_matrix(power, square)
                started = True
            if not last:
                multiply_in_place(transposed, square)
            rest = rest // 2
        store_matrix(out, q, power)
    return out
