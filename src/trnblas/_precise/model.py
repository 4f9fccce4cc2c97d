"""Predicted work of the kernels that cut operands into slices, by engine.

Every pass of an instruction over a tile takes one cycle for each column, and a fixed number more;
GpSimd takes 1.75 times as long as Vector. The engines overlap, except that the first panels are cut
before the first product. ``test_plans`` compares this with the profile of the simulated kernels.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from trnblas._precise.slicing import block_starts, chunk_rows, pair_groups
from trnsci.core.tiles.hardware import CORES, Core
from trnsci.core.tiles.tiling import column_tiles, row_tiles

_GPSIMD = 1.75
_APART = 0.2
"""Share of the second engine's work that does not overlap; fitted to profiles of both kernels."""

_LAUNCH_NS = 10_000.0
_TWO_SUM = 6  # passes
_FLOAT16X3_CHUNK = 4096


class SliceWork(NamedTuple):
    """Work of a product in slices.

    Attributes:
        slices: Slices of each operand.
        pairs: Pairs of slices that are multiplied.
        groups: Sums in PSUM that the pairs share.
        launches: Kernels launched, one for each block of the contraction.
        products: Instructions of the Tensor engine.
        hbm_bytes: Bytes read from and written to HBM.
        tensor_ns, vector_ns, gpsimd_ns, dma_ns: Busy time.
        start_ns: Time before the first product.
    """

    slices: int
    pairs: int
    groups: int
    launches: int
    products: int
    hbm_bytes: int
    tensor_ns: float
    vector_ns: float
    gpsimd_ns: float
    dma_ns: float
    start_ns: float

    @property
    def time_ns(self) -> float:
        """Predicted time, if one engine works all the time and most other work overlaps with it.

        Added to it: the share of the second busiest engine that does not overlap, the time before
        the first product, and the launches.
        """
        busy = sorted((self.tensor_ns, self.vector_ns, self.gpsimd_ns, self.dma_ns))
        return busy[-1] + _APART * busy[-2] + self.start_ns + self.launches * _LAUNCH_NS


def doublefloat_work(
    rows: int, columns: int, depth: int, slices: int, generation: str, exact: bool = False
) -> SliceWork:
    """Return the work of a doublefloat product; ``exact`` as in its kernel."""
    core = CORES[generation]
    starts = block_starts(depth)
    block = starts[1]
    launches = len(starts) - 1
    groups = pair_groups(slices, block)
    pairs = sum(map(len, groups))
    chunks = ceil(block / chunk_rows(slices, block))
    mt, nt, kt = row_tiles(rows), column_tiles(columns), row_tiles(block)
    width = columns / nt
    # Passes over a tile of the result: of Vector, and of GpSimd.
    added = len(groups) - 1
    vector, gpsimd = (12 * added, added) if exact else (2 * added + 2 * _TWO_SUM, 2 * added)
    tiles = mt * nt * chunks
    more = mt * nt * (_TWO_SUM + (chunks - 1) * 3 * _TWO_SUM)  # chunks, and the last rounding
    vector_ns = _passes(core, tiles * vector + more, width)
    gpsimd_ns = _GPSIMD * _passes(core, tiles * gpsimd, width)
    # Passes over operands: digits on Vector, the rest on the engine of the panel.
    rest = slices + 3 * len(range(3, max(3, slices - 2 + (slices + 1) % 2), 2))
    left, right = rows * kt / core.vector_ghz, columns * kt / core.vector_ghz
    vector_ns += (slices + rest) * left + (slices + rest / 2) * right
    gpsimd_ns += _GPSIMD * rest / 2 * right
    first = (slices + rest) * left / mt + (slices + rest / 2) * right / nt
    planes = 8 * block * (rows + columns) + 8 * rows * columns
    stored = 2 * slices * block * rows * nt if nt > 1 else 0
    totals = 24 * rows * columns * (chunks - 1)
    products, hbm_bytes = pairs * mt * nt * kt, planes + stored + totals
    return SliceWork(
        slices,
        pairs,
        len(groups),
        launches,
        launches * products,
        launches * hbm_bytes,
        _tensor_ns(core, launches * products, launches * pairs * mt * kt * columns),
        launches * vector_ns,
        launches * gpsimd_ns,
        launches * hbm_bytes / core.dma_bytes_per_ns,
        first,
    )


def float16x3_work(rows: int, columns: int, depth: int, generation: str) -> SliceWork:
    """Return the work of a product by three float16 products."""
    core = CORES[generation]
    mt, nt, kt = row_tiles(rows), column_tiles(columns), row_tiles(depth)
    chunks = ceil(depth / _FLOAT16X3_CHUNK)
    copies = _passes(core, mt * nt * chunks, columns / nt)
    cut = (rows + columns) * kt / core.vector_ghz / 2
    stored = 4 * depth * rows * nt if nt > 1 else 0
    sums = 4 * rows * columns * (2 * chunks - 1)
    first = 2 * (rows / mt + columns / nt) * kt / core.vector_ghz
    products = 3 * mt * nt * kt
    hbm_bytes = 4 * depth * (rows + columns) + stored + sums
    tensor_ns = _tensor_ns(core, products, 3 * mt * kt * columns)
    dma_ns = hbm_bytes / core.dma_bytes_per_ns
    busy = tensor_ns, copies + cut, _GPSIMD * cut, dma_ns
    return SliceWork(2, 3, 1, 1, products, hbm_bytes, *busy, first)


def _passes(core: Core, count: float, width: float) -> float:
    return count * (width + core.vector_cycles) / core.vector_ghz


def _tensor_ns(core: Core, products: int, moving: int) -> float:
    """Return the time of products with so many columns in all."""
    return (products * core.product_cycles + moving) / core.tensor_ghz
