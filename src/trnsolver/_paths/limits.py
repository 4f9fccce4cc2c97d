"""What kernels keep in SBUF, the largest problems for which it fits, and lengths of programs.

Here and not with the kernels, since operations ask before NKI is imported. Sizes are for the
smallest SBUF, that of gen2, which has 176 KiB for each partition; what is not counted is for tiles
in flight.
"""

from __future__ import annotations

from trnsci.core.tiles.hardware import TILE

__all__ = [
    "CG_ORDER",
    "CHOLESKY_ORDER",
    "DIVIDED_ORDER",
    "EIGH_ORDER",
    "LU_ORDER",
    "PROGRAM",
    "ROOT_ORDER",
    "SBUF_BYTES",
    "SVD_COLUMNS",
    "SVD_ROWS",
    "block_width",
    "cg_instructions",
    "cholesky_instructions",
    "eigh_instructions",
    "lu_instructions",
    "msign_bytes",
    "msign_instructions",
    "qr_bytes",
    "qr_instructions",
    "root_instructions",
    "svd_instructions",
]

PROGRAM = 150_000
"""Instructions of one launch: compilers take minutes for more, and refuse some millions."""
SBUF_BYTES = 144 * 1024
"""Bytes of a partition for what stays."""
EIGH_ORDER = 8 * TILE
"""Four matrices of this order take 128 KiB of each partition."""
DIVIDED_ORDER = 16 * TILE
"""Order up to which a spectrum is divided: its Gram matrices have Cholesky factors."""
LU_ORDER = 8 * TILE
"""Four matrices of this order take 128 KiB."""
CHOLESKY_ORDER = 16 * TILE
"""One matrix of this order takes 128 KiB."""
CG_ORDER = 16 * TILE
"""One matrix of this order takes 128 KiB."""
ROOT_ORDER = 7 * TILE
"""Six matrices of this order take 147 KiB."""
SVD_COLUMNS = 8 * TILE
"""Columns whose groups meet in fifteen launches for each sweep."""
SVD_ROWS = 64 * TILE
"""Rows of 128 columns whose three forms take 96 KiB."""


def block_width(order: int) -> int:
    """Return the rows of a block: 128, or all of a smaller matrix, and never a single one."""
    return min(TILE, max(2, order))


def msign_bytes(rows: int, columns: int) -> int:
    """Return what ``msign`` keeps of such matrices: both forms, the Gram matrix, a polynomial."""
    width = block_width(max(rows, columns))
    s, t = -(-min(rows, columns) // width), -(-max(rows, columns) // width)
    return 4 * width * 2 * (s * t + s * s)


def qr_bytes(rows: int, columns: int) -> int:
    """Return what ``qr`` keeps: both forms of Q, the Gram matrix, inverses of its blocks."""
    width = block_width(rows)
    t, s = -(-rows // width), -(-columns // width)
    return 4 * width * (2 * s * t + s * s + s)


# -- instructions for each matrix, or tile of matrices, of a batch ---------------------------------
#
# Loops on the device count once, all others as often as they run. Transposes are those of gen2,
# which takes sixteen instructions for a tile.


def _blocks(extent: int) -> int:
    return -(-extent // TILE)


def eigh_instructions(n: int) -> int:
    """Return about how long the program of one tile, or of one larger matrix, is."""
    b = _blocks(n)
    if b == 1:
        return 300
    # Rounds are written twice: before and after the vectors are made orthogonal again.
    return 2 * b * (TILE * 24 + 20) + 40 * b * b + 10 * b**3


def cholesky_instructions(n: int) -> int:
    """Return about how long the program of one tile, or of one larger matrix, is."""
    b = _blocks(n)
    return 6 * min(n, TILE) * b + 20 * b * b + b**3 // 3 + 100


def lu_instructions(n: int) -> int:
    """Return about how long the program of one matrix is."""
    b = _blocks(n)
    return n * (50 + 11 * b) + 4 * b**3


def qr_instructions(rows: int, columns: int) -> int:
    """Return about how long the program of one matrix is."""
    t, s = _blocks(rows), _blocks(columns)
    return 5 * (cholesky_instructions(columns) + 20 * s * t + s * s * t)


def svd_instructions(rows: int, columns: int) -> int:
    """Return about how long the program of one matrix is."""
    return 25 * columns + 60 * _blocks(rows) + 200


def root_instructions(n: int) -> int:
    """Return about how long the program of one matrix is."""
    b = _blocks(n)
    return 3 * b**3 + 60 * b * b + 200


def msign_instructions(rows: int, columns: int, steps: int) -> int:
    """Return about how long the program of one matrix is."""
    s, t = _blocks(min(rows, columns)), _blocks(max(rows, columns))
    return steps * (4 * s * s * t + 20 * s) + 20 * s * t


def cg_instructions(n: int) -> int:
    """Return about how long the program of one system is."""
    return 2 * _blocks(n) ** 2 + 20 * _blocks(n) ** 2 + 150
