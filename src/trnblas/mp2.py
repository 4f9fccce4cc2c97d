"""MP2 correlation energies of closed shells, from integrals or from density-fitted factors.

With T[a, b] the integral (ia|jb) of a pair (i, j) of occupied orbitals, and
D = eps_i + eps_j - eps_a - eps_b, the energy of the pair is the sum of T (2 T - T^T) / D over the
virtual orbitals a and b. Each function is one operation: a kernel where the backend runs kernels,
torch elsewhere. ``trnblas.nki`` exports the same functions.
"""

from __future__ import annotations

from torch import Tensor

from trnblas._paths.arguments import check_dimensions
from trnblas._paths.operations import BATCHED_PAIR_ENERGY, MP2_ENERGY, PAIR_ENERGY
from trnsci.core.arguments import agree, tensor
from trnsci.core.errors import ShapeError

__all__ = ["nki_batched_pair_energy", "nki_fused_gemm_energy", "nki_mp2_energy"]


def nki_mp2_energy(
    T_flat: Tensor, eps_occ_chunk: Tensor, eps_occ_full: Tensor, eps_vir: Tensor
) -> Tensor:
    """Return the MP2 energy of all pairs (i in a chunk, any j) of occupied orbitals, 0-d.

    The sum of T (2 T - T') / D over i in the chunk and all j, a and b, where T is
    ``T_flat[i * nvir + a, j * nvir + b]``, T' is T with a and b exchanged, and
    D = eps_i + eps_j - eps_a - eps_b.

    Args:
        T_flat: Integrals, (ic * nvir, nocc * nvir).
        eps_occ_chunk: Energies of the chunk's orbitals, ic values in any shape.
        eps_occ_full: Energies of all occupied orbitals, nocc values.
        eps_vir: Energies of the virtual orbitals, nvir values.

    Raises:
        ShapeError: The number of energies does not match T_flat.
        DTypeError: The dtypes or devices differ.
    """
    function = "nki_mp2_energy"
    check_dimensions(function, 2, T_flat=T_flat)
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

    The sum of T (2 T - T^T) / D with T = b_i @ b_j^T and D = eps_occ_i + eps_occ_j - eps_a -
    eps_b; T is never stored.

    Args:
        b_i: Three-index integrals of orbital i, (nvir, naux).
        b_j: Three-index integrals of orbital j, (nvir, naux).
        eps_occ_i: Energy of orbital i.
        eps_occ_j: Energy of orbital j.
        eps_vir: Energies of the virtual orbitals, nvir values.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes or devices of b_i and b_j differ.
    """
    function = "nki_fused_gemm_energy"
    agree(function, "b_i", b_i, "b_j", b_j)
    check_dimensions(function, 2, b_i=b_i, b_j=b_j)
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
        ShapeError: The number of energies does not match B.
    """
    function = "nki_batched_pair_energy"
    check_dimensions(function, 3, B=B)
    tensor(function, "eps_occ", eps_occ)
    tensor(function, "eps_vir", eps_vir)
    if B.shape[:2] != (eps_occ.numel(), eps_vir.numel()):
        raise ShapeError(
            f"{function}: B must be (nocc, nvir, naux) with ({eps_occ.numel()}, "
            f"{eps_vir.numel()}) energies, got {tuple(B.shape)}"
        )
    return BATCHED_PAIR_ENERGY(B, eps_occ, eps_vir)
