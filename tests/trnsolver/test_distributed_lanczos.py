"""eigsh on ranks of gloo against LAPACK's pairs of the whole matrix, and its refusals."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

import trnsparse
from each_case import each_case
from ranks import pool, rank_numbers, refusal
from trnsci.core.testing import random_tensor
from trnsolver import distributed as td
from trnsparse.distributed import RowShardedCSR

N = 60
OFFSETS = {1: (0, N), 2: (0, 41, N), 3: (0, 0, 31, N), 4: (0, 5, 5, 31, N)}


def matrix(dtype, multiple):
    wide = torch.complex128 if dtype.is_complex else torch.float64
    q = torch.linalg.qr(random_tensor(N, N, dtype=wide))[0]
    values = torch.linspace(-3, 5, N, dtype=torch.float64)
    if multiple:
        values[-3:] = 5.0
    found = (q * values) @ q.mH
    return ((found + found.mH) / 2).to(dtype)


def found_pairs(kind, dtype, which, multiple):
    ranks, rank = dist.get_world_size(), dist.get_rank()
    a = matrix(dtype, multiple)
    layout = td.Layout((N, N), 0, OFFSETS[ranks])
    rows = layout.rows(rank)
    if kind == "DTensor":
        mesh = init_device_mesh("cpu", (ranks,))
        found = td.eigsh(distribute_tensor(a, mesh, [Shard(0)]), 4, which=which)
        assert type(found.eigenvectors) is DTensor
        vectors = found.eigenvectors.to_local()
    else:
        sparse = RowShardedCSR.from_csr(trnsparse.from_dense(a), layout=layout)
        first = torch.ones(rows.stop - rows.start, dtype=dtype)
        call = {
            "sparse": lambda: td.eigsh(sparse, 4, which=which),
            "rows": lambda: td.eigsh(a[rows], 4, which=which),
            "layout": lambda: td.eigsh(a[rows], 4, which=which, layout=layout, check=False),
            "function": lambda: td.eigsh(
                lambda v: sparse.matmul(v, check=False), 4, which=which, v0=first
            ),
        }[kind]
        found = call()
        vectors = found.eigenvectors
    return found.eigenvalues, vectors, found.info


CASES = [
    ("sparse", torch.float64, "LA", True),
    ("sparse", torch.float32, "BE", False),
    ("rows", torch.float64, "SA", False),
    ("layout", torch.complex128, "LM", True),
    ("function", torch.float64, "LA", False),
    ("DTensor", torch.complex64, "BE", False),
]


@pytest.mark.parametrize("ranks", rank_numbers([1, 2, 3, 4]))
@each_case("case", CASES, ids=lambda case: " ".join(map(str, case)))
def test_pairs_and_bounds(ranks, case):
    _, dtype, which, multiple = case
    parts = pool(ranks).run(found_pairs, *case)
    a = matrix(dtype, multiple).to(torch.complex128)
    exact = np.linalg.eigvalsh(a.numpy())
    w, _, info = parts[0]
    assert info.converged
    assert all(torch.equal(part[0], w) and part[2] == info for part in parts)
    v = torch.cat([part[1] for part in parts]).to(torch.complex128)
    want = {
        "LA": exact[-4:],
        "SA": exact[:4],
        "LM": np.sort(exact[np.argsort(-abs(exact))[:4]]),
        "BE": exact[[0, 1, -2, -1]],
    }[which]
    eps = torch.finfo(dtype).eps
    bound = (32 + N**0.5) * eps * 5
    assert abs(w.double().numpy() - want).max() <= bound
    assert float(torch.linalg.vector_norm(a @ v - v * w, dim=0).max()) <= bound
    assert float((v.mH @ v - torch.eye(4)).abs().max()) <= 32 * N**0.5 * eps
    for value, limit in zip(w.tolist(), info.bounds, strict=True):
        assert abs(exact - value).min() <= limit


def faults():
    ranks, rank = dist.get_world_size(), dist.get_rank()
    a = matrix(torch.float64, False)
    layout = td.Layout.even((N, N), 0, ranks)
    rows = a[layout.rows(rank)]
    one = torch.ones(len(rows), dtype=torch.float64)
    return [
        refusal(lambda: td.eigsh(rows, 0 if rank else 2)),
        refusal(lambda: td.eigsh(rows, 2 + rank)),
        refusal(lambda: td.eigsh(rows, 2, which="LR")),
        refusal(lambda: td.eigsh(rows, N + 1, layout=layout)),
        refusal(lambda: td.eigsh(lambda v: v, 2)),
        refusal(lambda: td.eigsh(rows, 2, v0=one[:-1] if rank else one)),
        refusal(lambda: td.eigsh(rows[:, :-1], 2)),
        refusal(lambda: td.eigsh(rows.bfloat16(), 2)),
        refusal(lambda: td.eigsh(rows.clone().requires_grad_(), 2)),
        refusal(lambda: td.eigsh(rows, 2, max_iter=1, tol=0.0, ncv=6, on_failure="raise")),
        refusal(lambda: td.eigsh(rows.cumsum(1), 2)),
    ]


def test_every_rank_refuses_what_one_rank_cannot_use():
    for found in pool(2).run(faults):
        assert [error and error[0] for error in found] == [
            "FlagError",
            "RankError",
            *["FlagError"] * 3,
            *["OperandError"] * 2,
            "DTypeError",
            "DerivativeError",
            "ConvergenceError",
            "OperandError",
        ], found
