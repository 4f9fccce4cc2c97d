"""Density-fitted MP2 correlation energies over four libraries.

    python examples/df_mp2.py                                 a small molecule's size, checked
    python examples/df_mp2.py --fused-energy --shape small    the published sizes have names
    python examples/df_mp2.py --bench --shape medium          times of the four steps
    python examples/df_mp2.py --bench --device cuda
    TRNSCI_USE_SIMULATOR=1 python examples/df_mp2.py --batched-pair-energy

Electron repulsion integrals are factored over an auxiliary basis, (ia|jb) = sum_P B[iaP] B[jbP],
so that everything but the energy's last sum is products of matrices:

    screen   significant pairs mu nu                      trnsparse: Schwarz bounds
    metric   J = L L^T, X = L^-T                          trnsolver: Cholesky; trnblas: trsm
    half     (i a|P) = C_occ^T (mu nu|P) C_vir            trntensor: one transform
    metric   B = (i a|P) X                                trnblas: batched_gemm, shared operand
    energy   T = B B^T, sum of T (2 T - T') / D           trnblas: gemm and a sum, or one kernel

The input is drawn at random from a fixed seed. Where PySCF is installed, the energy of a water
molecule follows, against PySCF's own; ``df_mp2_pyscf.py`` has more molecules.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

import trnblas
import trnblas.nki
import trnsolver
import trnsparse
import trntensor

# Basis functions, occupied orbitals, auxiliary functions.
SHAPES = {"small": (128, 16, 384), "medium": (512, 64, 1536), "large": (768, 96, 2304)}

# Their correlation energies from this input, in Hartree.
PUBLISHED = {"small": -1.619250e-04, "medium": -2.48722, "large": -43.51183}

# Integrals with a smaller bound are negligible; only reported, since nothing here is sparse.
SCREENED = 1e-4

# The definition takes (nbasis - nocc)^2 nocc^2 numbers and their temporaries.
LARGEST_CHECKED = 128

# Size of the part of T = B B^T in memory at a time.
SLICE_BYTES = 256 * 2**20

Inputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
EnergyStep = Callable[[Tensor, Tensor, Tensor], float]


def df_mp2_energy(
    C_occ: Tensor,
    C_vir: Tensor,
    eri_3c: Tensor,
    J_metric: Tensor,
    eps_occ: Tensor,
    eps_vir: Tensor,
    timings: dict[str, float] | None = None,
    energy_step: EnergyStep | None = None,
) -> float:
    """Return the closed-shell MP2 correlation energy.

    Args:
        C_occ: Occupied orbitals (nb, nocc).
        C_vir: Virtual orbitals (nb, nvir).
        eri_3c: Integrals (mu nu|P) of shape (nb, nb, naux).
        J_metric: Integrals (P|Q) of shape (naux, naux).
        eps_occ: Energies of the occupied orbitals.
        eps_vir: Energies of the virtual orbitals.
        timings: Filled with the seconds of ``chol``, ``half``, ``metric`` and ``energy``.
        energy_step: Function that computes the energy of B; by default ``energy_of``.
    """
    clock = Clock(eri_3c.device, timings)
    # Squared norms of nearly dependent auxiliary functions: float64 is cheap here, and the kernels
    # do not support it.
    with trnsolver.backend("pytorch"), trnblas.backend("pytorch"):
        factor = trnsolver.cholesky(J_metric.double())
        one = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
        inverse = trnblas.trsm(1.0, factor, one, uplo="lower", trans=True).to(eri_3c.dtype)
    clock.stop("chol")

    integrals = trntensor.ao_to_mo_transform(eri_3c, C_occ, C_vir)
    clock.stop("half")

    fitted = trnblas.batched_gemm(1.0, integrals, inverse)
    clock.stop("metric")

    energy = (energy_step or energy_of)(fitted, eps_occ, eps_vir)
    clock.stop("energy")
    return energy


def energy_of(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> float:
    """Return the energy of fitted integrals B of shape (nocc, nvir, naux).

    The energy of a pair i, j is that of j, i, so of every slice of i only j from its first i on
    are computed. Sums are in float64: they have many more terms than a product.
    """
    occupied, virtual, auxiliary = B.shape
    flat = B.reshape(occupied * virtual, auxiliary)
    step = max(1, SLICE_BYTES // (flat.shape[0] * virtual * B.element_size()))
    total = 0.0
    for start in range(0, occupied, step):
        stop = min(start + step, occupied)
        rows = flat[start * virtual : stop * virtual]
        T = trnblas.gemm(1.0, rows, flat[start * virtual :], transB=True)
        T = T.view(stop - start, virtual, occupied - start, virtual)
        pairs = eps_occ[start:stop, None] + eps_occ[start:]
        virtuals = eps_vir[:, None] + eps_vir
        gaps = pairs[:, None, :, None] - virtuals[None, :, None, :]
        terms = T * (2 * T - T.transpose(1, 3)) / gaps
        sums = terms.sum(dim=(0, 1, 3), dtype=torch.float64)
        # Pairs with j beyond the slice stand for j, i as well.
        total += float(sums[: stop - start].sum() + 2 * sums[stop - start :].sum())
    return total


def fused_energy(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> float:
    """Return the same with the sums over T in one operation for every occupied orbital."""
    occupied, virtual, auxiliary = B.shape
    flat = B.reshape(occupied * virtual, auxiliary)
    total = 0.0
    for i in range(occupied):
        T = trnblas.gemm(1.0, B[i], flat, transB=True)
        total += float(trnblas.nki.nki_mp2_energy(T, eps_occ[i : i + 1], eps_occ, eps_vir))
    return total


def pair_energies(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> float:
    """Return the same pair by pair, without T."""
    energies = eps_occ.tolist()
    total = 0.0
    for i, eps_i in enumerate(energies):
        for j, eps_j in enumerate(energies[: i + 1]):
            pair = trnblas.nki.nki_fused_gemm_energy(B[i], B[j], eps_i, eps_j, eps_vir)
            total += float(pair) * (1 if i == j else 2)
    return total


def batched_pair_energy(B: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> float:
    """Return the same in one operation."""
    return float(trnblas.nki.nki_batched_pair_energy(B, eps_occ, eps_vir))


class Clock:
    """Seconds between stops, with the device's work finished."""

    def __init__(self, device: torch.device, timings: dict[str, float] | None) -> None:
        self.device = device
        self.timings = timings
        self.last = self.now()

    def now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def stop(self, step: str) -> None:
        if self.timings is not None:
            now = self.now()
            self.timings[step], self.last = now - self.last, now


