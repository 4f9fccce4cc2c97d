"""Thin singular value factors of tall matrices by one-sided Jacobi rotations, in one launch.

Columns of A are rotated until they are orthogonal; their lengths are the singular values. A sweep
computes the Gram matrix of the columns, rotates all of its pairs as in ``jacobi``, and applies the
rotations to the columns. The Gram matrix is recomputed for every sweep, so that its rounding errors
are relative to each pair of columns and not to the largest: small singular values are as accurate
as the columns determine them.

Layout   columns of A in rows, (n, m); their Gram matrix in one tile
Limits   at most 128 columns and 8192 rows, of which three forms take 96 KiB of each partition. A
         singular value of zero has zeros for its left vector
Cost     for each sweep n - 1 rounds of ``jacobi_round``, and three products with A
Lever    all sweeps are one loop on the device
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, select, transpose_tile
from trnsci.core.tiles.hardware import TILE
from trnsolver._kernels.block_matrix import run_starts
from trnsolver._kernels.elimination import reciprocal_root
from trnsolver._kernels.jacobi import Tournament, first_pairs, jacobi_round, tournament
from trnsolver._kernels.limits import SVD_ROWS
from trnsolver._kernels.shares import item, stores, turns
from trnsolver._kernels.symmetric import (
    diagonal_column,
    exponent_scale,
    identity,
    ranks,
    rows_of_column,
    unit_columns,
)

STRIP = 512
LEAST_LENGTH = 2.0**-86
"""Smallest squared length with a reciprocal root."""


@nki.jit
def jacobi_svd(a: Tile, tables: Tile, sweeps: int, ordered: bool) -> tuple[Tile, Tile, Tile, Tile]:
    """Return U, singular values, V^T, and the largest remaining cosines.

    Args:
        a: Matrices, (batch, m, n) with m at least n and n at most 128.
        tables: ``packed_tables`` of one tournament of n rounded up to even.
        sweeps: Number of sweeps over all pairs of columns.
        ordered: Whether to sort results in descending order; else columns keep their positions,
            as block Jacobi requires.

    Returns:
        U, (batch, m, n); singular values, (batch, n); V^T, (batch, n, n); and the largest cosine
        between two columns of U, (batch, 1).
    """
    batch, m, n = a.shape
    order = tables.shape[0]
    assert n <= order and m <= SVD_ROWS, f"jacobi_svd: at most 128 columns, got {m} x {n}"
    u = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    values = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    vh = nl.ndarray((batch, n, n), dtype=nl.float32, buffer=nl.shared_hbm)
    rest = nl.ndarray((batch, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    # No damping: it would hold back rotations of small columns as for equal eigenvalues.
    game = tournament(tables, 1.0)
    tiles = (m + TILE - 1) // TILE
    for turn in range(turns(batch)):
        q = item(turn, batch)
        columns = nl.ndarray((order, tiles * TILE), dtype=nl.float32, buffer=nl.sbuf)
        rows = nl.ndarray((TILE, tiles, order), dtype=nl.float32, buffer=nl.sbuf)
        v_t = identity(order)
        scale = load_columns(columns, rows, a, q)
        for _ in nl.dynamic_range(0, sweeps):
            sweep(columns, rows, v_t, game)
        gram = gram_matrix(rows, columns)
        if stores(turn, batch):
            store_factors(u, values, vh, rest, q, columns, v_t, gram, scale, ordered)
    return u, values, vh, rest


def load_columns(columns: Tile, rows: Tile, a: Tile, q: int) -> Tile:
    """Fill ``columns`` with the transpose of a scaled matrix, and return its scale."""
    order, tiles, m, n = columns.shape[0], rows.shape[1], a.shape[1], a.shape[2]
    nisa.memset(dst=rows, value=0.0)
    for i in range(tiles):
        count = min(TILE, m - i * TILE)
        nisa.dma_copy(dst=rows[0:count, i, 0:n], src=a[q, i * TILE : i * TILE + count, 0:n])
        transpose_tile(columns[0:order, i * TILE : (i + 1) * TILE], rows[0:TILE, i, 0:order])
    sizes = nl.ndarray(columns.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=sizes, data=columns, op0=nl.abs, operand0=0.0)
    largest = nl.ndarray((order, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=sizes, axis=1)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=rows_of_column(largest), axis=1)
    scale, inverse = exponent_scale(largest)
    nisa.tensor_scalar(dst=columns, data=columns, op0=nl.multiply, operand0=inverse)
    return scale


def gram_matrix(rows: Tile, columns: Tile) -> Tile:
    """Return the Gram matrix of columns, in SBUF; ``rows`` becomes their transpose."""
    order, tiles = columns.shape[0], rows.shape[1]
    total = nl.ndarray((order, order), dtype=nl.float32, buffer=nl.psum)
    for i in range(tiles):
        tile = rows[0:TILE, i, 0:order]
        transpose_tile(tile, columns[0:order, i * TILE : (i + 1) * TILE])
        nisa.nc_matmul(dst=total, stationary=tile, moving=tile, accumulate=i > 0)
    gram = nl.ndarray((order, order), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=gram, src=total)
    return gram


def sweep(columns: Tile, rows: Tile, v_t: Tile, game: Tournament) -> None:
    """Rotate all pairs of columns once, and V^T with them."""
    order = columns.shape[0]
    dw = nl.ndarray((order, 2 * order), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=dw[0:order, 0:order], src=gram_matrix(rows, columns))
    eye = identity(order)
    nisa.tensor_copy(dst=dw[0:order, order : 2 * order], src=eye)
    ef = first_pairs(dw, eye, game)
    for _ in range(order - 1):
        jacobi_round(dw, ef, game)
    rotations = nl.ndarray((order, order), dtype=nl.float32, buffer=nl.sbuf)
    transpose_tile(rotations, dw[0:order, order : 2 * order])
    starts = run_starts(columns.shape[1], STRIP)
    for s in range(len(starts) - 1):
        rotate_strip(columns[0:order, starts[s] : starts[s + 1]], rotations)
    rotate_strip(v_t, rotations)


def rotate_strip(x: Tile, rotations: Tile) -> None:
    """Replace ``x`` by ``rotations.T @ x``."""
    total = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=rotations, moving=x)
    nisa.tensor_copy(dst=x, src=total)


def store_factors(
    u: Tile,
    values: Tile,
    vh: Tile,
    rest: Tile,
    q: int,
    columns: Tile,
    v_t: Tile,
    gram: Tile,
    scale: Tile,
    ordered: bool,
) -> None:
    """Store the lengths of columns, unit columns and the rows of V^T."""
    order, m, n = columns.shape[0], u.shape[1], u.shape[2]
    squares = diagonal_column(gram)
    lengths = nl.ndarray((order, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=lengths, data=squares, op0=nl.maximum, operand0=LEAST_LENGTH)
    inverse = reciprocal_root(lengths)
    nisa.tensor_tensor(dst=lengths, data1=squares, data2=inverse, op=nl.multiply)
    store_cosine(rest, q, gram, inverse)
    nisa.tensor_scalar(dst=columns, data=columns, op0=nl.multiply, operand0=inverse)
    moves = descending(lengths) if ordered else identity(order)
    for i in range((m + TILE - 1) // TILE):
        total = nl.ndarray((TILE, order), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(
            dst=total, stationary=columns[0:order, i * TILE : (i + 1) * TILE], moving=moves
        )
        part = nl.ndarray((TILE, order), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=part, src=total)
        count = min(TILE, m - i * TILE)
        nisa.dma_copy(dst=u[q, i * TILE : i * TILE + count, 0:n], src=part[0:count, 0:n])
    rotate_strip(v_t, moves)
    nisa.dma_copy(dst=vh[q], src=v_t[0:n, 0:n])
    nisa.tensor_tensor(dst=lengths, data1=lengths, data2=scale, op=nl.multiply)
    row = nl.ndarray((1, order), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=row, stationary=lengths, moving=moves)
    placed = nl.ndarray((1, order), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=placed, src=row)
    nisa.dma_copy(dst=values[q : q + 1, 0:n], src=placed[0:1, 0:n])


def descending(lengths: Tile) -> Tile:
    """Return the permutation that puts lengths in descending order."""
    order = lengths.shape[0]
    keys = nl.ndarray((order, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=keys, data=lengths, op0=nl.multiply, operand0=-1.0)
    ones = nl.ndarray((order, order), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    # Padding has length zero and the last index, so it is sorted last.
    before = select(ones, [[-1, order]], 1, 0, nl.greater)
    return unit_columns(ranks(keys, rows_of_column(keys), None, before), order)


def store_cosine(rest: Tile, q: int, gram: Tile, inverse: Tile) -> None:
    """Store the largest cosine between two columns; ``inverse`` has their inverse lengths."""
    order = gram.shape[0]
    scaled = nl.ndarray((order, order), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=scaled,
        data=gram,
        op0=nl.multiply,
        operand0=inverse,
        op1=nl.multiply,
        operand1=rows_of_column(inverse),
    )
    off_diagonal = select(scaled, [[-1, order]], 1, 0, nl.not_equal)
    nisa.tensor_scalar(dst=off_diagonal, data=off_diagonal, op0=nl.abs, operand0=0.0)
    largest = nl.ndarray((order, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=off_diagonal, axis=1)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=rows_of_column(largest), axis=1)
    nisa.dma_copy(dst=rest[q : q + 1, 0:1], src=largest[0:1, 0:1])
