"""Fourier transforms of a batch of rows whose length is a product of factors of at most 128.

Layout   rows of any length in HBM, separate real and imaginary parts; a shorter row is zero-padded,
         a longer one truncated. Up to 128 * 128 points are one stage on chip; up to 128^4 are
         two, with one pass over HBM between them.
         From gen3 on, many rows of a real transform have the layout of ``stacked_rows``.
Limits   2-D float32 or 16-bit operands, results in float32; the length of a Geometry
Cost     8 N (sum of the factors) flops; operand, constants and result are transferred once, and the
         data is written and read once more between two stages. A real operand halves the first
         product and the bytes read; a half spectrum halves the bytes read or written and the rows
         of the first or the last product. The other products are the same as in a complex
         transform.
Lever    two products without a transpose between them, twiddles fused with the copies from PSUM,
         one launch
Accuracy relative L2 error below 1e-6 up to 2^20 points: every stage adds about sqrt(factor) / 2
         units of float32 roundoff
"""

from __future__ import annotations

from trnfft._kernels.four_step_geometry import NOWHERE, Geometry, segments
from trnfft._kernels.four_step_stage import Sink, Source, Stage, run_stage
from trnfft._kernels.stacked_geometry import RowsGeometry
from trnfft._kernels.stacked_rows import transform_many_rows
from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile


@nki.jit
def four_step(
    x_re: Tile,
    x_im: Tile | None,
    constants: Tile,
    geometry: Geometry,
    kind: str,
    many: RowsGeometry | None = None,
) -> Tile | tuple[Tile, Tile]:
    """Return the transforms of all rows, as real and imaginary part.

    Args:
        x_re: (batch, length).
        x_im: The same shape, or None for a real operand.
        constants: The vector that ``segments`` describes; it defines direction and scale.
        geometry: The factors.
        kind: ``"full"`` for N points, ``"half"`` for the first N // 2 + 1 points of the spectrum of
            a real operand, ``"hermitian"`` for N real points from N // 2 + 1 of a spectrum; the
            result is then a single tensor.
        many: The factors of ``stacked_rows`` for a real transform, used from gen3 on, or None.
            Their matrices follow the other constants. The rows of the operand are then neither
            padded nor truncated, and a spectrum has both parts.
    """
    batch, length = x_re.shape
    n = geometry.length
    weights = segments(geometry).weights if kind == "hermitian" else NOWHERE
    limit = min(length, n // 2 + 1 if kind == "hermitian" else n)
    out = new_outputs(batch, n, kind)
    parts = operand_parts(x_re, x_im)
    older = nisa.get_nc_version() == nisa.nc_version.gen2
    if many is not None and not older:
        transform_many_rows(parts, out, constants, segments(geometry).end, many, kind)
    else:
        points = real_points(parts, n, kind)
        source = Source(parts, length, limit, weights=weights, real_points=points)
        sink = Sink(out, out[0].shape[1], out[0].shape[1])
        transform(source, sink, constants, geometry, batch)
    if kind == "hermitian":
        return out[0]
    return out[0], out[1]


def operand_parts(x_re: Tile, x_im: Tile | None) -> list[Tile]:
    """Return the list of parts of an operand."""
    if x_im is None:
        return [x_re]
    return [x_re, x_im]


def real_points(parts: list[Tile], n: int, kind: str) -> tuple[int, ...]:
    """Return the points of a half spectrum that are real by definition."""
    if kind != "hermitian" or len(parts) == 1:
        return ()
    return (0, n // 2) if n % 2 == 0 else (0,)


def new_outputs(batch: int, n: int, kind: str) -> list[Tile]:
    """Return uninitialised results in HBM: two parts, or one for a real result."""
    points = n // 2 + 1 if kind == "half" else n
    out = []
    for _ in range(1 if kind == "hermitian" else 2):
        out.append(nl.ndarray((batch, points), dtype=nl.float32, buffer=nl.shared_hbm))
    return out


def transform(source: Source, sink: Sink, constants: Tile, geometry: Geometry, batch: int) -> None:
    """Transform all rows of ``source`` into ``sink``, in one or two stages."""
    a, b, c, d = geometry
    at = segments(geometry)
    if d == 1:
        stage = Stage(a, b, batch, 1, True, (at.matrices[0], at.matrices[1]), at.inner[0])
        run_stage(stage, source, sink, constants)
        return
    n, between = geometry.length, []
    for _ in range(2):
        between.append(nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.private_hbm))
    stage = Stage(a, b, c * d, batch, False, (at.matrices[0], at.matrices[1]), at.inner[0])
    run_stage(stage, source, Sink(between, n, n, at.outer, True), constants)
    stage = Stage(c, d, a * b, batch, False, (at.matrices[2], at.matrices[3]), at.inner[1])
    run_stage(stage, Source(between, n, n), sink, constants)
