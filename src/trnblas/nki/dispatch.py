"""Products and solves of ``trnblas.nki``; the MP2 energies are in ``trnblas.mp2``."""

from __future__ import annotations

from torch import Tensor

from trnblas._library import LIBRARY
from trnblas._paths.arguments import check_dimensions
from trnblas.batched import batched_gemm
from trnblas.level3 import gemm, syrk, trsm
from trnblas.mp2 import nki_batched_pair_energy, nki_fused_gemm_energy, nki_mp2_energy
from trnsci.core.backend.library import backend_names
from trnsci.core.errors import NkiFallbackWarning

__all__ = [
    "NkiFallbackWarning",
    "nki_batched_gemm",
    "nki_batched_pair_energy",
    "nki_fused_gemm_energy",
    "nki_gemm",
    "nki_mp2_energy",
    "nki_syrk",
    "nki_trsm",
]


def nki_gemm(A: Tensor, B: Tensor) -> Tensor:
    """Return ``A @ B`` of two matrices.

    Raises:
        ShapeError: A or B is not a matrix, or the shapes are incompatible.
    """
    check_dimensions("nki_gemm", 2, A=A, B=B)
    return gemm(1.0, A, B)


def nki_batched_gemm(A: Tensor, B: Tensor) -> Tensor:
    """Return ``A[i] @ B[i]`` for every i of two batches of matrices.

    Raises:
        ShapeError: A or B is not a batch of matrices, or the shapes are incompatible.
    """
    check_dimensions("nki_batched_gemm", 3, A=A, B=B)
    return batched_gemm(1.0, A, B)


def nki_syrk(A: Tensor) -> Tensor:
    """Return ``A @ A.T`` of a matrix, exactly symmetric.

    Raises:
        ShapeError: A is not a matrix.
    """
    check_dimensions("nki_syrk", 2, A=A)
    return syrk(1.0, A)


def nki_trsm(
    A: Tensor,
    B: Tensor,
    side: str = "left",
    uplo: str = "upper",
    trans: bool | str = False,
    diag: str = "nonunit",
    alpha: float = 1.0,
) -> Tensor:
    """Return ``trnblas.trsm`` with ``alpha`` as the last argument."""
    return trsm(alpha, A, B, side, uplo, trans, diag)


__getattr__ = backend_names(__name__, LIBRARY)
