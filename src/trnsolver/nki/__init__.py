"""Solver building blocks that are separate NKI kernels.

Each runs on the library's backend: a NeuronCore, the simulator or torch. Kernels of whole
algorithms are used by the functions of ``trnsolver``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsci.core.backend.library import surface
from trnsolver._library import LIBRARY
from trnsolver.nki.dispatch import (
    PMAX,
    NkiFallbackWarning,
    nki_matvec,
    nki_rank2_update,
    nki_rotate_pairs,
)

if TYPE_CHECKING:
    HAS_NKI: bool

__all__ = [
    "HAS_NKI",
    "PMAX",
    "NkiFallbackWarning",
    "get_backend",
    "nki_matvec",
    "nki_rank2_update",
    "nki_rotate_pairs",
    "set_backend",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
__getattr__, __dir__ = surface(__name__, LIBRARY)
