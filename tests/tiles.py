"""What test kernels begin and end with: new tensors, and the way between HBM and the chip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nkisim.isa as nisa
import nkisim.language as nl


def hbm(shape: Sequence[int], dtype: Any = nl.float32) -> Any:
    """Return a new tensor in shared HBM; call it inside a kernel."""
    return nl.ndarray(tuple(shape), dtype=dtype, buffer=nl.shared_hbm)


def sbuf(shape: Sequence[int], dtype: Any = nl.float32) -> Any:
    """Return a new tile in SBUF; call it inside a kernel."""
    return nl.ndarray(tuple(shape), dtype=dtype, buffer=nl.sbuf)


def loaded(source: Any) -> Any:
    """Return a new tile in SBUF with the contents of an HBM tensor."""
    tile = sbuf(source.shape, source.dtype)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def stored(tensor: Any) -> Any:
    """Return a new output with the contents of a tile, by way of SBUF from PSUM."""
    if tensor.buffer == nl.psum:
        evicted = sbuf(tensor.shape, tensor.dtype)
        nisa.tensor_copy(dst=evicted, src=tensor)
        tensor = evicted
    out = hbm(tensor.shape, tensor.dtype)
    nisa.dma_copy(dst=out, src=tensor)
    return out
