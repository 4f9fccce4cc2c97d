"""MP2 energies over the ranks of a mesh, with the occupied orbitals split."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trnblas import mp2
from trnblas._paths.levels import level_of_energy
from trnblas.distributed.operands import checked_mesh, described, precision_of
from trnblas.level3 import gemm
from trnsci.core.arguments import agree
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.distributed.agreement import agreement, gradients
from trnsci.core.distributed.collectives import all_reduce, replicate, start_shift
from trnsci.core.distributed.layout import (
    even_offsets,
    even_sizes,
    local_of,
    split_dims,
    with_local,
)
from trnsci.core.distributed.plans import Step, all_reduced
from trnsci.core.errors import DTypeError, FlagError, ShapeError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

FUNCTION = "trnblas.distributed.batched_pair_energy"


def batched_pair_energy(
    B: DTensor,
    eps_occ: Tensor,
    eps_vir: Tensor,
    *,
    precision: PrecisionLevel | None = None,
    check: bool = True,
) -> DTensor:
    """Return the MP2 energy of all ordered pairs of occupied orbitals, replicated, 0-d.

    Pairs (i, j) and (j, i) have equal energies, so each rank receives the orbitals of half of the
    other ranks only. They move in a ring: a rank receives the next orbitals while it computes with
    the current ones. Ranks along a second mesh dimension, where B is replicated, share this work:
    each computes with some of the received orbitals.

    Args:
        B: Three-index integrals (nocc, nvir, naux), real, Shard(0) along the first mesh dimension,
            and replicated along a second one.
        eps_occ: Energies of the occupied orbitals, nocc values, the same on every rank.
        eps_vir: Energies of the virtual orbitals, nvir values, the same on every rank.
        precision: Arithmetic of each rank's energies and of their gradients, as in
            ``trnblas.mp2.nki_batched_pair_energy``; None for the level of ``trnblas.precision``,
            which all ranks must share.
        check: Whether ranks compare their arguments first. Values are not compared.

    Raises:
        ShapeError: The number of energies does not match B.
        DTypeError: B is not a DTensor, or dtypes differ or are not float32 or float64.
        FlagError: The mesh or the placements are invalid.
        BackendError: There is no process group, or the mesh does not contain this rank.
        RankError: Ranks gave different arguments, or a rank has ended.
    """
    with agreement(FUNCTION, B, check=check) as describe:
        mesh, ranks = checked_mesh(FUNCTION, 3, B=B)
        if B.is_complex():
            raise DTypeError(f"{FUNCTION}: B must be float32 or float64, got {B.dtype}")
        if split_dims(FUNCTION, "B", B) != (0, None)[: mesh.ndim]:
            wanted = "Shard(0)" if mesh.ndim == 1 else "Shard(0) and Replicate()"
            raise FlagError(f"{FUNCTION}: B must be {wanted}, got {tuple(B.placements)}")
        own = local_of(FUNCTION, "B", B)
        agree(FUNCTION, "B", own, "eps_occ", eps_occ)
        agree(FUNCTION, "B", own, "eps_vir", eps_vir)
        if tuple(B.shape[:2]) != (eps_occ.numel(), eps_vir.numel()):
            raise ShapeError(
                f"{FUNCTION}: B must be (nocc, nvir, naux) with ({eps_occ.numel()}, "
                f"{eps_vir.numel()}) energies, got {tuple(B.shape)}"
            )
        level = level_of_energy(FUNCTION, precision, B)
        describe(f"{described({'B': B}, precision=level)}, {gradients(eps_occ, eps_vir)}")
    ring = ranks[0]
    occupied, virtual = eps_occ.flatten(), eps_vir.flatten()
    for each in ranks:
        occupied, virtual = replicate(occupied, each), replicate(virtual, each)
    for each in ranks[1:]:
        own = replicate(own, each)
    sizes, offsets = even_sizes(B.shape[0], ring.size), even_offsets(B.shape[0], ring.size)
    energies = [occupied[a:b] for a, b in pairwise(offsets)]
    place, places = (ranks[1].rank, ranks[1].size) if len(ranks) > 1 else (0, 1)
    distances = _distances(ring.size)[place::places]
    # A rank without pairs has these operands in its graph too: gradients are collectives.
    total = own[:0].sum() + occupied[:0].sum() + virtual[:0].sum()
    coming = [start_shift(own, ring, by, sizes) for by in distances[:1] if by]
    for number, by in enumerate(distances):
        current = coming
        coming = [start_shift(own, ring, later, sizes) for later in distances[number + 1 :][:1]]
        if by == 0:
            total = total + mp2.nki_batched_pair_energy(
                own, energies[ring.rank], virtual, precision=level
            )
            continue
        other = energies[(ring.rank + by) % ring.size]
        part = _between(own, energies[ring.rank], current[0].wait(), other, virtual, level)
        total = total + part * (1 if 2 * by == ring.size else 2)
    for each in ranks:
        total = all_reduce(total, each)
    from torch.distributed.tensor import Replicate

    return with_local(total, mesh, (Replicate(),) * mesh.ndim, ())


def _distances(ranks: int) -> list[int]:
    """Return the distances in a ring that cover every pair of ranks, from either of them."""
    return list(range(ranks // 2 + 1))


def _between(
    own: Tensor,
    eps_own: Tensor,
    other: Tensor,
    eps_other: Tensor,
    eps_vir: Tensor,
    level: PrecisionLevel,
) -> Tensor:
    """Return the energy of the pairs of own orbitals with others.

    At doublefloat the integrals stay in float64; at bfloat16 they stay in the dtype of the
    operands.
    """
    total = other[:0].sum()  # its gradient is a collective, also without pairs
    if not other.shape[0]:
        return total
    wide = torch.float64 if level == "doublefloat" else own.dtype
    columns, eps_other, eps_vir = (x.to(wide) for x in (other.flatten(0, 1), eps_other, eps_vir))
    second: PrecisionLevel = "float32" if level == "bfloat16" else level
    for orbital, energy in zip(own.to(wide), eps_own.to(wide), strict=True):
        integrals = gemm(1.0, orbital, columns, transB=True, precision=precision_of(level))
        part = mp2.nki_mp2_energy(integrals, energy[None], eps_other, eps_vir, precision=second)
        total = total + part.to(own.dtype)
    return total


def _energies(
    shape: tuple[int, int, int],
    at: list[tuple[int, int]],
    sizes: tuple[int, ...],
    distances: list[list[int]],
    itemsize: int,
) -> Step:
    """Return the computation: for each pair of orbitals a product, and its energy.

    A kernel computes the pairs of own orbitals; a product and an energy those of one with all
    orbitals of another rank.
    """
    _, nvir, naux = shape
    row, size = nvir * naux * itemsize, len(sizes)
    flops, moved, launches = [], [], 1
    for (rank, _), near in zip(at, distances, strict=True):
        others = [sizes[(rank + by) % size] for by in near]
        flops.append(sizes[rank] * sum(others) * nvir * nvir * (2 * naux + 8))
        moved.append((sizes[rank] + sum(others)) * row)
        launches = max(launches, (0 in near) + 2 * sizes[rank] * len([by for by in near if by]))
    zeros = (0,) * len(at)
    return Step("compute", "pair energies", zeros, 0, tuple(flops), tuple(moved), launches=launches)


def pair_steps(
    shape: tuple[int, int, int], mesh: tuple[int, ...], itemsize: int
) -> tuple[list[Step], list[Step]]:
    """Return the steps of the energy and of its gradient."""
    nocc, nvir, naux = shape
    size, places = mesh[0], mesh[1] if len(mesh) > 1 else 1
    sizes, row = even_sizes(nocc, size), nvir * naux * itemsize
    at = [(r, place) for r in range(size) for place in range(places)]
    mine = [[by for by in _distances(size)[place::places] if by] for _, place in at]
    most = max(map(len, mine))
    scalar = [all_reduced(itemsize, each) for each in mesh]
    forward = [
        Step(
            "all_to_all",
            "orbitals of other ranks",
            tuple(
                sum(sizes[(r + by) % size] for by in b) * row
                for (r, _), b in zip(at, mine, strict=True)
            ),
            most,
        ),
        _energies(shape, at, sizes, [_distances(size)[place::places] for _, place in at], itemsize),
        Step("all_reduce", "energy", (sum(scalar),) * len(at), 2 * sum(p - 1 for p in mesh)),
    ]
    back = [
        Step(
            "all_to_all",
            "gradients of own orbitals",
            tuple(sizes[r] * row * len(b) for (r, _), b in zip(at, mine, strict=True)),
            most,
        )
    ]
    if places > 1:
        counts = tuple(all_reduced(sizes[r] * row, places) for r, _ in at)
        back.append(Step("all_reduce", "gradient of B", counts, 2 * (places - 1)))
    energies = sum(all_reduced(n * itemsize, p) for n in (nocc, nvir) for p in mesh)
    messages = 4 * sum(p - 1 for p in mesh)  # two rings along each mesh dimension
    back.append(Step("all_reduce", "gradients of energies", (energies,) * len(at), messages))
    return forward, back
