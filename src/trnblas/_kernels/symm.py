"""alpha * sym(a) @ b + beta * c, or b @ sym(a), from one triangle of a, in one launch.

Layout   sym(a) is its own transpose, so tiles of the stored triangle are loaded without a transpose
         on either side; the others are their mirror images, transposed on chip
Limits   2-D, each extent at least 1; float32 or 16 bits, all operands of one dtype; the other
         triangle is never used
Cost     the products and at most the HBM bytes of a GEMM; half the bytes of ``a`` when all of ``a``
         stays in SBUF
Lever    a stored tile in SBUF is also used as its mirror image; the rest as in GEMM
"""

from __future__ import annotations

from trnsci.core.nki import nki, nl
from trnsci.core.tiles.gemm_schedule import Product, multiply_all
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.tiling import Blocks


@nki.jit
def symm(
    a: Tile,
    b: Tile,
    c: Tile | None,
    alpha: float,
    beta: float,
    left: bool,
    upper: bool,
    blocks: Blocks,
) -> Tile:
    """Return ``alpha * sym(a) @ b + beta * c``, or with ``b`` on the left.

    Args:
        a: (M, M) when ``left``, else (N, N); only the chosen triangle is used.
        b: (M, N).
        c: (M, N), or None when nothing is added; it is not read when ``beta`` is 0.
        alpha: Scale of the product; not 0.
        beta: Scale of ``c``.
        left: Whether ``a`` is the left operand.
        upper: Whether the upper triangle of ``a`` is stored, else the lower.
        blocks: The ``blocks`` of ``gemm_tiling`` with the layout ``"upper"`` or ``"lower"`` for
            ``a``, and ``"rows"`` for a right, ``"columns"`` for a left ``b``.
    """
    stored = "upper" if upper else "lower"
    out = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.shared_hbm)
    if left:
        multiply_all(Product(out, a, b, c, alpha, beta, stored, "rows"), blocks)
    else:
        multiply_all(Product(out, b, a, c, alpha, beta, "columns", stored), blocks)
    return out
