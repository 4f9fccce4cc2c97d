"""The elementwise product of two complex tensors in split parts, of any shape, in one launch.

Layout   all elements in storage order, up to 128 rows of up to 2048; the remaining elements are one
         more row
Limits   four tensors of one shape and dtype, at least one element; float32, bfloat16 or float16.
         Products and sums are float32 and are rounded once, into the result.
Cost     six tensor_tensor per tile, three on the Vector and three on the GpSimd engine; every
         element is read and written once
Lever    one pass over HBM for both parts; the two parts are computed in parallel, on two engines
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE

COLUMNS = 2048  # 8 KiB rows in float32; four operands, two results and four products fit twice


@nki.jit
def complex_mask(a_re: Tile, a_im: Tile, b_re: Tile, b_im: Tile) -> tuple[Tile, Tile]:
    """Return the real and imaginary parts of ``a * b`` in the shape and dtype of ``a_re``."""
    out_re = nl.ndarray(a_re.shape, dtype=a_re.dtype, buffer=nl.shared_hbm)
    out_im = nl.ndarray(a_re.shape, dtype=a_re.dtype, buffer=nl.shared_hbm)
    total = 1
    for extent in a_re.shape:
        total *= extent
    operands = [a_re, a_im, b_re, b_im]
    for start in range(0, total, TILE * COLUMNS):
        count = min(TILE * COLUMNS, total - start)
        # The fewest columns for at most 128 rows, so that short tensors also use all partitions.
        columns = (count + TILE - 1) // TILE
        rows = count // columns
        multiply_rows(operands, out_re, out_im, start, rows, columns)
        left = count - rows * columns
        if left > 0:
            multiply_rows(operands, out_re, out_im, start + rows * columns, 1, left)
    return out_re, out_im


def multiply_rows(
    operands: list[Tile], out_re: Tile, out_im: Tile, start: int, rows: int, columns: int
) -> None:
    """Multiply ``rows * columns`` elements from ``start`` on."""
    pattern = [[columns, rows], [1, columns]]
    tiles = []
    for x in operands:
        tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.ap(pattern=pattern, offset=start))
        tiles.append(tile)
    a_re, a_im, b_re, b_im = tiles
    real = two_products(a_re, b_re, a_im, b_im, nl.subtract, nisa.engine.vector)
    imaginary = two_products(a_re, b_im, a_im, b_re, nl.add, nisa.engine.gpsimd)
    nisa.dma_copy(dst=out_re.ap(pattern=pattern, offset=start), src=real)
    nisa.dma_copy(dst=out_im.ap(pattern=pattern, offset=start), src=imaginary)


def two_products(a: Tile, b: Tile, c: Tile, d: Tile, op: Tile, engine: Tile) -> Tile:
    """Return ``a * b`` and ``c * d``, combined by ``op``, in the dtype of ``a``."""
    first = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    second = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=first, data1=a, data2=b, op=nl.multiply, engine=engine)
    nisa.tensor_tensor(dst=second, data1=c, data2=d, op=nl.multiply, engine=engine)
    nisa.tensor_tensor(dst=result, data1=first, data2=second, op=op, engine=engine)
    return result
