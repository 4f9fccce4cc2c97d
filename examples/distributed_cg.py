"""Conjugate gradients on a Laplacian of order 1,000,000, whose rows are spread over ranks.

torchrun --nproc-per-node 4 examples/distributed_cg.py
torchrun --nproc-per-node 2 examples/distributed_cg.py --grid 20
python examples/distributed_cg.py --grid 20                       one rank

Each rank makes the rows of its part of the cube, and never has the others. A product takes the
layer of points on either side of a part from its neighbours. The solution is a product of three
parabolas, for which the second differences are exact, so that the error is known.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import trnsparse
from trnsolver.distributed import Layout, cg
from trnsparse.distributed import RowShardedCSR


def laplacian(grid: int, points: Tensor) -> trnsparse.CSRMatrix:
    """Return the rows of consecutive points of a cube: seven entries, with zeros around it."""
    n, first = grid**3, int(points[0]) if points.numel() else 0
    rows, columns = [points], [points]
    for step in (1, grid, grid * grid):
        place = points // step % grid
        for sign, has in ((-1, place > 0), (1, place < grid - 1)):
            rows.append(points[has])
            columns.append(points[has] + sign * step)
    row, column = torch.cat(rows), torch.cat(columns)
    values = torch.where(row == column, 6.0, -1.0).double()
    return trnsparse.COOMatrix(values, row - first, column, (points.numel(), n)).to_csr()


def problem(grid: int, points: Tensor) -> tuple[Tensor, Tensor]:
    """Return the right side and the solution at some points."""
    h = 1 / (grid + 1)
    x, y, z = (h * (1 + points // step % grid).double() for step in (1, grid, grid * grid))
    f, g, k = x * (1 - x), y * (1 - y), z * (1 - z)
    return 2 * h * h * (f * g + f * k + g * k), f * g * k


def solve(grid: int, tol: float) -> bool:
    """Solve on this rank's part, print on the first rank, and return whether x is right."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    n = grid**3
    layout = Layout.even((n, n), 0, ranks)
    times = [time.perf_counter()]
    rows = layout.rows(rank)
    points = torch.arange(rows.start, rows.stop)
    local = laplacian(grid, points)
    times.append(time.perf_counter())
    A = RowShardedCSR(local, layout)
    times.append(time.perf_counter())
    side, exact = problem(grid, points)
    mesh = init_device_mesh("cpu", (ranks,))
    shape = torch.Size([n])
    b = DTensor.from_local(side, mesh, [Shard(0)], run_check=False, shape=shape, stride=(1,))
    times.append(time.perf_counter())
    found = cg(A, b, tol=tol, max_iter=5000)
    times.append(time.perf_counter())
    squares = torch.stack([((found.x.to_local() - exact) ** 2).sum(), (exact**2).sum()])
    dist.all_reduce(squares)
    error = float((squares[0] / squares[1]).sqrt())
    passed = found.converged and error <= tol * condition(grid)
    if rank == 0:
        made, shared, placed, solved = (after - before for before, after in pairwise(times))
        halo, products = A.plan.total_bytes(1, torch.float64), found.iterations + 1
        print(f"order {n} on {ranks} ranks, {A.local.nnz} entries on the first")
        print(f"{made:8.2f} s  rows of the matrix")
        print(f"{shared:8.2f} s  exchange of the halo's indices")
        print(f"{placed:8.2f} s  mesh and right side")
        print(f"{solved:8.2f} s  {found.iterations} iterations, residual {found.residual:.1e}")
        print(f"halo of all ranks: {halo:,} bytes a product, {halo * products:,} in all")
        print(f"relative error {error:.1e}")
        print("passed" if passed else "FAILED")
    return passed


def condition(grid: int) -> float:
    """Return the condition number of the Laplacian."""
    angle = torch.tensor(torch.pi / (2 * (grid + 1)), dtype=torch.float64)
    return float(1 / torch.tan(angle) ** 2)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="conjugate gradients over ranks")
    parser.add_argument("--grid", type=int, default=100, help="points of an edge, 100 by default")
    parser.add_argument("--tol", type=float, default=1e-10)
    options = parser.parse_args(arguments)
    if options.grid < 2:
        parser.error("--grid: wanted: 2 or more points")
    started = not dist.is_initialized()
    if started and "RANK" in os.environ:  # torchrun sets it
        dist.init_process_group("gloo")
    elif started:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        passed = solve(options.grid, options.tol)
    finally:
        if started:
            dist.destroy_process_group()
    if not passed:
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
