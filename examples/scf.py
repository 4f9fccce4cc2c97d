"""Hartree-Fock energies of small atoms: generalized eigenproblems iterated to self-consistency.

    python examples/scf.py               helium and beryllium, compared with the Hartree-Fock limits
    python examples/scf.py --atom be --functions 14

Orbitals are sums of Gaussians around the nucleus, whose integrals have closed forms. They are far
from orthogonal, so that every step solves F C = S C e; the density of the lowest orbitals gives
the next F.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import trnsolver

# Charge, occupied orbitals and the energy of the Hartree-Fock limit in hartree (Bunge, Barrientos
# and Bunge, Atomic Data and Nuclear Data Tables 53, 113, 1993); only s orbitals are occupied.
ATOMS = {"he": (2, 1, -2.861679996), "be": (4, 2, -14.573023168)}


@dataclass(frozen=True)
class Integrals:
    """Overlap, one-electron and two-electron integrals of a basis."""

    overlap: Tensor
    core: Tensor
    repulsion: Tensor


@dataclass(frozen=True)
class ScfResult:
    """Energy, orbitals and convergence data."""

    energy: float
    orbital_energies: Tensor
    orbitals: Tensor
    iterations: int
    converged: bool


def integrals(exponents: Tensor, charge: int) -> Integrals:
    """Return the integrals of normalized s Gaussians around a nucleus."""
    a, b = exponents.unsqueeze(1), exponents.unsqueeze(0)
    p = a + b
    norms = (2 * exponents / math.pi) ** 0.75
    pair = norms.unsqueeze(1) * norms
    overlap = pair * (math.pi / p) ** 1.5
    kinetic = 3 * a * b / p * overlap
    attraction = -2 * math.pi * charge * pair / p
    q = p.unsqueeze(0).unsqueeze(0)
    p = p.unsqueeze(-1).unsqueeze(-1)
    repulsion = 2 * math.pi**2.5 / (p * q * (p + q).sqrt())
    repulsion = repulsion * pair.unsqueeze(-1).unsqueeze(-1) * pair
    return Integrals(overlap, kinetic + attraction, repulsion)


def scf(system: Integrals, occupied: int, tol: float = 1e-8, max_iterations: int = 50) -> ScfResult:
    """Return the self-consistent closed-shell energy.

    Args:
        system: Integrals.
        occupied: Doubly occupied orbitals.
        tol: Largest change of the energy and of the density at the end.
        max_iterations: Maximum number of steps.
    """
    density = torch.zeros_like(system.core)
    energy, iteration, converged = 0.0, 0, False
    while iteration < max_iterations and not converged:
        coulomb = torch.einsum("ijkl,kl->ij", system.repulsion, density)
        exchange = torch.einsum("ikjl,kl->ij", system.repulsion, density)
        fock = system.core + coulomb - 0.5 * exchange
        e, c = trnsolver.eigh_generalized(fock, system.overlap)
        chosen = c[:, :occupied]
        new_density = 2 * chosen @ chosen.mT
        new_energy = 0.5 * float((density * (system.core + fock)).sum())
        change = float((new_density - density).abs().max())
        converged = abs(new_energy - energy) < tol and change < tol
        density, energy = new_density, new_energy
        iteration += 1
    return ScfResult(energy, e, c, iteration, converged)


def even_tempered(functions: int, smallest: float = 0.05, ratio: float = 2.6) -> Tensor:
    """Return exponents in a geometric progression."""
    return smallest * ratio ** torch.arange(functions, dtype=torch.float64)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="Hartree-Fock energies of small atoms")
    parser.add_argument("--demo", action="store_true", help="both atoms (default)")
    parser.add_argument("--atom", choices=ATOMS)
    parser.add_argument("--functions", type=int, default=12, help="Gaussians")
    options = parser.parse_args(arguments)
    for name in [options.atom] if options.atom else ATOMS:
        charge, occupied, limit = ATOMS[name]
        found = scf(integrals(even_tempered(options.functions), charge), occupied)
        print(
            f"{name}: energy {found.energy:.6f} hartree after {found.iterations} steps, "
            f"{found.energy - limit:.1e} above the Hartree-Fock limit; "
            f"highest orbital {float(found.orbital_energies[occupied - 1]):.4f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
