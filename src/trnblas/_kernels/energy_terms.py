"""Energy denominators and weighted sums of a strip of T, shared by the MP2 energy kernels.

Layout   a on partitions, b along the free axis; vectors of energies are broadcast over partitions
         by the DMA that loads them
Limits   float32 inside; of the two operands of ``combine`` one at most is in PSUM
Cost     per element of a strip: Vector 1 for the gap, 6 for its reciprocal, 3 more; Scalar 3
Lever    Scalar and Vector engine share the work; sums along a strip are part of the last pass
"""

from __future__ import annotations

from trnblas._kernels.energy_panels import Window
from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.tiling import row_tiles

THREE_QUARTERS_ROOT = 0.8660254037844386


def combine(direct: Tile, swapped: Tile) -> Tile:
    """Return ``T^2 + S^2 - T S`` as ``(T - S/2)^2 + 3/4 S^2``; one operand may be in PSUM."""
    squares = nl.ndarray(direct.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=squares, data=swapped, op0=nl.multiply, operand0=-0.5, op1=nl.add, operand1=direct
    )
    nisa.activation(dst=squares, op=nl.square, data=squares)
    others = nl.ndarray(direct.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=others, op=nl.square, data=swapped, scale=THREE_QUARTERS_ROOT)
    nisa.tensor_tensor(dst=squares, data1=squares, data2=others, op=nl.add)
    return squares


def weigh(slot: Tile, squares: Tile, column: Tile, minus_b: Tile, weight: float) -> None:
    """Write ``weight`` times the row sums of ``squares / (column + minus_b)`` to ``slot``."""
    gaps = nl.ndarray(squares.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=gaps, data=minus_b, op0=nl.add, operand0=column)
    nisa.reciprocal(dst=gaps, data=gaps)
    nisa.tensor_tensor(dst=gaps, data1=gaps, data2=squares, op=nl.multiply)
    nisa.activation_reduce(
        dst=squares, op=nl.copy, data=gaps, reduce_op=nl.add, reduce_res=slot, scale=weight
    )


def window_energies(eps_vir: Tile, window: Window) -> tuple[Tile, Tile]:
    """Return ``-eps_vir`` of a window's rows, one column per 128 rows, and of its columns."""
    top, height, side, width = window
    minus_a = minus_columns(eps_vir, top, height)
    minus_b = nl.ndarray((TILE, height + width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=minus_b[0:TILE, 0:height], src=minus_rows(eps_vir, top, height))
    if width > 0:
        second = minus_rows(eps_vir, side, width)
        nisa.tensor_copy(dst=minus_b[0:TILE, height : height + width], src=second)
    return minus_a, minus_b


def value_count(energies: Tile) -> int:
    """Return the number of elements of a tensor of rank 1 or 2."""
    count = 1
    for d in range(len(energies.shape)):
        count *= energies.shape[d]
    return count


def broadcast_rows(energies: Tile) -> Tile:
    """Return a vector broadcast to every partition."""
    count = value_count(energies)
    rows = nl.ndarray((TILE, count), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=energies.reshape((1, count)).ap([[0, TILE], [1, count]]))
    return rows


def minus_rows(eps_vir: Tile, first: int, count: int) -> Tile:
    """Return ``-eps_vir[first : first + count]`` on every partition."""
    rows = nl.ndarray((TILE, count), dtype=nl.float32, buffer=nl.sbuf)
    flat = eps_vir.reshape((1, value_count(eps_vir)))
    nisa.dma_copy(dst=rows, src=flat.ap([[0, TILE], [1, count]], offset=first))
    nisa.tensor_scalar(dst=rows, data=rows, op0=nl.multiply, operand0=-1.0)
    return rows


def minus_columns(eps_vir: Tile, first: int, count: int) -> Tile:
    """Return ``-eps_vir`` of ``count`` orbitals, a column for each 128 of them; padded with 0.

    No strip reads the padding.
    """
    columns = zero_columns(row_tiles(count))
    flat = eps_vir.reshape((1, value_count(eps_vir)))
    for r in range(0, count, TILE):
        rows = min(TILE, count - r)
        nisa.dma_copy(
            dst=columns[0:rows, r // TILE : r // TILE + 1],
            src=flat[0:1, first + r : first + r + rows],
        )
    nisa.tensor_scalar(dst=columns, data=columns, op0=nl.multiply, operand0=-1.0)
    return columns


def pair_base(minus_a: Tile, eps_i: Tile, i: int, eps_j: Tile, j: int) -> Tile:
    """Return ``eps_i + eps_j - eps_a``, a column for each 128 rows a."""
    base = nl.ndarray(minus_a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=base,
        data=minus_a,
        op0=nl.add,
        operand0=eps_i[0:TILE, i : i + 1],
        op1=nl.add,
        operand1=eps_j[0:TILE, j : j + 1],
    )
    return base


def zero_columns(count: int) -> Tile:
    """Return ``count`` columns of zeros: a ragged strip does not write the lanes below its rows."""
    columns = nl.ndarray((TILE, count), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=columns, value=0.0)
    return columns


def store_total(out: Tile, columns: Tile) -> None:
    """Write the sum of all elements of a tile to a (1, 1) tensor: a product with ones.

    Two columns of ones, and the sum twice: some compilers refuse a single moving column.
    """
    column = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=column, op=nl.add, data=columns, axis=1)
    ones = nl.ndarray((TILE, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    summed = nl.ndarray((1, 2), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=summed, stationary=column, moving=ones)
    total = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=summed[0:1, 0:1])
    nisa.dma_copy(dst=out, src=total)
