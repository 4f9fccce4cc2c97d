"""Transforms between real signals and the first half of their spectra, without redundant work.

Layout   signals as batch x n; spectra as batch x (n//2 + 1) in separate parts; matrices from
         ``rfft_constants`` and ``irfft_constants``. Results are float32.
Limits   as ``dft``. ``irfft`` does not read the imaginary parts of bin 0 and, for even n, of bin
         n/2.
Cost     a quarter of the complex transform each: one part on one side, half the bins on the other
Lever    as ``dft``; the two parts of a spectrum share the stationary tile of their signal, or
         accumulate in one PSUM bank. The real bin n/2 is loaded in place of the imaginary bin 0, so
         the contraction for n samples has length n, not n + 2: half the tiles at n = 256
"""

from __future__ import annotations

from trnfft._kernels.parts_product import PartsProduct, multiply_parts, new_outputs
from trnsci.core.nki import nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.tiling import Blocks


@nki.jit
def rfft(x: Tile, w_re: Tile, w_im: Tile, blocks: Blocks) -> tuple[Tile, Tile]:
    """Return the real and imaginary parts of the first n//2 + 1 bins.

    Args:
        x: (batch, n).
        w_re: (n, n//2 + 1).
        w_im: (n, n//2 + 1).
        blocks: The ``blocks`` of ``parts_tiling(batch, n//2 + 1, n, dtype, lefts=1)``.
    """
    outs = new_outputs(x.shape[0], w_re.shape[1], 2, nl.float32)
    multiply_parts(PartsProduct(outs, [x], [w_re, w_im]), blocks)
    return outs[0], outs[1]


@nki.jit
def irfft(x_re: Tile, x_im: Tile, c: Tile, s: Tile, blocks: Blocks) -> Tile:
    """Return the real signals whose first bins are ``x_re + i x_im``.

    Args:
        x_re: (batch, n//2 + 1).
        x_im: (batch, n//2 + 1).
        c: ((n + 1)//2, n).
        s: ((n + 1)//2, n).
        blocks: The ``blocks`` of ``parts_tiling(batch, n, (n + 1)//2, dtype, outs=1)``.
    """
    outs = new_outputs(x_re.shape[0], c.shape[1], 1, nl.float32)
    multiply_parts(PartsProduct(outs, [x_re, x_im], [c, s], packed=True), blocks)
    return outs[0]
