"""Density-fitted MP2 over five libraries: random numbers, screening, factors, products, einsum.

python examples/quantum_chemistry/df_mp2_synthetic.py --demo
TRNSCI_USE_SIMULATOR=1 python examples/quantum_chemistry/df_mp2_synthetic.py --n-ao 12 --n-aux 20

The system is random, from a seed, and not a real molecule; the steps are those of a real
calculation. The energy here has no exchange part: the sum of T^2 / D over pairs i <= j, where pairs
of two different orbitals count twice. ``examples/df_mp2.py`` computes the full energy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

import trnblas
import trnrand
import trnsolver
import trnsparse
import trntensor


class System(NamedTuple):
    """Integrals and orbitals.

    Attributes:
        eri: (mu nu|P), symmetric in mu and nu, (n_ao, n_ao, n_aux).
        metric: (P|Q), positive definite.
        C_occ, C_vir: Orbitals, (n_ao, n_occ) and (n_ao, n_ao - n_occ).
        eps_occ, eps_vir: Their energies.
        Q: Schwarz bounds of the pairs (mu nu).
    """

    eri: Tensor
    metric: Tensor
    C_occ: Tensor
    C_vir: Tensor
    eps_occ: Tensor
    eps_vir: Tensor
    Q: Tensor


def synthetic_system(*, n_ao: int, n_aux: int, n_occ: int, seed: int) -> System:
    """Draw a system; the same for the same seed."""
    generator = trnrand.manual_seed(seed)
    drawn = trnrand.normal(n_ao, n_ao, n_aux, generator=generator)
    eri = 0.5 * (drawn + drawn.transpose(0, 1))
    factor = trnrand.normal(n_aux, n_aux, generator=generator)
    metric = factor @ factor.mT + n_aux * torch.eye(n_aux)
    orbitals = trnrand.normal(n_ao, n_ao, generator=generator)
    Q = trnsparse.schwarz_bounds(eri.square().sum(-1))
    return System(
        eri,
        metric,
        orbitals[:, :n_occ],
        orbitals[:, n_occ:],
        -torch.linspace(1.0, 0.1, n_occ),
        torch.linspace(0.1, 1.0, n_ao - n_occ),
        Q,
    )


def screening_report(Q: Tensor, threshold: float = 1e-4) -> dict[str, float]:
    """Return the number of orbital pairs above a threshold."""
    return dict(trnsparse.sparsity_stats(Q, threshold))


def half_transform(eri_ao: Tensor, C_occ: Tensor, C_vir: Tensor) -> Tensor:
    """Return (i a|P), (n_occ, n_vir, n_aux)."""
    n_ao, _, n_aux = eri_ao.shape
    half = trnblas.gemm(1.0, C_occ, eri_ao.reshape(n_ao, -1), transA=True)
    return trnblas.batched_gemm(1.0, C_vir.mT.contiguous(), half.reshape(-1, n_ao, n_aux))


def metric_contract(ia_P: Tensor, J: Tensor) -> Tensor:
    """Return B with (i a|j b) = sum_P B[i a P] B[j b P], by a factor of the metric."""
    lower = trnsolver.cholesky(J)
    inverse = trnblas.trsm(1.0, lower, torch.eye(len(J)), uplo="lower", trans=True)
    return trnblas.batched_gemm(1.0, ia_P, inverse)


def pair_energy(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> tuple[float, int]:
    """Return the energy of all pairs i <= j, and the floating-point operations of the integrals."""
    energy, flops = 0.0, 0
    for i in range(len(eps_occ)):
        for j in range(i + 1):
            t = trntensor.einsum("ap,bp->ab", B[i], B[j])
            gaps = eps_occ[i] + eps_occ[j] - eps_vir.unsqueeze(1) - eps_vir
            energy += (1 if i == j else 2) * float((t.square() / gaps).double().sum())
            flops += int(trntensor.estimate_flops("ap,bp->ab", B[i], B[j]))
    return energy, flops


def energy_of(system: System) -> tuple[float, int]:
    """Return the energy of a system and the operations of its pairs."""
    ia_P = half_transform(system.eri, system.C_occ, system.C_vir)
    B = metric_contract(ia_P, system.metric)
    return pair_energy(B, system.eps_occ, system.eps_vir)


def defined_energy(system: System) -> float:
    """Return the energy by its definition, in float64."""
    eri, metric, occ, vir, e_occ, e_vir = (x.double() for x in system[:6])
    ia_P = torch.einsum("mnp,mi,na->iap", eri, occ, vir)
    t = torch.einsum("iap,pq,jbq->ijab", ia_P, torch.linalg.inv(metric), ia_P)
    gaps = e_occ[:, None, None, None] + e_occ[:, None, None] - e_vir[:, None] - e_vir
    return float((t.square() / gaps).sum())


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="DF-MP2 of a synthetic system over five libraries")
    parser.add_argument("--demo", action="store_true", help="the sizes below (default)")
    parser.add_argument("--n-ao", type=int, default=32)
    parser.add_argument("--n-aux", type=int, default=64)
    parser.add_argument("--n-occ", type=int, default=8)
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args(arguments)
    if not 0 < options.n_occ < options.n_ao or options.n_aux < 1:
        parser.error("wanted: 0 < n-occ < n-ao and 0 < n-aux")
    system = synthetic_system(
        n_ao=options.n_ao, n_aux=options.n_aux, n_occ=options.n_occ, seed=options.seed
    )
    for name, value in screening_report(system.Q).items():
        print(f"{name:<20} {value}")
    energy, flops = energy_of(system)
    error = abs(energy / defined_energy(system) - 1)
    # Sums of n_ao, n_ao, n_aux and n_aux terms for an integral, which the energy squares.
    bound = 2 * (2 * options.n_ao + 2 * options.n_aux) * 2.0**-24 * 10
    print(f"{'energy':<20} {energy:.8e}")
    print(f"{'operations of pairs':<20} {flops}")
    print(f"{'relative error':<20} {error:.1e}, {'passed' if error < bound else 'FAILED'}")


if __name__ == "__main__":
    main(sys.argv[1:])
