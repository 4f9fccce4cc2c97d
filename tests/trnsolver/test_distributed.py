"""Row-sharded direct solvers on 1 to 6 ranks of gloo, uneven and empty shares among them."""

import pytest
import scipy.linalg
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import trnsolver
from each_case import each_case
from pairwise import in_turn
from ranks import Watched, pool, rank_numbers, refusal
from trnsci.core.testing import unit_roundoff
from trnsolver import distributed as td

SHARES = {1: [40], 2: [25, 15], 3: [0, 31, 9], 4: [22, 3, 0, 15], 6: [10, 0, 1, 20, 9, 0]}
RANKS = tuple(SHARES)
DTYPES = (torch.float32, torch.float64, torch.complex128)
N = 6
CONDITION = 1e3  # more than that of the problems
NAMES = ("tsqr", "lstsq", "rsvd", "msign", "cholesky", "solve_spd")
SHARDED = {"tsqr": [0], "lstsq": [], "rsvd": [0], "msign": [0], "cholesky": [0], "solve_spd": [0]}
"""Results that are sharded, by their place; others are on every rank."""

USED = {"tsqr": [0], "lstsq": [0, 1], "rsvd": [0], "msign": [0], "cholesky": [2]}
USED["solve_spd"] = [1, 2]
"""Operands of each function: the tall matrix, right-hand sides, the positive definite matrix."""


def problem(dtype):
    generator = torch.Generator().manual_seed(0)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    a = torch.randn(40, N, generator=generator, dtype=wide) * torch.logspace(0, -2, N)
    b = torch.randn(40, 2, generator=generator, dtype=wide)
    z = torch.randn(40, 40, generator=generator, dtype=wide)
    return a.to(dtype), b.to(dtype), (z @ z.mH / 40 + torch.eye(40)).to(dtype)


def bound(dtype):
    return 100 * CONDITION * 40 * unit_roundoff(dtype)


def call(name, a, b, spd, **options):
    """Return the results of a distributed function, as a tuple."""
    calls = {
        "tsqr": lambda: td.tsqr(a, **options),
        "lstsq": lambda: td.lstsq(a, b, **options),
        "rsvd": lambda: td.rsvd(a, 3, oversampling=2, **options),
        "msign": lambda: (td.msign(a, **options),),
        "cholesky": lambda: (td.cholesky(spd, **options),),
        "solve_spd": lambda: td.solve_spd(spd, b, **options),
    }
    return tuple(calls[name]())


def told(name, rows, dtype):
    square = name in ("cholesky", "solve_spd")
    columns = 40 if square else N
    return td.plan(name, rows, columns, right_sides=2, k=3, oversampling=2, dtype=dtype)


def layout_for(ranks, width):
    offsets = [sum(SHARES[ranks][:rank]) for rank in range(ranks + 1)]
    return td.Layout((40, width), 0, tuple(offsets))


def results(name, dtype):
    """Results of plain rows; whether bytes are those of the plan, and memory at most as much."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    layout = layout_for(ranks, 40 if name in ("cholesky", "solve_spd") else N)
    operands = [x[layout.rows(rank)].clone() for x in problem(dtype)]
    plans = told(name, SHARES[ranks], dtype), told(name, layout, dtype)
    held, most = [operands[place] for place in USED[name]], plans[0].peak_bytes[rank]
    with Watched() as watched:
        found = call(name, *operands)
    with Watched() as known:
        again = call(name, *operands, layout=layout)
    with Watched(held, most, raises=False) as measured:
        call(name, *operands, layout=layout, check=False)
    assert all(torch.equal(x, y) for x, y in zip(found, again, strict=True))
    return (
        [x.resolve_conj() for x in found],
        [watched.received, known.received] == [plan.received(rank) for plan in plans],
        measured.peak / most,
    )


def joined(ranks, name, dtype, run=results):
    """Return results as of one process, after a check that ranks agree on what all have."""
    found = pool(ranks).run(run, name, dtype)
    assert all(each[1] for each in found)
    if dtype is torch.float64:
        assert all(ratio <= 1 for each in found for ratio in each[2:]), found
    parts = []
    for place, each in enumerate(zip(*(values for values, *_ in found), strict=True)):
        sharded = place in SHARDED[name]
        assert sharded or all(torch.equal(each[0], x) for x in each)
        parts.append(torch.cat(each) if sharded else each[0])
    return parts


def exact(name, dtype):
    """Return results that do not depend on ours, in double precision."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    a, b, spd = (x.to(wide) for x in problem(dtype))
    if name == "tsqr":
        q, r = torch.linalg.qr(a)
        phase = r.diagonal().sgn()
        return [q * phase, phase.conj()[:, None] * r]
    if name == "lstsq":
        x = torch.linalg.lstsq(a, b).solution
        return [x, ((a @ x - b).abs() ** 2).sum(0), torch.tensor(N), torch.linalg.svdvals(a)]
    if name == "rsvd":
        u, s, vh = trnsolver.rsvd(a, 3, oversampling=2)
        return [(u * s) @ vh, s]
    if name == "msign":
        return [torch.from_numpy(scipy.linalg.polar(a.numpy())[0])]
    factor = torch.linalg.cholesky(spd)
    if name == "cholesky":
        return [factor]
    return [torch.cholesky_solve(b, factor), 2 * factor.diagonal().real.log().sum()]


