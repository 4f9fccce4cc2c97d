"""Lower Cholesky factors of symmetric positive definite matrices, a whole batch in one launch.

Orders up to 128 share a tile, see ``elimination``. Larger matrices are divided into blocks of 128
rows: the diagonal block is factored and inverted in its tile, the row of blocks right of it is
solved by products, and the trailing matrix is updated by products,

    U_kj = inv(U_kk^T) A_kj,    A_ij <- A_ij - U_ki^T U_kj    for i, j > k.

A row of blocks is solved twice, the second time for the residual of the first: multiplication by
the inverse of a block is less accurate than substitution.

Layout   the upper factor as a block matrix with rows on partitions; transposed when stored
Limits   order at most 2048, whose matrix takes 128 KiB of each partition. Only the lower triangle
         is read. Matrices are scaled by powers of four, so that entries of any magnitude have a
         root. A matrix that is not positive definite has a factor with NaN on its diagonal
Cost     for b = n / 128: b^3 / 6 products of 128 x 128 x 128, four of them at once, and 128 steps
         of elimination for each of b diagonal blocks
Lever    one read of half of the matrix; all cubic work runs on the Tensor engine
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, transpose_tile
from trnsci.core.tiles.hardware import TILE
from trnsolver._kernels.block_matrix import (
    block,
    largest_of,
    load_symmetric,
    new_matrix,
    pad_diagonal,
    scale_matrix,
    strip_starts,
)
from trnsolver._kernels.elimination import apply_inverse, factor_tile
from trnsolver._kernels.limits import CHOLESKY_ORDER
from trnsolver._kernels.symmetric import (
    belonging,
    even_exponent_scale,
    identity,
    largest_entries,
    mirror_lower,
    select,
)


@nki.jit
def cholesky(a: Tile, copies: int) -> Tile:
    """Return the lower factors of matrices, with zeros above the diagonals.

    Args:
        a: Symmetric positive definite matrices, (batch, n, n); the lower triangles are read.
        copies: Number of matrices that share a tile, 1 for orders above 64.
    """
    batch, n = a.shape[0], a.shape[1]
    assert n <= CHOLESKY_ORDER, f"cholesky: order at most {CHOLESKY_ORDER}, got {n}"
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    if n <= TILE:
        for first in range(0, batch, copies):
            small_factors(out, a, first, min(copies, batch - first), copies)
        return out
    for q in range(batch):
        blocks = (n + TILE - 1) // TILE
        x = new_matrix(TILE, blocks, blocks * TILE)
        load_symmetric(x, a, q)
        root, inverse = even_exponent_scale(largest_of(x))
        scale_matrix(x, inverse)
        pad_diagonal(x, n)
        factor_blocks(x)
        store_transposed(out, q, x, root)
    return out


def small_factors(out: Tile, a: Tile, first: int, count: int, copies: int) -> None:
    """Factor the matrices of one tile."""
    n = a.shape[1]
    slots = n * copies
    d = nl.ndarray((slots, slots), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=d, value=0.0)
    for k in range(count):
        nisa.dma_copy(dst=d[k * n : (k + 1) * n, k * n : (k + 1) * n], src=a[first + k])
    mirror_lower(d)
    root, inverse = even_exponent_scale(largest_entries(d, belonging(n, copies)))
    nisa.tensor_scalar(dst=d, data=d, op0=nl.multiply, operand0=inverse)
    if count < copies:
        # Unused positions hold the identity.
        empty = select(identity(slots), [[0, slots]], 1, -count * n, nl.greater_equal)
        nisa.tensor_tensor(dst=d, data1=d, data2=empty, op=nl.add)
    upper = nl.ndarray((slots, slots), dtype=nl.float32, buffer=nl.sbuf)
    unused = nl.ndarray((slots, slots), dtype=nl.float32, buffer=nl.sbuf)
    factor_tile(upper, unused, d, n)
    nisa.tensor_scalar(dst=upper, data=upper, op0=nl.multiply, operand0=root)
    lower = nl.ndarray((slots, slots), dtype=nl.float32, buffer=nl.sbuf)
    transpose_tile(lower, upper)
    for k in range(count):
        nisa.dma_copy(dst=out[first + k], src=lower[k * n : (k + 1) * n, k * n : (k + 1) * n])


def factor_blocks(x: Tile) -> Tile:
    """Replace the upper triangle of blocks of a block matrix by U with X = U^T U.

    Diagonal blocks get zeros below their diagonals; blocks below the diagonal are unchanged.
    Returns the inverses of the diagonal blocks of U, (width, blocks, width).
    """
    width, blocks, order = x.shape
    inverses = nl.ndarray((width, blocks, width), dtype=nl.float32, buffer=nl.sbuf)
    for k in range(blocks):
        upper = nl.ndarray((width, width), dtype=nl.float32, buffer=nl.sbuf)
        inverse_t = inverses[0:width, k, 0:width]
        factor_tile(upper, inverse_t, block(x, k, k), width)
        nisa.tensor_copy(dst=block(x, k, k), src=upper)
        trailing = (k + 1) * width
        starts = strip_starts(order - trailing, 1)
        for s in range(len(starts) - 1):
            row = x[0:width, k, trailing + starts[s] : trailing + starts[s + 1]]
            apply_inverse(row, upper, inverse_t)
        for i in range(k + 1, blocks):
            starts = strip_starts(order - i * width, 1)
            for s in range(len(starts) - 1):
                first, last = i * width + starts[s], i * width + starts[s + 1]
                change = nl.ndarray((width, last - first), dtype=nl.float32, buffer=nl.psum)
                nisa.nc_matmul(
                    dst=change, stationary=block(x, k, i), moving=x[0:width, k, first:last]
                )
                rest = x[0:width, i, first:last]
                nisa.tensor_tensor(dst=rest, data1=rest, data2=change, op=nl.subtract)
    return inverses


def store_transposed(out: Tile, q: int, x: Tile, root: Tile) -> None:
    """Store the transpose of the upper triangle of blocks, times ``root``, and zeros above it."""
    width, blocks, n = x.shape[0], x.shape[1], out.shape[1]
    for i in range(blocks):
        rows = min(width, n - i * width)
        line = nl.ndarray((width, blocks * width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=line, value=0.0)
        for j in range(i + 1):
            transpose_tile(line[0:width, j * width : (j + 1) * width], block(x, j, i))
        nisa.tensor_scalar(dst=line, data=line, op0=nl.multiply, operand0=root)
        nisa.dma_copy(dst=out[q, i * width : i * width + rows, 0:n], src=line[0:rows, 0:n])
