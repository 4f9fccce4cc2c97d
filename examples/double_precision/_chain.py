"""Integrals of a chain of hydrogen atoms in closed form, and its Hartree-Fock orbitals.

The basis, and that for density fitting, are s Gaussians at the nuclei; units are those of atoms.
With p the sum of two exponents, the product of two Gaussians is one with the exponent p, and all
integrals of it with another charge distribution are Boys' function F of a squared distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from torch import Tensor


@dataclass(frozen=True)
class Gaussians:
    """Normalized s Gaussians: centres (n, 3) and exponents (n,)."""

    centres: Tensor
    exponents: Tensor

    @property
    def norms(self) -> Tensor:
        return (2 * self.exponents / math.pi) ** 0.75


@dataclass(frozen=True)
class Chain:
    """Integrals and closed-shell orbitals.

    Attributes:
        overlap, core, fock: Matrices of the basis (n, n); fock is that of the converged density.
        repulsion: (mu nu|P), (n, n, naux).
        metric: (P|Q), (naux, naux).
        energies, orbitals: Of Hartree-Fock with fitted integrals; the lowest ``occupied`` are.
        occupied: Number of doubly occupied orbitals.
    """

    overlap: Tensor
    core: Tensor
    fock: Tensor
    repulsion: Tensor
    metric: Tensor
    energies: Tensor
    orbitals: Tensor
    occupied: int


def chain(atoms: int = 4, steps: int = 100) -> Chain:
    """Return a chain of hydrogen atoms at distances of 1.4 and 1.8 in turn, in float64."""
    places = torch.tensor([0.0, *(1.4 + 0.4 * (i % 2) for i in range(atoms - 1))]).double()
    nuclei = torch.nn.functional.pad(places.cumsum(0).unsqueeze(1), (2, 0))
    basis = at_nuclei(nuclei, (0.3, 1.8))
    fitting = at_nuclei(nuclei, (0.6, 3.6))
    overlap, core = one_electron(basis, nuclei)
    repulsion, metric = two_electron(basis, fitting)
    fitted = np.linalg.solve(np.linalg.cholesky(metric), repulsion.flatten(0, 1).numpy().T)
    fitted = fitted.T.reshape(repulsion.shape)
    fock, density, occupied = core.numpy(), np.zeros(core.shape), atoms // 2
    for _ in range(steps):
        energies, orbitals = scipy.linalg.eigh(fock, overlap.numpy())
        new = orbitals[:, :occupied] @ orbitals[:, :occupied].T
        density, change = new, np.abs(new - density).max()
        coulomb = np.einsum("mnP,P->mn", fitted, np.einsum("mnP,mn->P", fitted, density))
        exchange = np.einsum("mlP,nsP,ls->mn", fitted, fitted, density, optimize=True)
        fock = core.numpy() + 2 * coulomb - exchange
        if change < 1e-13:
            break
    matrices = map(torch.from_numpy, (energies, orbitals))
    return Chain(overlap, core, torch.from_numpy(fock), repulsion, metric, *matrices, occupied)


def at_nuclei(nuclei: Tensor, exponents: tuple[float, ...]) -> Gaussians:
    """Return Gaussians of these exponents at every nucleus."""
    each = torch.tensor(exponents, dtype=torch.float64).repeat(len(nuclei))
    return Gaussians(nuclei.repeat_interleave(len(exponents), 0), each)


def one_electron(basis: Gaussians, nuclei: Tensor) -> tuple[Tensor, Tensor]:
    """Return overlap and core matrix: kinetic energy and attraction by nuclei of charge 1."""
    p, centres, factors = products(basis)
    reduced = basis.exponents.unsqueeze(1) * basis.exponents / p
    overlap = factors * (math.pi / p) ** 1.5
    kinetic = reduced * (3 - 2 * reduced * squares(basis.centres, basis.centres)) * overlap
    distances = p.unsqueeze(-1) * squares(centres, nuclei)
    attraction = 2 * math.pi / p * factors * boys(distances).sum(-1)
    return overlap, kinetic - attraction


def two_electron(basis: Gaussians, fitting: Gaussians) -> tuple[Tensor, Tensor]:
    """Return the repulsion of products of the basis and fitting functions, and of the latter."""
    p, centres, factors = products(basis)
    q = fitting.exponents
    metric = repelled(q.unsqueeze(1), q, squares(fitting.centres, fitting.centres))
    three = repelled(p.unsqueeze(-1), q, squares(centres, fitting.centres))
    return (
        factors.unsqueeze(-1) * fitting.norms * three,
        fitting.norms.unsqueeze(1) * fitting.norms * metric,
    )


def products(basis: Gaussians) -> tuple[Tensor, Tensor, Tensor]:
    """Return exponents, centres and factors of the products of two functions."""
    a, centres = basis.exponents, basis.centres
    p = a.unsqueeze(1) + a
    weighted = a.unsqueeze(1) * centres
    middle = (weighted.unsqueeze(1) + weighted) / p.unsqueeze(-1)
    decay = torch.exp(-a.unsqueeze(1) * a / p * squares(centres, centres))
    return p, middle, basis.norms.unsqueeze(1) * basis.norms * decay


def repelled(p: Tensor, q: Tensor, squared: Tensor) -> Tensor:
    """Return the repulsion of two Gaussians with factors of 1."""
    return 2 * math.pi**2.5 / (p * q * (p + q).sqrt()) * boys(p * q / (p + q) * squared)


def squares(left: Tensor, right: Tensor) -> Tensor:
    """Return the squared distances of points."""
    return (left.unsqueeze(-2) - right).square().sum(-1)


def boys(t: Tensor) -> Tensor:
    """Return F(t), the integral of exp(-t x^2) for x from 0 to 1."""
    root = t.clamp_min(1e-30).sqrt()
    return 0.5 * math.sqrt(math.pi) * torch.erf(root) / root
