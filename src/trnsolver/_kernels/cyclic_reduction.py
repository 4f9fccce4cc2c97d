"""Solutions of tridiagonal systems by cyclic reduction, a whole batch in one launch.

A step eliminates every other unknown. It halves the order, so that ``log2(n)`` steps lead to one
equation; the eliminated unknowns follow in reverse. This is Gaussian elimination without pivots in
another order of the unknowns: stable for diagonally dominant and positive definite matrices.
Others may have large errors or infinities, which the caller detects by the residual.

Layout   systems on partitions, 128 at a time; equations on the free axis. Each step has tiles of
         its own, so that the stride is at most two elements
Limits   order at most 2048, whose steps take 9 n + 3.5 n numbers per right-hand side; more
         right-hand sides are solved in turns, with the same factor
Cost     for 128 systems: 14 n element operations and n reciprocals for the matrix, 12 n for each
         right-hand side, in 18 instructions per step
Lever    128 systems at a time without any transfer between partitions; the matrix is read once and
         stays in SBUF with its factor
"""

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE
from trnsolver._kernels.limits import TRIDIAGONAL_ORDER, tridiagonal_columns
from trnsolver._kernels.shares import item, stores, turns


class Step(NamedTuple):
    """The equations of one step, and the factors that eliminate those with even indices.

    Attributes:
        below, above: Coefficients of the unknowns before and after that of an equation.
        inverses: Reciprocals of the diagonal of even equations.
        left, right: Multiples of the even equations before and after an odd one, added to it.
    """

    below: Tile
    above: Tile
    inverses: Tile
    left: Tile
    right: Tile


