"""Sparse matrices, screening and block-sparse attention on torch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsci import __version__ as __version__
from trnsci.core.errors import NkiFallbackWarning
from trnsci.core.package import surface
from trnsparse._library import LIBRARY
from trnsparse.attention import block_sparse_attention, block_sparse_attention_tiled
from trnsparse.masks import (
    AttentionMask,
    causal_mask,
    dilated_mask,
    global_window_mask,
    local_window_mask,
)

if TYPE_CHECKING:
    from trnsparse import nki as nki

    HAS_NKI: bool

__all__ = [
    "HAS_NKI",
    "AttentionMask",
    "NkiFallbackWarning",
    "backend",
    "block_sparse_attention",
    "block_sparse_attention_tiled",
    "causal_mask",
    "dilated_mask",
    "get_backend",
    "global_window_mask",
    "local_window_mask",
    "set_backend",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
backend = LIBRARY.backend
__getattr__, __dir__ = surface(__name__, LIBRARY, {"nki": "trnsparse.nki"})
