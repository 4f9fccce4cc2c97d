"""alpha op(tri(A)) B or alpha B op(tri(A)), A triangular: half the matmuls of a full product.

Blocks of the empty triangle are neither loaded nor multiplied. A row of the result depends only on
rows of B on its own side of the diagonal, so it overwrites its row of B in SBUF: rows are computed
in an order in which every row of B is read before it is overwritten.

Layout   B, then the result, in a (128, blocks, columns) panel in SBUF (see ``triangular``)
Limits   A and B of one type, float32 or 16 bits; sums in float32, one rounding into the result.
         NaN in B propagates to its dependents and to the other rows of its block of 128 (on the
         right, columns)
Cost     order n, m columns, b = n / 128: b (b + 1) / 2 products of 128 by 128 by m. Each panel of B
         reads all blocks of A once; a panel has 2048 columns or, from order 2305 on in float32,
         36864 / b. If M is A itself, each block that is read is transposed once (see
         ``triangular``)
Lever    operand reuse in SBUF and accumulation in PSUM; in-place results halve the SBUF use
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from trnblas._kernels.triangular import (
    Triangle,
    add_product,
    block_rows,
    column_chunks,
    load_diagonal,
    load_panel,
    load_transposed,
    panel_strip,
    panel_width,
    result_strips,
    select_triangle,
    store_panel,
    store_zeros,
    triangle,
)
from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, select, transpose_tile
from trnsci.core.tiles.tiling import row_tiles


@nki.jit
def trmm(a: Tile, b: Tile, alpha: float, left: bool, upper: bool, trans: bool, unit: bool) -> Tile:
    """Return ``alpha op(tri(A)) B``, or ``alpha B op(tri(A))`` unless ``left``.

    Args:
        a: Square matrix; only the triangle chosen by ``upper`` is used. With ``unit`` its diagonal
            is not read and is ones.
        b: The other factor, (rows, columns), of the type of ``a``.
        alpha: Factor of the product; 0 gives zeros for any matrices, NaN included.
        left: Whether ``op(tri(A))`` is the left factor.
        upper: Whether the upper triangle is stored.
        trans: Whether ``op`` transposes.
        unit: Whether the diagonal is ones.
    """
    out = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.shared_hbm)
    matrix = a.reshape((1, a.shape[0], a.shape[1]))
    factor = b.reshape((1, b.shape[0], b.shape[1]))
    result = out.reshape((1, b.shape[0], b.shape[1]))
    if alpha == 0:
        store_zeros(result)
    else:
        multiply(matrix, factor, result, alpha, triangle(left, upper, trans, unit))
    return out


def multiply(a: Tile, b: Tile, out: Tile, alpha: float, tri: Triangle) -> None:
    """Compute the product panel by panel; all tensors have a leading dimension of 1."""
    order = a.shape[1]
    blocks = row_tiles(order)
    itemsize = 4 if b.dtype == nl.float32 else 2
    width = panel_width(blocks, itemsize, 0)
    chunks = column_chunks(0, 1, b.shape[2] if tri.left else b.shape[1], width)
    for c in range(len(chunks)):
        panel = load_panel(b, chunks[c], tri.left, b.dtype)
        for step in range(blocks):
            i = blocks - 1 - step if tri.lower else step
            strips = result_strips(block_rows(i, order), panel.shape[2])
            first, last = (0, i + 1) if tri.lower else (i, blocks)
            for k in range(first, last):
                if k == i:
                    block = diagonal_block(a, i, tri)
                else:
                    block = load_transposed(a, 0, i, k, tri.transposed, a.dtype)
                add_product(strips, block, panel, k, k == first)
            scale_row(panel, strips, i, alpha)
        store_panel(out, chunks[c], tri.left, panel)


def diagonal_block(a: Tile, i: int, tri: Triangle) -> Tile:
    """Return the transpose of the triangular block M[i, i], with a diagonal of ones for unit."""
    size = block_rows(i, a.shape[1])
    chosen = select_triangle(load_diagonal(a, i, a.dtype), tri.upper, True)[0:size, 0, 0:size]
    if tri.unit:
        select(chosen, [[1, size]], -1, 0, nl.not_equal, 1.0, dst=chosen)
    if tri.transposed:
        return chosen
    block = nl.ndarray((size, size), dtype=a.dtype, buffer=nl.sbuf)
    transpose_tile(block, chosen)
    return block


def scale_row(panel: Tile, strips: list[Tile], i: int, alpha: float) -> None:
    """Replace block ``i`` of a panel by ``alpha`` times a row of sums."""
    rows = strips[0].shape[0]
    for s in range(len(strips)):
        row = panel_strip(panel, rows, i, s)
        nisa.tensor_scalar(dst=row, data=strips[s], op0=nl.multiply, operand0=alpha)
