"""Low-level names of trnrand, close to the kernels; they may change between releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnrand._library import LIBRARY
from trnsci.core.backend.library import surface
from trnsci.core.errors import NkiFallbackWarning

if TYPE_CHECKING:
    HAS_NKI: bool

__all__ = ["HAS_NKI", "NkiFallbackWarning", "get_backend", "set_backend"]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
__getattr__, __dir__ = surface(__name__, LIBRARY)
