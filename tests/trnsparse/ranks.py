"""A process that becomes several ranks of gloo, and checks a sharded matrix against a whole one.

Torch is imported once; ranks are forks of that process, which is what makes them cheap. Prints, as
JSON, what each rank found for each number of ranks.
"""

import json
import os
import sys
from pathlib import Path

import scipy.sparse  # noqa: F401 - which every rank would import for itself
import torch
import torch.distributed as dist

import trnsparse as ts
from trnsparse.distributed import RowShardedCSR


def problem(n=90):
    """A Laplacian with a few long rows, so that shares and halos are uneven."""
    dense = 4 * torch.eye(n, dtype=torch.float64)
    for step in (1, 7):
        dense -= torch.diag(torch.ones(n - step, dtype=torch.float64), step)
        dense -= torch.diag(torch.ones(n - step, dtype=torch.float64), -step)
    dense[3, :] = dense[:, 3] = -0.01
    dense[3, 3] = 9.0
    return dense


def found_by(rank, ranks):
    dense = problem()
    A = RowShardedCSR.from_csr(ts.from_dense(dense))
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(dense.shape[0], 5, generator=generator, dtype=torch.float64)
    sent = []
    exchange = dist.all_to_all_single

    def counted(output, given, *rest, **options):
        sent.append(given.numel() * given.element_size())
        return exchange(output, given, *rest, **options)

    dist.all_to_all_single = counted
    y = A.gather(A @ A.shard(X[:, 0]))
    Y = A.gather(A @ A.shard(X))
    dist.all_to_all_single = exchange
    part = A.shard(X).clone().requires_grad_()
    (A @ part * A.shard(X)).sum().backward()
    gradient = A.gather(part.grad)
    diagonal = A.gather(A.diagonal())
    inverse = 1 / A.diagonal()
    plain = A.cg(A.shard(X[:, 0]), tol=1e-10)
    scaled = A.cg(A.shard(X[:, 0]), tol=1e-10, M=lambda r: inverse * r)
    rows = dense.abs() @ X.abs()
    k = (dense != 0).sum(1, keepdim=True)
    bound = 2 * k * 2.0**-53 * rows
    solution = torch.linalg.solve(dense, X[:, 0])
    return {
        "within bound": bool(((Y - dense @ X).abs() <= bound).all())
        and bool(((y - dense @ X[:, 0]).abs() <= bound[:, 0]).all()),
        "gradient error": (gradient - dense.T @ X).abs().max().item(),
        "diagonal": torch.equal(diagonal, dense.diagonal()),
        "error": (A.gather(plain.x) - solution).abs().max().item(),
        "scaled error": (A.gather(scaled.x) - solution).abs().max().item(),
        "iterations": [plain.iterations, scaled.iterations],
        "residuals": [plain.residual, scaled.residual],
        "sent": sent,
        "planned": [A.plan.bytes_sent(c, torch.float64) for c in (1, 5)],
        "total": A.plan.total_bytes(1, torch.float64),
        "halo": A.plan.halo,
        "entries": A.local.nnz,
        "text": str(A.plan),
        "refused": refusals(A, X),
    }


def refusals(A, X):
    calls = (lambda: A @ X[:1], lambda: A.shard(X[:5]), lambda: RowShardedCSR(A.local, [0, 1]))
    return [_refused(call) for call in calls]


def _refused(call):
    try:
        call()
    except AssertionError:
        return True
    return False


def rank_of(rank, ranks, folder):
    store = dist.FileStore(str(folder / f"store{ranks}"), ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    (folder / f"{ranks}-{rank}.json").write_text(json.dumps(found_by(rank, ranks)))
    dist.destroy_process_group()


def main(folder):
    torch.set_num_threads(1)
    for ranks in (1, 2, 4):
        children = []
        for rank in range(ranks):
            child = os.fork()
            if not child:
                status = 1
                try:
                    rank_of(rank, ranks, folder)
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
        assert all(os.waitpid(child, 0)[1] == 0 for child in children)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
