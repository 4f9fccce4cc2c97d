"""The Coulomb part of a Fock matrix, with integrals screened by Schwarz's bound.

    python examples/sparse_fock.py                         a chain of 14 atoms, checked
    python examples/sparse_fock.py --atoms 20 --threshold 1e-6
    python examples/sparse_fock.py --picture pattern.png   the pattern, as it is and in blocks

Every atom has one s-type Gaussian, for which the integrals (ij|kl) have a closed form, so
they are exact. J[ij] = sum over kl of (ij|kl) P[kl] is a product of a matrix of pairs
by pairs and a vector. By Cauchy and Schwarz (ij|kl) is at most Q[ij] Q[kl], with Q[ij] the root of
(ij|ij): in a long chain most integrals are negligible, and the pattern of the others follows
from the diagonal alone.

    unfused   integrals above the threshold as a sparse matrix, then ``spmv``
    fused     ``screened_spmm``, which skips by bound while it multiplies
    orbitals  C^T J C with ``trnblas.gemm``
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence

import torch
from torch import Tensor

import trnblas
import trnsparse


def integrals(atoms: int, spacing: float = 2.5, exponent: float = 0.6) -> Tensor:
    """Return (ij|kl) of Gaussians exp(-a r^2), normalised, on a chain, as (n^2, n^2)."""
    place = spacing * torch.arange(atoms, dtype=torch.float64)
    near = torch.exp(-exponent / 2 * (place[:, None] - place) ** 2).reshape(-1)
    centre = ((place[:, None] + place) / 2).reshape(-1)
    # The charges of two pairs are Gaussians of exponent 2a; their repulsion has the Boys function.
    t = exponent * (centre[:, None] - centre) ** 2
    root = t.clamp(min=1e-30).sqrt()
    boys = torch.where(t < 1e-12, 1 - t / 3, math.sqrt(math.pi) / 2 * torch.erf(root) / root)
    norm = (2 * exponent / math.pi) ** 3
    scale = 2 * math.pi**2.5 / ((2 * exponent) ** 2 * math.sqrt(4 * exponent))
    return norm * scale * torch.outer(near, near) * boys


def density(atoms: int) -> tuple[Tensor, Tensor]:
    """Return orthonormal orbitals, and the density of the lower half of them."""
    hopping = -torch.diag(torch.ones(atoms - 1, dtype=torch.float64), 1)
    _, orbitals = torch.linalg.eigh(hopping + hopping.T)
    occupied = orbitals[:, : atoms // 2]
    return orbitals, 2 * occupied @ occupied.T


def unfused(eri: Tensor, bounds: Tensor, P: Tensor, threshold: float) -> tuple[Tensor, object]:
    """Return J by a sparse product, and the matrix of integrals."""
    kept = torch.outer(bounds, bounds) > threshold
    A = trnsparse.from_dense(torch.where(kept, eri, 0.0))
    return trnsparse.spmv(A, P.reshape(-1)).reshape(P.shape), A


def fused(eri: Tensor, diagonal: Tensor, P: Tensor, threshold: float) -> Tensor:
    """Return J by one screened product."""
    # Bounds are roots of diagonal integrals: their product is compared with the root.
    J = trnsparse.screened_spmm(eri, diagonal, P.reshape(-1, 1), threshold**2)
    return J.reshape(P.shape)


def draw(A: trnsparse.CSRMatrix, path: str) -> None:
    """Write a picture of the pattern, as it is and in the order with the fewest blocks."""
    from matplotlib.figure import Figure

    ordering = trnsparse.block_ordering(A, 16)
    figure = Figure(figsize=(10, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    trnsparse.plot_pattern(A, left)
    trnsparse.plot_pattern(ordering.apply(A), right)
    figure.savefig(path)
    print(f"{path}: {ordering}")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="Coulomb matrices of a chain, screened")
    parser.add_argument("--atoms", type=int, default=14)
    parser.add_argument("--threshold", type=float, default=1e-8)
    parser.add_argument("--picture", help="file for a picture of the pattern")
    options = parser.parse_args(arguments)
    eri = integrals(options.atoms)
    orbitals, P = density(options.atoms)
    diagonal = eri.diagonal()
    bounds = trnsparse.schwarz_bounds(diagonal)
    pairs = bounds.reshape(options.atoms, options.atoms)

    stats = trnsparse.sparsity_stats(pairs, options.threshold)
    J, A = unfused(eri, bounds, P, options.threshold)
    assert isinstance(A, trnsparse.CSRMatrix)
    again = fused(eri, diagonal, P, options.threshold)
    exact = (eri @ P.reshape(-1)).reshape(P.shape)
    # The error is bounded, element by element, by the bounds of the omitted integrals.
    dropped = torch.outer(bounds, bounds) <= options.threshold
    allowed = ((torch.outer(bounds, bounds) * dropped) @ P.reshape(-1).abs()).max().item()
    in_orbitals = trnblas.gemm(1.0, trnblas.gemm(1.0, orbitals, J, transA=True), orbitals)

    print(f"{options.atoms} atoms, {A.nnz} of {stats['total_quartets']} integrals above threshold")
    print(f"counted from the bounds alone: {stats['significant_quartets']}")
    print(f"max |error| {(J - exact).abs().max():.1e}, allowed {allowed:.1e}")
    print(f"fused and unfused differ by {(J - again).abs().max():.1e}")
    print(f"Coulomb energy {0.5 * (in_orbitals.diagonal()[: options.atoms // 2]).sum() * 2:.9f}")
    if options.picture:
        try:
            draw(A, options.picture)
        except (OSError, ValueError) as error:  # no such folder, or unknown image format
            sys.exit(f"--picture: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
