"""Tile operations of the stages of long transforms: load and store blocks, multiply by tables.

Layout   a *pair* is an SBUF tile (rows, 2, columns) of a real and an imaginary part; a real operand
         has one part. A *view* is a block of a matrix in HBM. Only its first ``limit`` elements in
         storage order exist; the others are loaded as zeros and not stored.
Limits   tiles are float32; HBM operands may have 16 bits, which DMA widens
"""

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile


class View(NamedTuple):
    """A block (rows, mids, width) of HBM: element (r, m, i) at r * row + m * mid + start + i.

    Attributes:
        rows, mids, width: Extents.
        row, mid: Strides in elements.
        start: Offset of the innermost index.
        limit: Number of existing elements, counted over rows, mids and the innermost index if the
            block is ``nested``, else over rows and the innermost index for every mid.
        nested: Whether a row consists of its mids, so that ``row`` is a multiple of ``mid``.
    """

    rows: int
    mids: int
    width: int
    row: int
    mid: int
    start: int
    limit: int
    nested: bool


def rows_used(view: View) -> int:
    """Return the number of rows with at least one element."""
    return min(view.rows, (view.limit + view.row - 1) // view.row)


def pieces(view: View) -> list[tuple[int, int, int, int, int]]:
    """Return boxes (row, rows, mid, mids, width) that cover the existing elements."""
    whole = min(view.rows, view.limit // view.row)
    boxes = []
    if whole > 0:
        boxes.append((0, whole, 0, view.mids, view.width))
    if whole == view.rows:
        return boxes
    rest = view.limit - whole * view.row
    if view.nested:
        mids = rest // view.mid
        if mids > 0:
            boxes.append((whole, 1, 0, mids, view.width))
        rest = rest - mids * view.mid
        boxes.append((whole, 1, mids, 1, min(view.width, rest - view.start)))
    else:
        boxes.append((whole, 1, 0, view.mids, min(view.width, rest - view.start)))
    filled = []
    for box in boxes:
        if box[4] > 0:
            filled.append(box)
    return filled


def access(hbm: Tile, base: int, view: View, box: tuple[int, int, int, int, int]) -> Tile:
    """Return one box of a view of ``hbm`` that begins at element ``base``."""
    row, rows, mid, mids, width = box
    return hbm.ap(
        pattern=[[view.row, rows], [view.mid, mids], [1, width]],
        offset=base + row * view.row + mid * view.mid + view.start,
    )


def load(view: View, parts: list[Tile], bases: list[int]) -> Tile:
    """Return the used rows of a view as a pair, or as one part if only one is given."""
    used, count = rows_used(view), len(parts)
    pair = nl.ndarray((used, count, view.mids * view.width), dtype=nl.float32, buffer=nl.sbuf)
    blocks = pair.reshape((used, count, view.mids, view.width))
    if used * view.row > view.limit:
        nisa.memset(dst=pair, value=0.0)
    for p in range(count):
        for box in pieces(view):
            row, rows, mid, mids, width = box
            nisa.dma_copy(
                dst=blocks[row : row + rows, p, mid : mid + mids, 0:width],
                src=access(parts[p], bases[p], view, box),
            )
    return pair


def store(view: View, parts: list[Tile], base: int, pair: Tile) -> None:
    """Write part i of a pair to the view in ``parts[i]``."""
    blocks = pair.reshape((pair.shape[0], len(parts), view.mids, view.width))
    for p in range(len(parts)):
        for box in pieces(view):
            row, rows, mid, mids, width = box
            nisa.dma_copy(
                dst=access(parts[p], base, view, box),
                src=blocks[row : row + rows, p, mid : mid + mids, 0:width],
            )


def part_of(table: Tile, part: int, pattern: list[list[int]], offset: int, times: int) -> Tile:
    """Return one part of a table for every part of an operand, as a view with ``pattern``."""
    rows, parts, columns = table.shape
    first = [[parts * columns, rows], [0, times]]
    return table.ap(pattern=first + pattern, offset=part * columns + offset)


def multiply_complex(dst: list[Tile], data: Tile, cos: Tile, sin: Tile, conjugate: bool) -> None:
    """Multiply by a complex table; ``dst`` is the real and optionally the imaginary part.

    ``data`` is (rows, parts, ...), from SBUF or PSUM; one instruction processes both of its parts.
    ``cos`` and ``sin`` have its shape. ``conjugate`` negates the imaginary result.
    """
    rows, parts = data.shape[0], data.shape[1]
    if parts == 1:
        nisa.tensor_tensor(dst=dst[0], data1=data, data2=cos, op=nl.multiply)
        nisa.tensor_tensor(dst=dst[1], data1=data, data2=sin, op=nl.multiply)
        return
    by_cos = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    by_sin = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=by_cos, data1=data, data2=cos, op=nl.multiply)
    nisa.tensor_tensor(dst=by_sin, data1=data, data2=sin, op=nl.multiply)
    nisa.tensor_tensor(dst=dst[0], data1=by_cos[0:rows, 0], data2=by_sin[0:rows, 1], op=nl.subtract)
    if len(dst) == 1:
        return
    if conjugate:
        nisa.scalar_tensor_tensor(
            dst=dst[1],
            data=by_cos[0:rows, 1],
            op0=nl.multiply,
            operand0=-1.0,
            op1=nl.subtract,
            operand1=by_sin[0:rows, 0],
        )
    else:
        nisa.tensor_tensor(dst=dst[1], data1=by_cos[0:rows, 1], data2=by_sin[0:rows, 0], op=nl.add)
