"""Conjugate gradients and MINRES on 1 to 6 ranks of gloo: dense, sparse, functions, DTensors."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import trnsolver
import trnsparse
from each_case import each_case
from ranks import Watched, pool, rank_numbers, refusal
from trnsolver import distributed as td
from trnsparse.distributed import RowShardedCSR

RANKS = (1, 2, 3, 4, 6)
OFFSETS = {1: (0, 48), 2: (0, 31, 48), 3: (0, 0, 31, 48), 4: (0, 5, 5, 31, 48)}
OFFSETS[6] = (0, 1, 20, 20, 31, 47, 48)
N = 48
TOL = {torch.float32: 1e-4, torch.float64: 1e-7, torch.complex128: 1e-7}
CONDITION = 5  # more than that of the problems


def matrix(name, dtype):
    """Return a banded Hermitian matrix: positive definite for cg, indefinite for minres."""
    dense = torch.diag(torch.linspace(5, 6, N, dtype=torch.float64)).to(dtype)
    if name == "minres":
        dense.diagonal()[::5] *= -1
    for step, value in ((1, 0.5), (5, 0.3)):
        band = torch.full((N - step,), value * (1 + 1j) / 2 if dtype.is_complex else value)
        dense += torch.diag(band, step).to(dtype) + torch.diag(band.conj(), -step).to(dtype)
    return dense


def right_side(dtype, columns=()):
    return torch.randn(N, *columns, dtype=dtype, generator=torch.Generator().manual_seed(2))


def solved(name, kind, dtype, columns, preconditioned):
    """Solve on this rank's rows; return x, its gradient, those of A, and whether bytes agree."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    dense, b = matrix(name, dtype), right_side(dtype, columns)
    layout = td.Layout((N, N), 0, OFFSETS[ranks])
    if kind == "DTensor":
        layout, mesh = td.Layout.even((N, N), 0, ranks), init_device_mesh("cpu", (ranks,))
    rows = layout.rows(rank)
    options = {"tol": TOL[dtype]}
    if preconditioned:
        inverse = 1 / dense.diagonal()[rows].abs()
        options["M"] = lambda r: (inverse if r.ndim == 1 else inverse[:, None]) * r
    whole, known = None, layout
    if kind == "sparse":
        whole = trnsparse.from_dense(dense)
        values = whole.values.clone().requires_grad_()
        A, entries = RowShardedCSR.from_csr(whole.with_entries(values), layout=layout), values
    elif kind == "DTensor":
        A = entries = distribute_tensor(dense, mesh, [Shard(0)]).requires_grad_()
    else:
        A = entries = dense[rows].clone().requires_grad_()
        known = layout.sizes if kind == "rows" else layout
    part = b[rows].clone().requires_grad_()
    if kind == "DTensor":
        part = distribute_tensor(b, mesh, [Shard(0)]).requires_grad_()
    if kind == "layout":
        options["layout"] = layout
    given = A
    if kind == "function":
        sharded = RowShardedCSR.from_csr(trnsparse.from_dense(dense), layout=layout)
        entries = torch.ones((), dtype=dtype, requires_grad=True)
        given = lambda v: entries * sharded.matmul(v, check=False)  # noqa: E731
        whole = trnsparse.from_dense(dense)
    with torch.no_grad(), Watched() as first:
        quiet = getattr(td, name)(given, part, **options)
    with Watched() as second:
        found = getattr(td, name)(given, part, **options)
        grads = torch.autograd.grad(found.x, [part, entries], part.detach())
    plan = td.plan(
        name,
        known,
        right_sides=columns[0] if columns else 1,
        iterations=found.iterations,
        preconditioned=preconditioned,
        A=whole,
        dtype=dtype,
    )
    back = plan.received(rank, backward=True)
    assert kind != "DTensor" or all(type(x) is DTensor for x in (found.x, *grads))
    x, of_b, of_A = (y.to_local() if kind == "DTensor" else y for y in (found.x, *grads))
    assert torch.equal(quiet.x.to_local() if kind == "DTensor" else quiet.x, x)
    if kind == "sparse":
        first_entry = int(whole.row_ptrs[rows.start])
        of_A = of_A[first_entry : first_entry + A.local.nnz]
    return {
        "parts": [y.detach().resolve_conj() for y in (x, of_b, of_A)],
        "steps": (found.iterations, found.residual, found.converged),
        "bytes": (first.received, second.received)
        == (plan.received(rank), plan.received(rank) + back),
    }


CASES = [
    ("cg", "sparse", torch.float32, (), False),
    ("cg", "sparse", torch.float64, (3,), True),
    ("cg", "sparse", torch.complex128, (), False),
    ("cg", "rows", torch.float64, (), False),
    ("cg", "layout", torch.complex128, (2,), False),
    ("cg", "DTensor", torch.float64, (2,), False),
    ("cg", "function", torch.float64, (), False),
    ("minres", "sparse", torch.float64, (), False),
    ("minres", "sparse", torch.float32, (), True),
    ("minres", "DTensor", torch.complex128, (), False),
    ("minres", "layout", torch.float32, (), False),
]


