"""The MP2 energy of given integrals, all in double-float numbers.

The sum of T (2 T - S) / D over the matrix of all (i, a) and (j, b), where S is T with a and b
exchanged, and D the sum of eps_i - eps_a of its row and eps_j - eps_b of its column.

Layout   pairs (i, a) on partitions, 128 at a time; pairs (j, b) on the free axis, up to 512 at a
         time; ragged tiles are filled with T = 0 and D of at least 12
Limits   any numbers of orbitals; entries of T and parts of D in [-4, 4], scaled by powers of two
Error    u = 2**-24. A term has an error of 21 u**2: 3.1 for 2 T - S, 9 for the product, 3.1 and 1
         for D and the rounding of its parts (where these have one sign, as for orbital energies on
         both sides of the gap), 5 for the quotient. Sums add 3.1 u**2 for each tile in a row of
         tiles, each row of tiles, and each of 16 halvings. All are relative to the sum of
         |T (2 T - S) / D|, at most 3 times the energy if all D have one sign
Cost     152 Vector instructions on each tile, and a reciprocal: 10 times the time of its six
transfers
Lever    one elementwise pass over full tiles for any number of virtual orbitals: S is a second
         operand, permuted in HBM; sums stay in SBUF to the end
"""

from __future__ import annotations

from trnblas._kernels.doublefloat_vectors import tile_width
from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.doublefloat_arithmetic import (
    Pair,
    add,
    divide,
    filled,
    load_pair,
    multiply,
    store_total,
    subtract,
    zero_pair,
)
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE

FILL = 16.0  # in place of a part of D, which is in [-4, 4], beyond the edge: D is not 0


@nki.jit
def doublefloat_mp2_energy(
    t_high: Tile,
    t_low: Tile,
    s_high: Tile,
    s_low: Tile,
    row_high: Tile,
    row_low: Tile,
    column_high: Tile,
    column_low: Tile,
) -> tuple[Tile, Tile]:
    """Return the energy as two (1, 1) planes.

    Args:
        t_high: (rows, columns), the integrals T.
        t_low: Their low part.
        s_high: (rows, columns), T with the virtual orbitals exchanged.
        s_low: Its low part.
        row_high: (rows, 1), eps_i - eps_a.
        row_low: Its low part.
        column_high: (1, columns), eps_j - eps_b.
        column_low: Its low part.
    """
    high = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    low = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    width = tile_width(t_high)
    total = zero_pair(width)
    for r in range(0, t_high.shape[0], TILE):
        of_rows = load_pair(row_high, row_low, r, 0, 1, FILL)
        of_rows = filled(of_rows[0], width), filled(of_rows[1], width)
        row_total = zero_pair(width)
        for c in range(0, t_high.shape[1], width):
            t = load_pair(t_high, t_low, r, c, width)
            s = load_pair(s_high, s_low, r, c, width)
            gaps = add(of_rows, load_columns(column_high, column_low, c, width))
            row_total = add(row_total, divide(multiply(t, subtract(twice(t), s)), gaps))
        total = add(total, row_total)
    store_total(high, low, total)
    return high, low


def twice(x: Pair) -> Pair:
    """Return 2 x, which is exact."""
    high = nl.ndarray(x[0].shape, dtype=nl.float32, buffer=nl.sbuf)
    low = nl.ndarray(x[1].shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=high, data=x[0], op0=nl.multiply, operand0=2.0)
    nisa.tensor_scalar(dst=low, data=x[1], op0=nl.multiply, operand0=2.0)
    return high, low


def load_columns(high: Tile, low: Tile, c0: int, width: int) -> Pair:
    """Return a part of a row on every partition; ``FILL`` beyond its edge."""
    columns = min(width, high.shape[1] - c0)
    first = nl.ndarray((TILE, width), dtype=nl.float32, buffer=nl.sbuf)
    second = nl.ndarray((TILE, width), dtype=nl.float32, buffer=nl.sbuf)
    if columns < width:
        nisa.memset(dst=first, value=FILL)
        nisa.memset(dst=second, value=0.0)
    pattern = [[0, TILE], [1, columns]]
    nisa.dma_copy(dst=first[0:TILE, 0:columns], src=high.ap(pattern, offset=c0))
    nisa.dma_copy(dst=second[0:TILE, 0:columns], src=low.ap(pattern, offset=c0))
    return first, second
