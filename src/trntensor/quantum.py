"""Quantum chemistry with density fitting: MP2 energies, and integrals over molecular orbitals."""

from __future__ import annotations

from functools import partial
from typing import Any, overload

import torch
from torch import Tensor

from trnsci.core.arguments import agree, tensor
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.operation import Operation
from trnsci.core.errors import ShapeError
from trnsci.core.examples import Example, example
from trnsci.core.numbers.conversions import dtype_name
from trnsci.core.pair_energies import (
    energy_of_all_pairs,
    orbitals_at_once,
    rules_of_all_pairs,
)
from trnsci.core.testing import random_tensor
from trntensor._library import LIBRARY
from trntensor._paths.operations import (
    CONTRACT,
    DOUBLEFLOAT_CONTRACT,
    Contraction,
    contract_launch,
    too_deep,
)
from trntensor._paths.precision import checked_precision, with_precision
from trntensor.contraction import einsum
from trntensor.parallel import ShardedTensor

__all__ = ["ao_to_mo_transform", "four_index_transform", "mp2_energy"]


def mp2_energy(
    B: Tensor, eps_occ: Tensor, eps_vir: Tensor, *, precision: str | None = None
) -> Tensor:
    """Return the MP2 energy of a closed shell from density-fitted integrals, as a 0-d tensor.

    It is the sum of T (2 T - T') / D over all occupied i and j and all virtual a and b. Here T is
    sum_P B[i, a, P] B[j, b, P], T' is T with a and b exchanged, and D is
    eps_i + eps_j - eps_a - eps_b. Pairs (i, j) and (j, i) are computed once. The largest
    intermediate holds the integrals of one i. On a kernel path it is one launch. At
    ``"doublefloat"`` kernels of trnblas compute the integrals of several i, then their energies.

    Args:
        B: Three-index integrals, (nocc, nvir, naux), of any size.
        eps_occ: Energies of the occupied orbitals, (nocc,).
        eps_vir: Energies of the virtual orbitals, (nvir,).
        precision: A level of the ladder, or a name of ``einsum``; None for the library's.

    Returns:
        The energy, in at least float32.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError, DeviceError: The tensors differ in dtype or device.
        FlagError: The precision is not known.
    """
    function = "mp2_energy"
    _three_index(function, "B", B)
    for name, energies, size in (
        ("eps_occ", eps_occ, B.shape[0]),
        ("eps_vir", eps_vir, B.shape[1]),
    ):
        agree(function, "B", B, name, energies)
        if tuple(energies.shape) != (size,):
            raise ShapeError(
                f"{function}: {name} must have shape ({size},) for B of {tuple(B.shape)}, "
                f"got {tuple(energies.shape)}"
            )
    chosen = checked_precision(function, precision)
    operation = DOUBLEFLOAT_MP2_ENERGY if chosen == "doublefloat" else MP2_ENERGY
    if chosen in ("kahan", "doublefloat"):
        return with_precision(chosen, operation, (B, eps_occ, eps_vir))
    energy: Tensor = operation(B, eps_occ, eps_vir)
    return energy


def _product(operation: Contraction, left: Tensor, right: Tensor, transposed: bool) -> Tensor:
    return operation.of(left, right, "ap", "bp" if transposed else "pb", "ab")


