"""MP2 correlation energies of closed shells, from integrals or from density-fitted factors.

With T[a, b] the integral (ia|jb) of a pair (i, j) of occupied orbitals, and
D = eps_i + eps_j - eps_a - eps_b, the energy of the pair is the sum of T (2 T - T^T) / D over the
virtual orbitals a and b. ``trnblas.nki`` exports the same functions.

Without a level of precision, and at ``"float32"``, each function is one operation: a kernel where
the backend runs kernels, torch elsewhere. At ``"bfloat16"`` float32 factors or integrals are
rounded to bfloat16 first. At ``"float16x3"`` and ``"doublefloat"`` the integrals are a product of
that level, and their energy is a second kernel: T and T^T meet element by element there, so T is
complete before. Energies of ``"doublefloat"`` are pairs of float32 throughout, with an error of
about 1e-13 of the energy; float64 operands are accepted by kernels at this level only.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from trnblas._mp2.energies import orbitals_at_once
from trnblas._paths.arguments import check_dimensions
from trnblas._paths.doublefloat_operations import DOUBLEFLOAT_MP2_ENERGY
from trnblas._paths.level_names import level_name
from trnblas._paths.operations import BATCHED_PAIR_ENERGY, MP2_ENERGY, PAIR_ENERGY
from trnblas.level3 import gemm
from trnsci.core.arguments import agree, tensor
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.errors import ShapeError

__all__ = ["nki_batched_pair_energy", "nki_fused_gemm_energy", "nki_mp2_energy"]

_Stored = Literal["float16x3", "doublefloat"]
"""Levels at which the integrals are stored between two kernels."""


def nki_mp2_energy(
    T_flat: Tensor,
    eps_occ_chunk: Tensor,
    eps_occ_full: Tensor,
    eps_vir: Tensor,
    *,
    precision: PrecisionLevel | None = None,
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
        precision: ``"bfloat16"``, ``"float16x3"``, ``"float32"`` or ``"doublefloat"``; None for the
            level of the library.

    Raises:
        ShapeError: The number of energies does not match T_flat.
        DTypeError: The dtypes or devices differ, or have no such level.
        FlagError: The level is not known.
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
    level = level_name(function, precision, T_flat)
    if level == "doublefloat":
        return DOUBLEFLOAT_MP2_ENERGY(T_flat, eps_occ_chunk, eps_occ_full, eps_vir)
    return MP2_ENERGY(_lowered(T_flat, level), eps_occ_chunk, eps_occ_full, eps_vir)


def nki_fused_gemm_energy(
    b_i: Tensor,
    b_j: Tensor,
    eps_occ_i: float,
    eps_occ_j: float,
    eps_vir: Tensor,
    *,
    precision: PrecisionLevel | None = None,
) -> Tensor:
    """Return the MP2 energy of one pair of occupied orbitals, as a 0-d tensor.

    The sum of T (2 T - T^T) / D with T = b_i @ b_j^T and D = eps_occ_i + eps_occ_j - eps_a -
    eps_b.

    Args:
        b_i: Three-index integrals of orbital i, (nvir, naux).
        b_j: Three-index integrals of orbital j, (nvir, naux).
        eps_occ_i: Energy of orbital i.
        eps_occ_j: Energy of orbital j.
        eps_vir: Energies of the virtual orbitals, nvir values.
        precision: ``"bfloat16"``, ``"float16x3"``, ``"float32"`` or ``"doublefloat"``; None for the
            level of the library.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes or devices of b_i and b_j differ, or have no such level.
        FlagError: The level is not known.
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
    level = level_name(function, precision, b_i)
    if level == "float16x3" or level == "doublefloat":
        pair = torch.tensor([[eps_occ_i], [eps_occ_j]], dtype=torch.float64, device=b_i.device)
        return _stored_energy(b_i, b_j, pair[0], pair[1], eps_vir, level)
    b_i, b_j = _lowered(b_i, level), _lowered(b_j, level)
    return PAIR_ENERGY(b_i, b_j, float(eps_occ_i), float(eps_occ_j), eps_vir)


def nki_batched_pair_energy(
    B: Tensor, eps_occ: Tensor, eps_vir: Tensor, *, precision: PrecisionLevel | None = None
) -> Tensor:
    """Return the MP2 energy of all ordered pairs of occupied orbitals, as a 0-d tensor.

    Args:
        B: Three-index integrals, (nocc, nvir, naux).
        eps_occ: Energies of the occupied orbitals, nocc values.
        eps_vir: Energies of the virtual orbitals, nvir values.
        precision: ``"bfloat16"``, ``"float16x3"``, ``"float32"`` or ``"doublefloat"``; None for the
            level of the library.

    Raises:
        ShapeError: The number of energies does not match B.
        DTypeError: The dtype of B has no such level.
        FlagError: The level is not known.
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
    level = level_name(function, precision, B)
    if level != "float16x3" and level != "doublefloat":
        return BATCHED_PAIR_ENERGY(_lowered(B, level), eps_occ, eps_vir)
    nocc, nvir, _ = B.shape
    occupied, flat = eps_occ.reshape(-1), B.reshape(nocc * nvir, -1)
    size = orbitals_at_once(nocc, nvir)
    parts = [
        _stored_energy(
            flat[i * nvir : (i + size) * nvir],
            flat,
            occupied[i : i + size],
            occupied,
            eps_vir,
            level,
        )
        for i in range(0, max(1, nocc), size)
    ]
    return sum(parts[1:], parts[0])


def _stored_energy(
    left: Tensor,
    right: Tensor,
    eps_left: Tensor,
    eps_right: Tensor,
    eps_vir: Tensor,
    level: _Stored,
) -> Tensor:
    """Return the energy of integrals that are a product of the level, and its second kernel.

    At doublefloat the integrals stay in float64 between the two.
    """
    wide = left.dtype if level == "float16x3" else torch.float64
    left_wide, right_wide = left.to(wide), right.to(wide)
    integrals = gemm(1.0, left_wide, right_wide, transB=True, precision=level)
    energies = (x.to(wide) for x in (eps_left, eps_right, eps_vir))
    return nki_mp2_energy(integrals, *energies, precision=level).to(left.dtype)


def _lowered(values: Tensor, level: PrecisionLevel) -> Tensor:
    """Return float32 values in bfloat16 at that level; others are left to the operation."""
    lowered = level == "bfloat16" and values.dtype is torch.float32
    return values.to(torch.bfloat16) if lowered else values
