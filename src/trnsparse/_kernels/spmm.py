"""The product of a sparse matrix by rows and a dense matrix: gather, multiply, scatter; one launch.

Rows of the dense operand are gathered by indirect DMA, 128 entries at a time; the sparse matrix is
never made dense. ``plan_rows`` chooses between two methods of summation:

One-hot   the entries of 128 rows are on partitions in storage order; one Vector pass writes their
          values to their rows in an (entries, 128) tile, and one product scatters and sums them in
          PSUM. Chunks are full whatever the lengths of rows
Segments  rows are sorted by length, so that the s-th entries of 128 rows are on the first
          partitions; each such slot is multiplied and added on the Vector engine, one value per
          partition. No product with zeros; indirect DMA stores rows in their original order

Layout   dense columns on the free axis, up to 2048 at a time
Limits   any shape and any lengths of rows; float32 or 16 bits, sums in float32; the last bank of
         columns has more than one, the caller adds one of zeros. With one-hot, a NaN or an
         infinity in a gathered row reaches the other 127 rows, with segments only its own
Cost     one-hot: nnz / 128 chunks; segments: the longest row of each 128, sorted. Each is one
         gather of up to 128 rows of the panel, and a product or a Vector pass. Descriptors of
         gathers are made by GpSimd, one gather after the other
Lever    gather by indirect DMA, scatter as a product into PSUM; entries are loaded in windows of
         many chunks, so that GpSimd does nothing but gathers; the loops depend on the number of
         entries per 128 rows only, so one program serves all matrices with equal counts
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.transfers import copy
from trnsparse._kernels.row_products import PANEL, add_chunk, new_sums, store_nothing, store_sums

WINDOW = 1024
"""Chunks of entries that are loaded at once; the three operands of two windows take 24 KiB."""


@nki.jit
def spmm_one_hot(
    values: Tile, places: Tile, columns: Tile, b: Tile, starts: tuple[int, ...], rows: int
) -> Tile:
    """Return the product, (rows, N), of a matrix whose entries are ordered by row.

    The operands of entries have a chunk of up to 128 entries in each column; a chunk ends with its
    128 rows.

    Args:
        values: The entries, (128, chunks).
        places: Their rows within their 128 rows, (128, chunks) in float32.
        columns: Their columns, (128, chunks) in uint32.
        b: Dense operand, (n, N) with N at least 2.
        starts: Index of the first entry of each 128 rows, then nnz.
        rows: Rows of the result.
    """
    width = b.shape[1]
    out = nl.ndarray((rows, width), dtype=b.dtype, buffer=nl.shared_hbm)
    numbers = nl.ndarray((TILE, TILE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(dst=numbers, pattern=[[1, TILE]], offset=0, channel_multiplier=0)
    for c0 in range(0, width, PANEL):
        c1 = min(c0 + PANEL, width)
        chunk = 0
        loaded: list[Tile] = []
        for i in range(len(starts) - 1):
            m0, m1 = i * TILE, min((i + 1) * TILE, rows)
            if starts[i] == starts[i + 1]:
                store_nothing(out, m0, m1, c0, c1)
                continue
            sums = new_sums(m1 - m0, c1 - c0)
            for e0 in range(starts[i], starts[i + 1], TILE):
                count = min(TILE, starts[i + 1] - e0)
                at = chunk % WINDOW
                if at == 0:
                    loaded = []
                    for x in (values, places, columns):
                        loaded.append(window(x, chunk))
                scatter = nl.ndarray((count, m1 - m0), dtype=b.dtype, buffer=nl.sbuf)
                nisa.tensor_scalar(
                    dst=scatter,
                    data=numbers[0:count, 0 : m1 - m0],
                    op0=nl.equal,
                    operand0=loaded[1][0:count, at : at + 1],
                    op1=nl.multiply,
                    operand1=loaded[0][0:count, at : at + 1],
                )
                moving = gathered(b, loaded[2][0:count, at : at + 1], c0, c1)
                add_chunk(sums, scatter, moving, e0 == starts[i])
                chunk = chunk + 1
            store_sums(out, m0, c0, sums)
    return out


@nki.jit
def spmm_segments(
    values: Tile,
    columns: Tile,
    order: Tile | None,
    b: Tile,
    slots: tuple[tuple[int, ...], ...],
    rows: int,
) -> Tile:
    """Return the product, (rows, N), of a matrix whose rows are sorted by length.

    The operands of entries have a slot of 128 sorted rows in each column: of the first 128 rows the
    first entry of every row, then the second of every row that has one, and so on.

    Args:
        values: The entries, (128, slots).
        columns: Their columns, (128, slots) in uint32.
        order: The original row of each sorted row, (128, ceil(rows / 128)) in uint32; None if the
            original rows are already sorted by length.
        b: Dense operand, (n, N) with N at least 2.
        slots: For each 128 sorted rows, the number of rows with a first entry, a second, ...
        rows: Rows of the result.
    """
    width = b.shape[1]
    out = nl.ndarray((rows, width), dtype=b.dtype, buffer=nl.shared_hbm)
    for c0 in range(0, width, PANEL):
        c1 = min(c0 + PANEL, width)
        slot = 0
        loaded: list[Tile] = []
        targets: list[Tile] = []
        for i in range(len(slots)):
            m0, m1 = i * TILE, min((i + 1) * TILE, rows)
            total = nl.ndarray((m1 - m0, c1 - c0), dtype=nl.float32, buffer=nl.sbuf)
            if len(slots[i]) == 0 or slots[i][0] < m1 - m0:
                nisa.memset(dst=total, value=0.0)
            for s in range(len(slots[i])):
                count, at = slots[i][s], slot % WINDOW
                if at == 0:
                    loaded = [window(values, slot), window(columns, slot)]
                factor = loaded[0][0:count, at : at + 1]
                moving = gathered(b, loaded[1][0:count, at : at + 1], c0, c1)
                part = total[0:count, 0 : c1 - c0]
                if s == 0:
                    nisa.tensor_scalar(dst=part, data=moving, op0=nl.multiply, operand0=factor)
                else:
                    nisa.scalar_tensor_tensor(
                        dst=part,
                        data=moving,
                        op0=nl.multiply,
                        operand0=factor,
                        op1=nl.add,
                        operand1=part,
                    )
                slot = slot + 1
            result = nl.ndarray((m1 - m0, c1 - c0), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=total)
            if order is None:
                copy(out[m0:m1, c0:c1], result, second=True)
                continue
            at = i % WINDOW
            if at == 0:
                targets = [window(order, i)]
            scatter_rows(out, targets[0][0 : m1 - m0, at : at + 1], result, c0, c1)
    return out


def window(x: Tile, first: int) -> Tile:
    """Return some chunks of an operand of entries, from ``first`` on; values are widened."""
    count = min(WINDOW, x.shape[1] - first)
    dtype = nl.uint32 if x.dtype == nl.uint32 else nl.float32
    tile = nl.ndarray((TILE, count), dtype=dtype, buffer=nl.sbuf)
    copy(tile, x[0:TILE, first : first + count])
    return tile


def gathered(b: Tile, index: Tile, c0: int, c1: int) -> Tile:
    """Return the rows of ``b`` that an index column names, one on each partition."""
    count, width = index.shape[0], b.shape[1]
    rows = nl.ndarray((count, c1 - c0), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(
        dst=rows,
        src=b.ap(
            pattern=[[width, count], [1, c1 - c0]], offset=c0, vector_offset=index, indirect_dim=0
        ),
        dge_mode=nisa.dge_mode.swdge,
    )
    return rows


def scatter_rows(out: Tile, index: Tile, rows: Tile, c0: int, c1: int) -> None:
    """Store rows at the places that an index column names."""
    width = out.shape[1]
    nisa.dma_copy(
        dst=out.ap(
            pattern=[[width, rows.shape[0]], [1, c1 - c0]],
            offset=c0,
            vector_offset=index,
            indirect_dim=0,
        ),
        src=rows,
        dge_mode=nisa.dge_mode.swdge,
    )
