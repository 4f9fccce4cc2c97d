"""Shared parts of the sparse product kernels: rows of a result accumulated in PSUM.

A result is computed in panels of at most 2048 columns, which fill four PSUM banks, and in groups of
at most 128 rows. A group is a sum over *chunks*, 128 rows of the dense operand each. Only chunks
with stored entries are loaded and multiplied, so rows are not padded to the longest. The first
product of a sum overwrites PSUM, which is never cleared.
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import BANK, TILE
from trnsci.core.tiles.transfers import copy

PANEL = 4 * BANK
"""Largest number of columns of a panel: half of PSUM, so that the next row can overlap."""


def panels(columns: int, rows: int, item: int, resident_bytes: int) -> tuple[list[int], bool]:
    """Return the bounds of panels of columns, and whether the dense operand stays in SBUF.

    It stays while all its rows of a panel fit into ``resident_bytes`` per partition.
    """
    tiles = (rows + TILE - 1) // TILE
    width = resident_bytes // (tiles * item)
    if width < columns:
        width = width // BANK * BANK
    resident = width > 0
    if not resident:
        width = PANEL
    width = min(width, PANEL)
    starts = []
    for first in range(0, columns, width):
        starts.append(first)
    starts.append(columns)
    return starts, resident


def new_sums(rows: int, columns: int) -> list[Tile]:
    """Return PSUM tiles for a row of results, one for each bank."""
    sums = []
    for first in range(0, columns, BANK):
        width = min(BANK, columns - first)
        sums.append(nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.psum))
    return sums


def add_chunk(sums: list[Tile], stationary: Tile, moving: Tile, begins: bool) -> None:
    """Add the product of one chunk to a row of results, or initialise the row with it.

    ``moving`` has the columns of all sums.
    """
    depth = stationary.shape[0]
    at = 0
    for j in range(len(sums)):
        width = sums[j].shape[1]
        nisa.nc_matmul(
            dst=sums[j],
            stationary=stationary,
            moving=moving[0:depth, at : at + width],
            accumulate=(not begins),
        )
        at = at + width


def store_sums(out: Tile, first: int, column: int, sums: list[Tile]) -> None:
    """Round a row of results once and store it."""
    rows = sums[0].shape[0]
    width = 0
    for j in range(len(sums)):
        width = width + sums[j].shape[1]
    result = nl.ndarray((rows, width), dtype=out.dtype, buffer=nl.sbuf)
    at = 0
    for j in range(len(sums)):
        end = at + sums[j].shape[1]
        nisa.tensor_copy(dst=result[0:rows, at:end], src=sums[j])
        at = end
    copy(out[first : first + rows, column : column + width], result, second=True)


def store_nothing(out: Tile, first: int, last: int, column: int, end: int) -> None:
    """Store zeros in a row without entries."""
    zeros = nl.ndarray((last - first, end - column), dtype=out.dtype, buffer=nl.sbuf)
    nisa.memset(dst=zeros, value=0.0)
    copy(out[first:last, column:end], zeros, second=True)
