"""Functions named after the kernels that they launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsci.core.backend.library import surface
from trnsci.core.errors import NkiFallbackWarning
from trntensor._library import LIBRARY
from trntensor.nki.dispatch import nki_batched_matmul, nki_matmul

if TYPE_CHECKING:
    HAS_NKI: bool

__all__ = [
    "HAS_NKI",
    "NkiFallbackWarning",
    "get_backend",
    "nki_batched_matmul",
    "nki_matmul",
    "set_backend",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
__getattr__, __dir__ = surface(__name__, LIBRARY)
