"""Functions named after the kernels that they launch.

The backend of the library selects a NeuronCore, the simulator or torch. ``trnblas.gemm`` and the
other public functions use the same kernels and add factors, accumulators and batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnblas._library import LIBRARY
from trnblas.nki.dispatch import (
    NkiFallbackWarning,
    nki_batched_gemm,
    nki_batched_pair_energy,
    nki_fused_gemm_energy,
    nki_gemm,
    nki_mp2_energy,
    nki_syrk,
    nki_trsm,
)
from trnsci.core.backend.library import surface

if TYPE_CHECKING:
    HAS_NKI: bool

__all__ = [
    "HAS_NKI",
    "NkiFallbackWarning",
    "get_backend",
    "nki_batched_gemm",
    "nki_batched_pair_energy",
    "nki_fused_gemm_energy",
    "nki_gemm",
    "nki_mp2_energy",
    "nki_syrk",
    "nki_trsm",
    "set_backend",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
__getattr__, __dir__ = surface(__name__, LIBRARY)
