"""A process that becomes several ranks of gloo, and contracts what one process contracts.

Torch is imported once; ranks are forks of that process, which is what makes them cheap. Writes, as
JSON, what each rank found for each number of ranks.
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from trntensor.parallel import einsum_over_ranks

RANKS = (1, 2, 4)
PROBLEMS = (
    ("ij,jk->ik", ((5, 40), (40, 6))),
    ("ij,jk,kl->il", ((4, 9), (9, 11), (11, 3))),
    ("bij,bjk->bik", ((6, 2, 3), (6, 3, 2))),
    ("i,j->ij", ((4,), (5,))),
    ("ij->", ((3, 7),)),
    ("ij,jk->ik", ((2, 0), (0, 3))),
)


def operands(shapes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def found_by():
    found, sums = [], []
    reduce = dist.all_reduce

    def counted(tensor, *rest, **options):
        sums.append(tensor.numel())
        return reduce(tensor, *rest, **options)

    dist.all_reduce = counted
    for subscripts, shapes in PROBLEMS:
        sums.clear()
        result = einsum_over_ranks(subscripts, *operands(shapes))
        found.append({"result": result.tolist(), "reductions": len(sums)})
    return found


def as_rank(rank, ranks, folder):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store-{ranks}", rank=rank, world_size=ranks
    )
    (Path(folder) / f"{ranks}-{rank}.json").write_text(json.dumps(found_by()))
    dist.destroy_process_group()


def main(folder):
    torch.set_num_threads(1)
    for ranks in RANKS:
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