@nki.jit
def cyclic_reduction(dl: Tile, d: Tile, du: Tile, b: Tile) -> Tile:
    """Return the solutions, (batch, columns, n).

    Args:
        dl: Coefficients of the unknown before, (batch, n), the first 0.
        d: Diagonals, (batch, n), near 1.
        du: Coefficients of the unknown after, (batch, n), the last 0.
        b: Right-hand sides, (batch, columns, n).
    """
    batch, columns, n = b.shape
    assert n <= TRIDIAGONAL_ORDER, f"cyclic_reduction: order at most {TRIDIAGONAL_ORDER}, got {n}"
    out = nl.ndarray(b.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    most = tridiagonal_columns(n)
    tiles = (batch + TILE - 1) // TILE
    for turn in range(turns(tiles)):
        q = item(turn, tiles)
        first, end = q * TILE, min((q + 1) * TILE, batch)
        steps = factored(loaded(dl, first, end), loaded(d, first, end), loaded(du, first, end))
        for c in range(0, columns, most):
            count = min(most, columns - c)
            right = nl.ndarray((end - first, count, n), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=right, src=b[first:end, c : c + count, 0:n])
            x = solved(steps, right)
            if stores(turn, tiles):
                nisa.dma_copy(dst=out[first:end, c : c + count, 0:n], src=x)
    return out


def loaded(rows: Tile, first: int, end: int) -> Tile:
    """Return rows of a matrix in SBUF."""
    n = rows.shape[1]
    tile = nl.ndarray((end - first, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=rows[first:end, 0:n])
    return tile


def factored(below: Tile, diagonal: Tile, above: Tile) -> list[Step]:
    """Return the steps of the elimination; the last has one equation."""
    steps = []
    lanes, m = diagonal.shape
    while m > 1:
        odd, even = m // 2, (m + 1) // 2
        pairs = even - 1  # odd equations that have an equation after them
        inverses = nl.ndarray((lanes, even), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverses, data=diagonal[0:lanes, 0:m:2])
        left = negative_product(below[0:lanes, 1:m:2], inverses[0:lanes, 0:odd])
        next_below = nl.ndarray((lanes, odd), dtype=nl.float32, buffer=nl.sbuf)
        next_above = nl.ndarray((lanes, odd), dtype=nl.float32, buffer=nl.sbuf)
        next_diagonal = nl.ndarray((lanes, odd), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(
            dst=next_below, data1=left, data2=below[0:lanes, 0 : 2 * odd : 2], op=nl.multiply
        )
        nisa.tensor_tensor(
            dst=next_diagonal, data1=left, data2=above[0:lanes, 0 : 2 * odd : 2], op=nl.multiply
        )
        nisa.tensor_tensor(
            dst=next_diagonal, data1=next_diagonal, data2=diagonal[0:lanes, 1:m:2], op=nl.add
        )
        right = left
        if pairs < odd:
            nisa.memset(dst=next_above[0:lanes, pairs:odd], value=0.0)
        if pairs > 0:
            after = inverses[0:lanes, 1:even]
            right = negative_product(above[0:lanes, 1 : 2 * pairs : 2], after)
            nisa.tensor_tensor(
                dst=next_above[0:lanes, 0:pairs],
                data1=right,
                data2=above[0:lanes, 2 : 2 * pairs + 1 : 2],
                op=nl.multiply,
            )
            add_product(
                next_diagonal[0:lanes, 0:pairs], right, below[0:lanes, 2 : 2 * pairs + 1 : 2]
            )
        steps.append(Step(below, above, inverses, left, right))
        below, diagonal, above, m = next_below, next_diagonal, next_above, odd
    inverses = nl.ndarray((lanes, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=inverses, data=diagonal)
    steps.append(Step(below, above, inverses, below, above))
    return steps


def solved(steps: list[Step], right: Tile) -> Tile:
    """Return the solutions for right-hand sides (lanes, columns, n)."""
    lanes, columns, n = right.shape
    sides = [right]
    for k in range(len(steps) - 1):
        sides.append(reduced(steps[k], sides[k]))
    x = nl.ndarray((lanes, columns, n), dtype=nl.float32, buffer=nl.sbuf)
    spacing = 2 ** (len(steps) - 1)
    nisa.tensor_tensor(
        dst=x[0:lanes, 0:columns, spacing - 1 : spacing],
        data1=sides[len(steps) - 1],
        data2=repeated(steps[len(steps) - 1].inverses, columns, 0, 1, 1),
        op=nl.multiply,
    )
    for k in range(len(steps) - 1):
        level = len(steps) - 2 - k
        substitute(x, steps[level], sides[level], 2**level)
    return x


def reduced(step: Step, side: Tile) -> Tile:
    """Return the right-hand sides of the odd equations after the elimination of the even ones."""
    lanes, columns, m = side.shape
    odd, pairs = m // 2, (m + 1) // 2 - 1
    result = nl.ndarray((lanes, columns, odd), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(
        dst=result,
        data1=side[0:lanes, 0:columns, 0 : 2 * odd : 2],
        data2=repeated(step.left, columns, 0, odd, 1),
        op=nl.multiply,
    )
    nisa.tensor_tensor(dst=result, data1=result, data2=side[0:lanes, 0:columns, 1:m:2], op=nl.add)
    if pairs > 0:
        add_product(
            result[0:lanes, 0:columns, 0:pairs],
            side[0:lanes, 0:columns, 2 : 2 * pairs + 1 : 2],
            repeated(step.right, columns, 0, pairs, 1),
        )
    return result


def substitute(x: Tile, step: Step, side: Tile, spacing: int) -> None:
    """Write the unknowns of even equations, given those of odd ones.

    Args:
        x: The unknowns (lanes, columns, n). Those of this step have indices ``spacing - 1``,
            ``2 * spacing - 1`` and so on.
        step: The step.
        side: Right-hand sides of its equations.
        spacing: Distance of its unknowns.
    """
    lanes, columns, m = side.shape
    odd, even = m // 2, (m + 1) // 2
    wide = 2 * spacing
    last = (even - 1) * wide + spacing
    found = x[0:lanes, 0:columns, spacing - 1 : last : wide]
    known = x[0:lanes, 0:columns, wide - 1 : odd * wide : wide]
    products = nl.ndarray((lanes, columns, odd), dtype=nl.float32, buffer=nl.sbuf)
    rest = nl.ndarray((lanes, columns, even), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(
        dst=products, data1=known, data2=repeated(step.above, columns, 0, odd, 2), op=nl.multiply
    )
    nisa.tensor_tensor(
        dst=rest[0:lanes, 0:columns, 0:odd],
        data1=side[0:lanes, 0:columns, 0 : 2 * odd : 2],
        data2=products,
        op=nl.subtract,
    )
    if even > odd:
        nisa.tensor_copy(
            dst=rest[0:lanes, 0:columns, odd:even], src=side[0:lanes, 0:columns, m - 1 : m]
        )
    if even > 1:
        before = x[0:lanes, 0:columns, wide - 1 : (even - 1) * wide : wide]
        nisa.tensor_tensor(
            dst=products[0:lanes, 0:columns, 0 : even - 1],
            data1=before,
            data2=repeated(step.below, columns, 2, even - 1, 2),
            op=nl.multiply,
        )
        nisa.tensor_tensor(
            dst=rest[0:lanes, 0:columns, 1:even],
            data1=rest[0:lanes, 0:columns, 1:even],
            data2=products[0:lanes, 0:columns, 0 : even - 1],
            op=nl.subtract,
        )
    nisa.tensor_tensor(
        dst=found, data1=rest, data2=repeated(step.inverses, columns, 0, even, 1), op=nl.multiply
    )


def repeated(tile: Tile, columns: int, start: int, count: int, stride: int) -> Tile:
    """Return elements of a tile (lanes, m) for each column, (lanes, columns, count)."""
    lanes, m = tile.shape
    return tile.ap(pattern=[[m, lanes], [0, columns], [stride, count]], offset=start)


def negative_product(x: Tile, y: Tile) -> Tile:
    """Return ``-x * y``."""
    result = nl.ndarray(y.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=result, data=x, op0=nl.multiply, operand0=-1.0, op1=nl.multiply, operand1=y
    )
    return result


def add_product(dst: Tile, x: Tile, y: Tile) -> None:
    """Add ``x * y`` to ``dst``."""
    product = nl.ndarray(dst.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=product, data1=x, data2=y, op=nl.multiply)
    nisa.tensor_tensor(dst=dst, data1=dst, data2=product, op=nl.add)
