"""alpha * op(a) @ op(b) + beta * c, of any shape, in one launch.

Layout   the contraction on partitions: ``trans_a`` and not ``trans_b`` need no transpose; other
         operands are loaded in rows of 4 KiB and transposed on chip, tile by tile, once per load
Limits   2-D, each extent at least 1; float32 or 16 bits, all operands of one dtype; alpha and beta
         are compile-time numbers; a, b and c are not modified. Ragged edges are sliced.
Cost     M/128 * K/128 * N/512 products; HBM bytes of the tiling, the fewest possible while one
         operand and a tile of the other fit in SBUF
Lever    reuse in SBUF (an operand stays, or the result does), accumulation in PSUM with several
         banks growing at once on one stationary tile, scales folded into the copy out of PSUM,
         transposes on an engine that preserves all bits
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from trnsci.core.nki import nki
from trnsci.core.tiles.gemm_schedule import product_of
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.tiling import Blocks


@nki.jit
def gemm(
    a: Tile,
    b: Tile,
    c: Tile | None,
    alpha: float,
    beta: float,
    trans_a: bool,
    trans_b: bool,
    blocks: Blocks,
) -> Tile:
    """Return ``alpha * op(a) @ op(b) + beta * c`` in the dtype of ``a``.

    Args:
        a: (M, K), or (K, M) with ``trans_a``.
        b: (K, N), or (N, K) with ``trans_b``.
        c: (M, N), or None when nothing is added; it is not read when ``beta`` is 0.
        alpha: Scale of the product; not 0.
        beta: Scale of ``c``.
        trans_a: Whether ``a`` is passed transposed.
        trans_b: Whether ``b`` is passed transposed.
        blocks: The ``blocks`` of ``gemm_tiling``.
    """
    return product_of(a, b, c, (alpha, beta), (trans_a, trans_b), a.dtype, blocks)
