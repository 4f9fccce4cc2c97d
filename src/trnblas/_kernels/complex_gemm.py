"""alpha * op(a) @ op(b) + beta * c of complex matrices, or of a batch, of any shape, in one launch.

Layout   the parts of a number are neighbours in rows, as in memory; otherwise as GEMM
Limits   2-D, or a batch with at most one shared operand; each extent at least 1; float32 or 16
         bits, parts of all operands of one dtype; alpha and beta are compile-time real numbers
Cost     M/128 * K/128 stationary tiles of each part of a, with 2 N moving columns each: four real
         products; HBM bytes of a, b and c once while one operand and a tile of the other fit
Lever    i B is made on chip, and A_re B + A_im (i B) is summed in PSUM: two stationary tiles for
         four real products. Parts are neither separated nor joined outside of the kernel
"""

from __future__ import annotations

from trnsci.core.nki import nki, nl
from trnsci.core.tiles.gemm_schedule import product_of
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.tiling import Blocks


@nki.jit
def complex_gemm(
    a: Tile,
    b: Tile,
    c: Tile | None,
    alpha: float,
    beta: float,
    trans_a: bool,
    trans_b: bool,
    wide: bool,
    blocks: Blocks,
) -> Tile:
    """Return ``alpha * op(a) @ op(b) + beta * c`` as parts.

    Args:
        a: (M, 2 K), or (K, 2 M) with ``trans_a``; or a batch of such arrays.
        b: (K, 2 N), or (N, 2 K) with ``trans_b``; or a batch of such arrays.
        c: (M, 2 N), (1, 2 N) for all rows, or a batch, or None; it is not read when ``beta`` is 0.
        alpha: Scale of the product; not 0.
        beta: Scale of ``c``.
        trans_a: Whether the matrices of ``a`` are passed transposed.
        trans_b: Whether the matrices of ``b`` are passed transposed.
        wide: Whether the result is float32; if not, it has the dtype of ``a``.
        blocks: The ``blocks`` of ``gemm_tiling`` for two parts, this batch and shared operand.
    """
    dtype = nl.float32 if wide else a.dtype
    return product_of(a, b, c, (alpha, beta), (trans_a, trans_b), dtype, blocks, 2)
