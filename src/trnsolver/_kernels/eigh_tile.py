"""Eigenvalues and eigenvectors of symmetric matrices of order up to 128, many in one launch.

As many matrices of one order as fit share a tile, on its diagonal: the products that diagonalise
one of them diagonalise all. All rounds of all sweeps are one loop on the device of fixed length: a
test for convergence would take as long as the rotations. The kernel also mirrors triangles, scales
matrices by powers of two, sorts eigenvalues and permutes eigenvectors, so the host does nothing.

Layout   one tile (128, 256): the matrices, then the transposes of their eigenvectors
Limits   order at most 128; odd orders are padded by one row of zeros. Only the lower triangle is
         read. Eigenvectors of eigenvalues that differ by rounding errors are orthogonal for any
         matrix
Cost     for each tile ``sweeps * (order - 1)`` rounds of ``jacobi_round``; each matrix is read once
         and its eigenvectors written once
Lever    one launch for a whole batch, 128 / order matrices at once, everything in SBUF
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, select, transpose_tile
from trnsci.core.tiles.hardware import TILE
from trnsolver._kernels.jacobi import (
    FIRST_DAMPING,
    decay_of,
    first_pairs,
    jacobi_round,
    tournament,
)
from trnsolver._kernels.shares import item, stores, turns
from trnsolver._kernels.symmetric import (
    LAST,
    belonging,
    diagonal_column,
    exponent_scale,
    identity,
    largest_entries,
    mirror_lower,
    ranks,
    rows_of_column,
    unit_columns,
)


@nki.jit
def jacobi_eigh(a: Tile, tables: Tile, sweeps: int) -> tuple[Tile, Tile, Tile]:
    """Return eigenvalues, eigenvectors, and the largest remaining off-diagonal entries.

    Args:
        a: Symmetric matrices, (batch, n, n); the lower triangles are read.
        tables: ``packed_tables`` of n rounded up to even, for as many copies as share a tile.
        sweeps: Number of sweeps over all pairs.

    Returns:
        Eigenvalues in ascending order, (batch, n); eigenvectors as columns, (batch, n, n); and the
        largest remaining off-diagonal entry, in units of the power of two below the largest entry
        of the matrix, (batch, 1).
    """
    batch, n = a.shape[0], a.shape[1]
    order = n + n % 2
    slots = tables.shape[0]
    assert n <= TILE, f"jacobi_eigh: matrices have order at most {TILE}, got {n}"
    assert slots % order == 0, f"jacobi_eigh: tables of {slots} slots do not fit order {order}"
    w = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    v = nl.ndarray((batch, n, n), dtype=nl.float32, buffer=nl.shared_hbm)
    rest = nl.ndarray((batch, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    game = tournament(tables, decay_of(sweeps, order - 1))
    copies = slots // order
    mine = belonging(order, copies)
    eye = identity(slots)
    tiles = (batch + copies - 1) // copies
    for turn in range(turns(tiles)):
        first = item(turn, tiles) * copies
        dw = nl.ndarray((slots, 2 * slots), dtype=nl.float32, buffer=nl.sbuf)
        count = min(copies, batch - first)
        load_tile(dw, a, first, count, order)
        nisa.memset(dst=game.damping, value=FIRST_DAMPING)
        scale, inverse = exponent_scale(largest_entries(dw[0:slots, 0:slots], mine))
        nisa.tensor_scalar(
            dst=dw[0:slots, 0:slots],
            data=dw[0:slots, 0:slots],
            op0=nl.multiply,
            operand0=inverse,
        )
        matrices = nl.ndarray((slots, slots), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=matrices, src=dw[0:slots, 0:slots])
        ef = first_pairs(dw, eye, game)
        for _ in nl.dynamic_range(0, (sweeps - 1) * (order - 1)):
            jacobi_round(dw, ef, game)
        refresh(dw, matrices)
        ef = first_pairs(dw, eye, game)
        for _ in nl.dynamic_range(0, order - 1):
            jacobi_round(dw, ef, game)
        if stores(turn, tiles):
            store_tile(w, v, rest, dw, scale, mine, first, count, order)
    return w, v, rest


def load_tile(dw: Tile, a: Tile, first: int, count: int, order: int) -> None:
    """Fill a tile with mirrored matrices on the diagonal, and the identity right of them."""
    slots, n = dw.shape[0], a.shape[1]
    nisa.memset(dst=dw, value=0.0)
    for k in range(count):
        at = k * order
        nisa.dma_copy(dst=dw[at : at + n, at : at + n], src=a[first + k])
    mirror_lower(dw[0:slots, 0:slots])
    nisa.tensor_copy(dst=dw[0:slots, slots : 2 * slots], src=identity(slots))


def refresh(dw: Tile, matrices: Tile) -> None:
    """Reorthogonalise W, and recompute D from it and the matrices.

    Rounding errors of hundreds of rounds accumulate in both. One Newton-Schulz step removes the
    errors of W. The off-diagonal entries of the new D are small, and so are the rounding errors of
    the next sweep.
    """
    n = matrices.shape[0]
    w = dw[0:n, n : 2 * n]
    v = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.sbuf)
    transpose_tile(v, w)
    gram = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=gram, stationary=v, moving=v)
    # 3/2 I - 1/2 V^T V, which is symmetric
    step = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=step, data=gram, op0=nl.multiply, operand0=-0.5)
    nisa.scalar_tensor_tensor(
        dst=step, data=identity(n), op0=nl.multiply, operand0=1.5, op1=nl.add, operand1=step
    )
    products = nl.ndarray((n, 2 * n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=products[0:n, 0:n], stationary=w, moving=step)
    nisa.nc_matmul(dst=products[0:n, n : 2 * n], stationary=step, moving=w)
    nisa.tensor_copy(dst=v, src=products[0:n, 0:n])
    nisa.tensor_copy(dst=w, src=products[0:n, n : 2 * n])
    product = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=matrices, moving=v)
    av = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=av, src=product)
    fresh = nl.ndarray((n, n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=fresh, stationary=v, moving=av)
    nisa.tensor_copy(dst=dw[0:n, 0:n], src=fresh)


def store_tile(
    w: Tile,
    v: Tile,
    rest: Tile,
    dw: Tile,
    scale: Tile,
    mine: Tile,
    first: int,
    count: int,
    order: int,
) -> None:
    """Sort the eigenvalues of each matrix of a tile and store them with their vectors."""
    slots, n = dw.shape[0], w.shape[1]
    d = dw[0:slots, 0:slots]
    values = diagonal_column(d)
    off_diagonal = select(d, [[-1, slots]], 1, 0, nl.not_equal)
    left = largest_entries(off_diagonal, mine)
    keys = values
    if n < order:
        keys = padding_last(values, order)
    before = select(mine, [[-1, slots]], 1, 0, nl.greater)
    places = ranks(keys, rows_of_column(keys), mine, before)
    if slots > order:
        nisa.tensor_tensor(dst=places, data1=places, data2=first_slots(slots, order), op=nl.add)
    moves = unit_columns(places, slots)
    vectors = nl.ndarray((slots, slots), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=vectors, stationary=dw[0:slots, slots : 2 * slots], moving=moves)
    sorted_vectors = nl.ndarray((slots, slots), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=sorted_vectors, src=vectors)
    nisa.tensor_tensor(dst=values, data1=values, data2=scale, op=nl.multiply)
    row = nl.ndarray((1, slots), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=row, stationary=values, moving=moves)
    sorted_values = nl.ndarray((1, slots), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=sorted_values, src=row)
    for k in range(count):
        at = k * order
        nisa.dma_copy(dst=v[first + k], src=sorted_vectors[at : at + n, at : at + n])
        nisa.dma_copy(dst=w[first + k : first + k + 1, 0:n], src=sorted_values[0:1, at : at + n])
        nisa.dma_copy(dst=rest[first + k : first + k + 1, 0:1], src=left[at : at + 1, 0:1])


def padding_last(values: Tile, order: int) -> Tile:
    """Return eigenvalues with the padding value of each matrix, its last, above all others."""
    slots = values.shape[0]
    last = nl.ndarray((slots, slots // order, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=last, value=LAST)
    # Row p is the last of matrix k when p - order * k - (order - 1) is 0.
    chosen = select(last, [[-order, slots // order], [0, 1]], 1, 1 - order, nl.equal)
    raised = nl.ndarray((slots, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=raised, op=nl.add, data=chosen, axis=[1, 2])
    nisa.tensor_tensor(dst=raised, data1=raised, data2=values, op=nl.add)
    return raised


def first_slots(slots: int, order: int) -> Tile:
    """Return a column with the first slot of each row's matrix."""
    steps = nl.ndarray((slots, slots // order), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=steps, value=float(order))
    # The number of k = 0, 1, ... with order * (k + 1) <= p.
    passed = select(steps, [[-order, slots // order]], 1, -order, nl.greater_equal)
    column = nl.ndarray((slots, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=column, op=nl.add, data=passed, axis=1)
    return column
