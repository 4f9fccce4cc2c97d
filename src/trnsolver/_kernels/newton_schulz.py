"""Iterations by products only: matrix signs and inverse square roots.

``msign`` stores a matrix X, its shorter side on rows, and the transpose Y. A step computes the Gram
matrix G = Y^T Y and the polynomial P = a I + b G + c G^2, both symmetric, and multiplies X by P
from the left and Y from the right, without a transpose. ``inverse_root`` is the coupled iteration;
its product Z Y gives the residual of one step and starts the next.

Layout   block matrices (see ``block_matrix``), all of them in SBUF for the whole iteration
Limits   ``msign``: both matrices, G and P within 144 KiB of each partition, so 1024 x 1024.
         ``inverse_root``: order at most 896, for which six matrices take 147 KiB
Cost     ``msign``: 4 products per step, the last one 3. ``inverse_root``: 3 products per step, in a
         loop on the device
Lever    the whole iteration is one launch with one read and one write
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsolver._kernels.block_matrix import (
    copy_matrix,
    load_matrix,
    load_symmetric,
    multiply_in_place,
    new_matrix,
    pad_diagonal,
    scale_matrix,
    shifted_identity,
    store_matrix,
    transpose_matrix,
    transposed_product,
)
from trnsolver._kernels.limits import ROOT_ORDER, SBUF_BYTES, block_width, msign_bytes
from trnsolver._kernels.scalars import (
    column_of,
    compared,
    copy_where,
    product_of,
    root_of,
    sum_of_squares,
)
from trnsolver._kernels.shares import item, stores, turns


@nki.jit
def msign(a: Tile, steps: int, first: float, third: float, fifth: float) -> Tile:
    """Return X after ``steps`` steps X <- first X + (third G + fifth G^2) X, with G = X X^T.

    Args:
        a: Matrices, (batch, rows, columns), none with a singular value above 1.
        steps: Number of steps, at least 1.
        first: Coefficient of X.
        third: Coefficient of G X.
        fifth: Coefficient of G^2 X.
    """
    batch, rows, columns = a.shape
    nbytes = msign_bytes(rows, columns)
    assert nbytes <= SBUF_BYTES, f"msign: needs {nbytes} of {SBUF_BYTES} bytes per partition"
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    short, long = min(rows, columns), max(rows, columns)
    width = block_width(long)
    s, t = (short + width - 1) // width, (long + width - 1) // width
    for q in range(batch):
        x = new_matrix(width, s, t * width)
        y = new_matrix(width, t, s * width)
        gram = new_matrix(width, s, s * width)
        p = new_matrix(width, s, s * width)
        if rows > columns:
            load_matrix(y, a, q)
            transpose_matrix(x, y)
        else:
            load_matrix(x, a, q)
            transpose_matrix(y, x)
        for step in range(steps):
            transposed_product(gram, y, y)
            transposed_product(p, gram, gram)
            polynomial(p, gram, first, third, fifth)
            last = step == steps - 1
            if rows > columns or not last:
                transposed_product(y, x, p)
            if rows <= columns or not last:
                multiply_in_place(p, x)
        store_matrix(out, q, y if rows > columns else x)
    return out


def polynomial(p: Tile, gram: Tile, first: float, third: float, fifth: float) -> None:
    """Replace ``p``, which is G^2, by ``first I + third G + fifth G^2``."""
    shifted_identity(p, fifth, first)
    for i in range(p.shape[1]):
        row = p[0 : p.shape[0], i, :]
        nisa.scalar_tensor_tensor(
            dst=row,
            data=gram[0 : p.shape[0], i, :],
            op0=nl.multiply,
            operand0=third,
            op1=nl.add,
            operand1=row,
        )


@nki.jit
def inverse_root(a: Tile, max_iter: int, tol: float) -> tuple[Tile, Tile, Tile]:
    """Return inverse square roots, the number of steps of each, and its last residual.

    Y starts as A / s and Z as the identity, s the Frobenius norm. A step is T = (3 I - Z Y) / 2,
    Y <- Y T, Z <- T Z. A matrix stops when norm(Z Y - I) / sqrt(n) is below ``tol``, or does not
    decrease while it is at most 1/2; the best iterate is returned.

    Args:
        a: Symmetric positive definite matrices, (batch, n, n); the lower triangles are read.
        max_iter: Largest number of steps.
        tol: Tolerance of the residual.
    """
    batch, n = a.shape[0], a.shape[1]
    assert n <= ROOT_ORDER, f"inverse_root: order at most {ROOT_ORDER}, got {n}"
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    steps = nl.ndarray((batch, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    residuals = nl.ndarray((batch, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    width = block_width(n)
    blocks = (n + width - 1) // width
    for turn in range(turns(batch)):
        q = item(turn, batch)
        y_t = new_matrix(width, blocks, blocks * width)
        z = new_matrix(width, blocks, blocks * width)
        t = new_matrix(width, blocks, blocks * width)
        new_y = new_matrix(width, blocks, blocks * width)
        new_z = new_matrix(width, blocks, blocks * width)
        transposed = new_matrix(width, blocks, blocks * width)
        load_symmetric(t, a, q)
        size = nl.ndarray((width, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=size, data=root_of(sum_of_squares(t, 0.0)))
        scale_matrix(t, size)
        pad_diagonal(t, n)
        nisa.memset(dst=z, value=0.0)
        shifted_identity(z, 1.0, 1.0)
        copy_matrix(y_t, t)
        last = distance(t, n)
        count = column_of(width, 0.0)
        going = compared(last, nl.greater_equal, tol)
        for _ in nl.dynamic_range(0, max_iter):
            root_step(y_t, z, t, new_y, new_z, transposed, last, count, going, n, tol)
        scale_matrix(z, root_of(size))
        if stores(turn, batch):
            store_matrix(out, q, z)
            nisa.dma_copy(dst=steps[q : q + 1, 0:1], src=count[0:1, 0:1])
            nisa.dma_copy(dst=residuals[q : q + 1, 0:1], src=last[0:1, 0:1])
    return out, steps, residuals


def root_step(
    y_t: Tile,
    z: Tile,
    t: Tile,
    new_y: Tile,
    new_z: Tile,
    transposed: Tile,
    last: Tile,
    count: Tile,
    going: Tile,
    n: int,
    tol: float,
) -> None:
    """Do one step of the coupled iteration; ``t`` is the product Z Y before and after it.

    All matrices are symmetric up to rounding, but the symmetry must not be used: with a transpose
    in place of a matrix, errors grow by the condition number of A.
    """
    # T = (3 I - Z Y) / 2, and I for a matrix that has converged.
    shifted_identity(t, -0.5, 0.5)
    scale_matrix(t, going)
    shifted_identity(t, 1.0, 1.0)
    transposed_product(new_y, y_t, t)
    transpose_matrix(transposed, t)
    transposed_product(new_z, transposed, z)
    transpose_matrix(transposed, new_z)
    transposed_product(t, transposed, new_y)
    transpose_matrix(transposed, new_y)
    residual = distance(t, n)
    # The first residuals may grow for a step or two; later, growth is due to rounding.
    smaller = compared(residual, nl.less, last)
    nisa.tensor_tensor(
        dst=smaller, data1=smaller, data2=compared(last, nl.greater, 0.5), op=nl.maximum
    )
    better = product_of(going, smaller)
    nisa.tensor_tensor(dst=count, data1=count, data2=going, op=nl.add)
    for i in range(z.shape[1]):
        copy_where(y_t[0 : z.shape[0], i, :], transposed[0 : z.shape[0], i, :], better)
        copy_where(z[0 : z.shape[0], i, :], new_z[0 : z.shape[0], i, :], better)
    copy_where(last, residual, better)
    nisa.tensor_copy(dst=going, src=product_of(better, compared(residual, nl.greater_equal, tol)))


def distance(x: Tile, n: int) -> Tile:
    """Return the distance of a block matrix of order ``n`` from the identity, over sqrt(n)."""
    total = sum_of_squares(x, 1.0)
    nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1.0 / n)
    return root_of(total)
