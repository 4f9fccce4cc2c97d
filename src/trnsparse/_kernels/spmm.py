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
Limits   any shape and any lengths of rows; float32 or bfloat16, sums in float32; the last bank of
         columns has more than one, the caller adds one of zeros. With one-hot, a NaN or an
         infinity in a gathered row reaches the other 127 rows, with segments only its own
Cost     one-hot: nnz / 128 chunks; segments: the longest row of each 128, sorted. Each is one
         gather of up to 128 rows of the panel, and a product or a Vector pass
Lever    gather by indirect DMA, scatter as a product into PSUM; the loops depend on the number of
         entries per 128 rows only, so one program serves all matrices with equal counts
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE
from trnsparse._kernels.row_products import PANEL, add_chunk, new_sums, store_nothing, store_sums


@nki.jit
def spmm_one_hot(
    values: Tile, places: Tile, columns: Tile, b: Tile, starts: tuple[int, ...], rows: int
) -> Tile:
    """Return the product, (rows, N), of a matrix whose entries are ordered by row.

    Args:
        values: The entries, (nnz, 1).
        places: Their rows within their 128 rows, (nnz, 1) in float32.
        columns: Their columns, (nnz, 1) in uint32.
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
        for i in range(len(starts) - 1):
            m0, m1 = i * TILE, min((i + 1) * TILE, rows)
            if starts[i] == starts[i + 1]:
                store_nothing(out, m0, m1, c0, c1)
                continue
            sums = new_sums(m1 - m0, c1 - c0)
            for e0 in range(starts[i], starts[i + 1], TILE):
                e1 = min(e0 + TILE, starts[i + 1])
                where = loaded(places, e0, e1, nl.float32)
                factor = loaded(values, e0, e1, nl.float32)
                scatter = nl.ndarray((e1 - e0, m1 - m0), dtype=b.dtype, buffer=nl.sbuf)
                nisa.tensor_scalar(
                    dst=scatter,
                    data=numbers[0 : e1 - e0, 0 : m1 - m0],
                    op0=nl.equal,
                    operand0=where,
                    op1=nl.multiply,
                    operand1=factor,
                )
                moving = gathered(b, columns, e0, e1, c0, c1)
                add_chunk(sums, scatter, moving, e0 == starts[i])
            store_sums(out, m0, c0, sums)
    return out


@nki.jit
def spmm_segments(
    values: Tile,
    columns: Tile,
    order: Tile,
    b: Tile,
    slots: tuple[tuple[int, ...], ...],
    rows: int,
) -> Tile:
    """Return the product, (rows, N), of a matrix whose rows are sorted by length.

    Args:
        values: The entries, (nnz, 1): of each 128 sorted rows the first of every row, then the
            second of every row that has one, and so on.
        columns: Their columns, (nnz, 1) in uint32.
        order: The original row of each sorted row, (rows, 1) in uint32.
        b: Dense operand, (n, N) with N at least 2.
        slots: For each 128 sorted rows, the number of rows with a first entry, a second, ...
        rows: Rows of the result.
    """
    width = b.shape[1]
    out = nl.ndarray((rows, width), dtype=b.dtype, buffer=nl.shared_hbm)
    for c0 in range(0, width, PANEL):
        c1 = min(c0 + PANEL, width)
        first = 0
        for i in range(len(slots)):
            m0, m1 = i * TILE, min((i + 1) * TILE, rows)
            total = nl.ndarray((m1 - m0, c1 - c0), dtype=nl.float32, buffer=nl.sbuf)
            if len(slots[i]) == 0 or slots[i][0] < m1 - m0:
                nisa.memset(dst=total, value=0.0)
            for s in range(len(slots[i])):
                count = slots[i][s]
                factor = loaded(values, first, first + count, nl.float32)
                moving = gathered(b, columns, first, first + count, c0, c1)
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
                first = first + count
            store_scattered(out, order, total, m0, m1, c0, c1)
    return out


def loaded(x: Tile, first: int, last: int, dtype: object) -> Tile:
    """Return part of a column vector, one element on each partition."""
    tile = nl.ndarray((last - first, 1), dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[first:last, 0:1])
    return tile


def gathered(b: Tile, columns: Tile, first: int, last: int, c0: int, c1: int) -> Tile:
    """Return the rows of ``b`` for some entries, one on each partition."""
    count, width = last - first, b.shape[1]
    index = loaded(columns, first, last, nl.uint32)
    rows = nl.ndarray((count, c1 - c0), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(
        dst=rows,
        src=b.ap(
            pattern=[[width, count], [1, c1 - c0]], offset=c0, vector_offset=index, indirect_dim=0
        ),
        dge_mode=nisa.dge_mode.swdge,
    )
    return rows


def store_scattered(
    out: Tile, order: Tile, total: Tile, m0: int, m1: int, c0: int, c1: int
) -> None:
    """Round rows once and scatter them to their original positions."""
    count, width = m1 - m0, out.shape[1]
    result = nl.ndarray((count, c1 - c0), dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    index = loaded(order, m0, m1, nl.uint32)
    nisa.dma_copy(
        dst=out.ap(
            pattern=[[width, count], [1, c1 - c0]], offset=c0, vector_offset=index, indirect_dim=0
        ),
        src=result,
        dge_mode=nisa.dge_mode.swdge,
    )
