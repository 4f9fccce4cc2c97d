"""What test kernels begin and end with: new tensors, and copies between HBM and the chip."""

import nkisim.isa as nisa
import nkisim.language as nl


def hbm(shape, dtype=nl.float32):
    """Return a new tensor in shared HBM; call it inside a kernel."""
    return nl.ndarray(tuple(shape), dtype=dtype, buffer=nl.shared_hbm)


def sbuf(shape, dtype=nl.float32):
    """Return a new tile in SBUF; call it inside a kernel."""
    return nl.ndarray(tuple(shape), dtype=dtype, buffer=nl.sbuf)


def loaded(source):
    """Return a new tile in SBUF with the contents of an HBM tensor."""
    tile = sbuf(source.shape, source.dtype)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def stored(tile):
    """Return a new tensor in HBM with the contents of a tile; PSUM is copied through SBUF."""
    if tile.buffer == nl.psum:
        evicted = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=evicted, src=tile)
        tile = evicted
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out
