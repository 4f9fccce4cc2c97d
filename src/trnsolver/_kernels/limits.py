"""Limits of the kernels: SBUF usage, largest problem sizes, and program lengths.

They are separate from the kernels because operations need them before NKI is imported. Sizes are
for the smallest SBUF, 176 KiB per partition on gen2; the rest is for tiles in flight.
"""

from __future__ import annotations

from trnsci.core.tiles.hardware import TILE

PROGRAM = 150_000
"""Largest number of instructions of one launch: more take minutes to compile or fail."""
SBUF_BYTES = 144 * 1024
"""Bytes per partition for resident data."""
EIGH_ORDER = 8 * TILE
"""Four matrices of this order take 128 KiB of each partition."""
DIVIDED_ORDER = 16 * TILE
"""Largest order for spectral division, limited by the Cholesky factors of Gram matrices."""
LU_ORDER = 8 * TILE
"""Four matrices of this order take 128 KiB."""
CHOLESKY_ORDER = 16 * TILE
"""One matrix of this order takes 128 KiB."""
CG_ORDER = 16 * TILE
"""One matrix of this order takes 128 KiB."""
ROOT_ORDER = 7 * TILE
"""Six matrices of this order take 147 KiB."""
POWER_ORDER = 8 * TILE
"""A product in place has a PSUM bank for each block of rows. Three matrices take 96 KiB."""
TRIDIAGONAL_ORDER = 16 * TILE
"""The steps of one right-hand side of this order take 100 KiB."""
SVD_COLUMNS = 8 * TILE
"""Largest number of columns: 16 groups of 64, whose pairs take 15 launches per sweep."""
SVD_ROWS = 64 * TILE
"""Largest number of rows: three layouts of 128 columns take 96 KiB."""


def block_width(order: int) -> int:
    """Return the number of rows of a block: 128, or the order of a smaller matrix, at least 2."""
    return min(TILE, max(2, order))


def msign_bytes(rows: int, columns: int) -> int:
    """Return the SBUF bytes of ``msign``: X, its transpose, the Gram matrix, a polynomial."""
    width = block_width(max(rows, columns))
    s, t = -(-min(rows, columns) // width), -(-max(rows, columns) // width)
    return 4 * width * 2 * (s * t + s * s)


def qr_bytes(rows: int, columns: int) -> int:
    """Return the SBUF bytes of ``qr``: Q, its transpose, the Gram matrix, inverses of blocks."""
    width = block_width(rows)
    t, s = -(-rows // width), -(-columns // width)
    return 4 * width * (2 * s * t + s * s + s)


def tridiagonal_columns(n: int) -> int:
    """Return the number of right-hand sides of tridiagonal systems that are solved at a time."""
    return max(1, (SBUF_BYTES // 4 - 9 * n) // (4 * n))


# -- instructions for each matrix, or tile of matrices, of a batch ---------------------------------
#
# Loops on the device count once, unrolled loops once per iteration. Transposes are counted as on
# gen2, with sixteen instructions per tile.


def _blocks(extent: int) -> int:
    return -(-extent // TILE)


def eigh_instructions(n: int) -> int:
    """Return the approximate program length for one tile, or for one larger matrix."""
    b = _blocks(n)
    if b == 1:
        return 300
    # The program has two loops of rounds: before and after reorthogonalisation.
    return 2 * b * (TILE * 24 + 20) + 40 * b * b + 10 * b**3


def cholesky_instructions(n: int) -> int:
    """Return the approximate program length for one tile, or for one larger matrix."""
    b = _blocks(n)
    panels = -(-n // 16)
    return 3 * n + panels * (40 + 20 * b) + 20 * b * b + b**3 // 6 + 100


def lu_instructions(n: int) -> int:
    """Return the approximate program length for one matrix."""
    b = _blocks(n)
    return n * (50 + 11 * b) + 4 * b**3


def qr_instructions(rows: int, columns: int) -> int:
    """Return the approximate program length for one matrix."""
    t, s = _blocks(rows), _blocks(columns)
    return 5 * (cholesky_instructions(columns) + 20 * s * t + s * s * t)


def svd_instructions(rows: int, columns: int) -> int:
    """Return the approximate program length for one matrix."""
    return 25 * columns + 60 * _blocks(rows) + 200


def root_instructions(n: int) -> int:
    """Return the approximate program length for one matrix."""
    b = _blocks(n)
    return 3 * b**3 + 60 * b * b + 200


def msign_instructions(rows: int, columns: int, steps: int) -> int:
    """Return the approximate program length for one matrix."""
    s, t = _blocks(min(rows, columns)), _blocks(max(rows, columns))
    return steps * (4 * s * s * t + 20 * s) + 20 * s * t


def cg_instructions(n: int) -> int:
    """Return the approximate program length for one system."""
    return 2 * _blocks(n) ** 2 + 20 * _blocks(n) ** 2 + 150


def tridiagonal_instructions(n: int, columns: int) -> int:
    """Return the approximate program length for one system, of 128 in a tile."""
    steps, chunks = n.bit_length(), -(-columns // tridiagonal_columns(n))
    return -(-steps * (11 + 11 * chunks) // TILE)


def power_instructions(n: int, exponent: int) -> int:
    """Return the approximate program length for one matrix."""
    b = _blocks(n)
    products = exponent.bit_length() + exponent.bit_count() - 2
    # Strips of columns for which a product waits for its results in PSUM.
    strips = b * -(-b // 4)
    return products * (b * b * strips // b + b * b) + 20 * b * b * exponent.bit_length() + 4 * b
