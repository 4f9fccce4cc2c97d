"""BLAS on torch tensors: levels 1, 2 and 3, everywhere torch runs and on a NeuronCore."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trnblas._library import LIBRARY
from trnblas.batched import batched_gemm, batched_trsm
from trnblas.level1 import asum, axpy, dot, iamax, nrm2, scal
from trnblas.level2 import gemv, ger, symv, trmv
from trnblas.level3 import gemm, gemmt, herk, symm, syr2k, syrk, trmm, trsm
from trnsci import __version__ as __version__
from trnsci.core.errors import NkiFallbackWarning

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name == "HAS_NKI":
        return LIBRARY.has_nki
    if name == "plan_gemm":
        return import_module("trnblas.plans").plan_gemm
    raise AttributeError(f"module 'trnblas' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
