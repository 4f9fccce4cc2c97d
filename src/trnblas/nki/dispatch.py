"""The functions of ``trnblas.nki``: checks, and one operation each."""

from __future__ import annotations

from torch import Tensor

from trnblas._paths.operations import BATCHED_PAIR_ENERGY, MP2_ENERGY, PAIR_ENERGY
from trnblas.batched import batched_gemm
from trnblas.level3 import gemm, syrk, trsm
from trnsci.core.arguments import agree, tensor
from trnsci.core.errors import NkiFallbackWarning, ShapeError

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
        ShapeError: A or B is not a matrix, or they do not fit.
    """
    _has_dimensions("nki_gemm", 2, A=A, B=B)
    return gemm(1.0, A, B)


def nki_batched_gemm(A: Tensor, B: Tensor) -> Tensor:
    """Return ``A[i] @ B[i]`` for every i of two batches of matrices.

    Raises:
        ShapeError: A or B is not a batch of matrices, or they do not fit.
    """
    _has_dimensions("nki_batched_gemm", 3, A=A, B=B)
    return batched_gemm(1.0, A, B)


def nki_syrk(A: Tensor) -> Tensor:
    """Return ``A @ A.T`` of a matrix, exactly symmetric.

    Raises:
        ShapeError: A is not a matrix.
    """
    _has_dimensions("nki_syrk", 2, A=A)
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
    """Return the solution of ``trnblas.trsm``, which has the same arguments in another order."""
    return trsm(alpha, A, B, side, uplo, trans, diag)


def nki_mp2_energy(
    T_flat: Tensor, eps_occ_chunk: Tensor, eps_occ_full: Tensor, eps_vir: Tensor
) -> Tensor:
    """Return the MP2 energy of a chunk of occupied orbitals with all of them, as a 0-d tensor.

    It is the sum of T (2 T - T') / D over i of the chunk, all j, a and b, where T is
    ``T_flat[i * nvir + a, j * nvir + b]``, T' the same with a and b exchanged, and
    D = eps_i + eps_j - eps_a - eps_b.

    Args:
        T_flat: Integrals, (ic * nvir, nocc * nvir).
        eps_occ_chunk: Energies of the chunk's orbitals, ic values in any shape.
        eps_occ_full: Energies of all occupied orbitals, nocc values.
        eps_vir: Energies of the virtual orbitals, nvir values.

    Raises:
        ShapeError: The number of energies does not fit T_flat.
        DTypeError: The dtypes or devices differ.
    """
    function = "nki_mp2_energy"
    _has_dimensions(function, 2, T_flat=T_flat)
    for name, energies in (
        ("eps_occ_chunk", eps_occ_chunk),
        ("eps_occ_full", eps_occ_full),
        ("eps_vir", eps_vir),
    ):
        tensor(function, name, energies)
    ic, nocc, nvir = eps_occ_chunk.numel(), eps_occ_full.numel(), eps_vir.numel()
    if T_flat.shape != (ic * nvir, nocc * nvir):
        raise ShapeError(
            f"{function}: T_flat must be (ic * nvir, nocc * nvir) = ({ic * nvir}, {nocc * nvir}) "
            f"for {ic}, {nocc} and {nvir} energies, got {tuple(T_flat.shape)}"
        )
    return MP2_ENERGY(T_flat, eps_occ_chunk, eps_occ_full, eps_vir)


def nki_fused_gemm_energy(
    b_i: Tensor, b_j: Tensor, eps_occ_i: float, eps_occ_j: float, eps_vir: Tensor
) -> Tensor:
    """Return the MP2 energy of one pair of occupied orbitals, as a 0-d tensor.

    It is the sum of T (2 T - T^T) / D with T = b_i @ b_j^T and D = eps_occ_i + eps_occ_j - eps_a -
    eps_b; T is never stored.

    Args:
        b_i: Three-index integrals of orbital i, (nvir, naux).
        b_j: Those of orbital j.
        eps_occ_i: Energy of orbital i.
        eps_occ_j: Energy of orbital j.
        eps_vir: Energies of the virtual orbitals, nvir values.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes or devices of b_i and b_j differ.
    """
    function = "nki_fused_gemm_energy"
    agree(function, "b_i", b_i, "b_j", b_j)
    _has_dimensions(function, 2, b_i=b_i, b_j=b_j)
    tensor(function, "eps_vir", eps_vir)
    if b_i.shape != b_j.shape or b_i.shape[0] != eps_vir.numel():
        raise ShapeError(
            f"{function}: b_i and b_j must be (nvir, naux) with nvir = {eps_vir.numel()} energies, "
            f"got {tuple(b_i.shape)} and {tuple(b_j.shape)}"
        )
    return PAIR_ENERGY(b_i, b_j, float(eps_occ_i), float(eps_occ_j), eps_vir)


def nki_batched_pair_energy(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    """Return the MP2 energy of all ordered pairs of occupied orbitals, as a 0-d tensor.

    Args:
        B: Three-index integrals, (nocc, nvir, naux).
        eps_occ: Energies of the occupied orbitals, nocc values.
        eps_vir: Energies of the virtual orbitals, nvir values.

    Raises:
        ShapeError: The number of energies does not fit B.
    """
    function = "nki_batched_pair_energy"
    _has_dimensions(function, 3, B=B)
    tensor(function, "eps_occ", eps_occ)
    tensor(function, "eps_vir", eps_vir)
    if B.shape[:2] != (eps_occ.numel(), eps_vir.numel()):
        raise ShapeError(
            f"{function}: B must be (nocc, nvir, naux) with ({eps_occ.numel()}, "
            f"{eps_vir.numel()}) energies, got {tuple(B.shape)}"
        )
    return BATCHED_PAIR_ENERGY(B, eps_occ, eps_vir)


def _has_dimensions(function: str, count: int, **tensors: Tensor) -> None:
    for name, value in tensors.items():
        tensor(function, name, value)
        if value.ndim != count:
            raise ShapeError(
                f"{function}: {name} must have {count} dimensions, got {tuple(value.shape)}"
            )
