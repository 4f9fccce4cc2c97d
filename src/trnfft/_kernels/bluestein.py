"""Fourier transforms of rows of any length, by Bluestein's chirp, in one launch.

With the chirp w[j] = exp(-pi i j^2 / n) a transform is a convolution, here cyclic of P points:

    X[k] = w[k] * sum over j of (x[j] w[j]) conj(w[k - j])

Layout   as in ``four_step``, for P >= 2 n - 1 points, P a product of factors
Limits   2-D float32 or 16-bit operands, results in float32
Cost     two transforms of P points; zeros beyond the operand are neither read nor multiplied
Lever    the operand is multiplied by the chirp in SBUF; the products with the filter's constant
         spectrum and the last chirp are fused with the copies from PSUM. The second transform is
         the conjugate of a forward one, so both share their constants and conjugation is free.
Accuracy relative L2 error below 1.5e-6 up to 2^17 points
"""

from __future__ import annotations

from trnfft._kernels.four_step import new_outputs, operand_parts, real_points, transform
from trnfft._kernels.four_step_geometry import Geometry, chirp_lengths, segments
from trnfft._kernels.four_step_stage import Sink, Source
from trnsci.core.nki import nki, nl
from trnsci.core.tiles.gemm_tiles import Tile


@nki.jit
def bluestein(
    x_re: Tile, x_im: Tile | None, constants: Tile, n: int, geometry: Geometry, kind: str
) -> Tile | tuple[Tile, Tile]:
    """Return the transforms of all rows, as real and imaginary part.

    Args:
        x_re: (batch, length); shorter rows are zero-padded, longer ones truncated.
        x_im: The same shape, or None for a real operand.
        constants: The constants of the unscaled forward four-step transform, without weights. Then
            follow, each as two parts: the first chirp times the weights of a half spectrum, the
            spectrum of the filter, and the scaled conjugate of the last chirp.
        n: Number of points of the transform.
        geometry: The factors of P.
        kind: As in ``four_step``.
    """
    batch, length = x_re.shape
    taken, given = chirp_lengths(n, kind)
    points = geometry.length
    first = segments(geometry).weights
    spectrum = first + 2 * taken
    last = spectrum + 2 * points
    between = []
    for _ in range(2):
        between.append(nl.ndarray((batch, points), dtype=nl.float32, buffer=nl.private_hbm))
    parts = operand_parts(x_re, x_im)
    source = Source(
        parts,
        length,
        min(length, taken),
        first,
        taken,
        real_points=real_points(parts, n, kind),
    )
    sink = Sink(between, points, points, spectrum, False, True)
    transform(source, sink, constants, geometry, batch)
    out = new_outputs(batch, n, kind)
    sink = Sink(out, given, given, last, False, True)
    transform(Source(between, points, points), sink, constants, geometry, batch)
    if kind == "hermitian":
        return out[0]
    return out[0], out[1]
