"""Products of matrices rounded to bfloat16, summed in float32 and returned so, in one launch.

Layout   as GEMM for each matrix of the batch
Limits   a is (M, K) or (batch, M, K), b (K, N) or (batch, K, N), in bfloat16; extents at least 1
Cost     as a GEMM in bfloat16, but the result has twice the bytes
Lever    as GEMM, with the rate of 16-bit operands and half the bytes of operands
"""

from __future__ import annotations

from trnsci.core.nki import nki, nl
from trnsci.core.tiles.gemm_schedule import product_of
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.tiling import Blocks


@nki.jit
def bfloat16_gemm(a: Tile, b: Tile, blocks: Blocks) -> Tile:
    """Return ``a @ b`` in float32, for one pair of matrices or each of a batch.

    Args:
        a: (M, K) or (batch, M, K).
        b: (K, N) or (batch, K, N).
        blocks: The ``blocks`` of ``gemm_tiling`` with this batch.
    """
    return product_of(a, b, None, (1.0, 0.0), (False, False), nl.float32, blocks)
