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

from typing import NamedTuple

from trnblas._kernels.triangular import (
    PANEL_BYTES,
    Chunk,
    Triangle,
    block_rows,
    column_chunks,
    load_diagonals,
    load_panel,
    load_transposed,
    panel_width,
    select_triangle,
    store_panel,
    store_zeros,
    triangle,
)
from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, transpose_tile
from trnsci.core.tiles.hardware import BANK, TILE
from trnsci.core.tiles.tiling import column_start, column_tiles, row_tiles
from trnsci.core.tiles.triangular_inverse import (
    doubling,
    invert_triangles,
    new_inverses,
    padded_identity,
    reciprocal_diagonals,
)

LOCK_STEP = 16
"""Diagonal blocks, of one matrix or of several, that are inverted together."""
MAX_ORDER = PANEL_BYTES // (4 * 2 * TILE) * TILE
"""Largest order: each block has 128 panel columns and 128 columns of inverses."""


class Inverses(NamedTuple):
    """The inverses of the diagonal blocks of some matrices, block ``i`` of all of them in turn.

    Attributes:
        matrices: Number of matrices.
        transposed: Transposes of the inverses of blocks whose columns are divided by the diagonal.
        pivots: Reciprocals of the diagonals, as columns; None for ones.
    """

    matrices: int
    transposed: Tile
    pivots: Tile | None


class Piece(NamedTuple):
    """Columns of a panel that are multiplied by one matrix and summed in one PSUM bank.

    Attributes:
        matrix: Number of the matrix.
        strip: Number of the bank.
        first, last: Columns of the panel.
        start: First of these columns in the bank.
    """

    matrix: int
    strip: int
    first: int
    last: int
    start: int


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
    """Return the transposes of diagonal blocks whose columns are divided by the diagonal.

    Args:
        a: The matrices.
        q: The first matrix of ``inverses``.
        first: The first block in the order of ``inverses``.
        count: Number of blocks.
        inverses: Receives the reciprocals of the diagonals.
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
    """Solve ``count`` systems from the ``q``-th on with the matrices from the ``q``-th on."""
    order = a.shape[1]
    blocks = row_tiles(order)
    width = panel_width(blocks, 4, TILE * inverses.matrices)
    columns = b.shape[2] if tri.left else b.shape[1]
    if inverses.matrices > 1 and columns > BANK:
        width = min(width, columns)  # a system in each panel
    chunks = column_chunks(q, count, columns, width)
    for c in range(len(chunks)):
        panel = load_panel(b, chunks[c], tri.left, nl.float32)
        each = pieces(chunks[c], panel, chunks[c][0] - q, inverses.matrices)
        for step in range(blocks):
            i = step if tri.lower else blocks - 1 - step
            first = 0 if tri.lower else i + 1
            sums = strips_of(each, block_rows(i, order))
            for k in range(first, first + step):
                block, matrix = None, -1
                for p in range(len(each)):
                    if each[p].matrix != matrix:
                        matrix = each[p].matrix
                        block = load_transposed(a, q + matrix, i, k, tri.transposed, nl.float32)
                    multiply_piece(sums, block, panel, k, each[p], k > first)
            finish_row(panel, sums, each, inverses, i, alpha, step > 0)
        store_panel(out, chunks[c], tri.left, panel)


def pieces(chunk: Chunk, panel: Tile, matrix: int, matrices: int) -> list[Piece]:
    """Return the pieces of a panel, whose first system has number ``matrix`` of ``matrices``.

    A single matrix multiplies whole strips; of several, each multiplies the columns of its system.
    """
    found, width = [], panel.shape[2]
    if matrices == 1 or chunk[1] == 1:
        for s in range(column_tiles(width)):
            first, last = column_start(s, width), column_start(s + 1, width)
            found.append(Piece(0 if matrices == 1 else matrix, s, first, last, 0))
        return found
    pitch = width // chunk[1]
    for m in range(chunk[1]):
        strip, start = m // (BANK // pitch), m % (BANK // pitch) * pitch
        found.append(Piece(matrix + m, strip, m * pitch, (m + 1) * pitch, start))
    return found


def strips_of(each: list[Piece], rows: int) -> list[Tile]:
    """Return PSUM tiles, a bank each, for a row of results."""
    strips = []
    for p in range(len(each)):
        if p + 1 == len(each) or each[p + 1].strip > each[p].strip:
            width = each[p].start + each[p].last - each[p].first
            strips.append(nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.psum))
    return strips


def in_strip(strips: list[Tile], piece: Piece) -> Tile:
    """Return the columns of a piece in its strip."""
    strip = strips[piece.strip]
    return strip[0 : strip.shape[0], piece.start : piece.start + piece.last - piece.first]


def multiply_piece(
    strips: list[Tile], stationary: Tile, panel: Tile, k: int, piece: Piece, summed: bool
) -> None:
    """Add ``stationary.T`` times columns of block ``k`` of a panel to a strip, or write it."""
    nisa.nc_matmul(
        dst=in_strip(strips, piece),
        stationary=stationary,
        moving=panel[0 : stationary.shape[0], k, piece.first : piece.last],
        accumulate=summed,
    )


def finish_row(
    panel: Tile,
    sums: list[Tile],
    each: list[Piece],
    inverses: Inverses,
    i: int,
    alpha: float,
    summed: bool,
) -> None:
    """Replace block ``i`` of a panel by ``inv(M_ii) (alpha B_i - sum)``."""
    rows, begin = sums[0].shape[0], 0
    for s in range(len(sums)):
        end = begin + sums[s].shape[1]
        side = panel[0:rows, i, begin:end]
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
        begin = end
    solved = strips_of(each, rows)
    for p in range(len(each)):
        slot = i * inverses.matrices + each[p].matrix
        stationary = inverses.transposed[0:rows, slot, 0:rows]
        multiply_piece(solved, stationary, panel, i, each[p], False)
    for p in range(len(each)):
        slot = i * inverses.matrices + each[p].matrix
        scale = 1.0
        if inverses.pivots is not None:
            scale = inverses.pivots[0:rows, slot : slot + 1]
        nisa.activation(
            dst=panel[0:rows, i, each[p].first : each[p].last],
            op=nl.copy,
            data=in_strip(solved, each[p]),
            scale=scale,
        )
