"""Factorizations, eigenproblems and iterative solvers on torch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsci import __version__ as __version__
from trnsci.core.errors import NkiFallbackWarning
from trnsci.core.package import surface
from trnsolver._library import LIBRARY

if TYPE_CHECKING:
    from trnsolver import nki as nki

    HAS_NKI: bool

__all__ = [
    "HAS_NKI",
    "NkiFallbackWarning",
    "backend",
    "get_backend",
    "set_backend",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
backend = LIBRARY.backend
__getattr__, __dir__ = surface(__name__, LIBRARY, {"nki": "trnsolver.nki"})
