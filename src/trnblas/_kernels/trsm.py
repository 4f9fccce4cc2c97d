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
         each 128 by 128 by m; 19 of 128 by 128 by 64 per diagonal block. Each panel reads all
         blocks of A once; a panel has 2048 columns or, from order 2049 on, 36864 / b - 128. If M is
         A itself, each block that is read is transposed once
Lever    operand reuse in SBUF and accumulation in PSUM; no substitution loop over rows
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from typing import NamedTuple

from trnblas._kernels.triangular import (
    PANEL_BYTES,
    Triangle,
    add_product,
    block_rows,
    column_chunks,
    load_diagonals,
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
from trnsci.core.tiles.gemm_tiles import Tile, transpose_tile
from trnsci.core.tiles.hardware import BANK, TILE
from trnsci.core.tiles.tiling import row_tiles
from trnsci.core.tiles.triangular_inverse import (
    doubling,
    invert_triangles,
    new_inverses,
    padded_identity,
    reciprocal_diagonals,
)

LOCK_STEP = 16
"""Maximum of diagonal blocks, of one matrix or of several, that are inverted together."""
MAX_ORDER = PANEL_BYTES // (4 * 2 * TILE) * TILE
"""Largest order: each block has 128 panel columns and 128 columns of inverses."""


class Inverses(NamedTuple):
    """Inverses of the diagonal blocks of matrices: block 0 of each matrix, then block 1 of each.

    Attributes:
        matrices: Number of matrices.
        transposed: Transposed inverses of blocks with each column divided by its diagonal entry.
        pivots: Reciprocals of the diagonals, one column per block; None for diagonals of ones.
    """

    matrices: int
    transposed: Tile
    pivots: Tile | None


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
    order, count = a.shape[1], a.shape[0]
    assert order <= MAX_ORDER, f"trsm: A must have order at most {MAX_ORDER}, got {order}"
    if alpha == 0:
        store_zeros(out)
        return
    eye, table = padded_identity(min(order, TILE)), None
    together = max(1, LOCK_STEP // row_tiles(order))
    for q in range(0, count, together):
        matrices = min(together, count - q)
        total = matrices * row_tiles(order)
        transposed, pivots = new_inverses(total, eye), None
        if not tri.unit:
            pivots = nl.ndarray((eye.shape[0], total), dtype=nl.float32, buffer=nl.sbuf)
        inverses = Inverses(matrices, transposed, pivots)
        for first in range(0, total, LOCK_STEP):
            units = unit_triangles(a, q, first, min(LOCK_STEP, total - first), inverses, eye, tri)
            if table is None:
                table = doubling(eye, tri.lower)
            invert_triangles(transposed, first, units, table)
        solve(a, q, b, out, b.shape[0] if count == 1 else matrices, inverses, alpha, tri)


def unit_triangles(
    a: Tile, q: int, first: int, count: int, inverses: Inverses, eye: Tile, tri: Triangle
) -> Tile:
    """Return transposed diagonal blocks, with each column divided by its diagonal entry.

    Args:
        a: The matrices.
        q: The first matrix of ``inverses``.
        first: The first block, as a position in ``inverses``.
        count: Number of blocks.
        inverses: Its ``pivots`` receive the reciprocals of the diagonals.
        eye: The identity.
        tri: Side, triangle and diagonal.
    """
    size, pivots = eye.shape[0], inverses.pivots
    stored = nl.ndarray((size, count, size), dtype=nl.float32, buffer=nl.sbuf)
    load_diagonals(stored, a, q, first // inverses.matrices, inverses.matrices, eye)
    strict = select_triangle(stored, tri.upper, False)
    if pivots is not None:
        reciprocal_diagonals(pivots[0:size, first : first + count], stored)
    units = nl.ndarray((size, count, size), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(count):
        block = strict[0:size, i, 0:size]
        if not tri.transposed:
            block = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
            transpose_tile(block, strict[0:size, i, 0:size])
        nisa.scalar_tensor_tensor(
            dst=units[0:size, i, 0:size],
            data=block,
            op0=nl.multiply,
            operand0=1.0 if pivots is None else pivots[0:size, first + i : first + i + 1],
            op1=nl.add,
            operand1=eye[0:size, 0:size],
        )
    return units


def solve(
    a: Tile,
    q: int,
    b: Tile,
    out: Tile,
    count: int,
    inverses: Inverses,
    alpha: float,
    tri: Triangle,
) -> None:
    """Solve ``count`` systems from ``q`` on: each with its matrix, or all with the shared one."""
    order = a.shape[1]
    blocks = row_tiles(order)
    width = panel_width(blocks, 4, TILE * inverses.matrices)
    columns = b.shape[2] if tri.left else b.shape[1]
    if inverses.matrices > 1 and columns > BANK:
        width = min(width, columns)  # one system per panel
    chunks = column_chunks(q, count, columns, width)
    for c in range(len(chunks)):
        panel = load_panel(b, chunks[c], tri.left, nl.float32)
        # Each matrix multiplies the columns of its own system; a shared one multiplies all.
        each = chunks[c][1] if inverses.matrices > 1 else 1
        start = chunks[c][0] - q if inverses.matrices > 1 else 0
        pitch = panel.shape[2] // each
        for step in range(blocks):
            i = step if tri.lower else blocks - 1 - step
            first = 0 if tri.lower else i + 1
            for m in range(each):
                side = panel[0:TILE, 0:blocks, m * pitch : (m + 1) * pitch]
                sums = result_strips(block_rows(i, order), pitch)
                for k in range(first, first + step):
                    block = load_transposed(a, q + start + m, i, k, tri.transposed, nl.float32)
                    add_product(sums, block, side, k, k == first)
                scale_row(side, sums, i, alpha, step > 0)
            for m in range(each):
                side = panel[0:TILE, 0:blocks, m * pitch : (m + 1) * pitch]
                finish_row(side, inverses, i, i * inverses.matrices + start + m, order)
        store_panel(out, chunks[c], tri.left, panel)


def scale_row(panel: Tile, sums: list[Tile], i: int, alpha: float, summed: bool) -> None:
    """Replace block ``i`` of a panel by ``alpha B_i - sum``."""
    for s in range(len(sums)):
        side = panel_strip(panel, sums[s].shape[0], i, s)
        if summed:
            nisa.scalar_tensor_tensor(
                dst=side,
                data=side,
                op0=nl.multiply,
                operand0=alpha,
                op1=nl.subtract,
                operand1=sums[s],
            )
        elif alpha != 1.0:
            nisa.tensor_scalar(dst=side, data=side, op0=nl.multiply, operand0=alpha)


def finish_row(panel: Tile, inverses: Inverses, i: int, slot: int, order: int) -> None:
    """Multiply block ``i`` of a panel by ``inv(M_ii)``, at position ``slot`` of ``inverses``."""
    rows, scale = block_rows(i, order), 1.0
    if inverses.pivots is not None:
        scale = inverses.pivots[0:rows, slot : slot + 1]
    solved = result_strips(rows, panel.shape[2])
    add_product(solved, inverses.transposed[0:rows, slot, 0:rows], panel, i, True)
    for s in range(len(solved)):
        side = panel_strip(panel, rows, i, s)
        nisa.activation(dst=side, op=nl.copy, data=solved[s], scale=scale)
