"""BLAS on torch tensors: levels 1, 2 and 3, everywhere torch runs and on a NeuronCore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnblas._library import LIBRARY
from trnblas.batched import batched_gemm, batched_trsm
from trnblas.level1 import asum, axpy, dot, iamax, nrm2, scal
from trnblas.level2 import gemv, ger, symv, trmv
from trnblas.level3 import gemm, gemmt, herk, symm, syr2k, syrk, trmm, trsm
from trnsci import __version__ as __version__
from trnsci.core.errors import NkiFallbackWarning
from trnsci.core.package import surface

if TYPE_CHECKING:
    from trnblas import nki as nki
    from trnblas import plans as plans
    from trnblas.plans import plan_gemm

    HAS_NKI: bool

__all__ = [
    "HAS_NKI",
    "NkiFallbackWarning",
    "asum",
    "axpy",
    "backend",
    "batched_gemm",
    "batched_trsm",
    "dot",
    "gemm",
    "gemmt",
    "gemv",
    "ger",
    "get_backend",
    "herk",
    "iamax",
    "nrm2",
    "plan_gemm",
    "scal",
    "set_backend",
    "symm",
    "symv",
    "syr2k",
    "syrk",
    "trmm",
    "trmv",
    "trsm",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
backend = LIBRARY.backend
__getattr__, __dir__ = surface(
    __name__,
    LIBRARY,
    {
        "nki": "trnblas.nki",
        "plan_gemm": "trnblas.plans",
        "plans": "trnblas.plans",
    },
)
