"""Short-time Fourier transforms: framing, window and transform of a batch of signals in one launch.

Layout   signals as batch x L, already padded; the matrix as n_fft x bins, parts apart, from
         ``stft_constants`` with the window and the scale in it. The result has float32 parts,
         batch x frames x bins; the usual batch x bins x frames is a view of it.
Limits   1 <= n_fft <= L and hop >= 1; the last samples that fill no frame are not read. Float32 or
         bfloat16, signals and matrix of one dtype. n_fft up to ``dft.LARGEST_N`` by accuracy.
Cost     as ``rfft`` of batch * frames rows. The frames are read as they overlap, n_fft / hop times
         the signal in rows of n_fft samples; nothing else passes HBM but the matrix and the result
Lever    the window costs nothing, and frames exist on chip only: a DMA with the stride of the hop
         reads them as rows, 128 at a time, also across short signals
"""

from __future__ import annotations

from trnfft._kernels.complex_gemm_parts import Frames, PartsProduct, multiply_parts, new_outputs
from trnsci.core.nki import nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.tiling import Blocks

__all__ = ["frame_count", "stft"]


def frame_count(length: int, n_fft: int, hop: int) -> int:
    """Return how many whole frames a signal has."""
    return 1 + (length - n_fft) // hop


@nki.jit
def stft(
    x_re: Tile, x_im: Tile | None, w_re: Tile, w_im: Tile, hop: int, blocks: Blocks
) -> tuple[Tile, Tile]:
    """Return the real and imaginary parts of the windowed transforms, (batch, frames, bins).

    Args:
        x_re: (batch, L).
        x_im: (batch, L), or None when the signals are real.
        w_re: (n_fft, bins).
        w_im: (n_fft, bins).
        hop: Samples from one frame to the next.
        blocks: The ``blocks`` of ``parts_tiling(batch * frames, bins, n_fft, dtype, lefts=1 or
            2)``.
    """
    signals, length = x_re.shape
    n_fft, bins = w_re.shape
    count = frame_count(length, n_fft, hop)
    lefts = [x_re] if x_im is None else [x_re, x_im]
    outs = new_outputs(signals * count, bins, 2, nl.float32)
    product = PartsProduct(outs, lefts, [w_re, w_im], frames=Frames(hop, count))
    multiply_parts(product, blocks)
    return outs[0].reshape((signals, count, bins)), outs[1].reshape((signals, count, bins))
