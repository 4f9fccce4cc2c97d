"""The operations of trnfft that have kernels, under names of their own.

Each runs where the library's backend says: on a NeuronCore, on the simulator or on torch. Operands
may be native complex tensors or ``ComplexTensor``; the result is of the kind of the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfft._paths.library import LIBRARY
from trnfft.nki.dispatch import complex_gemm, complex_gemm_bf16, complex_linear, complex_mask_apply
from trnfft.nki.multicore import get_multicore, multi_core_fft, set_multicore
from trnsci.core.errors import NkiFallbackWarning
from trnsci.core.package import surface

if TYPE_CHECKING:
    from typing import Any

    HAS_NKI: bool
    butterfly_stage_kernel: Any

__all__ = [
    "HAS_NKI",
    "NkiFallbackWarning",
    "butterfly_stage_kernel",
    "complex_gemm",
    "complex_gemm_bf16",
    "complex_linear",
    "complex_mask_apply",
    "get_backend",
    "get_multicore",
    "multi_core_fft",
    "set_backend",
    "set_multicore",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
__getattr__, __dir__ = surface(
    # Importing a kernel imports NKI.
    __name__,
    LIBRARY,
    {"butterfly_stage_kernel": "trnfft._kernels.butterfly"},
)
