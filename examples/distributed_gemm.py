"""A product of two matrices over ranks, with its plan, its times and a check of its answer.

    torchrun --nproc-per-node 4 examples/distributed_gemm.py
    torchrun --nproc-per-node 6 examples/distributed_gemm.py --rows 2 --order 2000
    python examples/distributed_gemm.py                       one rank, without torchrun

Each rank makes its own part of A and B on a mesh of rows x columns ranks, so no rank ever has a
whole matrix. The answer is checked by a product with a random vector: C x = A (B x).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from math import isqrt
from tempfile import TemporaryDirectory
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from trnblas import distributed

SPLIT = (Shard(0), Shard(1))
T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> None:
    """Multiply, report and check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--order", type=int, default=600, help="order of the matrices")
    parser.add_argument(
        "--rows", type=int, default=0, help="rows of the mesh; 0 for about a square"
    )
    options = parser.parse_args(arguments)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        with TemporaryDirectory() as folder:
            dist.init_process_group("gloo", f"file://{folder}/store", rank=0, world_size=1)
    try:
        report(options.order, options.rows)
    finally:
        dist.destroy_process_group()


def report(order: int, rows: int) -> None:
    """Print the plan, the times and the error of one product."""
    ranks = dist.get_world_size()
    rows = rows or max(r for r in range(1, isqrt(ranks) + 1) if ranks % r == 0)
    mesh = init_device_mesh("cpu", (rows, ranks // rows))
    A, B = (matrix(mesh, order, seed) for seed in (0, 1))

    plan = distributed.plan(
        "gemm", A.shape, B.shape, mesh=tuple(mesh.shape), dtype=A.dtype, in_placements=[SPLIT] * 2
    )
    say(str(plan))
    C, seconds = timed(lambda: distributed.gemm(1.0, A, B))
    _, unchecked = timed(lambda: distributed.gemm(1.0, A, B, check=False))
    rows_here = A.to_local().shape[0]
    alone = torch.ones(rows_here, order, dtype=A.dtype)
    columns_here = torch.ones(order, B.to_local().shape[1], dtype=A.dtype)
    _, computing = timed(lambda: alone @ columns_here)
    _, baseline = timed(lambda: A @ B)
    say(f"product                 {seconds:8.4f} s")
    say(f"  comparing arguments   {max(0.0, seconds - unchecked):8.4f} s")
    say(f"  local products        {computing:8.4f} s")
    say(f"  waiting for panels    {max(0.0, unchecked - computing):8.4f} s")
    say(f"DTensor's A @ B         {baseline:8.4f} s")

    generator = torch.Generator().manual_seed(2)
    x = torch.randn(order, 1, dtype=A.dtype, generator=generator)
    vector = DTensor.from_local(x, mesh, (Replicate(), Replicate()), run_check=False)
    whole = (Replicate(), Replicate())
    left = distributed.gemm(1.0, C, vector, placements=whole)
    right = distributed.gemm(
        1.0, A, distributed.gemm(1.0, B, vector, placements=whole), placements=whole
    )
    difference = left.to_local() - right.to_local()
    error = float(difference.norm() / right.to_local().norm())
    say(f"|C x - A (B x)| / |C x| = {error:.1e}")
    assert error < order * torch.finfo(A.dtype).eps


def matrix(mesh: DeviceMesh, order: int, seed: int) -> DTensor:
    """Return a random matrix of which each rank makes its own part."""
    shape = [
        len(range(order)[part])
        for part in (
            chunk(order, mesh.size(dim), mesh.get_local_rank(dim)) for dim in range(mesh.ndim)
        )
    ]
    generator = torch.Generator().manual_seed(1000 * seed + dist.get_rank())
    local = torch.randn(shape, dtype=torch.float64, generator=generator)
    size = torch.Size((order, order))
    return DTensor.from_local(local, mesh, SPLIT, run_check=False, shape=size, stride=(order, 1))


def chunk(size: int, parts: int, place: int) -> slice:
    """Return the part of ``torch.chunk``."""
    step = -(-size // parts)
    return slice(min(size, place * step), min(size, (place + 1) * step))


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a call and the shortest of three times."""
    found, times = call(), []
    for _ in range(3):
        dist.barrier()
        start = time.perf_counter()
        found = call()
        times.append(time.perf_counter() - start)
    return found, min(times)


def say(text: str) -> None:
    """Print on one rank."""
    if dist.get_rank() == 0:
        print(text)


if __name__ == "__main__":
    main()
