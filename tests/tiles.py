"""What test kernels begin and end with: new tensors, and copies between HBM and the chip."""

import ml_dtypes
import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl

ELEMENTS = {
    "float8_e4m3fn_x4": ml_dtypes.float8_e4m3fn,
    "float8_e5m2_x4": ml_dtypes.float8_e5m2,
    "float4_e2m1fn_x4": ml_dtypes.float4_e2m1fn,
}


def pack(values, name):
    """Return an array of words of four elements each, the first one in the lowest bits."""
    bits = np.ascontiguousarray(values.astype(ELEMENTS[name]).view(np.uint8))
    if name.startswith("float4"):
        bits = bits[..., ::2] | bits[..., 1::2] << 4
    return bits.view(np.dtype(getattr(nl, name)))


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
