"""Tile operations of the matrix-product kernels: load, transpose, multiply, scale, store.

Layout   a *panel* is an SBUF tile (128, tiles, columns): the contraction is cut into tiles of 128
         that lie on partitions, and the columns are those of one operand's block. A product takes
         128 columns of the left panel as its stationary and up to 512 of the right as its moving
         operand. The parts of complex numbers are neighbours in rows, as in memory: strided reads
         of SBUF separate them, so that neither the host nor a DMA does.
Limits   float32 and bfloat16; edges are sliced. Transposes are bit-exact on all generations. A
         panel of a symmetric matrix begins at multiples of 128 in columns and contraction; of the
         triangle that is not stored, only the part in diagonal tiles is read from HBM, and none of
         it is written to the panel.
Cost     of a symmetric matrix, tiles of the stored triangle are loaded directly; the others are
         transposed from their mirror image, which is read from the panel itself when it contains
         it.
"""

from __future__ import annotations

from typing import Any

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.hardware import BANK, TILE
from trnsci.core.tiles.tiling import column_start

Tile = Any
"""An NKI tensor; shape, dtype and buffer are checked when the kernel is traced."""

_VECTOR_TILE = 32  # rows and columns that the Vector engine transposes at once
_TILES_PER_BANK = BANK // TILE


def extents(x: Tile, layout: str) -> tuple[int, int]:
    """Return the contraction's extent and the other extent of a 2-D or batched operand."""
    first, second = x.shape[len(x.shape) - 2], x.shape[len(x.shape) - 1]
    if layout == "columns":
        return second, first
    return first, second


def new_panel(x: Tile, k0: int, k1: int, c0: int, c1: int) -> Tile:
    """Return an unwritten panel for part of the contraction and some columns of ``x``."""
    tiles = (k1 - k0 + TILE - 1) // TILE
    return nl.ndarray((TILE, tiles, c1 - c0), dtype=x.dtype, buffer=nl.sbuf)


