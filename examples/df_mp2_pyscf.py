"""The DF-MP2 energy of a molecule, by trnblas and by PySCF.

    python examples/df_mp2_pyscf.py --mol glycine --basis cc-pvdz

Needs PySCF: ``pip install "nkisim[pyscf]"``. In float64 both agree to rounding; float32 shows the
accuracy of an accelerator.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch
from _pyscf_bridge import GEOMETRIES, build_df_mp2_inputs, make_mol, pyscf_reference_energy
from df_mp2 import df_mp2_energy


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="DF-MP2 by trnblas and by PySCF")
    parser.add_argument("--mol", choices=GEOMETRIES, default="h2o")
    parser.add_argument("--basis", default="sto-3g")
    parser.add_argument("--auxbasis", default="weigend")
    options = parser.parse_args(arguments)
    mol = make_mol(options.mol, options.basis)
    reference = pyscf_reference_energy(mol, options.auxbasis)
    print(f"{options.mol} in {options.basis}, fitted in {options.auxbasis}; energies in Hartree")
    print(f"PySCF            {reference:.12f}")
    worst = 0.0
    for dtype in (torch.float64, torch.float32):
        energy = df_mp2_energy(*build_df_mp2_inputs(mol, options.auxbasis, dtype))
        worst = max(worst, abs(energy - reference))
        name = str(dtype).removeprefix("torch.")
        print(f"trnblas {name}  {energy:.12f}  difference {energy - reference:+.1e}")
    print(f"max |error| {worst:.1e}")


if __name__ == "__main__":
    main(sys.argv[1:])
