"""Molecules, integrals and reference energies from PySCF, for the DF-MP2 examples."""

from __future__ import annotations

from typing import Any

import torch
from pyscf import df, gto, mp, scf
from torch import Tensor

# Angstrom.
GEOMETRIES = {
    "h2o": "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692",
    "ch4": (
        "C 0 0 0; H 0.6276 0.6276 0.6276; H 0.6276 -0.6276 -0.6276;"
        "H -0.6276 0.6276 -0.6276; H -0.6276 -0.6276 0.6276"
    ),
    "nh3": (
        "N 0 0 0.1162; H 0 0.9377 -0.2712; H 0.8121 -0.4689 -0.2712; H -0.8121 -0.4689 -0.2712"
    ),
    "hf": "H 0 0 0; F 0 0 0.9168",
    "n2": "N 0 0 0; N 0 0 1.0977",
    "co": "C 0 0 0; O 0 0 1.1283",
    "glycine": (
        "N 1.9610 0.0000 0.0000; C 0.7166 -0.7292 0.0000; C -0.5196 0.1618 0.0000;"
        "O -0.5178 1.3732 0.0000; O -1.6564 -0.5623 0.0000; H 0.6900 -1.3813 0.8777;"
        "H 0.6900 -1.3813 -0.8777; H 2.0018 0.5884 0.8196; H 2.0018 0.5884 -0.8196;"
        "H -2.3902 0.0758 0.0000"
    ),
    "h2o_trimer": (
        "O 0 0 0; H 0.9572 0 0; H -0.2399 0.9266 0;"
        "O 2.9 0 0; H 3.8572 0 0; H 2.6601 0.9266 0;"
        "O 1.45 2.5 0; H 2.4072 2.5 0; H 1.2101 3.4266 0"
    ),
}


def make_mol(name: str, basis: str = "sto-3g") -> Any:
    """Return one of the known molecules in a basis.

    Raises:
        ValueError: The molecule is not known.
    """
    if name not in GEOMETRIES:
        raise ValueError(f"make_mol: name must be one of {', '.join(GEOMETRIES)}, got {name!r}")
    return gto.M(atom=GEOMETRIES[name], basis=basis, verbose=0)


def build_df_mp2_inputs(
    mol: Any, auxbasis: str = "weigend", dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """Return the arguments of ``df_mp2_energy`` for density-fitted RHF orbitals of a molecule."""
    field = _mean_field(mol, auxbasis)
    auxiliary = df.addons.make_auxmol(mol, auxbasis)
    integrals = df.incore.aux_e2(mol, auxiliary, intor="int3c2e", aosym="s1")
    metric = auxiliary.intor("int2c2e")
    occupied = field.mo_occ > 0
    arrays = (
        field.mo_coeff[:, occupied],
        field.mo_coeff[:, ~occupied],
        integrals,
        metric,
        field.mo_energy[occupied],
        field.mo_energy[~occupied],
    )
    return tuple(torch.tensor(array, dtype=dtype) for array in arrays)


def pyscf_reference_energy(mol: Any, auxbasis: str = "weigend") -> float:
    """Return PySCF's own DF-MP2 correlation energy, in float64."""
    solver = mp.dfmp2.DFMP2(_mean_field(mol, auxbasis))
    solver.with_df = df.DF(mol, auxbasis)
    return float(solver.kernel()[0])


def _mean_field(mol: Any, auxbasis: str) -> Any:
    """Return RHF with density fitting, converged well beyond the tolerance of the comparison."""
    field = scf.RHF(mol).density_fit(auxbasis=auxbasis)
    field.conv_tol, field.conv_tol_grad = 1e-12, 1e-9
    field.kernel()
    if not field.converged:
        raise RuntimeError("RHF did not converge")
    return field
