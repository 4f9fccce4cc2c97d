"""The complex product a @ b of matrices in split parts, of any shape, in one launch.

Layout   a as M x K, b as K x N, separate real and imaginary parts; see ``complex_gemm_parts``
Limits   2-D, each extent at least 1; float32, bfloat16 or float16, all parts of one dtype. Sums are
         float32 and are rounded once to the dtype of the parts; ``complex_gemm_bf16`` returns
         float32.
Cost     2 * M/128 * K/128 stationary tiles with 2 N moving columns each: the four real products;
         HBM bytes of the tiling, each part once if one operand and a tile of the other fit in SBUF
Lever    b is ``[-B_im | B_re | B_im]`` on chip, so four products need two stationary tiles and no
         addition outside PSUM; an operand stays in SBUF
"""

from __future__ import annotations

from trnfft._kernels.complex_gemm_parts import PartsProduct, multiply_parts, new_outputs
from trnsci.core.nki import nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.tiling import Blocks


@nki.jit
def complex_gemm(
    a_re: Tile, a_im: Tile, b_re: Tile, b_im: Tile, blocks: Blocks
) -> tuple[Tile, Tile]:
    """Return the real and imaginary parts of the product in the dtype of ``a_re``.

    Args:
        a_re: (M, K).
        a_im: (M, K).
        b_re: (K, N).
        b_im: (K, N).
        blocks: The ``blocks`` of ``parts_tiling(M, N, K, dtype)``.
    """
    outs = new_outputs(a_re.shape[0], b_re.shape[1], 2, a_re.dtype)
    multiply_parts(PartsProduct(outs, [a_re, a_im], [b_re, b_im]), blocks)
    return outs[0], outs[1]


@nki.jit
def complex_gemm_bf16(
    a_re: Tile, a_im: Tile, b_re: Tile, b_im: Tile, blocks: Blocks
) -> tuple[Tile, Tile]:
    """Return the parts of the product in float32, without rounding the sums.

    Arguments as in ``complex_gemm``; bfloat16 takes a quarter of the float32 time on the Tensor
    engine, and its products are exact. ``blocks`` is planned with ``wide=True``.
    """
    outs = new_outputs(a_re.shape[0], b_re.shape[1], 2, nl.float32)
    multiply_parts(PartsProduct(outs, [a_re, a_im], [b_re, b_im]), blocks)
    return outs[0], outs[1]
