"""Shared parts of the attention kernels: pieces, at most 128 keys of one block.

A row of blocks is processed in *sections*: pieces whose keys together fit into one PSUM bank, 512.
The pattern is a compile-time argument, so the loops contain only its blocks: no padding to the
longest row and no index lookups on the device.
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile, transpose_tile
from trnsci.core.tiles.hardware import BANK, TILE

HIDDEN = -3.0e38
"""Added by a table to the score of a masked key."""
FLOOR = -1.0e30
"""Lower bound of a row's maximum: gives a fully masked row weights of zero instead of one."""
TABLE_BYTES = 16 * 1024
"""Bytes per partition of tables that stay in SBUF."""


class Blocks(NamedTuple):
    """The blocks of all heads, as in ``Pattern``.

    Attributes:
        sizes: Rows and columns of a block.
        own: The pattern of each head.
        starts: Index of the first block of each row of each pattern, then the total.
        columns: The column of each block.
        which: The table of each block; 0 for a full block.
        places: Index of the first block of each head in a bias.
    """

    sizes: tuple[int, int]
    own: tuple[int, ...]
    starts: tuple[int, ...]
    columns: tuple[int, ...]
    which: tuple[int, ...]
    places: tuple[int, ...]


class Piece(NamedTuple):
    """Keys of one block that are processed together.

    Attributes:
        key: The first key.
        width: The number of keys.
        offset: Position of the first key in the block.
        at: Position of the first key in the section.
        table: The block's table.
        place: The block's place in a bias.
    """

    key: int
    width: int
    offset: int
    at: int
    table: int
    place: int


class Section(NamedTuple):
    """Pieces that share a PSUM bank.

    Attributes:
        pieces: The pieces, in order.
        width: Number of keys of all pieces.
    """

    pieces: list[Piece]
    width: int


def chunks(extent: int) -> list[tuple[int, int]]:
    """Return the bounds of tiles of 128."""
    found = []
    for first in range(0, extent, TILE):
        found.append((first, min(first + TILE, extent)))
    return found


def head_rows(queries: int, size: int) -> list[tuple[int, int, int, int]]:
    """Return row of blocks, first and last query and offset in the block of tiles of queries."""
    found = []
    for row in range((queries + size - 1) // size):
        for first in range(row * size, min((row + 1) * size, queries), TILE):
            last = min(min(first + TILE, (row + 1) * size), queries)
            found.append((row, first, last, first - row * size))
    return found


def row_sections(blocks: Blocks, head: int, row: int, rows: int, keys: int) -> list[Section]:
    """Return the sections of one row of blocks of a head."""
    size = blocks.sizes[1]
    begin = blocks.starts[blocks.own[head] * rows]
    first = blocks.starts[blocks.own[head] * rows + row]
    last = blocks.starts[blocks.own[head] * rows + row + 1]
    sections: list[Section] = []
    pieces: list[Piece] = []
    at = 0
    for b in range(first, last):
        start = blocks.columns[b] * size
        for offset in range(0, min(size, keys - start), TILE):
            width = min(min(TILE, size - offset), keys - start - offset)
            # A piece of one key is padded to two columns.
            if at + max(width, 2) > BANK:
                sections.append(Section(pieces, at))
                pieces = []
                at = 0
            place = blocks.places[head] + b - begin
            pieces.append(Piece(start + offset, width, offset, at, blocks.which[b], place))
            at = at + width
    if at > 0:
        sections.append(Section(pieces, at))
    return sections


def piece_numbers(keys: int, size: int) -> list[tuple[int, int]]:
    """Return first key and width of all pieces of the keys, in order."""
    found = []
    for start in range(0, keys, size):
        for offset in range(0, min(size, keys - start), TILE):
            width = min(min(TILE, size - offset), keys - start - offset)
            found.append((start + offset, width))
    return found


def signed(scale: float) -> tuple[float, float]:
    """Return the sign by which queries are multiplied, exactly, and the positive score factor."""
    if scale > 0:
        return 1.0, scale
    if scale < 0:
        return -1.0, -scale
    return 0.0, 1.0


def column(rows: int) -> Tile:
    """Return a tile with one element per row."""
    return nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)


def load_transposed(dst: Tile, at: int, rows: Tile) -> None:
    """Write the transpose of rows in SBUF to the columns of (128, chunks, columns) from ``at``."""
    count, width = rows.shape
    for c in range((width + TILE - 1) // TILE):
        last = min((c + 1) * TILE, width)
        part = rows[0:count, c * TILE : last]
        transpose_tile(dst[0 : last - c * TILE, c, at : at + count], part)


def load_tables(tables: Tile | None) -> Tile | None:
    """Return all tables in SBUF, or None if there are none or too many to fit."""
    if tables is None:
        return None
    count, rows, columns = tables.shape
    if rows > TILE or count * columns * 4 > TABLE_BYTES:
        return None
    cache = nl.ndarray((rows, count, columns), dtype=tables.dtype, buffer=nl.sbuf)
    for t in range(1, count):
        nisa.dma_copy(dst=cache[0:rows, t, 0:columns], src=tables[t, 0:rows, 0:columns])
    return cache


def scores_of(
    q_t: Tile, keys_t: Tile, runs: list[tuple[int, int, int]], width: int, depth: int
) -> Tile:
    """Return the scores of a tile of queries against a section, unscaled, in PSUM.

    ``runs`` has, for each run of adjacent keys, the first column in ``keys_t``, the number of keys
    and the first column in the section.
    """
    rows = q_t.shape[2]
    end = width
    for r in range(len(runs)):
        end = max(end, runs[r][2] + 2)
    scores = nl.ndarray((rows, end), dtype=nl.float32, buffer=nl.psum)
    parts = chunks(depth)
    for r in range(len(runs)):
        first, count, at = runs[r]
        # Some compilers reject a single moving column. The next one is zeros, and its score is
        # overwritten by the next run.
        count = max(count, 2)
        for c in range(len(parts)):
            used = parts[c][1] - parts[c][0]
            nisa.nc_matmul(
                dst=scores[0:rows, at : at + count],
                stationary=q_t[0:used, c, 0:rows],
                moving=keys_t[0:used, c, first : first + count],
                accumulate=(c > 0),
            )
    return scores[0:rows, 0:width]


def add_tables(
    scores: Tile, section: Section, tables: Tile, cache: Tile | None, first: int
) -> None:
    """Add the tables of a section's partial blocks to the scores.

    ``first`` is the position of the tile of queries in its block.
    """
    rows = scores.shape[0]
    for i in range(len(section.pieces)):
        piece = section.pieces[i]
        if piece.table == 0:
            continue
        last = piece.offset + piece.width
        if cache is None:
            table = nl.ndarray((rows, piece.width), dtype=tables.dtype, buffer=nl.sbuf)
            nisa.dma_copy(
                dst=table, src=tables[piece.table, first : first + rows, piece.offset : last]
            )
        else:
            table = cache[0:rows, piece.table, piece.offset : last]
        part = scores[0:rows, piece.at : piece.at + piece.width]
        nisa.tensor_tensor(dst=part, data1=part, data2=table, op=nl.add)
