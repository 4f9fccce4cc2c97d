#!/usr/bin/env python
"""Write the molecules of the energy tests: three-index factors, orbital energies, PySCF's energy.

    python tools/gen_molecules.py [FILE]     default: tests/data/molecules.npz

Needs PySCF: ``pip install "nkisim[pyscf]"``. Orbitals are those of RHF with density fitting, in the
basis 6-31G fitted in "weigend", without frozen orbitals. The reference is the correlation energy
of PySCF's own DF-MP2, in float64; the factors B[i, a, P] with (ia|jb) = sum over P of B[i, a, P]
B[j, b, P] are made of PySCF's integrals. Another PySCF or another machine gives orbitals of other
signs and other last digits, with the same energy.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
MOLECULES = ("h2o", "nh3", "ch4", "hf", "n2", "co")
BASIS = "6-31g"


def main(path: Path = ROOT / "tests" / "data" / "molecules.npz") -> None:
    """Compute every molecule, and write all in one file."""
    sys.path.insert(0, str(ROOT / "examples"))
    import _pyscf_bridge as bridge
    import torch

    arrays: dict[str, np.ndarray] = {}
    for name in MOLECULES:
        mol = bridge.make_mol(name, BASIS)
        inputs = bridge.build_df_mp2_inputs(mol, dtype=torch.float64)
        occupied, virtual, integrals, metric, eps_occ, eps_vir = (x.numpy() for x in inputs)
        half = np.einsum("mi,mnP,na->iaP", occupied, integrals, virtual, optimize=True)
        # With metric = L L^T, the fitted integrals are half L^-T L^-1 half^T.
        factors = np.linalg.solve(np.linalg.cholesky(metric), half.reshape(-1, len(metric)).T)
        arrays[f"{name}_B"] = factors.T.reshape(half.shape)
        arrays[f"{name}_eps_occ"] = eps_occ
        arrays[f"{name}_eps_vir"] = eps_vir
        arrays[f"{name}_energy"] = np.array(bridge.pyscf_reference_energy(mol))
        print(name, half.shape, arrays[f"{name}_energy"])
    np.savez(path, **arrays)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
