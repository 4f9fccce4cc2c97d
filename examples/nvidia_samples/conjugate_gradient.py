"""Poisson's equation on a square: a sparse matrix, conjugate gradients, convergence data.

python examples/nvidia_samples/conjugate_gradient.py
python examples/nvidia_samples/conjugate_gradient.py --grid 64
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch
from torch import Tensor

import trnsolver
import trnsparse
from trnsci.core.iterations import Solution


def laplacian(grid: int) -> trnsparse.CSRMatrix:
    """Return the five-point Laplacian of a square grid, with zeros around it."""
    n = grid * grid
    index = torch.arange(n)
    row, column = index // grid, index % grid
    rows, columns, values = [index], [index], [torch.full((n,), 4.0, dtype=torch.float64)]
    for step, inside in (
        (1, column < grid - 1),
        (-1, column > 0),
        (grid, row < grid - 1),
        (-grid, row > 0),
    ):
        rows.append(index[inside])
        columns.append(index[inside] + step)
        values.append(torch.full((int(inside.sum()),), -1.0, dtype=torch.float64))
    entries = trnsparse.COOMatrix(torch.cat(values), torch.cat(rows), torch.cat(columns), (n, n))
    return entries.to_csr()


def solved(grid: int, tol: float) -> tuple[trnsparse.CSRMatrix, Tensor, Solution]:
    """Return the matrix, a right side of ones, and the solution."""
    A = laplacian(grid)
    b = torch.ones(grid * grid, dtype=torch.float64)
    return A, b, trnsolver.cg(lambda v: trnsparse.spmv(A, v), b, tol=tol)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="conjugate gradients on a sparse matrix")
    parser.add_argument("--demo", action="store_true", help="a grid of 16 x 16 (default)")
    parser.add_argument("--grid", type=int, default=16)
    parser.add_argument("--tol", type=float, default=1e-6)
    options = parser.parse_args(arguments)
    A, b, found = solved(options.grid, options.tol)
    residual = float((b - trnsparse.spmv(A, found.x)).norm() / b.norm())
    print(
        f"{options.grid} x {options.grid} unknowns, {A.nnz} entries: {found.info.reason} after "
        f"{found.iterations} iterations, residual {residual:.2e}, "
        f"{'passed' if residual < 10 * options.tol else 'FAILED'}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
