"""Poisson's equation on a periodic box over many ranks: exact to rounding for smooth sources.

torchrun --nproc-per-node 4 examples/distributed_poisson.py
torchrun --nproc-per-node 4 examples/distributed_poisson.py --pencils     a mesh of 2 x 2 ranks
python examples/distributed_poisson.py                                    one rank

The spectrum stays in the layout that the forward transform leaves it in, so each transform takes
one exchange with slabs, and two with pencils.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from time import perf_counter

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard, zeros

from trnfft import distributed
from trnsci.core.distributed.layout import Layout


def part_of(values: Tensor, x: DTensor, dim: int) -> Tensor:
    """Return the values along a dimension that this rank holds, to broadcast with its part."""
    for mesh_dim, placement in enumerate(x.placements):
        if placement.is_shard(dim):
            values = values[Layout.of(x, mesh_dim).rows(x.device_mesh.get_local_rank(mesh_dim))]
    return values.view([-1 if each == dim else 1 for each in range(x.ndim)])


def like(x: DTensor, local: Tensor) -> DTensor:
    """Return a DTensor with the layout of another one."""
    return DTensor.from_local(
        local, x.device_mesh, x.placements, shape=x.shape, stride=x.stride(), run_check=False
    )


def inverted(spectrum: DTensor, grid: int) -> DTensor:
    """Return a spectrum divided by minus the squared frequencies, with mean zero."""
    waves = torch.fft.fftfreq(grid, 1 / grid, dtype=torch.float64)
    half = torch.arange(grid // 2 + 1, dtype=torch.float64)
    squares = sum(
        part_of(each, spectrum, dim).square() for dim, each in enumerate((waves, waves, half))
    )
    factors = torch.where(squares == 0, 0.0, -1 / squares)  # the mean is free, and is zero
    return like(spectrum, spectrum.to_local() * factors)


def problem(grid: int, mesh: DeviceMesh) -> tuple[DTensor, DTensor]:
    """Return a source and the solution it was made from; each rank computes its own part."""
    places = [Shard(dim) for dim in range(mesh.ndim)]
    box = zeros(grid, grid, grid, dtype=torch.float64, device_mesh=mesh, placements=places)
    points = torch.arange(grid, dtype=torch.float64) * (2 * math.pi / grid)
    x, y, z = (part_of(points, box, dim) for dim in range(3))
    first = torch.sin(3 * x) * torch.cos(2 * y) * torch.cos(z)
    second = 0.5 * torch.cos(x + y + 1) * torch.sin(2 * z)
    return like(box, -14 * first - 6 * second), like(box, first + second)


def norm(x: Tensor) -> float:
    """Return the norm of a tensor whose parts are on all ranks."""
    total = x.square().sum()
    dist.all_reduce(total)
    return math.sqrt(float(total))


def timed(call: Callable[[], DTensor], seconds: list[float]) -> DTensor:
    """Return the result of a call that all ranks start together; append its time."""
    dist.barrier()
    start = perf_counter()
    result = call()
    seconds.append(perf_counter() - start)
    return result


def run(grid: int, pencils: bool) -> None:
    ranks = dist.get_world_size()
    rows = max(n for n in range(1, math.isqrt(ranks) + 1) if ranks % n == 0)
    mesh = init_device_mesh("cpu", (rows, ranks // rows) if pencils else (ranks,))
    source, exact = problem(grid, mesh)
    seconds: list[float] = []
    spectrum = timed(lambda: distributed.rfftn(source), seconds)
    divided = timed(lambda: inverted(spectrum, grid), seconds)
    found = timed(
        lambda: distributed.irfftn(divided, s=source.shape, placements=source.placements), seconds
    )
    error = norm(found.to_local() - exact.to_local()) / norm(source.to_local())
    if dist.get_rank():
        return
    shape, grid_shape = tuple(source.shape), tuple(mesh.shape)
    forward = distributed.plan("rfftn", shape, grid_shape, dtype=torch.float64)
    inverse = distributed.plan(
        "irfftn",
        tuple(spectrum.shape),
        grid_shape,
        in_placements=spectrum.placements,
        placements=source.placements,
        dtype=torch.complex128,
        s=shape,
    )
    print(forward, inverse, sep="\n")
    for name, part in zip(("rfftn", "division", "irfftn"), seconds, strict=True):
        print(f"{name:<10}{part:8.3f} s")
    # Each transform has at most 8 roundoffs per stage; the division makes no coefficient larger.
    bound = 2 * 8 * 2.0**-53 * (math.log2(grid**3) + 1)
    said = "passed" if error < bound else "FAILED"
    print(f"{grid}^3 points on {ranks} ranks: |error| / |source| {error:.1e}, {said}")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="Poisson's equation over many ranks")
    parser.add_argument("--grid", type=int, default=64, help="points along each side of the box")
    parser.add_argument("--pencils", action="store_true", help="split two dimensions of the box")
    options = parser.parse_args(arguments)
    if options.grid < 7:
        parser.error("--grid: wanted: 7 or more points, for waves of frequency 3")
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        run(options.grid, options.pencils)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
