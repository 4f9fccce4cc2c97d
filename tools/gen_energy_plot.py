#!/usr/bin/env python
"""Draw the errors of MP2 energies against predicted time, for each level of precision.

    python tools/gen_energy_plot.py [FILE]     default: docs/pictures/mp2-energies.svg

Kernels run on the simulator, on the molecules of tests/data; times are predicted for gen3. Needs
matplotlib: ``pip install "nkisim[plot]"``. Prints the table of docs/libraries/trnblas.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nkisim
import trnblas
from trnblas.mp2 import nki_batched_pair_energy
from trnsci.core.backend.launch import SIMULATE

ROOT = Path(__file__).resolve().parents[1]
MOLECULES = {"h2o": "H2O", "nh3": "NH3", "ch4": "CH4", "hf": "HF", "n2": "N2", "co": "CO"}
LEVELS = {"bfloat16": "s", "float16x3": "^", "float32": "o", "doublefloat": "D"}
TARGET = "gen3"


@dataclass(frozen=True)
class Row:
    """An energy.

    Attributes:
        molecule, level: What was computed, and how.
        error: Distance to PySCF's energy, in Hartree.
        time_us: Predicted time of its kernels.
    """

    molecule: str
    level: str
    error: float
    time_us: float


def measured(molecule: str, level: str) -> Row:
    """Return the energy of a molecule at a level."""
    with np.load(ROOT / "tests" / "data" / "molecules.npz") as stored:
        arrays = [stored[f"{molecule}_{part}"] for part in ("B", "eps_occ", "eps_vir")]
        reference = float(stored[f"{molecule}_energy"])
    dtype = torch.float64 if level == "doublefloat" else torch.float32
    operands = [torch.tensor(array, dtype=dtype) for array in arrays]
    times: list[float] = []

    def timed(kernel: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            times.append(nkisim.profile(kernel, TARGET, advice=False)(*args).latency_us)
            return nkisim.simulate(kernel, target=TARGET)(*args)

        return run

    with trnblas.backend("simulator"), SIMULATE.scope(timed):
        energy = float(nki_batched_pair_energy(*operands, precision=level))
    return Row(molecule, level, abs(energy - reference), sum(times))


def table(rows: list[Row]) -> str:
    """Return a Markdown table, a line for each molecule."""
    lines = [
        "| |" + "".join(f" `{level}` |" for level in LEVELS),
        "| --- |" + " --- |" * len(LEVELS),
    ]
    for molecule, name in MOLECULES.items():
        of_molecule = [row for row in rows if row.molecule == molecule]
        cells = [f" {row.error:.0e} Ha, {row.time_us:.0f} us |" for row in of_molecule]
        lines.append(f"| {name} |" + "".join(cells))
    return "\n".join(lines)


def drawn(rows: list[Row]) -> Any:
    """Return the figure: errors below 1e-17 are drawn there."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for level, marker in LEVELS.items():
        of_level = [row for row in rows if row.level == level]
        errors = [max(row.error, 1e-17) for row in of_level]
        axes.plot([row.time_us for row in of_level], errors, marker, label=level, alpha=0.8)
    axes.axhline(1e-9, color="grey", linewidth=0.8, linestyle="--")
    axes.text(0.99, 1.3e-9, "1e-9 Ha", ha="right", transform=axes.get_yaxis_transform())
    axes.set(
        xlim=(0, 1.1 * max(row.time_us for row in rows)),
        yscale="log",
        xlabel=f"predicted time of the kernels on {TARGET} (us)",
        ylabel="|energy - PySCF| (Ha)",
        title="MP2 energies of six molecules in 6-31G",
    )
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left")
    return figure


def main(path: Path = ROOT / "docs" / "pictures" / "mp2-energies.svg") -> None:
    """Compute all energies, print the table and write the picture."""
    import matplotlib

    rows = [measured(molecule, level) for molecule in MOLECULES for level in LEVELS]
    print(table(rows))
    with matplotlib.rc_context({"svg.hashsalt": "mp2", "svg.fonttype": "none"}):
        drawn(rows).savefig(path, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
