"""Short-time Fourier transforms: framing, window and transform of a batch of signals in one launch.

Layout   padded signals as batch x L; the matrix as n_fft x bins in separate parts, from
         ``stft_constants``, including window and scale. The result has float32 parts,
         batch x frames x bins; the usual batch x bins x frames is a view of it.
Limits   1 <= n_fft <= L and hop >= 1; last samples that do not fill a frame are not read. Float32
         or bfloat16, signals and matrix of one dtype. n_fft up to ``dft.LARGEST_N`` by accuracy.
Cost     as ``rfft`` of batch * frames rows. Overlapping frames are read in rows of n_fft samples,
         n_fft / hop times the signal; the only other HBM traffic is the matrix and the result
Lever    the window is free, and frames exist on chip only: a DMA whose stride is the hop reads them
         as rows, 128 at a time, also across short signals
"""

from __future__ import annotations

from trnfft._kernels.parts_product import Frames, PartsProduct, multiply_parts, new_outputs
from trnsci.core.nki import nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.tiling import Blocks


def frame_count(length: int, n_fft: int, hop: int) -> int:
    """Return the number of whole frames of a signal."""
    return 1 + (length - n_fft) // hop


@nki.jit
def stft(
    x_re: Tile, x_im: Tile | None, w_re: Tile, w_im: Tile, hop: int, blocks: Blocks
) -> tuple[Tile, Tile]:
    """Return the real and imaginary parts of the windowed transforms, (batch, frames, bins).

    Args:
        x_re: (batch, L).
        x_im: (batch, L), or None if the signals are real.
        w_re: (n_fft, bins).
        w_im: (n_fft, bins).
        hop: Number of samples between frames.
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
