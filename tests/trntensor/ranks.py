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


# What the last of several ranks gives in place of "ij,jk->ik" of (5, 40) and (40, 6) in float32,
# and what the error has of it.
DIFFERENT = (
    ("ij,jk->ik", ((5, 40), (40, 7)), {}, "(40, 7)"),  # another result
    ("ij,jk->ik", ((5, 39), (39, 6)), {}, "(5, 39), (39, 6)"),  # other slices
    ("ij,jk->ik", ((5, 40), (41, 6)), {}, "index 'j' has size 40 in operand 0 and 41"),
    ("ij,jk->ki", ((5, 40), (40, 6)), {}, "'ij,jk->ki'"),
    ("ij,jk->ik", ((5, 40), (40, 6)), {"dtype": torch.float64}, "torch.float64"),
    ("ij,jk->ik", ((5, 40), (40, 6)), {"pieces": 0}, "pieces must be"),
    ("ij,jk->ik", ((5, 40), (40, 6)), {"pieces": 3}, "3 pieces"),
    ("ij,jk->ik", ((5, 40),), {}, "1 operand was given"),
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


def errors_of(last):
    """The errors of one rank where the last one gives other arguments."""
    found = []
    for subscripts, shapes, options, _ in DIFFERENT:
        if not last:
            subscripts, shapes, options = *PROBLEMS[0], {}
        dtype = options.get("dtype", torch.float32)
        options = {name: value for name, value in options.items() if name != "dtype"}
        try:
            einsum_over_ranks(subscripts, *(x.to(dtype) for x in operands(shapes)), **options)
            found.append("no error")
        except ValueError as error:
            found.append(str(error))
    return found


def as_rank(rank, ranks, folder):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store-{ranks}", rank=rank, world_size=ranks
    )
    errors = errors_of(rank == ranks - 1) if ranks > 1 else []
    (Path(folder) / f"{ranks}-{rank}.json").write_text(json.dumps([*found_by(), errors]))
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