def synthetic(nbasis: int, nocc: int, naux: int) -> Inputs:
    """Return reproducible random inputs with occupied energies below virtual ones."""
    torch.manual_seed(42)
    nvir = nbasis - nocc
    C_occ = 0.1 * torch.randn(nbasis, nocc)
    C_vir = 0.1 * torch.randn(nbasis, nvir)
    eri_3c = 0.01 * torch.randn(nbasis, nbasis, naux)
    root = 0.01 * torch.randn(naux, naux)
    J_metric = root @ root.T + naux * torch.eye(naux)
    eps_occ = -torch.sort(torch.rand(nocc)).values - 0.5
    eps_vir = torch.sort(torch.rand(nvir)).values + 0.1
    return C_occ, C_vir, eri_3c, J_metric, eps_occ, eps_vir


def defined_energy(inputs: Inputs) -> float:
    """Return the energy by its definition, in float64: a check, for small problems only."""
    C_occ, C_vir, eri_3c, J_metric, eps_occ, eps_vir = (x.double().cpu() for x in inputs)
    ia = torch.einsum("mi,na,mnp->iap", C_occ, C_vir, eri_3c)
    T = torch.einsum("iap,pq,jbq->iajb", ia, torch.linalg.inv(J_metric), ia)
    gaps = eps_occ[:, None, None, None] + eps_occ[:, None] - eps_vir[:, None, None] - eps_vir
    return float((T * (2 * T - T.transpose(1, 3)) / gaps).sum())


def flops(nbasis: int, nocc: int, naux: int) -> int:
    """Return the operations of the products, every ordered pair counted."""
    nvir = nbasis - nocc
    half = nbasis * nbasis * nocc * naux + nocc * nvir * nbasis * naux
    return 2 * (half + nocc * nvir * naux * naux + nocc * nocc * nvir * nvir * naux)


