"""A contraction of two tensors as a batch of matrix products, in one launch.

Layout   each operand is (batch, x, y) or (x, batch, y), where x and y are its two groups of rows,
         columns and depth, in either order; so is the result. No operand is permuted in HBM:
         a batch between rows and columns is a stride of the load, and an operand with the
         contraction last is transposed on chip
Limits   extents at least 1; float32 or 16 bits, both operands of one dtype
Cost     the products of the batch, and the HBM bytes of the tiling
Lever    reuse in SBUF, accumulation in PSUM, one launch for all of the batch; a result with its
         columns first is the product of the operands in reverse order, so no transpose is needed
"""

from __future__ import annotations

from trnsci.core.nki import nki, nl
from trnsci.core.tiles.gemm_schedule import Product, multiply_all
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.tiling import Blocks


@nki.jit
def contract(
    a: Tile,
    b: Tile,
    shape: tuple[int, ...],
    a_layout: str,
    b_layout: str,
    between: tuple[bool, bool, bool],
    blocks: Blocks,
) -> Tile:
    """Return the products of ``a`` and ``b`` in the dtype of ``a``.

    Args:
        a: A matrix of rows by depth in the order of ``a_layout``, or a batch of matrices.
        b: A matrix of depth by columns in the order of ``b_layout``, or a batch of matrices.
        shape: Shape of the result: (rows, columns), with the batch first or in between.
        a_layout: ``"rows"`` if ``a`` has depth before rows, else ``"columns"``.
        b_layout: ``"rows"`` if ``b`` has depth before columns, else ``"columns"``.
        between: For the result, ``a`` and ``b``: whether the batch is in between.
        blocks: The ``blocks`` of ``gemm_tiling``.
    """
    out = nl.ndarray(shape, dtype=a.dtype, buffer=nl.shared_hbm)
    multiply_all(Product(out, a, b, None, 1.0, 0.0, a_layout, b_layout, between), blocks)
    return out
