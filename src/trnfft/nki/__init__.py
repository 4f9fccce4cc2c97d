"""Direct access to the operations of trnfft that have kernels.

Each runs on the library's backend: a NeuronCore, the simulator or torch. Operands may be native
complex tensors or ``ComplexTensor``; the result has the tensor type of the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfft._library import LIBRARY
from trnfft.nki.dispatch import complex_gemm, complex_gemm_bf16, complex_linear, complex_mask_apply
from trnsci.core.backend.library import surface
from trnsci.core.errors import NkiFallbackWarning

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
    "set_backend",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
__getattr__, __dir__ = surface(
    # Importing a kernel imports NKI.
    __name__,
    LIBRARY,
    {"butterfly_stage_kernel": "trnfft._kernels.butterfly"},
)
