"""Sampled product: c d^T at the entries of a pattern, by rows or in blocks, in one launch.

It is the gradient of a sparse product by the entries of its sparse operand.

Layout   by rows: 128 entries on partitions, the rows of both factors gathered by indirect DMA,
         multiplied and summed along the free axis. In blocks: the factors transposed on chip, their
         columns on partitions in chunks of 128, one product per chunk and block, summed in PSUM
Limits   float32 or 16 bits, sums in float32; by rows any shape; in blocks whole blocks (the caller
         pads) of at least 2
Cost     by rows: two gathers and two Vector passes per 128 entries; in blocks: one product of 128
         by 128 by 128 for each 128 columns of the factors, and a transpose of every row used
Lever    only entries of the pattern are computed; in blocks, transposed rows of ``d`` stay in SBUF
         while they fit and a transposed row of ``c`` is used for all blocks of its row
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import BANK, TILE
from trnsci.core.tiles.transfers import copy
from trnsparse._kernels.attention_pieces import chunks, load_transposed
from trnsparse._kernels.bsr_spmm import BlockRows
from trnsparse._kernels.row_products import PANEL
from trnsparse._kernels.spmm import WINDOW, gathered, window

RESIDENT = 64 * 1024
"""Bytes per partition of transposed rows of ``d`` that stay in SBUF."""


@nki.jit
def sddmm(c: Tile, d: Tile, rows: Tile, columns: Tile) -> Tile:
    """Return the inner products of rows of ``c`` and ``d``, (128, chunks).

    Args:
        c: Left factor, (m, N).
        d: Right factor, (n, N).
        rows: The row of each entry, (128, chunks) in uint32.
        columns: The column of each entry.
    """
    count, width = rows.shape[1], c.shape[1]
    out = nl.ndarray((TILE, count), dtype=c.dtype, buffer=nl.shared_hbm)
    for first in range(0, count, WINDOW):
        last = min(first + WINDOW, count)
        row, column = window(rows, first), window(columns, first)
        totals = nl.ndarray((TILE, last - first), dtype=nl.float32, buffer=nl.sbuf)
        for e in range(last - first):
            total = totals[0:TILE, e : e + 1]
            for c0 in range(0, width, PANEL):
                c1 = min(c0 + PANEL, width)
                left = gathered(c, row[0:TILE, e : e + 1], c0, c1)
                right = gathered(d, column[0:TILE, e : e + 1], c0, c1)
                terms = nl.ndarray((TILE, c1 - c0), dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_tensor(dst=terms, data1=left, data2=right, op=nl.multiply)
                if c0 == 0:
                    nisa.tensor_reduce(dst=total, op=nl.add, data=terms, axis=1)
                else:
                    part = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
                    nisa.tensor_reduce(dst=part, op=nl.add, data=terms, axis=1)
                    nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
        result = nl.ndarray((TILE, last - first), dtype=c.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=totals)
        copy(out[0:TILE, first:last], result, second=True)
    return out


@nki.jit
def bsr_sddmm(c: Tile, d: Tile, pattern: BlockRows, size: int) -> Tile:
    """Return the blocks of ``c d^T`` at a pattern, (blocks, size, size).

    Args:
        c: Left factor, (block rows * size, N).
        d: Right factor, (block columns * size, N).
        pattern: Positions of the blocks.
        size: Rows and columns of a block.
    """
    length, width = d.shape
    out = nl.ndarray((len(pattern.columns), size, size), dtype=c.dtype, buffer=nl.shared_hbm)
    parts = chunks(width)
    item = 4 if d.dtype == nl.float32 else 2
    resident = len(parts) * length * item <= RESIDENT
    cache, there = None, []
    if resident:
        cache = nl.ndarray((TILE, len(parts), length), dtype=d.dtype, buffer=nl.sbuf)
        for _ in range(length // size):
            there.append(False)
    for i in range(len(pattern.starts) - 1):
        if pattern.starts[i] == pattern.starts[i + 1]:
            continue
        for m0 in range(0, size, TILE):
            m1 = min(m0 + TILE, size)
            left = nl.ndarray((TILE, len(parts), m1 - m0), dtype=c.dtype, buffer=nl.sbuf)
            load_rows(left, 0, c, i * size + m0, i * size + m1)
            for k in range(pattern.starts[i], pattern.starts[i + 1]):
                j = pattern.columns[k]
                if resident:
                    right, at = cache, j * size
                    if not there[j]:
                        load_rows(cache, j * size, d, j * size, (j + 1) * size)
                        there[j] = True
                else:
                    right = nl.ndarray((TILE, len(parts), size), dtype=d.dtype, buffer=nl.sbuf)
                    at = 0
                    load_rows(right, 0, d, j * size, (j + 1) * size)
                store_block(out, k, m0, left, right, at, size, width)
    return out


def load_rows(transposed: Tile, at: int, x: Tile, first: int, last: int) -> None:
    """Load rows of a factor and write them to the columns of ``transposed`` from ``at``."""
    width = x.shape[1]
    for r0 in range(first, last, TILE):
        r1 = min(r0 + TILE, last)
        rows = nl.ndarray((r1 - r0, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=x[r0:r1, 0:width])
        load_transposed(transposed, at + r0 - first, rows)


def store_block(
    out: Tile, k: int, m0: int, left: Tile, right: Tile, at: int, size: int, width: int
) -> None:
    """Multiply transposed rows and store part of a block."""
    parts, rows = chunks(width), left.shape[2]
    for n0 in range(0, size, BANK):
        n1 = min(n0 + BANK, size)
        total = nl.ndarray((rows, n1 - n0), dtype=nl.float32, buffer=nl.psum)
        for p in range(len(parts)):
            used = parts[p][1] - parts[p][0]
            nisa.nc_matmul(
                dst=total,
                stationary=left[0:used, p, 0:rows],
                moving=right[0:used, p, at + n0 : at + n1],
                accumulate=(p > 0),
            )
        result = nl.ndarray((rows, n1 - n0), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out[k, m0 : m0 + rows, n0:n1], src=result)
