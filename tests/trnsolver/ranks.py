"""A process that becomes several ranks of gloo, and solves on row shares what one process solves.

Torch is imported once; ranks are forks of that process, which is what makes them cheap. Writes, as
JSON, what each rank found for each number of ranks.
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import trnsolver.distributed as td
from trnsci.core.errors import LinAlgError, TrnsciError

SHARES = {1: [40], 2: [25, 15], 4: [22, 3, 0, 15]}
N = 6


def problem(dtype):
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(40, N, generator=generator, dtype=dtype) * torch.logspace(0, -2, N)
    b = torch.randn(40, 2, generator=generator, dtype=dtype)
    z = torch.randn(40, 40, generator=generator, dtype=dtype)
    return a, b, z @ z.mH / 40 + torch.eye(40)


def found_by(rank, ranks):
    sent = []
    for name, place in (("all_gather", 1), ("all_reduce", 0), ("broadcast", 0)):
        setattr(dist, name, counted(getattr(dist, name), place, rank, name, sent))
    found = {}
    starts = [0]
    for count in SHARES[ranks]:
        starts.append(starts[-1] + count)
    mine = slice(starts[rank], starts[rank + 1])
    for dtype in (torch.float64, torch.complex128):
        a, b, spd = problem(dtype)
        calls = {
            "tsqr": lambda a=a: td.tsqr(a[mine]),
            "lstsq": lambda a=a, b=b: td.lstsq(a[mine], b[mine]),
            "rsvd": lambda a=a: td.rsvd(a[mine], 3, oversampling=2),
            "msign": lambda a=a: (td.msign(a[mine]),),
            "solve_spd": lambda s=spd, b=b: td.solve_spd(s[mine], b[mine]),
        }
        for name, call in calls.items():
            sent.clear()
            parts = call()
            found[f"{name} {dtype}"] = {
                "parts": [listed(part) for part in parts],
                "sent": sum(sent),
                "planned": td.plan(
                    name,
                    SHARES[ranks],
                    40 if name == "solve_spd" else N,
                    right_sides=2,
                    k=3,
                    oversampling=2,
                    dtype=dtype,
                ).bytes_sent(rank),
            }
    found["refused"] = [
        refusal(lambda: td.tsqr(a[mine].mT if ranks == 1 else a[mine][:, : N - rank % 2])),
        refusal(lambda: td.tsqr(torch.ones(1, 60))),
        refusal(lambda: td.solve_spd(a[mine], b[mine])),
        refusal(lambda: td.solve_spd(-spd[mine], b[mine])),
        refusal(lambda: td.lstsq(a[mine], b[:3])),
        refusal(lambda: td.tsqr(a[mine].to_sparse())) if ranks == 1 else "",
    ]
    found["hostile"] = [refusal(call) for call in hostile(rank, mine)]
    a, b, _ = problem(torch.float64)
    a[:, 2] = a[:, 0] - a[:, 1]
    parts = td.lstsq(a[mine], b[mine])
    found["rank deficient"] = {"parts": [listed(part) for part in parts]}
    return found


def hostile(rank, mine):
    """Return calls of which one rank alone has an operand that cannot be used."""
    a, b, spd = problem(torch.float64)
    spoilt, tracked = a.clone(), a.clone().requires_grad_(rank == 0)
    spoilt[0, 1] = torch.nan
    side = b + 1j * b if rank == 0 else b
    return [
        lambda: td.lstsq(spoilt[mine], b[mine]),
        lambda: td.rsvd(spoilt[mine], 2),
        lambda: td.lstsq(a[mine], side[mine]),
        lambda: td.solve_spd(spd[mine], side[mine]),
        lambda: td.tsqr(tracked[mine]),
        lambda: td.msign(tracked[mine]),
    ]


def counted(collective, place, rank, name, sent):
    def call(*args, **options):
        value = args[place]
        if name != "broadcast" or args[1] == rank:
            sent.append(value.numel() * value.element_size())
        return collective(*args, **options)

    return call


def listed(part):
    part = part.detach().resolve_conj()
    wide = part.to(torch.complex128)
    return torch.view_as_real(wide).tolist()


def refusal(call):
    try:
        call()
    except (LinAlgError, TrnsciError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing raised"


def as_rank(rank, ranks, folder):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store-{ranks}", rank=rank, world_size=ranks
    )
    found = found_by(rank, ranks)
    (Path(folder) / f"{ranks}-{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def main(folder):
    torch.set_num_threads(1)
    for ranks in SHARES:
        children = []
        for rank in range(ranks):
            child = os.fork()
            if not child:
                try:
                    as_rank(rank, ranks, folder)
                except BaseException as error:
                    print(f"rank {rank} of {ranks}: {error!r}", file=sys.stderr, flush=True)
                    os._exit(1)
                os._exit(0)
            children.append(child)
        if any([os.waitpid(child, 0)[1] for child in children]):
            sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
