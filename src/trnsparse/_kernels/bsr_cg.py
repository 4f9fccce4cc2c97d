"""Conjugate gradients on a matrix of blocks that stays in SBUF: all iterations in one launch.

Layout   the rows of a block on partitions; a vector is (rows of a block, right-hand sides,
         blocks), so that an inner product is a sum along the free axis and one product with ones,
         which leaves the result on every partition
Limits   symmetric positive definite; blocks of up to 128, as many as ``MOST_BYTES`` per partition
         hold with the vectors (280 of 128 and one right-hand side); float32 inside, whatever the
         operands; at least two right-hand sides, the caller adds one of zeros. A column that
         has converged, or whose curvature is not positive, is no longer updated
Cost     per iteration one product of 128 by 128 by k for each stored block, and no transpose: that
         of block (j, i) is block (i, j); two inner products, three updates; no HBM traffic
Lever    the matrix is read from HBM once; loop-carried vectors and scalars live in SBUF; the loop
         ends on the device, by a register that is loaded from the residuals
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile

MOST_BYTES = 160 * 1024
"""Limit of the bytes per partition of blocks and vectors."""
TINY = 1.0e-30
"""Curvature and squared residual below which no division takes place."""

Entries = tuple[tuple[tuple[int, int], ...], ...]


@nki.jit
def bsr_cg(
    blocks: Tile, b: Tile, x: Tile, limits: Tile, entries: Entries, most: int
) -> tuple[Tile, Tile, Tile]:
    """Return the solutions, the iterations of each, and the squares of their residuals.

    Args:
        blocks: Stored blocks, (blocks, size, size), zeros where a block leaves the matrix.
        b: Right-hand sides, (blocks of a row * size, k) with k at least 2.
        x: Initial solution, of the same shape.
        limits: Squared norm of a residual at which to stop, (1, k) in float32.
        entries: For each block column its blocks: number and block row.
        most: Iterations after which to stop.
    """
    count, size = blocks.shape[0], blocks.shape[1]
    length, sides = b.shape
    grid = length // size
    out = nl.ndarray((length, sides), dtype=b.dtype, buffer=nl.shared_hbm)
    taken = nl.ndarray((1, sides), dtype=nl.float32, buffer=nl.shared_hbm)
    squares = nl.ndarray((1, sides), dtype=nl.float32, buffer=nl.shared_hbm)

    matrix = nl.ndarray((size, count, size), dtype=nl.float32, buffer=nl.sbuf)
    for k in range(count):
        nisa.dma_copy(dst=matrix[0:size, k, 0:size], src=blocks[k, 0:size, 0:size])
    ones = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    right, found = new_vector(size, sides, grid), new_vector(size, sides, grid)
    load_vector(right, b)
    load_vector(found, x)
    image = new_vector(size, sides, grid)
    rest = new_vector(size, sides, grid)
    multiply(image, matrix, found, entries)
    nisa.tensor_tensor(dst=rest, data1=right, data2=image, op=nl.subtract)
    direction = new_vector(size, sides, grid)
    nisa.tensor_copy(dst=direction, src=rest)

    limit = scalars(size, sides)
    nisa.dma_copy(dst=limit, src=limits.ap(pattern=[[0, size], [1, sides]], offset=0))
    rho = scalars(size, sides)
    inner(rho, rest, rest, ones)
    alive = scalars(size, sides)
    nisa.tensor_tensor(dst=alive, data1=rho, data2=limit, op=nl.greater)
    steps, done = scalars(size, sides), nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=steps, value=0.0)
    nisa.memset(dst=done, value=0.0)
    more = nisa.register_alloc(0)
    load_condition(more, alive, done, most)
    while more:
        multiply(image, matrix, direction, entries)
        advance(found, rest, direction, image, rho, alive, steps, limit, ones)
        nisa.tensor_scalar(dst=done, data=done, op0=nl.add, operand0=1.0)
        load_condition(more, alive, done, most)

    multiply(image, matrix, found, entries)
    nisa.tensor_tensor(dst=rest, data1=right, data2=image, op=nl.subtract)
    inner(rho, rest, rest, ones)
    store_vector(out, found)
    nisa.dma_copy(dst=taken, src=steps[0:1, 0:sides])
    nisa.dma_copy(dst=squares, src=rho[0:1, 0:sides])
    return out, taken, squares


def new_vector(size: int, sides: int, grid: int) -> Tile:
    """Return an SBUF tile for a vector of every right-hand side."""
    return nl.ndarray((size, sides, grid), dtype=nl.float32, buffer=nl.sbuf)


def scalars(size: int, sides: int) -> Tile:
    """Return an SBUF tile for a scalar of every right-hand side, equal on every partition."""
    return nl.ndarray((size, sides), dtype=nl.float32, buffer=nl.sbuf)


def load_vector(vector: Tile, x: Tile) -> None:
    """Load (length, k), each block on partitions."""
    size, sides, grid = vector.shape
    for j in range(grid):
        nisa.dma_copy(dst=vector[0:size, 0:sides, j], src=x[j * size : (j + 1) * size, 0:sides])


def store_vector(out: Tile, vector: Tile) -> None:
    """Store a vector as (length, k), rounded once."""
    size, sides, grid = vector.shape
    for j in range(grid):
        rows = nl.ndarray((size, sides), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=rows, src=vector[0:size, 0:sides, j])
        nisa.dma_copy(dst=out[j * size : (j + 1) * size, 0:sides], src=rows)


def multiply(image: Tile, matrix: Tile, vector: Tile, entries: Entries) -> None:
    """Write the product of a symmetric matrix and a vector to ``image``."""
    size, sides, grid = vector.shape
    for i in range(grid):
        if len(entries[i]) == 0:
            nisa.memset(dst=image[0:size, 0:sides, i], value=0.0)
            continue
        total = nl.ndarray((size, sides), dtype=nl.float32, buffer=nl.psum)
        for e in range(len(entries[i])):
            block, j = entries[i][e]
            nisa.nc_matmul(
                dst=total,
                stationary=matrix[0:size, block, 0:size],
                moving=vector[0:size, 0:sides, j],
                accumulate=(e > 0),
            )
        nisa.tensor_copy(dst=image[0:size, 0:sides, i], src=total)


def inner(dst: Tile, u: Tile, v: Tile, ones: Tile) -> None:
    """Write the inner products of two vectors, to every partition."""
    size, sides, grid = u.shape
    terms = nl.ndarray((size, sides, grid), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=terms, data1=u, data2=v, op=nl.multiply)
    sums = scalars(size, sides)
    nisa.tensor_reduce(dst=sums, op=nl.add, data=terms, axis=2)
    total = nl.ndarray((size, sides), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=ones, moving=sums)
    nisa.tensor_copy(dst=dst, src=total)


def advance(
    found: Tile,
    rest: Tile,
    direction: Tile,
    image: Tile,
    rho: Tile,
    alive: Tile,
    steps: Tile,
    limit: Tile,
    ones: Tile,
) -> None:
    """Advance every active column by one step; ``image`` is the matrix times ``direction``."""
    size, sides = rho.shape
    curvature, positive = scalars(size, sides), scalars(size, sides)
    inner(curvature, direction, image, ones)
    nisa.tensor_scalar(dst=positive, data=curvature, op0=nl.greater, operand0=TINY)
    nisa.tensor_tensor(dst=alive, data1=alive, data2=positive, op=nl.multiply)
    alpha, back = scalars(size, sides), scalars(size, sides)
    quotient(alpha, rho, curvature, alive)
    nisa.tensor_scalar(dst=back, data=alpha, op0=nl.multiply, operand0=-1.0)
    for c in range(sides):
        add_scaled(found, found, direction, alpha, c)
        add_scaled(rest, rest, image, back, c)
    before = scalars(size, sides)
    nisa.tensor_copy(dst=before, src=rho)
    inner(rho, rest, rest, ones)
    beta = scalars(size, sides)
    quotient(beta, rho, before, alive)
    for c in range(sides):
        add_scaled(direction, rest, direction, beta, c)
    nisa.tensor_tensor(dst=steps, data1=steps, data2=alive, op=nl.add)
    above = scalars(size, sides)
    nisa.tensor_tensor(dst=above, data1=rho, data2=limit, op=nl.greater)
    nisa.tensor_tensor(dst=alive, data1=alive, data2=above, op=nl.multiply)


def quotient(dst: Tile, above: Tile, below: Tile, alive: Tile) -> None:
    """Write ``above / below`` where a column is active, and 0 elsewhere."""
    size, sides = dst.shape
    safe = scalars(size, sides)
    nisa.tensor_scalar(dst=safe, data=below, op0=nl.maximum, operand0=TINY)
    nisa.reciprocal(dst=safe, data=safe)
    nisa.tensor_tensor(dst=dst, data1=above, data2=alive, op=nl.multiply)
    nisa.tensor_tensor(dst=dst, data1=dst, data2=safe, op=nl.multiply)


def add_scaled(dst: Tile, term: Tile, vector: Tile, factor: Tile, c: int) -> None:
    """Write ``factor * vector + term`` of column ``c``."""
    size, _, grid = dst.shape
    nisa.scalar_tensor_tensor(
        dst=dst[0:size, c, 0:grid],
        data=vector[0:size, c, 0:grid],
        op0=nl.multiply,
        operand0=factor[0:size, c : c + 1],
        op1=nl.add,
        operand1=term[0:size, c, 0:grid],
    )


def load_condition(more: object, alive: Tile, done: Tile, most: int) -> None:
    """Load the register with the loop condition: a column is active and iterations are left."""
    size = alive.shape[0]
    some, left = column(size), column(size)
    nisa.tensor_reduce(dst=some, op=nl.maximum, data=alive, axis=1)
    nisa.tensor_scalar(dst=left, data=done, op0=nl.less, operand0=float(most))
    flag = nl.ndarray((size, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=flag, data1=some, data2=left, op=nl.multiply)
    nisa.register_load(more, flag[0:1, 0:1])


def column(size: int) -> Tile:
    """Return an SBUF tile with one element per partition."""
    return nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