@pytest.mark.parametrize("ranks", rank_numbers(RANKS))
@each_case("case", CASES, ids=lambda case: " ".join(map(str, case)))
def test_solutions_gradients_and_bytes(ranks, case):
    name, kind, dtype, columns, _ = case
    found = pool(ranks).run(solved, *case)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    dense, b = matrix(name, dtype).to(wide), right_side(dtype, columns).to(wide)
    # A residual of tol and rounding, times the condition number, bound the error.
    bound = 2 * CONDITION * (TOL[dtype] + N * torch.finfo(dtype).eps)
    x, of_b = (torch.cat([rank["parts"][place] for rank in found]) for place in (0, 1))
    want = torch.linalg.solve(dense, b)
    for one in (x, of_b):  # the gradient of x is b, so that of b is x
        assert (one - want).norm() <= bound * want.norm()
    of_A = -(want @ want.mH if columns else torch.outer(want, want.conj()))
    if kind == "sparse":
        of_A = of_A[dense != 0]
    if kind == "function":
        parts = sum(rank["parts"][2] for rank in found)
        of_A = (of_A * dense).sum()
    else:
        parts = torch.cat([rank["parts"][2] for rank in found])
    assert (parts - of_A).norm() <= 3 * bound * want.norm() ** 2
    for rank in found:
        assert rank["steps"] == found[0]["steps"]
        assert rank["steps"][2]
        assert rank["bytes"] or (kind == "function" and ranks > 1)


def test_one_rank_takes_the_steps_of_one_process():
    dense, b = matrix("minres", torch.float64), right_side(torch.float64)
    (found,) = pool(1).run(solved, "minres", "sparse", torch.float64, (), False)
    alone = trnsolver.minres(dense, b, tol=1e-7)
    assert abs(found["steps"][0] - alone.iterations) <= 1


def faults():
    """Refusals of arguments of which one rank alone, or all, cannot be used."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    dense, b = matrix("cg", torch.float64), right_side(torch.float64)
    layout = td.Layout.even((N, N), 0, ranks)
    rows, part = dense[layout.rows(rank)], b[layout.rows(rank)]
    mesh, many = init_device_mesh("cpu", (ranks,)), init_device_mesh("cpu", (ranks, 1))
    A = RowShardedCSR.from_csr(trnsparse.from_dense(dense), layout=layout)
    whole = distribute_tensor(dense, mesh, [Replicate()])
    two = torch.stack([part, part], 1)
    return [
        refusal(lambda: td.cg(whole, part)),
        refusal(lambda: td.cg(distribute_tensor(dense, many, [Shard(0), Replicate()]), part)),
        refusal(lambda: td.cg(A, distribute_tensor(b, mesh, [Replicate()]))),
        refusal(lambda: td.cg(A, part, tol=1e-6 / (1 + rank))),
        refusal(lambda: td.cg(A, part, tol=-1.0 if rank else 1.0)),
        refusal(lambda: td.cg(rows, part[:-1] if rank else part)),
        refusal(lambda: td.cg(rows[0] if rank else rows, part)),
        refusal(lambda: td.cg(rows[:, :-1], part)),
        refusal(lambda: td.minres(A, two)),
        refusal(lambda: td.cg(A, part, M=rows)),
        refusal(lambda: td.cg("A", part)),
        refusal(lambda: td.cg(A, part.bfloat16())),
        refusal(lambda: td.cg(A, part, max_iter=1, on_failure="raise")),
        refusal(lambda: torch.func.vjp(lambda v: td.cg(A, v).x, part)),
    ]


def test_every_rank_refuses_what_one_rank_cannot_use():
    for found in pool(2).run(faults):
        assert [error[0] for error in found] == [
            *["FlagError"] * 3,
            "RankError",
            "FlagError",
            *["OperandError"] * 4,
            *["DTypeError"] * 3,
            "ConvergenceError",
            "DerivativeError",
        ]
        assert "A must be Shard(0)" in found[0][1]


def limited(limit):
    """Solve a dense system of order 400 within a limit of live bytes, and check it by rows."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    layout = td.Layout.even((400, 400), 0, ranks)
    generator = torch.Generator().manual_seed(3)
    z = torch.randn(400, 10, generator=generator, dtype=torch.float64)
    rows = layout.rows(rank)
    a = z[rows] @ z.T
    a[:, rows].diagonal().add_(100.0)
    b = a.sum(1)

    def solve():
        with Watched([a, b], limit):
            return td.cg(a, b, tol=1e-12, layout=layout).x

    found = refusal(solve)
    if found is None:
        assert (solve() - 1).abs().max() < 1e-9  # b is the sum of the columns
    return found


def test_four_ranks_solve_what_one_has_no_memory_for():
    limit = max(td.plan("cg", td.Layout.even((400, 400), 0, 4), dtype=torch.float64).peak_bytes)
    assert limit < 400 * 400 * 8
    assert pool(4).run(limited, limit) == [None] * 4
    ((kind, text),) = pool(1).run(limited, limit)
    assert kind == "MemoryError"
    assert "live tensors" in text
