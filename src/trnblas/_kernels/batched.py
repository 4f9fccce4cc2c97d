"""alpha * op(a[i]) @ op(b[i]) + beta * c[i] for a whole batch, in one launch.

Layout   as GEMM for each matrix of the batch
Limits   a and b are (batch, rows, columns), one of them may be a matrix shared by the whole batch;
         float32 or 16 bits, all operands of one dtype; batch and extents at least 1
Cost     the products of the batch, small matrices several to a transfer; a shared operand is read
         once from HBM when its block with the whole contraction fits in SBUF
Lever    one launch instead of one per matrix, the shared operand stays in SBUF across the batch,
         the next matrix is loaded while the current one is multiplied
"""

from __future__ import annotations

from trnsci.core.nki import nki
from trnsci.core.tiles.gemm_schedule import product_of
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.tiling import Blocks


@nki.jit
def batched_gemm(
    a: Tile,
    b: Tile,
    c: Tile | None,
    alpha: float,
    beta: float,
    trans_a: bool,
    trans_b: bool,
    blocks: Blocks,
) -> Tile:
    """Return (batch, M, N) products in the dtype of ``a``.

    Args:
        a: (batch, M, K), or (M, K) for all; (K, M) with ``trans_a``.
        b: (batch, K, N), or (K, N) for all; (N, K) with ``trans_b``.
        c: (batch, M, N), (M, N) for all, or None; it is not read when ``beta`` is 0.
        alpha: Scale of the products; not 0.
        beta: Scale of ``c``.
        trans_a: Whether the matrices of ``a`` are passed transposed.
        trans_b: Whether the matrices of ``b`` are passed transposed.
        blocks: The ``blocks`` of ``gemm_tiling`` with this batch and shared operand.
    """
    return product_of(a, b, c, (alpha, beta), (trans_a, trans_b), a.dtype, blocks)
