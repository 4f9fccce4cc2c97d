"""Conjugate gradients on a Laplacian of order 100,000, with three preconditioners.

python examples/preconditioned_cg.py                              about ten seconds
python examples/preconditioned_cg.py --grid 100 --plot convergence.png

The matrix has five entries in each row. A dense one of this order would take 80 GB. Jacobi has no
effect here, as the diagonal is constant. SSOR and incomplete Cholesky replace the inverse by
substitutions with two sparse triangles, and take fewer iterations.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

import trnsparse
from trnsci.core.iterations import IterationInfo, Solution, plot_residuals

Preconditioner = Callable[[Tensor], Tensor]


def laplacian(grid: int) -> trnsparse.CSRMatrix:
    """Return the five-point Laplacian of a square grid, with zeros around it."""
    n = grid * grid
    point = torch.arange(n)
    inside = (point % grid > 0)[1:], (point >= grid)[grid:]  # a neighbour to the left, and above
    rows, columns = [point], [point]
    for step, has in zip((1, grid), inside, strict=True):
        later = point[step:][has]
        rows += [later, later - step]
        columns += [later - step, later]
    row, column = torch.cat(rows), torch.cat(columns)
    values = torch.where(row == column, 4.0, -1.0).double()
    return trnsparse.COOMatrix(values, row, column, (n, n)).to_csr()


def solutions(
    A: trnsparse.CSRMatrix, b: Tensor, tol: float
) -> dict[str, tuple[Solution, float, float]]:
    """Return the solution with each preconditioner, and the seconds to prepare and to solve."""
    made: dict[str, Callable[[], Preconditioner]] = {
        "Jacobi": lambda: trnsparse.jacobi_preconditioner(A),
        "SSOR": lambda: trnsparse.ssor_preconditioner(A),
        "incomplete Cholesky": lambda: trnsparse.ichol_preconditioner(A),
    }
    found = {}
    for name, make in made.items():
        begun = time.perf_counter()
        M = make()
        prepared = time.perf_counter()
        solution = trnsparse.cg(A, b, tol=tol, max_iter=5000, M=M)
        found[name] = solution, prepared - begun, time.perf_counter() - prepared
    return found


def plot(runs: dict[str, IterationInfo], path: str) -> None:
    """Draw the residuals of all runs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = plot_residuals(runs, figure.subplots())
    axes.set_title("conjugate gradients")
    figure.savefig(path)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="preconditioned conjugate gradients")
    parser.add_argument("--grid", type=int, default=317, help="points of a side, 317 by default")
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--plot", metavar="FILE", help="draw the residuals")
    options = parser.parse_args(arguments)
    if options.grid < 2:
        parser.error("--grid: wanted: 2 or more points")
    A = laplacian(options.grid)
    b = torch.ones(A.shape[0], dtype=torch.float64)
    print(f"order {A.shape[0]}, {A.nnz} entries")
    found = solutions(A, b, options.tol)
    for name, (solution, prepared, solved) in found.items():
        print(
            f"{name:20} {solution.iterations:4} iterations, residual {solution.residual:.1e}, "
            f"{prepared:.2f} s + {solved:.2f} s"
        )
    print("passed" if all(each.converged for each, *_ in found.values()) else "FAILED")
    if options.plot:
        try:
            plot({name: each.info for name, (each, *_) in found.items()}, options.plot)
        except (OSError, ValueError) as error:  # no such folder, or unknown image format
            sys.exit(f"--plot: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
