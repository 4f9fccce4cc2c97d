"""Solution X of op(A) X = alpha B or X op(A) = alpha B, A triangular: matmuls only, one launch.

The diagonal blocks of M (see ``triangular``) are inverted on chip, then row by row

    X_i = inv(M_ii) (alpha B_i - sum_k M_ik X_k),

the sum growing in PSUM over the rows already solved; see ``triangular_inverse`` for the inverses.

Layout   a (128, blocks, columns) float32 panel in SBUF: B, whose rows are replaced by rows of X
Limits   order up to 18,432: inverses and a panel of at least 128 columns share 144 KiB per
         partition. float32 or 16 bits, all work in float32, one rounding into X. A NaN or
         infinity in B propagates to its dependents and to the other rows of its block of 128 (on
         the right, columns). A zero on the diagonal makes X not finite; no error is raised
Cost     order n, m columns, b = n / 128: b (b - 1) / 2 products of A's blocks and b of inverses,
         each 128 by 128 by m; 20 matmuls of 128^3 per diagonal block. Each panel reads all blocks
         of A once; a panel has 2048 columns or, from order 2049 on, 36864 / b - 128. If M is A
         itself, each block that is read is transposed once
Lever    operand reuse in SBUF and accumulation in PSUM; no substitution loop over rows
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from trnblas._kernels.triangular import (
    PANEL_BYTES,
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
from trnsci.core.tiles import triangular_inverse
from trnsci.core.tiles.gemm_tiles import Tile, transpose_tile
from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.tiling import row_tiles
from trnsci.core.tiles.triangular_inverse import (
    doubling_masks,
    invert_triangles,
    reciprocal_diagonal,
)

LOCK_STEP = 4
"""Diagonal blocks that are inverted together."""
MAX_ORDER = PANEL_BYTES // (4 * 2 * TILE) * TILE
"""Largest order: each block has 128 panel columns and 128 columns of inverses."""


@nki.jit
def trsm(a: Tile, b: Tile, alpha: float, left: bool, upper: bool, trans: bool, unit: bool) -> Tile:
    """Solve ``op(A) X = alpha B``, or ``X op(A) = alpha B`` unless ``left``, for X.

    Args:
        a: Square matrix; only the triangle chosen by ``upper`` is used. With ``unit`` its diagonal
            is not read and is ones.
        b: Right-hand sides, (rows, columns).
        alpha: Factor of ``b``; 0 gives zeros for any matrices, NaN included.
        left: Whether ``op(A)`` is the left factor.
        upper: Whether the upper triangle is stored.
        trans: Whether ``op`` transposes.
        unit: Whether the diagonal is ones.
    """
    out = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.shared_hbm)
    matrices = a.reshape((1, a.shape[0], a.shape[1]))
    sides = b.reshape((1, b.shape[0], b.shape[1]))
    results = out.reshape((1, b.shape[0], b.shape[1]))
    solve_batch(matrices, sides, results, alpha, triangle(left, upper, trans, unit))
    return out


@nki.jit
def batched_trsm(
    a: Tile, b: Tile, alpha: float, left: bool, upper: bool, trans: bool, unit: bool
) -> Tile:
    """Return the solutions of a batch of systems, each as in ``trsm``.

    Args:
        a: (batch, n, n), or (n, n) shared by the batch: then its blocks are inverted once, and
            narrow right-hand sides share a panel.
        b: Right-hand sides, (batch, rows, columns).
        alpha: Factor of ``b``.
        left: Whether ``op(A)`` is the left factor.
        upper: Whether the upper triangle is stored.
        trans: Whether ``op`` transposes.
        unit: Whether the diagonal is ones.
    """
    out = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.shared_hbm)
    tri = triangle(left, upper, trans, unit)
    if len(a.shape) == 2:
        solve_batch(a.reshape((1, a.shape[0], a.shape[1])), b, out, alpha, tri)
    else:
        solve_batch(a, b, out, alpha, tri)
    return out


def solve_batch(a: Tile, b: Tile, out: Tile, alpha: float, tri: Triangle) -> None:
    """Solve every system of a batch, with one matrix per system or one shared matrix."""
    order = a.shape[1]
    assert order <= MAX_ORDER, f"trsm: A must have order at most {MAX_ORDER}, got {order}"
    if alpha == 0:
        store_zeros(out)
        return
    eye = diagonal_ones()
    masks = doubling_masks(tri.lower)
    count = b.shape[0] if a.shape[0] == 1 else 1
    for q in range(a.shape[0]):
        inverses = nl.ndarray((TILE, row_tiles(order), TILE), dtype=nl.float32, buffer=nl.sbuf)
        for first in range(0, row_tiles(order), LOCK_STEP):
            blocks = []
            for i in range(first, min(first + LOCK_STEP, row_tiles(order))):
                blocks.append(diagonal_block(inverses, a, q, i, eye, tri))
            invert_triangles(blocks, masks)
        solve(a, q, b, out, count, inverses, alpha, tri)


def solve(
    a: Tile, q: int, b: Tile, out: Tile, count: int, inverses: Tile, alpha: float, tri: Triangle
) -> None:
    """Solve ``count`` systems from the ``q``-th on with matrix ``q``."""
    order = a.shape[1]
    blocks = row_tiles(order)
    width = panel_width(blocks, 4, TILE)
    chunks = column_chunks(q, count, b.shape[2] if tri.left else b.shape[1], width)
    for c in range(len(chunks)):
        panel = load_panel(b, chunks[c], tri.left, nl.float32)
        for step in range(blocks):
            i = step if tri.lower else blocks - 1 - step
            strips = result_strips(block_rows(i, order), panel.shape[2])
            first = 0 if tri.lower else i + 1
            for k in range(first, first + step):
                block = load_transposed(a, q, i, k, tri.transposed, nl.float32)
                add_product(strips, block, panel, k, k == first)
            finish_row(panel, strips, inverses, i, alpha, step > 0)
        store_panel(out, chunks[c], tri.left, panel)


def finish_row(
    panel: Tile, strips: list[Tile], inverses: Tile, i: int, alpha: float, summed: bool
) -> None:
    """Replace block ``i`` of a panel by ``inv(M_ii) (alpha B_i - sum)``."""
    rows = strips[0].shape[0]
    for s in range(len(strips)):
        side = panel_strip(panel, rows, i, s)
        rest = nl.ndarray(strips[s].shape, dtype=nl.float32, buffer=nl.sbuf)
        if summed:
            nisa.scalar_tensor_tensor(
                dst=rest,
                data=side,
                op0=nl.multiply,
                operand0=alpha,
                op1=nl.subtract,
                operand1=strips[s],
            )
        else:
            nisa.tensor_scalar(dst=rest, data=side, op0=nl.multiply, operand0=alpha)
        solved = nl.ndarray(strips[s].shape, dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=solved, stationary=inverses[0:rows, i, 0:rows], moving=rest)
        nisa.tensor_copy(dst=side, src=solved)


def diagonal_block(
    inverses: Tile, a: Tile, q: int, i: int, eye: Tile, tri: Triangle
) -> triangular_inverse.Triangle:
    """Return the diagonal block M_ii; the transpose of its inverse will be in ``inverses``."""
    stored = load_diagonal(a, q, i, nl.float32)
    size = stored.shape[0]
    strict = select_triangle(stored, tri.upper, False)
    if not tri.transposed:
        flipped = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
        transpose_tile(flipped, strict)
        strict = flipped
    inverse = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
    if tri.unit:
        nisa.tensor_copy(dst=inverse, src=eye[0:size, 0:size])
    else:
        pivots = reciprocal_diagonal(stored)
        nisa.tensor_scalar(dst=inverse, data=eye[0:size, 0:size], op0=nl.multiply, operand0=pivots)
    return triangular_inverse.Triangle(inverses[0:size, i, 0:size], strict, inverse)


def diagonal_ones() -> Tile:
    """Return the identity of order 128."""
    ones = nl.ndarray((TILE, TILE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    eye = nl.ndarray((TILE, TILE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.affine_select(
        dst=eye,
        pattern=[[1, TILE]],
        channel_multiplier=-1,
        on_true_tile=ones,
        on_false_value=0.0,
        cmp_op=nl.equal,
    )
    return eye