def _mp2_launch(launch: Launcher, b: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    from trnblas.nki import kernels  # here, because it imports NKI

    occupied, virtual = (eps.to(torch.float32) for eps in (eps_occ, eps_vir))
    if b.shape[2] <= kernels.most_functions(dtype_name(b.dtype)):
        return launch(kernels.batched_pair_energy, b, occupied, virtual).reshape(())
    # The panels of one orbital do not fit in SBUF, so its integrals are stored in HBM: two
    # launches per orbital. Integrals of 16-bit factors would be rounded to 16 bits there.
    b = b.float()
    flat = b.flatten(0, 1)
    parts = []
    for i in range(b.shape[0]):
        t = contract_launch(launch, b[i], flat, "ap,bp->ab")
        parts.append(launch(kernels.mp2_energy, t, occupied[i : i + 1], occupied, virtual))
    return torch.stack(parts).sum()


def _doublefloat_mp2_launch(
    launch: Launcher, b: Tensor, eps_occ: Tensor, eps_vir: Tensor
) -> Tensor:
    from trnblas.nki.launches import doublefloat_energy, doublefloat_product

    nocc, nvir, _ = b.shape
    flat = b.flatten(0, 1)
    size = orbitals_at_once(nocc, nvir)
    total = b.new_zeros(())
    for i in range(0, nocc, size):
        t = doublefloat_product(launch, b[i : i + size].flatten(0, 1), flat.mT)
        total = total + doublefloat_energy(launch, t, eps_occ[i : i + size], eps_occ, eps_vir)
    return total


def _energy(name: str, products: Contraction, **declaration: Any) -> Operation:
    """Return an operation whose derivatives are products by a contraction."""
    return Operation(
        LIBRARY,
        name,
        reference=energy_of_all_pairs,
        flops=lambda b, *rest: 1.0 * b.numel() * b.shape[0] * b.shape[1],
        **rules_of_all_pairs(partial(_product, products)),
        **declaration,
    )


def _energy_example() -> Example:
    squares = random_tensor(4, seed=3)[:2] ** 2
    return example(random_tensor(2, 2, 3), -1 - squares, 1 + squares)


MP2_ENERGY = _energy(
    "mp2_energy", CONTRACT, launch=_mp2_launch, examples={"mp2_energy": _energy_example}
)
DOUBLEFLOAT_MP2_ENERGY = _energy(
    "doublefloat_mp2_energy",
    DOUBLEFLOAT_CONTRACT,
    launch=_doublefloat_mp2_launch,
    dtypes=("float64",),
    unsuited=lambda b, *rest: too_deep(b.shape[2]),
)


@overload
def ao_to_mo_transform(
    eri: Tensor, C_occ: Tensor, C_vir: Tensor, *, precision: str | None = None
) -> Tensor: ...


@overload
def ao_to_mo_transform(
    eri: ShardedTensor, C_occ: Tensor, C_vir: Tensor, *, precision: str | None = None
) -> Tensor | ShardedTensor: ...


def ao_to_mo_transform(
    eri: Tensor | ShardedTensor,
    C_occ: Tensor,
    C_vir: Tensor,
    *,
    precision: str | None = None,
) -> Tensor | ShardedTensor:
    """Return B[i, a, P], the sum of C_occ[m, i] C_vir[n, a] eri[m, n, P] over m and n.

    On a kernel path both steps are one launch, and the intermediate stays on chip.

    Args:
        eri: Three-index integrals over atomic orbitals, (nbasis, nbasis, naux). They may be
            sharded: along naux the result is sharded too, else the shards are summed.
        C_occ: Coefficients of the occupied orbitals, (nbasis, nocc).
        C_vir: Coefficients of the virtual orbitals, (nbasis, nvir).
        precision: A level of the ladder, or a name of ``einsum``; None for the library's.

    Returns:
        (nocc, nvir, naux).

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError, DeviceError: The tensors differ in dtype or device.
        FlagError: The precision is not known.
    """
    function = "ao_to_mo_transform"
    if not isinstance(eri, ShardedTensor):
        tensor(function, "eri", eri)
    if eri.ndim != 3:
        raise ShapeError(f"{function}: eri must be 3D, got shape {tuple(eri.shape)}")
    if eri.shape[0] != eri.shape[1]:
        raise ShapeError(
            f"{function}: eri must be (nbasis, nbasis, naux), its first two dims must match, "
            f"got {tuple(eri.shape)}"
        )
    for name, coefficients in (("C_occ", C_occ), ("C_vir", C_vir)):
        tensor(function, name, coefficients)
        if not isinstance(eri, ShardedTensor):
            agree(function, "eri", eri, name, coefficients)
        _coefficients(function, name, coefficients, eri.shape[0])
    return einsum("mnP,mi,na->iaP", eri, C_occ, C_vir, precision=precision)


def four_index_transform(
    eri: Tensor,
    C_i: Tensor,
    C_a: Tensor,
    C_j: Tensor,
    C_b: Tensor,
    *,
    precision: str | None = None,
) -> Tensor:
    """Return (ia|jb), four-index integrals over molecular orbitals, by four quarter transforms.

    Their order is the one with the fewest operations. On a kernel path two consecutive steps are
    one launch.

    Args:
        eri: Integrals over atomic orbitals, (nbasis, nbasis, nbasis, nbasis).
        C_i: Coefficients for the first index, (nbasis, number of orbitals).
        C_a: Coefficients for the second index.
        C_j: Coefficients for the third index.
        C_b: Coefficients for the fourth index.
        precision: A level of the ladder, or a name of ``einsum``; None for the library's.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError, DeviceError: The tensors differ in dtype or device.
        FlagError: The precision is not known.
    """
    function = "four_index_transform"
    tensor(function, "eri", eri)
    if eri.ndim != 4 or len(set(eri.shape)) != 1:
        raise ShapeError(
            f"{function}: eri must have four dimensions of one size, got {tuple(eri.shape)}"
        )
    for name, coefficients in (("C_i", C_i), ("C_a", C_a), ("C_j", C_j), ("C_b", C_b)):
        agree(function, "eri", eri, name, coefficients)
        _coefficients(function, name, coefficients, eri.shape[0])
    return einsum("pqrs,pi,qa,rj,sb->iajb", eri, C_i, C_a, C_j, C_b, precision=precision)


def _three_index(function: str, name: str, value: Tensor) -> None:
    tensor(function, name, value)
    if value.ndim != 3:
        raise ShapeError(f"{function}: {name} must be 3D, got shape {tuple(value.shape)}")


def _coefficients(function: str, name: str, value: Tensor, nbasis: int) -> None:
    if value.ndim != 2 or value.shape[0] != nbasis:
        raise ShapeError(
            f"{function}: {name} must be (nbasis, orbitals) with nbasis = {nbasis}, "
            f"got {tuple(value.shape)}"
        )