def screening(inputs: Inputs, threshold: float = SCREENED) -> dict[str, int | float]:
    """Return the number of pairs mu nu, and of integrals of two pairs, above a threshold.

    The bound of a pair is the root of its fitted integral with itself, (mu nu|mu nu).
    """
    _, _, eri_3c, J_metric, _, _ = (x.double().cpu() for x in inputs)
    factor = torch.linalg.cholesky(J_metric)
    fitted = torch.linalg.solve_triangular(factor, eri_3c.flatten(0, 1).mT, upper=False)
    diagonal = fitted.square().sum(0).view(eri_3c.shape[:2])
    return trnsparse.sparsity_stats(trnsparse.schwarz_bounds(diagonal), threshold)


def demo(
    nbasis: int,
    nocc: int,
    naux: int,
    device: str,
    step: EnergyStep = energy_of,
    shape: str | None = None,
) -> None:
    inputs = synthetic(nbasis, nocc, naux)
    on_device = [x.to(device) for x in inputs]
    energy = df_mp2_energy(*on_device, energy_step=step)
    print(f"DF-MP2, {nbasis} basis functions, {nocc} occupied, {naux} auxiliary, float32")
    print(
        f"correlation energy {energy:.9e}"
        + (f", published {PUBLISHED[shape]:.9e}" if shape else "")
    )
    if nbasis > LARGEST_CHECKED:
        print("too large for the definition")
        return
    exact = defined_energy(inputs)
    print(f"by definition in float64 {exact:.9e}, max |error| {abs(energy - exact):.1e}")
    kept = screening(inputs)
    count, total = kept["significant_quartets"], kept["total_quartets"]
    print(f"Schwarz bounds leave {count} of {total} integrals above {SCREENED}")


def molecule(device: str, step: EnergyStep = energy_of) -> None:
    """Compare the energy of water with PySCF's, if PySCF is installed."""
    if importlib.util.find_spec("pyscf") is None:
        print("no molecule: PySCF is not installed")
        return
    from _pyscf_bridge import build_df_mp2_inputs, make_mol, pyscf_reference_energy

    mol = make_mol("h2o", "sto-3g")
    energy = df_mp2_energy(*(x.to(device) for x in build_df_mp2_inputs(mol)), energy_step=step)
    exact = pyscf_reference_energy(mol)
    print(f"water in sto-3g {energy:.9f}, PySCF {exact:.9f}, difference {energy - exact:+.1e}")


def bench(
    nbasis: int, nocc: int, naux: int, device: str, passes: str, step: EnergyStep = energy_of
) -> None:
    inputs = [x.to(device) for x in synthetic(nbasis, nocc, naux)]
    print(f"nbasis {nbasis}, nocc {nocc}, naux {naux}: {flops(nbasis, nocc, naux) / 1e9:.1f} GFLOP")
    for name in ("cold", "warm"):
        timings: dict[str, float] = {}
        energy = df_mp2_energy(*inputs, timings=timings, energy_step=step)
        if passes in (name, "both"):
            steps = ", ".join(f"{step} {seconds:.3f}" for step, seconds in timings.items())
            print(f"{name}: {sum(timings.values()):.3f} s ({steps}), energy {energy:.6e}")


ENERGY_STEPS = {
    "--fused-energy": fused_energy,
    "--fused-gemm-energy": pair_energies,
    "--batched-pair-energy": batched_pair_energy,
}


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="DF-MP2 energies of random input")
    parser.add_argument("--demo", action="store_true", help="compare with the definition (default)")
    parser.add_argument("--bench", action="store_true", help="time the steps")
    parser.add_argument("--shape", choices=SHAPES, help="published sizes, by name")
    parser.add_argument("--nbasis", type=int, default=24)
    parser.add_argument("--nocc", type=int, default=5)
    parser.add_argument("--naux", type=int, help="three times nbasis unless given")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--passes", choices=["cold", "warm", "both"], default="both")
    steps = parser.add_mutually_exclusive_group()
    for flag, function in ENERGY_STEPS.items():
        steps.add_argument(
            flag, dest="step", action="store_const", const=function, default=energy_of
        )
    options = parser.parse_args(arguments)
    sizes = options.nbasis, options.nocc, options.naux or 3 * options.nbasis
    if options.shape:
        sizes = SHAPES[options.shape]
    if not 0 < sizes[1] < sizes[0] or sizes[2] < 1:
        parser.error("wanted: 0 < nocc < nbasis and 0 < naux")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no CUDA device")
    if options.bench:
        bench(*sizes, options.device, options.passes, options.step)
    if options.demo or not options.bench:
        demo(*sizes, options.device, options.step, options.shape)
        molecule(options.device, options.step)


if __name__ == "__main__":
    main(sys.argv[1:])
