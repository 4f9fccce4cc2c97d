"""Orbitals of a small molecule in thirteen digits: a generalized eigenproblem on kernels.

    python examples/double_precision/orbitals.py                     on the simulator
    python examples/double_precision/orbitals.py --atoms 6
    python examples/double_precision/orbitals.py --backend nki       on a NeuronCore

Gaussians around the nuclei are not orthogonal, so that orbitals solve F C = S C e with the overlap
S of the basis and the Fock matrix F: here those of a chain of hydrogen atoms. The gradients by F
and S are what forces on the nuclei and response properties are made of.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from _chain import chain
from _comparison import BACKENDS, compare
from torch import Tensor

import trnsolver


def orbital_energies(fock: Tensor, overlap: Tensor) -> Tensor:
    """Return e with F C = S C diag(e), ascending."""
    return trnsolver.eigh_generalized(fock, overlap).eigenvalues


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="orbital energies at doublefloat")
    parser.add_argument("--backend", default=BACKENDS[0], choices=BACKENDS)
    parser.add_argument("--atoms", type=int, default=4, help="hydrogen atoms, an even number")
    options = parser.parse_args(arguments)
    if options.atoms < 2 or options.atoms % 2:
        parser.error("--atoms: wanted: 2, 4, 6, ...")
    molecule = chain(options.atoms)
    operands = (molecule.fock, molecule.overlap)
    compare("orbital energies", orbital_energies, operands, options.backend)


if __name__ == "__main__":
    main(sys.argv[1:])
