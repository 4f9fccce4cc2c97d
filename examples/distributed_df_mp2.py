"""A density-fitted MP2 energy over ranks, with bytes and times of each part and a check.

    torchrun --nproc-per-node 4 examples/distributed_df_mp2.py
    torchrun --nproc-per-node 6 examples/distributed_df_mp2.py --occupied 24 --virtual 100
    python examples/distributed_df_mp2.py                     one rank, without torchrun

Each rank has the integrals (ia|P) of its occupied orbitals i, drawn so that any number of ranks has
the same numbers. They are multiplied by the inverse of the metric's factor, J = L L^T, and the pair
energies follow: orbitals travel through half of a ring, and the integrals (ia|jb) are never stored.
The answer is checked by (ia|jb) = (ia|P) J^-1 (P|jb), all on one rank, while that has room for it.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import trnblas
import trnrand
from trnblas import distributed

LARGEST_CHECKED = 1000  # occupied times virtual orbitals
T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute, report and check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--occupied", type=int, default=12)
    parser.add_argument("--virtual", type=int, default=40)
    parser.add_argument("--auxiliary", type=int, default=160)
    options = parser.parse_args(arguments)
    if "RANK" in os.environ and not dist.is_initialized():
        dist.init_process_group("gloo")
    elif not dist.is_initialized():
        with TemporaryDirectory() as folder:
            dist.init_process_group("gloo", f"file://{folder}/store", rank=0, world_size=1)
    else:  # the caller's group stays
        report(options.occupied, options.virtual, options.auxiliary)
        return
    try:
        report(options.occupied, options.virtual, options.auxiliary)
    finally:
        dist.destroy_process_group()


def report(nocc: int, nvir: int, naux: int) -> None:
    """Print bytes, times and the error of one energy."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    generator = trnrand.Generator(11)
    integrals, drawing = timed(
        lambda: trnrand.distributed.normal(
            (nocc, nvir, naux),
            std=0.05,
            dtype=torch.float64,
            generator=generator,
            device_mesh=mesh,
            placements=[Shard(0)],
        )
    )
    noise = trnrand.normal(naux, naux, dtype=torch.float64, generator=trnrand.Generator(12))
    J = noise @ noise.mT / naux + torch.eye(naux, dtype=torch.float64)
    eps_occ = -2.0 + torch.linspace(0, 1.5, nocc, dtype=torch.float64)
    eps_vir = 0.5 + torch.linspace(0, 4.0, nvir, dtype=torch.float64)

    factor = torch.linalg.cholesky(J)
    B, solving = timed(lambda: fitted_to(integrals, factor))
    energy, summing = timed(lambda: distributed.batched_pair_energy(B, eps_occ, eps_vir))

    ranks = (dist.get_world_size(),)
    plan = distributed.plan("batched_pair_energy", B.shape, mesh=ranks, dtype=B.dtype)
    say(f"{nocc} occupied, {nvir} virtual, {naux} auxiliary functions on {ranks[0]} ranks")
    say(str(plan))
    for what, seconds in (("draw", drawing), ("fit", solving), ("pair energies", summing)):
        say(f"{what:<16}{seconds:8.4f} s")
    say(f"energy {float(energy.to_local()):.12f} Ha")
    if nocc * nvir <= LARGEST_CHECKED:
        wanted = by_definition(integrals.full_tensor(), J, eps_occ, eps_vir)
        error = abs(float(energy.to_local()) - wanted) / abs(wanted)
        say(f"|error| / |energy| = {error:.1e}")
        assert error < 1e-12
        say("passed")


def fitted_to(x: DTensor, factor: Tensor) -> DTensor:
    """Return (ia|P) L^-T: each rank solves for its own orbitals."""
    local = x.to_local()
    rows = local.reshape(-1, local.shape[-1])
    solved = trnblas.trsm(1.0, factor, rows, side="right", uplo="lower", trans=True)
    return DTensor.from_local(
        solved.reshape(local.shape),
        x.device_mesh,
        x.placements,
        run_check=False,
        shape=x.shape,
        stride=x.stride(),
    )


def by_definition(integrals: Tensor, J: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> float:
    """Return the energy from all integrals (ia|jb) at once."""
    nocc, nvir, naux = integrals.shape
    rows = integrals.reshape(nocc * nvir, naux)
    t = (rows @ torch.linalg.solve(J, rows.mT)).reshape(nocc, nvir, nocc, nvir)
    below = eps_occ[:, None, None, None] + eps_occ[:, None] - eps_vir[:, None, None] - eps_vir
    return float((t * (2 * t - t.transpose(1, 3)) / below).sum())


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a call and its time."""
    dist.barrier()
    start = time.perf_counter()
    found = call()
    return found, time.perf_counter() - start


def say(text: str) -> None:
    """Print on one rank."""
    if dist.get_rank() == 0:
        print(text)


if __name__ == "__main__":
    main()
