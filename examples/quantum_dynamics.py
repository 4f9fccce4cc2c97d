"""Bands of a Chern insulator and the motion of an electron: complex matrices on kernels.

    python examples/quantum_dynamics.py                    on the simulator, compared with SciPy
    python examples/quantum_dynamics.py --backend auto     on a NeuronCore, or torch without one
    python examples/quantum_dynamics.py --width 16 --points 17 --plot bands.png

The model of Qi, Wu and Zhang (2006) has two orbitals at each site of a square lattice. On a ribbon
the momentum k along it is conserved, so that every k has a Hermitian matrix, all of which are one
batch. Between the bands are two states, which move along opposite edges.

An electron on a ring with a magnetic flux hops with a complex amplitude. Its state psi solves
i d psi / dt = H psi, and a step is the product with ``V exp(-i w dt) V^H`` of the eigenpairs of H.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

import trnblas
import trnsolver
from trnsci.core.counters import Counts, counts

UNIT = 2.0**-24
MASS = -1.0
"""Between -2 and 0 the bands have Chern numbers."""


def ribbon(width: int, momenta: Tensor) -> Tensor:
    """Return the matrices of a ribbon, (k, 2 width, 2 width), in complex64."""
    up = torch.tensor([[1.0, 0.0], [0.0, -1.0]], dtype=torch.complex64)
    flip = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.complex64)
    turn = torch.tensor([[0.0, -1.0j], [1.0j, 0.0]], dtype=torch.complex64)
    k = momenta[:, None, None]
    rows, next_row = torch.eye(width), torch.diag(torch.ones(width - 1), 1)
    along = torch.sin(k) * turn + (MASS + torch.cos(k)) * up
    across = torch.kron(next_row, (up - 1j * flip) / 2)
    return torch.stack([torch.kron(rows, site) for site in along]) + across + across.mH


def ring(sites: int, flux: float) -> Tensor:
    """Return the matrix of a ring that encloses a flux, in units of the flux quantum."""
    hop = -np.exp(2j * math.pi * flux / sites)
    matrix = torch.zeros(sites, sites, dtype=torch.complex64)
    place = torch.arange(sites)
    matrix[(place + 1) % sites, place] = hop
    return matrix + matrix.mH


def packet(sites: int) -> Tensor:
    """Return a wave packet with the momentum of the largest velocity."""
    place = torch.arange(sites, dtype=torch.float64) - sites // 4
    wave = torch.exp(-(place**2) / sites) * torch.exp(0.5j * math.pi * place)
    return (wave / torch.linalg.vector_norm(wave)).to(torch.complex64)


def moved(hamiltonian: Tensor, state: Tensor, dt: float, steps: int) -> Tensor:
    """Return the states at the beginning and after each step, as columns."""
    w, v = trnsolver.eigh(hamiltonian)
    propagator = trnblas.gemm(1.0, v * torch.exp(-1j * dt * w), v, transB="C")
    states = [state.unsqueeze(-1)]
    for _ in range(steps):
        states.append(trnblas.gemm(1.0, propagator, states[-1]))
    return torch.cat(states, -1)


def rows_bound(hamiltonian: np.ndarray) -> float:
    """Return the error of eigenpairs: forty roundings times norm(H) for each row of a real form."""
    return 80 * UNIT * hamiltonian.shape[-1] * float(np.linalg.norm(hamiltonian, 2, (-2, -1)).max())


def bands(width: int, points: int) -> tuple[Tensor, Tensor]:
    """Return momenta and energies; raise if they are not those of SciPy."""
    momenta = torch.linspace(-math.pi, math.pi, points)
    matrices = ribbon(width, momenta)
    w, v = trnsolver.eigh(matrices)
    wide = matrices.to(torch.complex128).numpy()
    exact = np.stack([scipy.linalg.eigh(matrix, eigvals_only=True) for matrix in wide])
    compare("energies", np.abs(w.numpy() - exact).max(), rows_bound(wide))
    inner = w[:, width - 1 : width + 1]
    beside = points // 2 + 1  # at k = 0 the two have one energy
    sides = v[beside, :, width - 1 : width + 1].abs().square().unflatten(0, (width, 2)).sum(1)
    place = torch.arange(width, dtype=torch.float32) @ sides
    print(f"smallest gap over k {(inner[:, 1] - inner[:, 0]).min():.4f}: the edges conduct")
    print(f"between the bands at k = {momenta[beside]:.2f}: rows {place[0]:.2f} and {place[1]:.2f}")
    return momenta, w


def motion(sites: int, dt: float, steps: int) -> Tensor:
    """Return the states of a packet on a ring; raise if they are not those of SciPy."""
    hamiltonian, start = ring(sites, 0.25), packet(sites)
    states = moved(hamiltonian, start, dt, steps)
    wide = hamiltonian.to(torch.complex128).numpy()
    step = scipy.linalg.expm(-1j * dt * wide)
    want, worst = start.to(torch.complex128).numpy(), 0.0
    for found in states.T[1:]:
        want = step @ want
        worst = max(worst, float(np.abs(found.numpy() - want).max()))
    # A step has the error of the energies times dt, of V V^H, and of two products.
    per_step = rows_bound(wide) * (dt + 1) + 8 * UNIT * sites
    compare(f"states after {steps} steps", worst, steps * per_step)
    norms = torch.linalg.vector_norm(states, dim=0)
    compare("norms", float((norms - 1).abs().max()), steps * per_step)
    return states


def compare(name: str, error: float, bound: float) -> None:
    print(f"{name}: max |error| {error:.1e}, bound {bound:.1e}")
    if not error <= bound:
        raise SystemExit(f"{name} differ from SciPy's")


def report(since: Counts, wanted: bool) -> None:
    """Print the kernels that ran; raise if torch computed what kernels should have."""
    if since.refusals or since.fallbacks or bool(since.launches) != wanted:
        raise SystemExit(f"not all on kernels: {since}")
    print("kernels:", ", ".join(f"{n} {name}" for name, n in since.launches.items()) or "none")


def plot(momenta: Tensor, energies: Tensor, states: Tensor, path: str) -> None:
    """Draw the bands, and the density of the packet over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(momenta.numpy(), energies.numpy(), color="tab:blue", linewidth=1)
    left.set(xlabel="k", ylabel="energy")
    right.imshow(states.abs().square().numpy(), aspect="auto", origin="lower")
    right.set(xlabel="step", ylabel="site")
    figure.savefig(path)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="bands and motion with complex matrices")
    parser.add_argument("--backend", default="simulator", choices=("auto", "pytorch", "simulator"))
    parser.add_argument("--width", type=int, default=8, help="sites across the ribbon")
    parser.add_argument("--points", type=int, default=9, help="momenta")
    parser.add_argument("--sites", type=int, default=24, help="sites of the ring")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--plot", metavar="FILE", help="draw bands and motion")
    options = parser.parse_args(arguments)
    before = counts()
    with trnblas.backend(options.backend), trnsolver.backend(options.backend):
        momenta, energies = bands(options.width, options.points)
        states = motion(options.sites, 0.25, options.steps)
    if options.backend != "auto":
        report(counts() - before, options.backend == "simulator")
    print("passed")
    if options.plot:
        try:
            plot(momenta, energies, states, options.plot)
        except (OSError, ValueError) as error:  # no such folder, or unknown image format
            sys.exit(f"--plot: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
