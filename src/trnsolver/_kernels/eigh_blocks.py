"""Eigenvalues and eigenvectors of symmetric matrices of order 129 to 1024, in one launch.

Block Jacobi: the rows are divided into an even number of groups, which are paired in a round-robin
tournament like single rows in ``jacobi``. A pair of groups is a matrix of order at most 128, in
which all pairs of rows are rotated once. The rotations Q_i of each pair of groups are then applied
to the whole matrix by products, D <- Q^T D Q and W <- Q^T W, together with the constant permutation
of the groups: columns by their position in a PSUM tile, rows by a stationary operand padded with
zeros. Every round is the same program, and all rounds of all sweeps are one loop.

Layout   D, W and two more block matrices (see ``block_matrix``), one pair of groups per block row
Limits   order at most 1024, for which four matrices take 128 KiB of each partition. Only the lower
         triangle is read
Cost     for b blocks and each of ``sweeps * (2 b - 1)`` rounds: b times the rounds of a tile of
         order 128, and about 4 b^2 products of 128 x 128 x 128
Lever    everything stays in SBUF; updates are products with 512 moving columns
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, select, transpose_tile
from trnsolver._kernels.block_matrix import (
    block,
    copy_matrix,
    largest_of,
    load_symmetric,
    new_matrix,
    scale_matrix,
    shifted_identity,
    store_matrix,
    strip_starts,
    transpose_matrix,
    transposed_product,
)
from trnsolver._kernels.jacobi import (
    FIRST_DAMPING,
    Tournament,
    decay_of,
    first_pairs,
    jacobi_round,
    tournament,
)
from trnsolver._kernels.limits import EIGH_ORDER
from trnsolver._kernels.shares import item, stores, turns
from trnsolver._kernels.symmetric import (
    LAST,
    diagonal_column,
    exponent_scale,
    identity,
    ranks,
    rows_of_column,
    unit_columns,
)


@nki.jit
def block_jacobi_eigh(
    a: Tile, tables: Tile, moves: tuple[int, ...], sweeps: int
) -> tuple[Tile, Tile, Tile]:
    """Return eigenvalues, eigenvectors, and the largest remaining off-diagonal entries.

    Args:
        a: Symmetric matrices, (batch, n, n); the lower triangles are read.
        tables: ``packed_tables`` of one tournament with as many slots as two groups have rows.
        moves: ``slot_permutation`` of the number of groups.
        sweeps: Number of sweeps over all pairs of groups, at least 2.

    Returns:
        As ``jacobi_eigh``.
    """
    batch, n = a.shape[0], a.shape[1]
    assert n <= EIGH_ORDER, f"block_jacobi_eigh: order at most {EIGH_ORDER}, got {n}"
    w = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    v = nl.ndarray((batch, n, n), dtype=nl.float32, buffer=nl.shared_hbm)
    rest = nl.ndarray((batch, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    width, blocks = tables.shape[0], len(moves) // 2
    order = width * blocks
    rounds = len(moves) - 1
    game = tournament(tables, decay_of(sweeps, rounds * blocks * (width - 1)))
    stationary = nl.ndarray((width, blocks, 2, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=stationary, value=0.0)
    for turn in range(turns(batch)):
        q = item(turn, batch)
        d = new_matrix(width, blocks, order)
        vt = new_matrix(width, blocks, order)
        t = new_matrix(width, blocks, order)
        x = new_matrix(width, blocks, order)
        load_symmetric(d, a, q)
        nisa.memset(dst=game.damping, value=FIRST_DAMPING)
        scale, inverse = exponent_scale(largest_of(d))
        scale_matrix(d, inverse)
        nisa.memset(dst=vt, value=0.0)
        shifted_identity(vt, 1.0, 1.0)
        for _ in nl.dynamic_range(0, (sweeps - 1) * rounds):
            block_round(d, vt, t, x, stationary, moves, game)
        refresh_blocks(d, vt, t, x, a, q, inverse)
        for _ in nl.dynamic_range(0, rounds):
            block_round(d, vt, t, x, stationary, moves, game)
        if stores(turn, batch):
            store_sorted(w, v, rest, q, d, vt, t, x, scale)
    return w, v, rest


def block_round(
    d: Tile,
    vt: Tile,
    t: Tile,
    x: Tile,
    stationary: Tile,
    moves: tuple[int, ...],
    game: Tournament,
) -> None:
    """Rotate all pairs of rows of paired groups, and permute the groups for the next round."""
    rotate_groups(d, stationary, moves, game)
    multiply_columns(t, d, stationary, moves)
    multiply_rows(d, t, stationary, moves)
    multiply_rows(x, vt, stationary, moves)
    copy_matrix(vt, x)


def rotate_groups(d: Tile, stationary: Tile, moves: tuple[int, ...], game: Tournament) -> None:
    """Write the rotations of every pair of groups to their next positions, padded with zeros."""
    width, blocks = d.shape[0], d.shape[1]
    half = width // 2
    tiles, pairs = [], []
    eye = identity(width)
    for i in range(blocks):
        dw = nl.ndarray((width, 2 * width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=dw[0:width, 0:width], src=block(d, i, i))
        nisa.tensor_copy(dst=dw[0:width, width : 2 * width], src=eye)
        tiles.append(dw)
        pairs.append(first_pairs(dw, eye, game))
    # Pairs of groups are interleaved: one computes angles while another multiplies.
    for _ in range(width - 1):
        for i in range(blocks):
            jacobi_round(tiles[i], pairs[i], game)
    rotations = []
    for i in range(blocks):
        transposed = nl.ndarray((width, width), dtype=nl.float32, buffer=nl.sbuf)
        transpose_tile(transposed, tiles[i][0:width, width : 2 * width])
        rotations.append(transposed)
    for place in range(len(moves)):
        group = moves[place]
        at, source = place % 2 * half, group % 2 * half
        nisa.tensor_copy(
            dst=stationary[0:width, place // 2, place % 2, at : at + half],
            src=rotations[group // 2][0:width, source : source + half],
        )


def multiply_columns(t: Tile, d: Tile, stationary: Tile, moves: tuple[int, ...]) -> None:
    """Write D Q to ``t``, with the columns of every group at its next position."""
    width, blocks, order = d.shape
    half = width // 2
    for i in range(blocks):
        starts = strip_starts(order, half)
        for s in range(len(starts) - 1):
            first, last = starts[s], starts[s + 1]
            total = nl.ndarray((width, last - first), dtype=nl.float32, buffer=nl.psum)
            for place in range(first // half, last // half):
                at = place % 2 * half
                # D is symmetric: the transpose of a block is the block across the diagonal.
                nisa.nc_matmul(
                    dst=total[0:width, place * half - first : (place + 1) * half - first],
                    stationary=block(d, moves[place] // 2, i),
                    moving=stationary[0:width, place // 2, place % 2, at : at + half],
                )
            nisa.tensor_copy(dst=t[0:width, i, first:last], src=total)


def multiply_rows(dst: Tile, src: Tile, stationary: Tile, moves: tuple[int, ...]) -> None:
    """Write Q^T times ``src``, with the rows of every group at its next position."""
    width, blocks, order = src.shape
    for i in range(blocks):
        starts = strip_starts(order, 1)
        for s in range(len(starts) - 1):
            first, last = starts[s], starts[s + 1]
            total = nl.ndarray((width, last - first), dtype=nl.float32, buffer=nl.psum)
            for side in range(2):
                nisa.nc_matmul(
                    dst=total,
                    stationary=stationary[0:width, i, side, 0:width],
                    moving=src[0:width, moves[2 * i + side] // 2, first:last],
                    accumulate=side > 0,
                )
            nisa.tensor_copy(dst=dst[0:width, i, first:last], src=total)


def refresh_blocks(d: Tile, vt: Tile, t: Tile, x: Tile, a: Tile, q: int, inverse: Tile) -> None:
    """Reorthogonalise the eigenvectors, and recompute D from them, as in ``eigh_tile``."""
    transpose_matrix(t, vt)
    transposed_product(d, t, t)
    shifted_identity(d, -0.5, 1.5)
    transposed_product(x, vt, d)
    transposed_product(t, d, vt)
    copy_matrix(vt, t)
    load_symmetric(d, a, q)
    scale_matrix(d, inverse)
    transposed_product(t, d, x)
    transposed_product(d, x, t)


def store_sorted(
    w: Tile, v: Tile, rest: Tile, q: int, d: Tile, vt: Tile, t: Tile, x: Tile, scale: Tile
) -> None:
    """Sort the eigenvalues and store them with their vectors; ``t`` and ``x`` are overwritten."""
    width, blocks, order = d.shape
    n = w.shape[1]
    values = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(blocks):
        nisa.tensor_copy(dst=values[0:width, i : i + 1], src=diagonal_column(block(d, i, i)))
        off_diagonal = select(block(d, i, i), [[-1, width]], 1, 0, nl.not_equal)
        nisa.tensor_copy(dst=block(d, i, i), src=off_diagonal)
    nisa.dma_copy(dst=rest[q : q + 1, 0:1], src=largest_of(d)[0:1, 0:1])
    keys = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    nisa.affine_select(
        dst=keys,
        pattern=[[width, blocks]],
        channel_multiplier=1,
        offset=-n,
        on_true_tile=values,
        on_false_value=LAST,
        cmp_op=nl.less,
    )
    rows = nl.ndarray((width, order), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(blocks):
        nisa.tensor_copy(
            dst=rows[0:width, i * width : (i + 1) * width],
            src=rows_of_column(keys[0:width, i : i + 1]),
        )
    ones = nl.ndarray((width, order), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    for i in range(blocks):
        before = select(ones, [[-1, order]], 1, i * width, nl.greater)
        places = ranks(keys[0:width, i : i + 1], rows, None, before)
        nisa.tensor_copy(dst=x[0:width, i, 0:order], src=unit_columns(places, order))
    transposed_product(t, vt, x)
    store_matrix(v, q, t)
    nisa.tensor_scalar(dst=values, data=values, op0=nl.multiply, operand0=scale)
    starts = strip_starts(order, 1)
    for s in range(len(starts) - 1):
        first, last = starts[s], starts[s + 1]
        total = nl.ndarray((1, last - first), dtype=nl.float32, buffer=nl.psum)
        for i in range(blocks):
            nisa.nc_matmul(
                dst=total,
                stationary=values[0:width, i : i + 1],
                moving=x[0:width, i, first:last],
                accumulate=i > 0,
            )
        row = nl.ndarray((1, last - first), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=row, src=total)
        end = min(last, n)
        if first < end:
            nisa.dma_copy(dst=w[q : q + 1, first:end], src=row[0:1, 0 : end - first])
