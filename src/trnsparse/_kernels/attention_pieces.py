"""What both attention kernels do with pieces: the keys of a block, at most 128 of them.

A row of blocks is walked in *sections*: pieces whose keys together fit into one PSUM bank, 512. The
pattern is a compile-time argument, so the loops hold its blocks and no others: nothing is padded to
the longest row and nothing is looked up on the device.
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile, transpose_tile
from trnsci.core.tiles.hardware import BANK, TILE

__all__ = [
    "FLOOR",
    "HIDDEN",
    "Blocks",
    "Piece",
    "Section",
    "add_tables",
    "chunks",
    "column",
    "head_rows",
    "load_tables",
    "load_turned",
    "piece_numbers",
    "row_sections",
    "scores_of",
    "signed",
]

HIDDEN = -3.0e38
"""What a table adds to the score of a key that is not seen."""
FLOOR = -1.0e30
"""Least maximum of a row: a row that sees nothing then has weights of zero, not of one."""
TABLE_BYTES = 16 * 1024
"""Bytes per partition of tables that stay in SBUF."""


class Blocks(NamedTuple):
    """The blocks of all heads, as ``Pattern`` has them.

    Attributes:
        sizes: Rows and columns of a block.
        own: The pattern of each head.
        starts: Where the blocks of each row of each pattern begin, and where the last ends.
        columns: The column of each block.
        which: The table of each block; 0 shows all of it.
        places: Where the blocks of each head begin in a bias.
    """

    sizes: tuple[int, int]
    own: tuple[int, ...]
    starts: tuple[int, ...]
    columns: tuple[int, ...]
    which: tuple[int, ...]
    places: tuple[int, ...]


class Piece(NamedTuple):
    """Keys of one block that are computed at once.

    Attributes:
        key: The first of them.
        width: How many.
        offset: Where they begin in the block.
        at: Where they begin in the section.
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
        pieces: They.
        width: Keys of all of them.
    """

    pieces: list[Piece]
    width: int


def chunks(extent: int) -> list[tuple[int, int]]:
    """Return where tiles of 128 begin and end."""
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
            # A piece of one key is multiplied as two columns.
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
    """Return what queries are multiplied with, exactly, and the positive factor of their scores."""
    if scale > 0:
        return 1.0, scale
    if scale < 0:
        return -1.0, -scale
    return 0.0, 1.0


def column(rows: int) -> Tile:
    """Return a tile for one number per row."""
    return nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)


def load_turned(dst: Tile, at: int, rows: Tile) -> None:
    """Write the transpose of rows in SBUF to the columns of (128, chunks, columns) from ``at``."""
    count, width = rows.shape
    for c in range((width + TILE - 1) // TILE):
        last = min((c + 1) * TILE, width)
        part = rows[0:count, c * TILE : last]
        transpose_tile(dst[0 : last - c * TILE, c, at : at + count], part)


def load_tables(tables: Tile | None) -> Tile | None:
    """Return all tables in SBUF, or None where there are none or too many to stay."""
    if tables is None:
        return None
    count, rows, columns = tables.shape
    if rows > TILE or count * columns * 4 > TABLE_BYTES:
        return None
    kept = nl.ndarray((rows, count, columns), dtype=tables.dtype, buffer=nl.sbuf)
    for t in range(1, count):
        nisa.dma_copy(dst=kept[0:rows, t, 0:columns], src=tables[t, 0:rows, 0:columns])
    return kept


def scores_of(
    q_t: Tile, keys_t: Tile, runs: list[tuple[int, int, int]], width: int, depth: int
) -> Tile:
    """Return the scores of a tile of queries against a section, unscaled, in PSUM.

    ``runs`` holds, for neighbouring keys, their first column in ``keys_t``, their number and their
    first column in the section.
    """
    rows = q_t.shape[2]
    end = width
    for r in range(len(runs)):
        end = max(end, runs[r][2] + 2)
    scores = nl.ndarray((rows, end), dtype=nl.float32, buffer=nl.psum)
    parts = chunks(depth)
    for r in range(len(runs)):
        first, count, at = runs[r]
        # A single moving column is refused by some compilers. The one behind it is zeros, and the
        # score behind it is written again by the next run.
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


def add_tables(scores: Tile, section: Section, tables: Tile, kept: Tile | None, first: int) -> None:
    """Add to scores what the tables of a section's partial blocks hide.

    ``first`` is where the tile of queries begins in its block.
    """
    rows = scores.shape[0]
    for i in range(len(section.pieces)):
        piece = section.pieces[i]
        if piece.table == 0:
            continue
        last = piece.offset + piece.width
        if kept is None:
            table = nl.ndarray((rows, piece.width), dtype=tables.dtype, buffer=nl.sbuf)
            nisa.dma_copy(
                dst=table, src=tables[piece.table, first : first + rows, piece.offset : last]
            )
        else:
            table = kept[0:rows, piece.table, piece.offset : last]
        part = scores[0:rows, piece.at : piece.at + piece.width]
        nisa.tensor_tensor(dst=part, data1=part, data2=table, op=nl.add)