def load_panel(
    panel: Tile,
    x: Tile,
    layout: str,
    k0: int,
    k1: int,
    c0: int,
    c1: int,
    stage_tiles: int,
    parts: int = 1,
) -> None:
    """Fill a panel from a 2-D operand with the contraction on its rows or on its columns.

    With ``parts`` = 2, the parts of a number are neighbours in the rows of operand and panel.
    """
    if layout == "rows":
        for k in range(k0, k1, TILE):
            kw = min(TILE, k1 - k)
            row = panel[0:kw, (k - k0) // TILE, 0 : parts * (c1 - c0)]
            nisa.dma_copy(dst=row, src=x[k : k + kw, parts * c0 : parts * c1])
        return
    step = stage_tiles // parts * TILE
    for c in range(c0, c1, TILE):
        cw = min(TILE, c1 - c)
        for k in range(k0, k1, step):
            kw = min(step, k1 - k)
            staged = nl.ndarray((cw, parts * kw), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=staged, src=x[c : c + cw, parts * k : parts * (k + kw)])
            transpose_parts(panel, (k - k0) // TILE, c - c0, staged, parts)


def transpose_parts(panel: Tile, first: int, c: int, rows: Tile, parts: int) -> None:
    """Write the transpose of ``rows`` to a panel from number ``c`` on, each part separately."""
    sides = of_left(panel, parts)
    count, width = rows.shape
    for part in range(parts):
        transpose_tiles(sides[part], first, c, rows[0:count, part:width:parts])


def of_left(panel: Tile, parts: int) -> list[Tile]:
    """Return views of a panel as left operands: one for each part of its numbers."""
    tiles, width = panel.shape[1], panel.shape[2]
    panels = []
    for part in range(parts):
        panels.append(panel[0:TILE, 0:tiles, part:width:parts])
    return panels


def of_right(panel: Tile, depth: int, parts: int) -> list[Tile]:
    """Return the right panels for a panel B: B itself, or i B and B if numbers have two parts.

    A_re B + A_im (i B) is A B, with the parts of a number as neighbours. ``row_sums`` pairs the
    last left panel, A_im, with the first right one, i B. One copy of the imaginary parts of B and
    one of the real parts make i B.
    """
    if parts == 1:
        return [panel]
    tiles, width = panel.shape[1], panel.shape[2]
    turned = nl.ndarray((TILE, tiles, width), dtype=panel.dtype, buffer=nl.sbuf)
    for t in range(tiles):
        kw = min(TILE, depth - t * TILE)
        re, im = panel[0:kw, t, 0:width:2], panel[0:kw, t, 1:width:2]
        to_re, to_im = turned[0:kw, t, 0:width:2], turned[0:kw, t, 1:width:2]
        if nisa.get_nc_version() == nisa.nc_version.gen2:  # Vector is busy with transposes
            nisa.activation(dst=to_re, op=nl.copy, data=im, scale=-1.0)
        else:
            nisa.tensor_scalar(dst=to_re, data=im, op0=nl.multiply, operand0=-1.0)
        nisa.activation(dst=to_im, op=nl.copy, data=re)
    return [turned, panel]


def transpose_tiles(panel: Tile, first: int, c: int, rows: Tile) -> None:
    """Write the transpose of ``rows`` to the columns of a panel that begin at ``c``.

    Each 128 columns of ``rows`` fill one tile of the panel, beginning with tile ``first``. Four of
    them share a PSUM bank, so that one instruction copies them out.
    """
    count, width = rows.shape
    whole = width // TILE
    if nisa.get_nc_version() == nisa.nc_version.gen2:
        whole = 0
    for t in range(0, whole, _TILES_PER_BANK):
        tiles = min(_TILES_PER_BANK, whole - t)
        bank = nl.ndarray((TILE, tiles, TILE), dtype=rows.dtype, buffer=nl.psum)
        for i in range(tiles):
            k = (t + i) * TILE
            nisa.nc_transpose(dst=bank[0:TILE, i, 0:count], data=rows[0:count, k : k + TILE])
        nisa.tensor_copy(
            dst=panel[0:TILE, first + t : first + t + tiles, c : c + count],
            src=bank[0:TILE, 0:tiles, 0:count],
            engine=nisa.engine.scalar,
        )
    for k in range(whole * TILE, width, TILE):
        kw = min(TILE, width - k)
        transpose_tile(panel[0:kw, first + k // TILE, c : c + count], rows[0:count, k : k + kw])


def transpose_tile(dst: Tile, tile: Tile) -> None:
    """Write the transpose of one SBUF tile, up to 128 by 128, to ``dst`` in SBUF.

    The Tensor engine of gen2 transposes by a product with the identity, which spreads a NaN or an
    infinity over the whole row; on gen2 the Vector engine therefore transposes in pieces.
    """
    rows, columns = tile.shape
    if nisa.get_nc_version() == nisa.nc_version.gen2:
        for i in range(0, rows, _VECTOR_TILE):
            for j in range(0, columns, _VECTOR_TILE):
                i1, j1 = min(i + _VECTOR_TILE, rows), min(j + _VECTOR_TILE, columns)
                nisa.nc_transpose(dst=dst[j:j1, i:i1], data=tile[i:i1, j:j1])
        return
    bank = nl.ndarray((columns, rows), dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=bank, data=tile)
    nisa.tensor_copy(dst=dst, src=bank, engine=nisa.engine.scalar)


def add_products(
    sums: list[Tile],
    left: Tile,
    right: Tile,
    depth: int,
    m: int,
    starts: list[int],
    begun: bool,
) -> None:
    """Add the products of two panels to PSUM tiles, or begin the tiles with them.

    The left columns begin at ``m``, the right ones of each tile at its entry of ``starts``. The
    tiles are accumulated together, each in its own bank, and share every stationary tile.
    """
    mw = sums[0].shape[0]
    for t in range((depth + TILE - 1) // TILE):
        kw = min(TILE, depth - t * TILE)
        for j in range(len(sums)):
            nisa.nc_matmul(
                dst=sums[j],
                stationary=left[0:kw, t, m : m + mw],
                moving=moving_columns(right, kw, t, starts[j], starts[j + 1]),
                accumulate=(begun or t > 0),
            )


def moving_columns(panel: Tile, kw: int, t: int, first: int, last: int) -> Tile:
    """Return columns of one panel tile; a single one twice, since some compilers reject one."""
    if last - first > 1:
        return panel[0:kw, t, first:last]
    tiles, columns = panel.shape[1], panel.shape[2]
    return panel.ap(pattern=[[tiles * columns, kw], [0, 2]], offset=t * columns + first)


def finish(dst: Tile, total: Tile, alpha: float, beta: float, with_c: bool) -> None:
    """Write ``alpha * total`` to ``dst``, plus ``beta`` times its old contents when ``with_c``.

    The scales are applied with the copy out of PSUM: one Vector instruction, and one on the Scalar
    engine when neither of them is 1. Sums are in float32 and are rounded once, into ``dst``.
    """
    if not with_c:
        if alpha == 1.0:
            nisa.tensor_copy(dst=dst, src=total)
        else:
            nisa.tensor_scalar(dst=dst, data=total, op0=nl.multiply, operand0=alpha)
    elif beta == 1.0:
        nisa.scalar_tensor_tensor(
            dst=dst, data=total, op0=nl.multiply, operand0=alpha, op1=nl.add, operand1=dst
        )
    else:
        scaled = total
        if alpha != 1.0:
            scaled = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=scaled, op=nl.copy, data=total, scale=alpha)
        nisa.scalar_tensor_tensor(
            dst=dst, data=dst, op0=nl.multiply, operand0=beta, op1=nl.add, operand1=scaled
        )


def row_sums(
    lefts: list[Tile],
    rights: list[Tile],
    k0: int,
    k1: int,
    m: int,
    mw: int,
    starts: list[int],
    totals: Tile | None,
) -> list[Tile]:
    """Multiply ``mw`` rows of left panels by right panels; return a float32 tile per column range.

    ``starts`` holds the first column of each range, and the end of the last. The last left panel
    is paired with the first right one, and so on. With ``totals``, a resident block in SBUF, the
    tiles are parts of it and include the sums over the contraction before ``k0``.
    """
    sums = []
    for j in range(len(starts) - 1):
        shape = (mw, max(starts[j + 1] - starts[j], 2))
        sums.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum))
    for x in range(len(lefts)):
        add_products(sums, lefts[x], rights[len(lefts) - 1 - x], k1 - k0, m, starts, x > 0)
    parts = []
    for j in range(len(sums)):
        part = sums[j][0:mw, 0 : starts[j + 1] - starts[j]]
        if totals is not None:
            total = totals[0:mw, m // TILE, starts[j] : starts[j + 1]]
            finish(total, part, 1.0, 1.0, k0 > 0)
            part = total
        parts.append(part)
    return parts


def new_totals(height: int, width: int, needed: bool) -> Tile | None:
    """Return an unwritten float32 block of the result in SBUF, or None when none is needed."""
    if not needed:
        return None
    shape = (TILE, (height + TILE - 1) // TILE, width)
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)


def store_tiles(
    out: Tile,
    c: Tile | None,
    m: int,
    n0: int,
    starts: list[int],
    sums: list[Tile],
    alpha: float,
    beta: float,
) -> None:
    """Finish neighbouring tiles of one row of tiles and store them with one DMA.

    ``starts`` counts from column ``n0`` of ``out``. ``c`` is None when nothing is added; a single
    row of it is added to all rows.
    """
    mw = sums[0].shape[0]
    first, last = starts[0], starts[len(starts) - 1]
    row = nl.ndarray((mw, last - first), dtype=out.dtype, buffer=nl.sbuf)
    if c is not None:
        if c.shape[0] < out.shape[0]:
            src = c.ap(pattern=[[0, mw], [1, last - first]], offset=n0 + first)
        else:
            src = c[m : m + mw, n0 + first : n0 + last]
        nisa.dma_copy(dst=row, src=src)
    for j in range(len(sums)):
        part = row[0:mw, starts[j] - first : starts[j + 1] - first]
        finish(part, sums[j], alpha, beta, c is not None)
    nisa.dma_copy(dst=out[m : m + mw, n0 + first : n0 + last], src=row)


def group_starts(first: int, last: int, extent: int, n0: int) -> list[int]:
    """Return the start columns of tiles ``first`` to ``last``, and the end, relative to ``n0``."""
    starts = []
    for t in range(first, last + 1):
        starts.append(column_start(t, extent) - n0)
    return starts


def select(
    src: Tile,
    pattern: list[list[int]],
    multiplier: int,
    offset: int,
    op: Any,
    other: float = 0.0,
    dst: Tile | None = None,
) -> Tile:
    """Return ``src`` where ``multiplier * p + pattern + offset`` satisfies ``op`` 0, else a number.

    Elements are selected, not multiplied by a mask, so NaN elsewhere is removed.
    """
    if dst is None:
        dst = nl.ndarray(src.shape, dtype=src.dtype, buffer=nl.sbuf)
    nisa.affine_select(
        dst=dst,
        pattern=pattern,
        channel_multiplier=multiplier,
        offset=offset,
        on_true_tile=src,
        on_false_value=other,
        cmp_op=op,
    )
    return dst


def triangle_mask(upper: bool) -> Tile:
    """Return a (128, 128) tile with 1 on and above the diagonal, or on and below it."""
    ones = nl.ndarray((TILE, TILE), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1)
    sign = 1 if upper else -1
    # column - row >= 0 above the diagonal
    return select(ones, [[sign, TILE]], -sign, 0, nl.greater_equal)


def load_symmetric_panel(
    panel: Tile, x: Tile, upper: bool, k0: int, k1: int, c0: int, c1: int, stage_tiles: int
) -> None:
    """Fill a panel with rows ``k0`` to ``k1``, columns ``c0`` to ``c1`` of a symmetric matrix."""
    mask = triangle_mask(upper)
    for k in range(k0, k1, TILE):
        # The part of this row of tiles strictly inside the stored triangle.
        kw = min(TILE, k1 - k)
        first, last = (max(c0, k + TILE), c1) if upper else (c0, min(c1, k))
        if first < last:
            nisa.dma_copy(
                dst=panel[0:kw, (k - k0) // TILE, first - c0 : last - c0],
                src=x[k : k + kw, first:last],
            )
    for c in range(c0, c1, TILE):
        cw = min(TILE, c1 - c)
        if k0 <= c and c < k1:
            load_diagonal(panel[0:cw, (c - k0) // TILE, c - c0 : c - c0 + cw], x, c, cw, mask)
        first, last = (max(k0, c + TILE), k1) if upper else (k0, min(k1, c))
        mirror_tiles(panel, x, first, last, c, cw, k0, k1, c0, c1, stage_tiles)


def load_diagonal(dst: Tile, x: Tile, c: int, cw: int, mask: Tile) -> None:
    """Fill a diagonal tile: the stored triangle over the transpose of the tile."""
    tile = nl.ndarray((cw, cw), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[c : c + cw, c : c + cw])
    transpose_tile(dst, tile)
    nisa.tensor_copy_predicated(dst=dst, src=tile, predicate=mask[0:cw, 0:cw])


def mirror_tiles(
    panel: Tile,
    x: Tile,
    first: int,
    last: int,
    c: int,
    cw: int,
    k0: int,
    k1: int,
    c0: int,
    c1: int,
    stage_tiles: int,
) -> None:
    """Fill rows ``first`` to ``last`` of a column of tiles from its mirror image."""
    k = first
    while k < last:
        kw = min(TILE, last - k)
        column = panel[0:kw, (k - k0) // TILE, c - c0 : c - c0 + cw]
        if k0 <= c and c < k1 and c0 <= k and k + kw <= c1:
            transpose_tile(column, panel[0:cw, (c - k0) // TILE, k - c0 : k - c0 + kw])
        else:
            # The run up to the first tile whose mirror image is in the panel.
            end = min(last, k + stage_tiles * TILE)
            if k0 <= c and c < k1 and k < c0:
                end = min(end, c0)
            kw = end - k
            staged = nl.ndarray((cw, kw), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=staged, src=x[c : c + cw, k:end])
            transpose_tiles(panel, (k - k0) // TILE, c - c0, staged)
        k = k + kw
