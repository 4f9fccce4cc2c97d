"""The operations that have NKI kernels, under separate names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsci.core.backend.library import surface
from trnsparse._library import LIBRARY
from trnsparse.nki.dispatch import (
    NkiFallbackWarning,
    nki_bsr_attn_bwd,
    nki_bsr_attn_tiled,
    nki_bsr_spmm,
    nki_screened_spmm,
    nki_spmm,
)

if TYPE_CHECKING:
    HAS_NKI: bool

__all__ = [
    "HAS_NKI",
    "NkiFallbackWarning",
    "get_backend",
    "nki_bsr_attn_bwd",
    "nki_bsr_attn_tiled",
    "nki_bsr_spmm",
    "nki_screened_spmm",
    "nki_spmm",
    "set_backend",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
__getattr__, __dir__ = surface(__name__, LIBRARY)
