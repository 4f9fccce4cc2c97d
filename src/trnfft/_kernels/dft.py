"""A batch of discrete Fourier transforms of any length as one matrix product.

Layout   x as batch x N, parts apart; W as N x N, parts apart, from ``dft_constants`` with the sign
         and the scale in it. The result has float32 parts, batch x N.
Limits   batch and N at least 1, N up to ``LARGEST_N`` by accuracy; float32 or bfloat16, x and W of
         one dtype (bfloat16 with ``wide=True`` in the plan). No length is special: primes cost what
         powers of two do.
Cost     as ``complex_gemm`` with M = batch, K = N = N; half of it when x is real. W passes once and
         stays: 12 N**2 bytes on chip in float32, which fits up to N = 1024 on every generation
Lever    all work is on the Tensor engine; both parts of the result come from one product per part
         of x, accumulated in PSUM
"""

from __future__ import annotations

from trnfft._kernels.complex_gemm_parts import PartsProduct, multiply_parts, new_outputs
from trnsci.core.nki import nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.tiling import Blocks

__all__ = ["LARGEST_N", "dft"]

LARGEST_N = 2048
"""The longest transform by a float32 matrix product within 2e-6 in the relative L2 norm.

A sum of n independent terms, one added after the other with rounding errors of root mean square
u / sqrt(3), u = 2^-24, is wrong by u sqrt(n / 6): 1.6e-6 for the 2 N terms of N = 2048. The Tensor
engine adds in tiles of 128, which is better. Beyond 2048 the bound is not kept for every order of
summation, and a transform by factors is cheaper as well as better."""


@nki.jit
def dft(x_re: Tile, x_im: Tile | None, w_re: Tile, w_im: Tile, blocks: Blocks) -> tuple[Tile, Tile]:
    """Return the real and imaginary parts of ``x @ w`` in float32.

    Args:
        x_re: (batch, N).
        x_im: (batch, N), or None when x is real.
        w_re: (N, N), or its first columns when not all bins are wanted.
        w_im: The same of the imaginary part.
        blocks: The ``blocks`` of ``parts_tiling(batch, N, N, dtype, lefts=1 or 2)``.
    """
    lefts = [x_re] if x_im is None else [x_re, x_im]
    outs = new_outputs(x_re.shape[0], w_re.shape[1], 2, nl.float32)
    multiply_parts(PartsProduct(outs, lefts, [w_re, w_im]), blocks)
    return outs[0], outs[1]
