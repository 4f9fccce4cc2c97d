"""A batch of discrete Fourier transforms of any length as one matrix product.

Layout   x as batch x N in separate parts; W as N x N in separate parts, from ``dft_constants``,
         including sign and scale. The result has float32 parts, batch x N.
Limits   batch and N at least 1, N up to ``LARGEST_N``, for accuracy; float32 or bfloat16, x and W
         of one dtype (bfloat16 with ``wide=True`` in the plan). The cost does not depend on the
         factors of N.
Cost     as a complex product with M = batch, K = N = N; half of it if x is real. W is read once and
         resident: 12 N**2 bytes on chip in float32, which fits up to N = 1024 on every generation
Lever    all work is on the Tensor engine; both parts of the result come from one product per part
         of x, accumulated in PSUM
"""

from __future__ import annotations

from trnfft._kernels.parts_product import PartsProduct, multiply_parts, new_outputs
from trnsci.core.nki import nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.tiling import Blocks

LARGEST_N = 2048
"""The longest transform by a float32 matrix product within 2e-6 in the relative L2 norm.

A sequential sum of n independent terms with rounding errors of root mean square u / sqrt(3),
u = 2^-24, has an error of u sqrt(n / 6): 1.6e-6 for the 2 N terms of N = 2048. The Tensor engine
adds in tiles of 128, which is more accurate. Beyond 2048 the bound does not hold for every order of
summation, and a transform by factors is both cheaper and more accurate."""


@nki.jit
def dft(x_re: Tile, x_im: Tile | None, w_re: Tile, w_im: Tile, blocks: Blocks) -> tuple[Tile, Tile]:
    """Return the real and imaginary parts of ``x @ w`` in float32.

    Args:
        x_re: (batch, N).
        x_im: (batch, N), or None if x is real.
        w_re: (N, N), or its first columns for the first bins only.
        w_im: The imaginary part, of the same shape.
        blocks: The ``blocks`` of ``parts_tiling(batch, N, N, dtype, lefts=1 or 2)``.
    """
    lefts = [x_re] if x_im is None else [x_re, x_im]
    outs = new_outputs(x_re.shape[0], w_re.shape[1], 2, nl.float32)
    multiply_parts(PartsProduct(outs, lefts, [w_re, w_im]), blocks)
    return outs[0], outs[1]
