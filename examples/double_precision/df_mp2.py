"""A density-fitted MP2 energy in thirteen digits, from integrals to the energy on kernels.

    python examples/double_precision/df_mp2.py                       on the simulator
    python examples/double_precision/df_mp2.py --atoms 6
    python examples/double_precision/df_mp2.py --backend nki         on a NeuronCore

    metric   J = L L^T                                 trnsolver.cholesky
    half     (i a|P) = C_occ^T (mu nu|P) C_vir         trntensor.ao_to_mo_transform
    fit      B = (i a|P) L^-T                          trnblas.trsm
    energy   T = B B^T, sum of T (2 T - T') / D        trntensor.mp2_energy

The molecule is a chain of hydrogen atoms, with the orbitals of Hartree-Fock.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from _chain import chain
from _comparison import BACKENDS, compare
from torch import Tensor

import trnblas
import trnsolver
import trntensor


def correlation_energy(
    repulsion: Tensor, metric: Tensor, orbitals: Tensor, energies: Tensor, occupied: int
) -> Tensor:
    """Return the MP2 energy of integrals and orbitals, of which the first are occupied."""
    rest = orbitals.shape[1] - occupied
    (filled, empty), (low, high) = (x.split((occupied, rest), -1) for x in (orbitals, energies))
    factor = trnsolver.cholesky(metric)
    half = trntensor.ao_to_mo_transform(repulsion, filled, empty)
    fitted = trnblas.trsm(1.0, factor, half.flatten(0, 1), side="right", uplo="lower", trans=True)
    return trntensor.mp2_energy(fitted.reshape(half.shape), low, high)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="a DF-MP2 energy at doublefloat")
    parser.add_argument("--backend", default=BACKENDS[0], choices=BACKENDS)
    parser.add_argument("--atoms", type=int, default=4, help="hydrogen atoms, an even number")
    options = parser.parse_args(arguments)
    if options.atoms < 2 or options.atoms % 2:
        parser.error("--atoms: wanted: 2, 4, 6, ...")
    molecule = chain(options.atoms)
    operands = (molecule.repulsion, molecule.metric, molecule.orbitals, molecule.energies)

    def pipeline(*operands: Tensor) -> Tensor:
        return correlation_energy(*operands, occupied=molecule.occupied)

    compare("DF-MP2", pipeline, operands, options.backend)
    print(f"correlation energy {float(pipeline(*operands)):.12f} hartree")


if __name__ == "__main__":
    main(sys.argv[1:])
