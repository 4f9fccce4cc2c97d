"""Matrices over several ranks of gloo: products, solutions, gradients, and what they receive."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import trnsparse as ts
from each_case import each_case
from ranks import Watched, pool, rank_numbers, refusal
from trnsci.core.testing import unit_roundoff
from trnsparse.distributed import Layout, RowShardedCSR, balanced_rows, plan

RANKS = (1, 2, 3, 4, 6)
DTYPES = (torch.float32, torch.float64, torch.complex128)
SIGNATURES = 3 * 512
"""Bytes for each rank in the agreement on arguments, which is over before the product."""


def problem(dtype, n=90):
    """A Laplacian with a few long rows, so that shares and halos are uneven."""
    dense = 4 * torch.eye(n, dtype=dtype)
    for step in (1, 7):
        dense -= torch.diag(torch.ones(n - step, dtype=dtype), step)
        dense -= torch.diag(torch.ones(n - step, dtype=dtype), -step)
    dense[3, :] = dense[:, 3] = -0.01
    dense[3, 3] = 9.0
    if dtype.is_complex:
        dense += 0.5j * (torch.diag(torch.ones(n - 1), 1) - torch.diag(torch.ones(n - 1), -1))
    return dense


def numbers(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def cases(ranks, dtype):
    """Return matrices with layouts of rows and columns: even, by entries, uneven, with no rows."""
    square = problem(dtype)
    wide = numbers(20, 31, dtype=dtype) * (numbers(20, 31, seed=1) > 1)
    cuts = [0] * ranks + [20] if ranks > 1 else [0, 20]
    return {
        "by entries": (square, None, None),
        "even": (square, Layout.even((90, 90), 0, ranks), None),
        "even, rectangular": (wide, Layout.even((20, 31), 0, ranks), None),
        "rows on one rank": (wide, cuts, Layout((31,), 0, (0, *[30] * (ranks - 1), 31))),
    }


def within_bound(found, dense, x):
    """Compare a product with one in float64, to the bound for two orders of summation.

    A complex product has twice as many terms and two roundings more.
    """
    wide = torch.complex128 if dense.is_complex() else torch.float64
    exact = dense.to(wide) @ x.to(wide)
    k = (dense != 0).sum(1) * (2 if dense.is_complex() else 1) + 2
    sizes = dense.abs().double() @ x.abs().double()
    bound = 2 * unit_roundoff(dense.dtype) * (k[:, None] if x.ndim > 1 else k) * sizes
    return bool(((found.to(wide) - exact).abs() <= bound).all())


def products(dtype, name):
    """Products and their gradients on this rank, compared with those of the whole matrix."""
    ranks = dist.get_world_size()
    dense, layout, columns = cases(ranks, dtype)[name]
    whole = ts.from_dense(dense)
    with Watched() as watched:
        A = RowShardedCSR.from_csr(whole, layout=layout, columns=columns)
    rows, across = A.layout, A.columns
    planned = plan("RowShardedCSR", whole, rows, columns)
    found = {"built": watched.received == planned.received(A.rank), "entries": A.local.nnz}
    forms = {
        "matmul": (A, dense, across, rows),
        "transposed": (A.T, dense.T, rows, across),
        "conjugate": (A.H, dense.mH, rows, across),
    }
    for form, (operator, matrix, given, gives) in forms.items():
        for shape in ((matrix.shape[1],), (matrix.shape[1], 3)):
            X, G = numbers(*shape, dtype=dtype), numbers(matrix.shape[0], *shape[1:], dtype=dtype)
            part = X[given.rows(A.rank)].clone().requires_grad_()
            held = (A.local.values, A.local.col_indices, A.local.row_ptrs, part)
            function = "transposed" if form == "conjugate" else form
            told = plan(function, whole, rows, columns, right_sides=3 if len(shape) > 1 else 1)
            most = told.peak_bytes[A.rank] + SIGNATURES * ranks
            with Watched(held, most, raises=False) as watched:
                y = operator @ part
            with Watched() as back:
                y.backward(G[gives.rows(A.rank)])
            found[form, len(shape)] = (
                within_bound(y.detach(), matrix[gives.rows(A.rank)], X),
                within_bound(part.grad, matrix.mH[given.rows(A.rank)], G),
                watched.received == told.received(A.rank),
                back.received == told.received(A.rank, backward=True),
                watched.peak <= most,
            )
    return found


@pytest.mark.parametrize("ranks", rank_numbers(RANKS))
@each_case("dtype, name", [(d, n) for d in DTYPES for n in cases(1, d)])
def test_products_and_gradients_are_those_of_the_whole_matrix(ranks, dtype, name):
    for found in pool(ranks).run(products, dtype, name):
        del found["entries"]
        assert found.pop("built")
        assert all(all(each) for each in found.values()), found


def entry_gradients():
    """Gradients by the entries of this rank, and those by the entries of the whole matrix."""
    dense = problem(torch.float64)
    whole = ts.from_dense(dense)
    values = whole.values.clone().requires_grad_()
    A = RowShardedCSR.from_csr(whole.with_entries(values))
    X = numbers(90, 2)
    y = A @ A.shard(X)
    (y * A.shard(X)).sum().backward()
    alone = whole.values.clone().requires_grad_()
    (whole.with_entries(alone) @ X * X).sum().backward()
    first = int(whole.row_ptrs[A.starts[A.rank]])
    mine = slice(first, first + A.local.nnz)
    return bool(((values.grad[mine] - alone.grad[mine]).abs() < 1e-14).all())


@pytest.mark.parametrize("ranks", [1, 3])
def test_entries_have_gradients(ranks):
    assert all(pool(ranks).run(entry_gradients))


def sums(dtype, name):
    """Sums by axis and their gradients by the entries of this rank."""
    dense, layout, columns = cases(dist.get_world_size(), dtype)[name]
    whole = ts.from_dense(dense)
    values = whole.values.clone().requires_grad_()
    A = RowShardedCSR.from_csr(whole.with_entries(values), layout=layout, columns=columns)
    own, shares = slice(*A.starts[A.rank : A.rank + 2]), {0: A.columns, 1: A.layout}
    found = []
    for dim in (None, 0, 1):
        weights = numbers(*[1] if dim is None else [dense.shape[1 - dim]], dtype=dtype)
        part = ... if dim is None else shares[dim].rows(A.rank)
        got, want = A.sum(dim), dense.sum() if dim is None else dense.sum(dim)
        terms = dense.abs().sum() if dim is None else dense.abs().sum(dim).max()
        bound = 2 * dense.numel() * unit_roundoff(dtype) * float(terms)
        found.append(bool(((got.detach() - want[part]).abs() <= bound).all()))
        # On all ranks the gradient of a replicated sum is one.
        loss = (got * weights.conj()[part]).sum().real
        by_values = torch.autograd.grad(loss, values, retain_graph=True)[0]
        every = (weights[:, None] if dim == 1 else weights).expand(dense.shape)
        mine = torch.zeros_like(dense)
        mine[own] = every[own]
        stored = mine[whole.pattern.row_indices, whole.pattern.indices]
        found.append(torch.equal(by_values, stored))
    return found, refusal(lambda: A.sum(2)), refusal(lambda: A.sum(A.rank))


@pytest.mark.parametrize("ranks", rank_numbers([1, 3]))
@each_case("dtype, name", [(d, n) for d in DTYPES[1:] for n in cases(1, d)])
def test_sums_and_gradients_are_those_of_the_whole_matrix(ranks, dtype, name):
    for found, outside, unlike in pool(ranks).run(sums, dtype, name):
        assert all(found), found
        assert outside[0] == "FlagError"
        assert ranks == 1 or unlike[0] in ("RankError", "FlagError")


def dtensors():
    """A product and a solution with DTensors, and what is not accepted."""
    ranks = dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    dense = problem(torch.float64)
    A = RowShardedCSR.from_csr(ts.from_dense(dense), layout=Layout.even((90, 90), 0, ranks))
    X = numbers(90, 2)
    given = distribute_tensor(X, mesh, [Shard(0)]).requires_grad_()
    y = A @ given
    G = distribute_tensor(torch.ones_like(X), mesh, [Shard(0)])
    (grad,) = torch.autograd.grad(y, given, G)
    solved = A.cg(given.detach(), tol=1e-12)
    balanced = RowShardedCSR.from_csr(ts.from_dense(dense))
    many = init_device_mesh("cpu", (ranks, 1))
    return {
        "kinds": [type(each) is DTensor for each in (y, grad, solved.x)],
        "errors": [
            (y.full_tensor() - dense @ X).abs().max().item(),
            (grad.full_tensor() - dense.T @ torch.ones_like(X)).abs().max().item(),
            (solved.x.full_tensor() - torch.linalg.solve(dense, X)).abs().max().item(),
        ],
        "refused": [
            refusal(lambda: A @ distribute_tensor(X, mesh, [Replicate()])),
            refusal(lambda: A @ distribute_tensor(X, mesh, [Shard(1)])),
            refusal(lambda: A @ distribute_tensor(X, many, [Shard(0), Replicate()])),
            refusal(lambda: A @ distribute_tensor(X[1:], mesh, [Shard(0)])),
            refusal(lambda: balanced @ given),
            refusal(lambda: torch.func.vjp(A.matmul, A.shard(X))),
        ],
    }


@pytest.mark.parametrize("ranks", [2, 4])
def test_dtensors_give_dtensors(ranks):
    for found in pool(ranks).run(dtensors):
        assert all(found["kinds"])
        assert max(found["errors"]) < 1e-10
        kinds = [error[0] for error in found["refused"]]
        assert kinds == [*["FlagError"] * 3, *["OperandError"] * 2, "DerivativeError"]
        assert "X must be Shard(0)" in found["refused"][0][1]


def unlike():
    """Refusals of arguments that one rank alone has."""
    A = RowShardedCSR.from_csr(ts.from_dense(problem(torch.float64)))
    X = numbers(90, 5)
    last = A.rank == A.size - 1
    part = A.shard(X)
    return [
        refusal(lambda: A @ (X[:1] if last else part)),
        refusal(lambda: A @ (part[:, :2] if last else part)),
        refusal(lambda: A.T @ (part.float() if last else part)),
        refusal(lambda: A.cg(part, tol=1e-3 if last else 1e-6)),
        refusal(lambda: A.cg(part, x0=X if last else None)),
        refusal(lambda: RowShardedCSR(A.local, [0, 1])),
        refusal(lambda: RowShardedCSR.from_csr(ts.from_dense(X), layout=[0, last, 90])),
        refusal(lambda: A.shard(X[:5])),
        refusal(lambda: RowShardedCSR.from_csr(ts.from_dense(X)).cg(X)),
    ]


def test_every_rank_refuses_what_one_rank_cannot_use():
    for found in pool(2).run(unlike):
        kinds = [error[0] for error in found]
        assert kinds == [
            "OperandError",
            "RankError",
            "DTypeError",
            "RankError",
            "OperandError",
            "OperandError",
            "RankError",
            "OperandError",
            "OperandError",
        ]
        assert "rank 0" in found[1][1]
        assert "rank 1" in found[1][1]


def solutions():
    """Solutions by conjugate gradients, with a start that is zero on some ranks."""
    dense = problem(torch.float64)
    A = RowShardedCSR.from_csr(ts.from_dense(dense))
    b = numbers(90)
    inverse = 1 / A.diagonal()
    start = torch.zeros(90, dtype=torch.float64)
    start[:10] = 1.0
    exact = torch.linalg.solve(dense, b)
    part = A.shard(b)
    runs = [
        A.cg(part, tol=1e-10),
        A.cg(part, tol=1e-10, M=lambda r: inverse * r),
        A.cg(part, A.shard(start), tol=1e-10),
    ]
    return {
        "diagonal": torch.equal(A.gather(A.diagonal()), dense.diagonal()),
        "errors": [(A.gather(run.x) - exact).abs().max().item() for run in runs],
        "residuals": [run.residual for run in runs],
        "iterations": [run.iterations for run in runs],
        "text": str(A.plan),
        "entries": A.local.nnz,
    }


@pytest.mark.parametrize("ranks", rank_numbers(RANKS))
def test_solutions_meet_the_tolerance_on_any_number_of_ranks(ranks):
    (alone,) = pool(1).run(solutions)
    found = pool(ranks).run(solutions)
    for rank in found:
        assert rank["diagonal"]
        assert max(rank["errors"]) < 1e-8
        assert max(rank["residuals"]) <= 1e-10
        assert rank["iterations"] == found[0]["iterations"]
    for count, single in zip(found[0]["iterations"], alone["iterations"], strict=True):
        assert abs(count - single) <= 1
    assert found[-1]["text"].startswith(f"rank {ranks - 1} of {ranks}: ")
    entries = [rank["entries"] for rank in found]
    # The longest row may lie on either side of a cut.
    assert max(entries) - min(entries) <= 2 * 90


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_every_row_has_a_share(parts):
    lengths = torch.tensor([0, 0, 9, 1, 0, 2])
    starts = balanced_rows(torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]), parts)
    assert len(starts) == parts + 1
    assert starts == sorted(starts)
    assert (starts[0], starts[-1]) == (0, 6)


def test_plans_print_and_refuse():
    A = ts.from_dense(problem(torch.float32))
    told = plan("matmul", A, 4, right_sides=2)
    assert str(told).splitlines()[0].startswith("matmul on 4 ranks: 90 x 90")
    # Far less than every vector to every rank.
    assert told.most_received < 4 * 2 * 90
    with pytest.raises(ValueError, match="function must be"):
        plan("spgemm", A, 2)
    with pytest.raises(ValueError, match="90 rows"):
        plan("matmul", A, Layout.even((80, 90), 0, 2))


def test_without_a_process_group_it_says_so():
    with pytest.raises(RuntimeError, match="process group"):
        RowShardedCSR.from_csr(ts.from_dense(torch.eye(3)))