# Memory is compared in float64; the other types take turns.
FAST = [(name, torch.float64) for name in NAMES]
FAST += in_turn(NAMES, (torch.complex128, torch.float32))


@each_case("name, dtype", FAST)
def test_results_are_those_of_one_process_within_the_memory_of_the_plan(name, dtype):
    assert_those_of_one_process(3, name, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", RANKS)
@each_case("name, dtype", [(name, dtype) for name in NAMES for dtype in DTYPES])
def test_results_of_every_type_are_those_of_one_process(ranks, name, dtype):
    assert_those_of_one_process(ranks, name, dtype)


def assert_those_of_one_process(ranks, name, dtype):
    found = joined(ranks, name, dtype)
    if name == "rsvd":
        # Sketches in float32 and float64 are different subspaces; only the best is the same.
        u, s, vh = found
        found = [(u * s) @ vh, s]
    scale = 1 if name != "rsvd" or dtype is not torch.float32 else 10
    for one, want in zip(found, exact(name, dtype), strict=True):
        limit = max(scale * bound(dtype), 1e-6 if name == "msign" else 0)
        assert (one.to(want.dtype) - want).abs().max() <= limit * max(1, want.abs().max())


# -- DTensors and gradients ------------------------------------------------------------------------


def gradients(dtype, plain):
    """Gradients on this rank, the bytes of backward, and those of the plan."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    mesh = None if plain else init_device_mesh("cpu", (ranks,))
    found = {}
    for name in ("tsqr", "lstsq", "cholesky", "solve_spd"):
        width = 40 if name in ("cholesky", "solve_spd") else N
        layout = layout_for(ranks, width) if plain else td.Layout.even((40, width), 0, ranks)
        operands = problem(dtype)
        if plain:
            given = [x[layout.rows(rank)].clone().requires_grad_() for x in operands]
            results = call(name, *given, layout=layout)
        else:
            given = [distribute_tensor(x, mesh, [Shard(0)]).requires_grad_() for x in operands]
            results = call(name, *given)
            assert all(type(x) is DTensor for x in results)
        weights = weights_of(name, dtype)
        pairs = []
        for place, (x, w) in enumerate(zip(results, weights, strict=False)):
            sharded = place in SHARDED[name]
            if plain:
                pairs.append((x, w[layout.rows(rank)] if sharded else w))
            else:
                kind = Shard(0) if sharded else Replicate()
                pairs.append((x, distribute_tensor(w, mesh, [kind])))
        used = [given[place] for place in USED[name]]
        with Watched() as watched:
            grads = torch.autograd.grad([x for x, _ in pairs], used, [w for _, w in pairs])
        planned = told(name, layout, dtype).received(rank, backward=True)
        kinds = all(type(g) is DTensor for g in grads) or plain
        locals_ = [g if plain else g.to_local() for g in grads]
        found[name] = [x.resolve_conj() for x in locals_], watched.received == planned, kinds
    return found


def weights_of(name, dtype):
    """Return gradients of the results: of X, but not of the log-determinant, of ``solve_spd``."""
    generator = torch.Generator().manual_seed(1)
    real = dtype.to_real()
    shapes = {
        "tsqr": [((40, N), dtype), ((N, N), dtype)],
        "lstsq": [((N, 2), dtype), ((2,), real)],
        "cholesky": [((40, 40), dtype)],
        "solve_spd": [((40, 2), dtype)],
    }
    return [torch.randn(s, dtype=d, generator=generator) for s, d in shapes[name]]


def alone(name, dtype):
    """Return gradients that torch takes through the functions of one process."""
    operands = [x.requires_grad_() for x in problem(dtype)]
    a, b, spd = operands
    if name == "tsqr":
        q, r = trnsolver.qr(a)
        phase = r.diagonal().sgn()
        results = [q * phase, phase.conj()[:, None] * r]
    elif name == "lstsq":
        results = trnsolver.lstsq(a, b)[:2]
    elif name == "cholesky":
        results = [trnsolver.cholesky(spd)]
    else:
        results = [trnsolver.solve_spd(spd, b)]
    used = [operands[place] for place in USED[name]]
    return torch.autograd.grad(results, used, weights_of(name, dtype))


@pytest.mark.parametrize("ranks", rank_numbers(RANKS))
@each_case(
    "dtype, plain", [(torch.float64, True), (torch.complex128, True), (torch.complex128, False)]
)
def test_gradients_are_those_of_one_process_and_dtensors_for_dtensors(ranks, dtype, plain):
    found = pool(ranks).run(gradients, dtype, plain)
    for name in found[0]:
        assert all(rank[name][1] and rank[name][2] for rank in found), name
        each = zip(*(rank[name][0] for rank in found), strict=True)
        for parts, want in zip(each, alone(name, dtype), strict=True):
            whole = torch.cat(parts)
            if name == "cholesky":  # changes of A are Hermitian, so other parts do not act
                want = (want + want.mH) / 2
            assert (whole - want).abs().max() <= bound(dtype) * want.abs().max(), name


def other_gradients():
    """Gradients of the log-determinant and of singular values on this rank, and refusals."""
    rank = dist.get_rank()
    a, b, spd = (x[layout_for(2, 40).rows(rank)].requires_grad_() for x in problem(torch.float64))
    (of_logdet,) = torch.autograd.grad(td.solve_spd(spd, b).logdet, spd)
    (of_values,) = torch.autograd.grad(td.lstsq(a, b).singular_values.sum(), a)
    deficient = a.detach().clone()
    deficient[:, 2] = deficient[:, 0] - deficient[:, 1]
    deficient.requires_grad_()
    twice = lambda: torch.autograd.grad(  # noqa: E731
        td.solve_spd(spd, b).x.sum(), b, create_graph=True
    )
    return {
        "logdet": of_logdet,
        "values": of_values,
        "refused": [
            refusal(twice),
            refusal(lambda: td.lstsq(deficient, b)),
            refusal(lambda: td.msign(a)),
            refusal(lambda: td.rsvd(a, 2)),
            refusal(lambda: torch.func.grad(lambda s: td.cholesky(s).sum())(spd)),
            refusal(lambda: td.tsqr(a if rank else a.detach())),
        ],
    }


def test_other_gradients_and_those_that_are_refused():
    found = pool(2).run(other_gradients)
    a, _, spd = problem(torch.float64)
    want = torch.linalg.inv(spd)
    assert (torch.cat([x["logdet"] for x in found]) - want).abs().max() <= bound(torch.float64)
    a.requires_grad_()
    (want,) = torch.autograd.grad(torch.linalg.svdvals(a).sum(), a)
    assert (torch.cat([x["values"] for x in found]) - want).abs().max() <= bound(torch.float64)
    for each in found:
        kinds = [error[0] for error in each["refused"]]
        assert kinds == ["DerivativeError"] * 5 + ["RankError"]


# -- faults ----------------------------------------------------------------------------------------


def faults():
    """Refusals of arguments of which one rank alone, or all, cannot be used."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    mine = layout_for(ranks, 40).rows(rank)
    whole = problem(torch.float64)
    a, b, spd = (x[mine] for x in whole)
    spoilt, narrow = whole[0].clone(), a[:, : N - rank % 2]
    spoilt[0, 1] = torch.nan
    side = b + 1j * b if rank == 0 else b
    mesh, many = init_device_mesh("cpu", (ranks,)), init_device_mesh("cpu", (ranks, 1))
    lone = dist.new_group([0])
    return [
        refusal(lambda: td.tsqr(narrow)),
        refusal(lambda: td.tsqr(torch.ones(1, 60))),
        refusal(lambda: td.solve_spd(a, b)),
        refusal(lambda: td.solve_spd(-spd, b)),
        refusal(lambda: td.cholesky(-spd)),
        refusal(lambda: td.lstsq(a, whole[1][:3])),
        refusal(lambda: td.tsqr(a.to_sparse())),
        refusal(lambda: td.lstsq(spoilt[mine], b)),
        refusal(lambda: td.rsvd(spoilt[mine], 2)),
        refusal(lambda: td.lstsq(a, side)),
        refusal(lambda: td.rsvd(a, 2 + rank)),
        refusal(lambda: td.tsqr(distribute_tensor(whole[0], mesh, [Replicate()]))),
        refusal(lambda: td.tsqr(distribute_tensor(whole[0], mesh, [Shard(1)]))),
        refusal(lambda: td.tsqr(distribute_tensor(whole[0], many, [Shard(0), Replicate()]))),
        refusal(lambda: td.lstsq(distribute_tensor(whole[0], mesh, [Shard(0)]), b)),
        refusal(
            lambda: td.cholesky(distribute_tensor(whole[2], mesh, [Shard(0)]), dist.group.WORLD)
        ),
        refusal(lambda: td.cholesky(spd, layout=td.Layout.even((40, 40), 0, ranks + 1))),
        refusal(lambda: td.tsqr(a, lone)) if rank else ("BackendError", ""),
    ]


@pytest.mark.parametrize("ranks", [2, 4])
def test_what_one_rank_cannot_use_is_refused_on_every_rank(ranks):
    for found in pool(ranks).run(faults):
        assert [error[0] for error in found] == [
            "RankError",
            "ShapeError",
            "ShapeError",
            "NotPositiveDefiniteError",
            "NotPositiveDefiniteError",
            "OperandError",
            "DTypeError",
            "NotFiniteError",
            "NotFiniteError",
            "DTypeError",
            "RankError",
            *["FlagError"] * 3,
            "DTypeError",
            "FlagError",
            "ShapeError",
            "BackendError",
        ]
        assert "gathered" in found[1][1]
        assert "on rank 0" in found[0][1]
        assert "A must be Shard(0)" in found[11][1]


def shortest():
    a, b, _ = (x[layout_for(dist.get_world_size(), N).rows(dist.get_rank())] for x in deficient())
    return td.lstsq(a, b)


def deficient():
    a, b, spd = problem(torch.float64)
    a[:, 2] = a[:, 0] - a[:, 1]
    return a, b, spd


@pytest.mark.parametrize("ranks", [1, 4])
def test_least_squares_of_dependent_columns_are_the_shortest(ranks):
    a, b, _ = deficient()
    want = torch.linalg.pinv(a, rtol=1e-12) @ b
    for found in pool(ranks).run(shortest):
        assert int(found.rank) == N - 1
        assert (found.solution - want).abs().max() <= bound(torch.float64)
        off = ((a @ want - b) ** 2).sum(0)
        assert (found.residuals - off).abs().max() <= bound(torch.float64) * off.max()


def test_plans_print_and_refuse():
    text = str(td.plan("lstsq", [30, 10], 6, right_sides=2))
    assert text.splitlines()[0] == "lstsq on 2 ranks: 40 x 6 in torch.float32"
    assert "triangles" in text
    # Far less than the matrix.
    assert td.plan("tsqr", [10**6] * 4, 50).total < 4 * 10**6 * 50 * 4 / 1000
    with pytest.raises(ValueError, match="function must be one of"):
        td.plan("svd", [3], 3)
    with pytest.raises(ValueError, match="square"):
        td.plan("solve_spd", [3, 3], 5)


def test_without_a_process_group_it_says_so():
    with pytest.raises(RuntimeError, match="process group"):
        td.tsqr(torch.ones(3, 2))
