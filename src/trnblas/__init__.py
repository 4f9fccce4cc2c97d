"""BLAS levels 1, 2 and 3 on torch tensors, on any torch device and on a NeuronCore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnblas._library import LIBRARY
from trnblas.batched import batched_gemm, batched_trsm, grouped_gemm
from trnblas.extensions import dgmm, geam
from trnblas.level1 import asum, axpy, copy, dot, dotc, iamax, iamin, nrm2, scal, swap
from trnblas.level2 import gemv, ger, gerc, hemv, her, her2, symv, syr, syr2, trmv, trsv
from trnblas.level3 import gemm, gemmt, hemm, her2k, herk, symm, syr2k, syrk, trmm, trsm
from trnblas.modified_rotations import rotm, rotmg
from trnblas.rotations import Rotation, rot, rotg
from trnsci import __version__ as __version__
from trnsci.core.backend.library import surface
from trnsci.core.errors import NkiFallbackWarning

if TYPE_CHECKING:
    from trnblas import distributed as distributed
    from trnblas import mp2 as mp2
    from trnblas import nki as nki
    from trnblas import plans as plans
    from trnblas.plans import plan_gemm

    HAS_NKI: bool

__all__ = [
    "HAS_NKI",
    "NkiFallbackWarning",
    "Rotation",
    "asum",
    "axpy",
    "backend",
    "batched_gemm",
    "batched_trsm",
    "copy",
    "dgmm",
    "dot",
    "dotc",
    "geam",
    "gemm",
    "gemmt",
    "gemv",
    "ger",
    "gerc",
    "get_backend",
    "get_precision",
    "grouped_gemm",
    "hemm",
    "hemv",
    "her",
    "her2",
    "her2k",
    "herk",
    "iamax",
    "iamin",
    "nrm2",
    "plan_gemm",
    "precision",
    "rot",
    "rotg",
    "rotm",
    "rotmg",
    "scal",
    "set_backend",
    "set_precision",
    "swap",
    "symm",
    "symv",
    "syr",
    "syr2",
    "syr2k",
    "syrk",
    "trmm",
    "trmv",
    "trsm",
    "trsv",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
backend = LIBRARY.backend
set_precision = LIBRARY.set_precision
get_precision = LIBRARY.get_precision
precision = LIBRARY.precision
__getattr__, __dir__ = surface(
    __name__,
    LIBRARY,
    {
        "distributed": "trnblas.distributed",
        "mp2": "trnblas.mp2",
        "nki": "trnblas.nki",
        "plan_gemm": "trnblas.plans",
        "plans": "trnblas.plans",
    },
)
