"""Conjugate gradients for symmetric positive definite systems, resident on the device.

The matrix is read once and stays in SBUF; all steps are one loop on the device, without transfers
to the host. A system that has converged, or whose curvature is not positive, is not updated.

Layout   the matrix as a block matrix; vectors (128, blocks), element i * 128 + p on partition p
Limits   order at most 2048, whose matrix takes 128 KiB of each partition; only the lower triangle
         is read. Residuals below 2^-50 are reported as 2^-50
Cost     for b = n / 128, each step: b^2 products of 128 x 128 with a vector as moving operand, two
         sums over all partitions, and about 20 instructions on vectors
Lever    one launch, one read of the matrix
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsolver._kernels.block_matrix import block, load_symmetric, new_matrix
from trnsolver._kernels.limits import CG_ORDER, block_width
from trnsolver._kernels.scalars import (
    add_across,
    column_of,
    compared,
    copy_where,
    product_of,
    root_of,
)
from trnsolver._kernels.shares import item, stores, turns


@nki.jit
def conjugate_gradients(
    a: Tile, rhs: Tile, x0: Tile, tol: float, max_iter: int
) -> tuple[Tile, Tile]:
    """Return solutions, and the relative residuals at the start and after each step.

    Args:
        a: Symmetric positive definite matrices, (batch, n, n); the lower triangles are read.
        rhs: Right-hand sides, (batch, n).
        x0: Initial solutions, (batch, n).
        tol: Tolerance of the residual relative to the norm of the right-hand side.
        max_iter: Number of steps.

    Returns:
        Solutions, (batch, n), and residuals, (batch, max_iter + 1); a converged system repeats its
        last residual.
    """
    batch, n = rhs.shape
    assert n <= CG_ORDER, f"conjugate_gradients: order at most {CG_ORDER}, got {n}"
    out = nl.ndarray(rhs.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    history = nl.ndarray((batch, max_iter + 1), dtype=nl.float32, buffer=nl.shared_hbm)
    width = block_width(n)
    blocks = (n + width - 1) // width
    counting = nl.ndarray((1, max_iter + 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(dst=counting, pattern=[[1, max_iter + 1]], offset=0, channel_multiplier=0)
    for turn in range(turns(batch)):
        q = item(turn, batch)
        matrix = new_matrix(width, blocks, blocks * width)
        load_symmetric(matrix, a, q)
        b, x = load_vector(rhs, q, width, blocks), load_vector(x0, q, width, blocks)
        size = root_of(inner_product(b, b))
        inverse = nl.ndarray((width, 1), dtype=nl.float32, buffer=nl.sbuf)
        # For a zero right-hand side the residual is absolute.
        nisa.tensor_tensor(
            dst=size, data1=size, data2=compared(size, nl.less_equal, 2.0**-49), op=nl.add
        )
        nisa.reciprocal(dst=inverse, data=size)
        r = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=r, data1=b, data2=image_of(matrix, x), op=nl.subtract)
        p = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=p, src=r)
        rho = inner_product(r, r)
        norm = product_of(root_of(rho), inverse)
        going = compared(norm, nl.greater, tol)
        norms = nl.ndarray((1, max_iter + 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=norms, value=0.0)
        place = column_of(1, 0.0)
        put(norms, counting, place, norm)
        for _ in nl.dynamic_range(0, max_iter):
            cg_step(matrix, x, r, p, rho, norm, going, inverse, tol)
            nisa.tensor_scalar(dst=place, data=place, op0=nl.add, operand0=1.0)
            put(norms, counting, place, norm)
        if stores(turn, batch):
            store_vector(out, q, x)
            nisa.dma_copy(dst=history[q : q + 1, 0 : max_iter + 1], src=norms)
    return out, history


def cg_step(
    matrix: Tile,
    x: Tile,
    r: Tile,
    p: Tile,
    rho: Tile,
    norm: Tile,
    going: Tile,
    inverse: Tile,
    tol: float,
) -> None:
    """Do one step of a system that has not stopped."""
    width, blocks = x.shape
    image = image_of(matrix, p)
    curvature = inner_product(p, image)
    nisa.tensor_copy(dst=going, src=product_of(going, compared(curvature, nl.greater, 0.0)))
    alpha = quotient(rho, curvature)
    new_x = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    new_r = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    new_p = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    add_multiple(new_x, x, alpha, p)
    nisa.tensor_scalar(dst=image, data=image, op0=nl.multiply, operand0=alpha)
    nisa.tensor_tensor(dst=new_r, data1=r, data2=image, op=nl.subtract)
    fresh = inner_product(new_r, new_r)
    add_multiple(new_p, new_r, quotient(fresh, rho), p)
    copy_where(x, new_x, going)
    copy_where(r, new_r, going)
    copy_where(p, new_p, going)
    copy_where(rho, fresh, going)
    copy_where(norm, product_of(root_of(fresh), inverse), going)
    nisa.tensor_copy(dst=going, src=product_of(going, compared(norm, nl.greater, tol)))


def image_of(matrix: Tile, vector: Tile) -> Tile:
    """Return the product of a symmetric block matrix with a vector."""
    width, blocks = vector.shape
    twice = nl.ndarray((width, blocks, 2), dtype=nl.float32, buffer=nl.sbuf)
    for side in range(2):
        nisa.tensor_copy(dst=twice[0:width, 0:blocks, side], src=vector)
    result = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(blocks):
        total = nl.ndarray((width, 2), dtype=nl.float32, buffer=nl.psum)
        for k in range(blocks):
            nisa.nc_matmul(
                dst=total,
                stationary=block(matrix, k, i),
                moving=twice[0:width, k, 0:2],
                accumulate=k > 0,
            )
        nisa.tensor_copy(dst=result[0:width, i : i + 1], src=total[0:width, 0:1])
    return result


def inner_product(x: Tile, y: Tile) -> Tile:
    """Return the inner product of two vectors, on all partitions."""
    products = product_of(x, y)
    column = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=column, op=nl.add, data=products, axis=1)
    return add_across(column)


def quotient(x: Tile, y: Tile) -> Tile:
    """Return ``x / y`` of two numbers; x if y is 0, where the result is not used."""
    result = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=result, data1=y, data2=compared(y, nl.equal, 0.0), op=nl.add)
    nisa.reciprocal(dst=result, data=result)
    nisa.tensor_tensor(dst=result, data1=result, data2=x, op=nl.multiply)
    return result


def add_multiple(dst: Tile, x: Tile, factor: Tile, y: Tile) -> None:
    """Write ``x + factor * y`` to ``dst``."""
    nisa.scalar_tensor_tensor(
        dst=dst, data=y, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=x
    )


def put(row: Tile, counting: Tile, place: Tile, value: Tile) -> None:
    """Add a number to the entry of a row with index ``place``."""
    chosen = nl.ndarray(row.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=chosen,
        data=counting,
        op0=nl.equal,
        operand0=place,
        op1=nl.multiply,
        operand1=value[0:1, 0:1],
    )
    nisa.tensor_tensor(dst=row, data1=row, data2=chosen, op=nl.add)


def load_vector(vectors: Tile, q: int, width: int, blocks: int) -> Tile:
    """Return the ``q``-th vector, padded with zeros."""
    n = vectors.shape[1]
    vector = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=vector, value=0.0)
    for i in range(blocks):
        count = min(width, n - i * width)
        nisa.dma_copy(dst=vector[0:count, i : i + 1], src=vectors[q, i * width : i * width + count])
    return vector


def store_vector(out: Tile, q: int, vector: Tile) -> None:
    width, blocks = vector.shape
    n = out.shape[1]
    for i in range(blocks):
        count = min(width, n - i * width)
        nisa.dma_copy(dst=out[q, i * width : i * width + count], src=vector[0:count, i : i + 1])
