"""Transfers between HBM and SBUF whose descriptors do not occupy a compute engine.

From gen3 on the compiler's default makes the descriptors of a transfer on GpSimd. Kernels that use
GpSimd, or that start many transfers, leave them to the hardware generators of two queues.
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from trnsci.core.nki import nisa
from trnsci.core.tiles.gemm_tiles import Tile


def copy(dst: Tile, src: Tile, second: bool = False) -> None:
    """Copy a block between HBM and SBUF, triggered by the queue of Sync, or ``second`` of Scalar.

    gen2 has no generators in hardware, and they do not convert dtypes: there it is a plain copy.
    """
    if nisa.get_nc_version() == nisa.nc_version.gen2 or dst.dtype != src.dtype:
        nisa.dma_copy(dst=dst, src=src)
    elif second:
        nisa.dma_copy(dst=dst, src=src, dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.scalar)
    else:
        nisa.dma_copy(dst=dst, src=src, dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.sync)
