"""MP2 correlation energies of closed shells, from integrals or from density-fitted factors.

With T[a, b] the integral (ia|jb) of a pair (i, j) of occupied orbitals, and
D = eps_i + eps_j - eps_a - eps_b, the energy of the pair is the sum of T (2 T - T^T) / D over the
virtual orbitals a and b. ``trnblas.nki`` exports the same functions.

Without a level of precision, and at ``"float32"``, each function is one operation: a kernel where
the backend runs kernels, torch elsewhere. At ``"bfloat16"`` kernels take float32 factors or
integrals rounded to bfloat16. At ``"float16x3"`` and ``"doublefloat"`` the integrals are a product
of that level, and their energy is a second kernel: T and T^T meet element by element there, so T is
complete before. Energies of ``"doublefloat"`` are pairs of float32 throughout, with an error of
about 1e-13 of the energy; float64 operands are accepted by kernels at this level only.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from trnblas._library import LIBRARY
from trnblas._paths.arguments import check_dimensions
from trnblas._paths.levels import level_of_energy
from trnblas.matrix_products import gemm, multiplied
from trnsci.core.arguments import agree, tensor
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.operation import Operation
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.errors import ShapeError
from trnsci.core.examples import Case, Example, example
from trnsci.core.numbers.conversions import dtype_name
from trnsci.core.pair_energies import (
    energy_of_all_pairs,
    energy_of_integrals,
    energy_of_pair,
    orbitals_at_once,
    rules_of_all_pairs,
    rules_of_pair,
)
from trnsci.core.testing import random_tensor, unit_roundoff

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
    for name, values in (
        ("eps_occ_chunk", eps_occ_chunk),
        ("eps_occ_full", eps_occ_full),
        ("eps_vir", eps_vir),
    ):
        tensor(function, name, values)
    ic, nocc, nvir = eps_occ_chunk.numel(), eps_occ_full.numel(), eps_vir.numel()
    if T_flat.shape != (ic * nvir, nocc * nvir):
        raise ShapeError(
            f"{function}: T_flat must be (ic * nvir, nocc * nvir) = ({ic * nvir}, {nocc * nvir}) "
            f"for {ic}, {nocc} and {nvir} energies, got {tuple(T_flat.shape)}"
        )
    level = level_of_energy(function, precision, T_flat)
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
    level = level_of_energy(function, precision, b_i)
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
    level = level_of_energy(function, precision, B)
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
    orbitals = (x.to(wide) for x in (eps_left, eps_right, eps_vir))
    return nki_mp2_energy(integrals, *orbitals, precision=level).to(left.dtype)


def _lowered(values: Tensor, level: PrecisionLevel) -> Tensor:
    """Return float32 values in bfloat16 at that level, for kernels; torch computes in float32."""
    lowered = level == "bfloat16" and values.dtype is torch.float32 and LIBRARY.path() != "pytorch"
    return values.to(torch.bfloat16) if lowered else values


def _energies(values: Tensor) -> Tensor:
    """Return orbital energies in the form of the kernels: float32, 1-D."""
    return values.reshape(-1).to(torch.float32)


# -- of integrals ----------------------------------------------------------------------------------


def _mp2_launch(
    launch: Launcher, t_flat: Tensor, eps_occ_chunk: Tensor, eps_occ_full: Tensor, eps_vir: Tensor
) -> Tensor:
    from trnblas._kernels.energy import mp2_energy

    orbitals = (_energies(x) for x in (eps_occ_chunk, eps_occ_full, eps_vir))
    return launch(mp2_energy, t_flat, *orbitals).reshape(())


def _wide_mp2(
    t_flat: Tensor, eps_occ_chunk: Tensor, eps_occ_full: Tensor, eps_vir: Tensor
) -> Tensor:
    wide = (x.double() for x in (t_flat, eps_occ_chunk, eps_occ_full, eps_vir))
    return energy_of_integrals(*wide).to(t_flat.dtype)


def _t_flops(t_flat: Tensor, *rest: Any) -> float:
    return 6.0 * t_flat.numel()


def _orbitals() -> tuple[Tensor, Tensor, Tensor]:
    """Return B with positive elements, and energies of occupied and of virtual orbitals.

    All integrals are then positive and so close together that all terms of the sum have one sign.
    """
    occupied = -torch.linspace(1.0, 0.2, 5)
    return random_tensor(5, 40, 70).abs() + 1, occupied, torch.linspace(0.1, 1.5, 40)


def _integrals(b: Tensor) -> Tensor:
    flat = b.double().flatten(0, 1)
    return (flat @ flat.mT).to(b.dtype)


def _pairs_by_definition(b: Tensor, occupied: Tensor, virtual: Tensor) -> Tensor:
    return _terms_by_definition(_integrals(b.double()), occupied.double(), virtual.double()).sum()


def _energy_bound(b: Tensor, occupied: Tensor, virtual: Tensor) -> float:
    """Return the bound from the roundings of two integrals, of a term and of its sums.

    Sums go over the virtual orbitals on the free axis, then on partitions, then over pairs. A term
    is T (2 T - T') with T and T' of one sign, so a relative error of T is amplified by up to
    2 T (2 T + T') / (T (2 T - T')).
    """
    t = torch.einsum("iap,jbp->ijab", b.double(), b.double())
    grown = float((2 * t * (2 * t + t.mT)).sum() / (t * (2 * t - t.mT)).sum())
    roundings = b.shape[2] * grown + 10 + 2 * len(virtual) + len(occupied) ** 2
    return roundings * unit_roundoff(torch.float32)


def _wide_orbitals() -> tuple[Tensor, Tensor, Tensor]:
    """Return integrals of 3 occupied and 50 virtual orbitals that float32 cannot represent."""
    values = random_tensor(150, 40).double()
    factors = values.sign() * (1 + values.abs()) * (1 + 2.0**-30)
    occupied = -torch.linspace(1.0, 0.2, 3, dtype=torch.float64)
    return factors @ factors.mT, occupied, torch.linspace(0.1, 1.5, 50, dtype=torch.float64)


def _terms_by_definition(t: Tensor, occupied: Tensor, virtual: Tensor) -> Tensor:
    integrals = t.reshape(len(occupied), len(virtual), len(occupied), len(virtual))
    gaps = (occupied[:, None] - virtual)[..., None, None] + (occupied[:, None] - virtual)
    return integrals * (2 * integrals - integrals.transpose(1, 3)) / gaps


def _wide_bound(t: Tensor, occupied: Tensor, virtual: Tensor) -> float:
    """Return 21 roundings of a term, 3.1 for each of 2 rows of tiles, 1 column and 16 halvings.

    A rounding is 2**-48; that of an operand to two planes is 2**-49.
    """
    terms = _terms_by_definition(t, occupied, virtual)
    once = (21 + 3.1 * 19) * 2.0**-48 + 3 * 2.0**-49 + 2.0**-53 * 200
    return once * float(terms.abs().sum() / terms.sum().abs())


def _example_orbitals() -> tuple[Tensor, Tensor]:
    squares = random_tensor(4, seed=3)[:2] ** 2
    return -1 - squares, 1 + squares


def _mp2_example() -> Example:
    occupied, virtual = _example_orbitals()
    return example(random_tensor(4, 4), occupied, occupied, virtual)


MP2_ENERGY = Operation(
    LIBRARY,
    "mp2_energy",
    reference=energy_of_integrals,
    launch=_mp2_launch,
    flops=_t_flops,
    examples={"mp2.nki_mp2_energy": _mp2_example},
    evidence=(
        Case(
            "mp2_energy",
            "MP2 energy of integrals",
            _orbitals,
            lambda b, occ, vir: nki_mp2_energy(_integrals(b), occ, occ, vir),
            _pairs_by_definition,
            "the definition in float64",
            _energy_bound,
        ),
    ),
)
DOUBLEFLOAT_MP2_ENERGY = Operation(
    LIBRARY,
    "doublefloat_mp2_energy",
    reference=_wide_mp2,
    launch="trnblas._paths.level_launches:doublefloat_mp2_energy",
    dtypes=("float32", "float64"),
    flops=_t_flops,
    evidence=(
        Case(
            "doublefloat_mp2_energy",
            "MP2 energy in pairs of float32",
            _wide_orbitals,
            lambda t, occ, vir: nki_mp2_energy(t, occ, occ, vir, precision="doublefloat"),
            lambda t, occ, vir: _terms_by_definition(t, occ, vir).sum(),
            "the definition in float64",
            _wide_bound,
        ),
    ),
)


# -- of factors ------------------------------------------------------------------------------------


def _pair_launch(
    launch: Launcher, b_i: Tensor, b_j: Tensor, eps_i: float, eps_j: float, eps_vir: Tensor
) -> Tensor:
    from trnblas._kernels.energy import pair_energy

    # Energies are data, not constants of the program: one program serves all pairs.
    of_i, of_j = (torch.full((1,), e, dtype=torch.float32) for e in (eps_i, eps_j))
    return launch(pair_energy, b_i, b_j, of_i, of_j, _energies(eps_vir)).reshape(())


def _pairs_launch(launch: Launcher, b: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    from trnblas._kernels.energy import batched_pair_energy

    return launch(batched_pair_energy, b, _energies(eps_occ), _energies(eps_vir)).reshape(())


def _product(left: Tensor, right: Tensor, transposed: bool) -> Tensor:
    return multiplied(left, right, "N", "T" if transposed else "N")


def _too_many_functions(b: Tensor, *rest: Any) -> str:
    from trnblas._kernels.energy_panels import most_functions

    most, naux = most_functions(dtype_name(b.dtype)), b.shape[-1]
    return f"the kernel takes up to {most} auxiliary functions, not {naux}" if naux > most else ""


def _pair_example() -> Example:
    factors = random_tensor(4, 4)
    return example(factors[:2], factors[2:], -1.0, -2.0, _example_orbitals()[1])


def _first_pair() -> tuple[Tensor, Tensor, float, float, Tensor]:
    b, occupied, virtual = _orbitals()
    return b[0], b[1], float(occupied[0]), float(occupied[1]), virtual


def _pair_by_definition(*pair: Any) -> Tensor:
    b_i, b_j, e_i, e_j, virtual = pair
    integrals = _integrals(torch.stack([b_i, b_j]).double())
    terms = _terms_by_definition(integrals, virtual.new_tensor([e_i, e_j]).double(), virtual)
    return terms[0, :, 1].sum()


def _pair_bound(b_i: Tensor, b_j: Tensor, e_i: float, e_j: float, virtual: Tensor) -> float:
    return _energy_bound(torch.stack([b_i, b_j]), torch.tensor([e_i, e_j]), virtual)


PAIR_ENERGY = Operation(
    LIBRARY,
    "pair_energy",
    reference=energy_of_pair,
    launch=_pair_launch,
    **rules_of_pair(_product),
    flops=lambda b_i, *rest: 2.0 * b_i.numel() * b_i.shape[0],
    unsuited=_too_many_functions,
    examples={"mp2.nki_fused_gemm_energy": _pair_example},
    evidence=(
        Case(
            "pair_energy",
            "fused MP2 energy of a pair",
            _first_pair,
            nki_fused_gemm_energy,
            _pair_by_definition,
            "the definition in float64",
            _pair_bound,
        ),
    ),
)
BATCHED_PAIR_ENERGY = Operation(
    LIBRARY,
    "batched_pair_energy",
    reference=energy_of_all_pairs,
    launch=_pairs_launch,
    **rules_of_all_pairs(_product),
    flops=lambda b, *rest: 2.0 * b.numel() * b.shape[0] * b.shape[1],
    unsuited=_too_many_functions,
    examples={
        "mp2.nki_batched_pair_energy": lambda: example(
            random_tensor(4, 4).reshape(2, 2, 4), *_example_orbitals()
        )
    },
    evidence=(
        Case(
            "batched_pair_energy",
            "fused MP2 energy",
            _orbitals,
            nki_batched_pair_energy,
            _pairs_by_definition,
            "the definition in float64",
            _energy_bound,
        ),
    ),
)
