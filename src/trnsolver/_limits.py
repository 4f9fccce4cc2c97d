"""What kernels keep in SBUF, and the largest problems for which it fits.

Here and not with the kernels, since operations ask before NKI is imported. Sizes are for the
smallest SBUF, that of gen2, which has 176 KiB for each partition; what is not counted is for tiles
in flight.
"""

from __future__ import annotations

from trnsci.core.hardware import TILE

__all__ = [
    "CG_ORDER",
    "CHOLESKY_ORDER",
    "DIVIDED_ORDER",
    "EIGH_ORDER",
    "LU_ORDER",
    "ROOT_ORDER",
    "SBUF_BYTES",
    "SVD_COLUMNS",
    "SVD_ROWS",
    "block_width",
    "msign_bytes",
    "qr_bytes",
]

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
