"""gemm over ranks: values, gradients and bytes of every mesh and placement, against one rank."""

import random
from math import prod

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard

import trnblas
from ranks import Watched, part_of, placements_of, pool, rank_numbers, refusal, sharded
from trnblas import distributed
from trnsci.core.counters import counts

MESHES = [(1,), (2,), (3,), (4,), (6,), (1, 1), (2, 1), (1, 3), (2, 2), (2, 3), (3, 2)]
SIZES = [(5, 7, 3), (1, 4, 6), (0, 3, 2), (6, 0, 5), (13, 9, 12), (2, 2, 2), (8, 8, 8)]
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
CASES = 10


def _matrix(shape, dtype, seed):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def _cases(mesh, seeds):
    """Return random calls, the same on every rank."""
    for seed in seeds:
        draw = random.Random(f"{mesh} {seed}")
        dtype = draw.choice(DTYPES)
        flags = [draw.choice(["N", "T", "C"]) for _ in "AB"]
        m, k, n = draw.choice(SIZES)
        shapes = [(m, k) if flags[0] == "N" else (k, m), (k, n) if flags[1] == "N" else (n, k)]
        places = [draw.choice(placements_of(mesh, 2)) for _ in "AB"]
        out = draw.choice([None, *placements_of(mesh, 2)])
        alpha = draw.choice([1.0, -0.5, 0.5 + 1j if dtype.is_complex else 2.0])
        yield seed, dtype, flags, shapes, places, out, alpha, draw.choice([False, True])


def _op(x, flag):
    return x if flag == "N" else x.mT if flag == "T" else x.mH


def _bound(depth, dtype, magnitude):
    """Two orders of a sum of ``depth`` and some terms, with the factor 4 of complex products."""
    roundoff = torch.finfo(dtype).eps / 2
    return 2 * (depth + 10) * roundoff * (4 if dtype.is_complex else 1) * magnitude


def _near(found, wanted, depth, magnitude):
    """Whether the part of a DTensor is that of a whole matrix."""
    mesh, dtype = found.device_mesh, found.dtype
    wanted, magnitude = (part_of(x, mesh, found.placements) for x in (wanted, magnitude))
    local = found.to_local().to(torch.complex128)
    if local.shape != wanted.shape:
        return False
    return bool(((local - wanted).abs() <= _bound(depth, dtype, magnitude)).all())


def _compared(shape, seeds):
    mesh = init_device_mesh("cpu", shape)
    rank, wrong = dist.get_rank(), []
    for case in _cases(shape, seeds):
        seed, dtype, flags, shapes, places, out, alpha, accumulates = case
        whole = [_matrix(s, dtype, seed + at) for at, s in enumerate(shapes)]
        A, B = (sharded(x, mesh, p).requires_grad_() for x, p in zip(whole, places, strict=True))
        left, right = (_op(x.to(torch.complex128), f) for x, f in zip(whole, flags, strict=True))
        (m, k), n = left.shape, right.shape[1]
        planned = distributed.plan(
            "gemm",
            *shapes,
            mesh=shape,
            in_placements=places,
            placements=out,
            dtype=dtype,
            transA=flags[0],
            transB=flags[1],
        )
        options = {"placements": out, "transA": flags[0], "transB": flags[1]}
        # Not with signatures, nor where the local product copies what is conjugated; it makes a
        # scalar too.
        measured = seed % 2 == 0 and not (dtype.is_complex and "C" in flags)
        most = planned.peak_bytes[rank] + 16 if measured else None
        with Watched([A.to_local(), B.to_local()], most, raises=False) as seen:
            C = distributed.gemm(alpha, A, B, check=bool(seed % 2), **options)
        wanted, magnitude = alpha * (left @ right), abs(alpha) * (left.abs() @ right.abs())
        if not _near(C, wanted, k, magnitude):
            wrong.append(("value", case))
        if out is not None and tuple(C.placements) != tuple(out):
            wrong.append(("placements", case))
        signatures = 0 if seed % 2 else planned.steps[0].received[rank]
        if seen.received != planned.received(rank) - signatures:
            wrong.append(("bytes", case, seen.calls, planned.received(rank)))
        if most is not None and seen.peak > most:
            wrong.append(("memory", case, seen.peak, planned.peak_bytes[rank]))
        W = sharded(_matrix((m, n), dtype, 99), mesh, C.placements)
        with Watched() as seen:
            C.backward(W)
        if seen.received != planned.received(rank, backward=True):
            wrong.append(("backward bytes", case, seen.calls))
        w = _matrix((m, n), dtype, 99).to(torch.complex128)
        factor = complex(alpha).conjugate()
        for x, flag, grad, size, depth in (
            (A, flags[0], factor * (w @ right.mH), w.abs() @ right.abs().mT, n),
            (B, flags[1], factor * (left.mH @ w), left.abs().mT @ w.abs(), m),
        ):
            if x.grad.placements != x.placements:
                wrong.append(("placements of a gradient", case, x.grad.placements))
            back = grad if flag == "N" else grad.mT if flag == "T" else grad.mH
            sizes = size if flag == "N" else size.mT
            if not _near(x.grad, back, depth, abs(alpha) * sizes):
                wrong.append(("gradient", case))
        if accumulates:
            more = distributed.gemm(alpha, A, B, -2.0, C.detach(), check=False, **options)
            if not _near(more, -wanted, k + 4, 3 * magnitude):
                wrong.append(("accumulated", case))
    return wrong


@pytest.mark.parametrize("mesh", rank_numbers(MESHES), ids=str)
def test_every_mesh_gives_the_values_gradients_and_bytes_of_the_plan(mesh):
    for found in pool(prod(mesh)).run(_compared, mesh, range(CASES)):
        assert found == []


@pytest.mark.slow
@pytest.mark.parametrize("mesh", rank_numbers(MESHES), ids=str)
def test_more_calls_on_every_mesh(mesh):
    for first in (10, 30, 50, 70):
        for found in pool(prod(mesh)).run(_compared, mesh, range(first, first + 20)):
            assert found == []


def test_summa_receives_the_bytes_of_its_formula():
    for rows, columns in [(2, 2), (2, 3), (4, 4), (8, 16)]:
        m, k, n = 16 * 3 * 7, 16 * 3 * 5, 16 * 3 * 4
        found = distributed.plan("gemm", (m, k), (k, n), mesh=(rows, columns))
        formula = 4 * (m * k / rows * (1 - 1 / columns) + k * n / columns * (1 - 1 / rows))
        assert found.most_received == formula
        assert found.ratio >= 1


def test_a_variant_is_chosen_that_moves_less():
    tall = distributed.plan("gemm", (4096, 4096), (4096, 4), mesh=(4, 4))
    summa = 4 * 4096 * (4096 + 4) / 4 * 3 / 4
    assert tall.most_received < summa / 100  # A does not move
    inner = distributed.plan(
        "gemm", (8, 4096), (4096, 8), mesh=4, in_placements=([Shard(1)], [Shard(0)])
    )
    assert [step.kind for step in inner.steps] == ["all_gather", "compute", "reduce_scatter"]


def _against_dtensor(shape, sizes):
    """Return bytes and memory of gemm and of DTensor's own product."""
    mesh, (m, k, n) = init_device_mesh("cpu", shape), sizes
    split = (Shard(0), Shard(1))[: len(shape)]
    A = sharded(_matrix((m, k), torch.float64, 0), mesh, split)
    B = sharded(_matrix((k, n), torch.float64, 1), mesh, split)
    parts = [A.to_local(), B.to_local()]
    with Watched(parts) as theirs:
        A @ B
    with Watched(parts, theirs.peak - 1, raises=False) as ours:
        distributed.gemm(1.0, A, B, check=False)
    return (ours.received, ours.peak), (theirs.received, theirs.peak)


@pytest.mark.parametrize("mesh", rank_numbers([(4,), (2, 2), (2, 3)]), ids=str)
def test_bytes_and_memory_are_at_most_those_of_dtensor(mesh):
    sizes = (60, 4800, 60)
    for ours, theirs in pool(prod(mesh)).run(_against_dtensor, mesh, sizes):
        assert 0 < ours[0] <= theirs[0]
        assert 0 < ours[1] < theirs[1]


def _within(shape, limit):
    """Return the error of a product whose operands and buffers must fit a limit, or its value."""
    mesh = init_device_mesh("cpu", shape)
    split = (Shard(0), Shard(1))
    A = sharded(_matrix((128, 2048), torch.float64, 0), mesh, split)
    B = sharded(_matrix((2048, 128), torch.float64, 1), mesh, split)
    with Watched([A.to_local(), B.to_local()], limit):
        C = distributed.gemm(1.0, A, B)
    return C.full_tensor()


def test_a_limit_of_memory_that_four_ranks_keep_and_one_does_not():
    def peak(mesh):
        return max(
            distributed.plan(
                "gemm", (128, 2048), (2048, 128), mesh=mesh, dtype=torch.float64
            ).peak_bytes
        )

    limit = peak((2, 2)) + 16
    assert peak((1, 1)) > limit
    found = pool(4).run(_within, (2, 2), limit)
    wanted = _matrix((128, 2048), torch.float64, 0) @ _matrix((2048, 128), torch.float64, 1)
    for each in found:
        torch.testing.assert_close(each, wanted)
    ((kind, text),) = pool(1).run(_refused_within, (1, 1), limit)
    assert kind == "MemoryError"
    assert f"above the limit of {limit}" in text


def _refused_within(shape, limit):
    return refusal(lambda: _within(shape, limit))


def _launches():
    """Return the launches of this rank, and the distance to torch's product."""
    mesh = init_device_mesh("cpu", (1, 2))
    split = (Shard(0), Shard(1))
    whole = [_matrix((64, 64), torch.float32, seed) for seed in (0, 1)]
    A, B = (sharded(x, mesh, split) for x in whole)
    before = counts()
    with trnblas.backend("simulator"):
        C = distributed.gemm(1.0, A, B)
    wanted = part_of(whole[0] @ whole[1], mesh, split)
    return (counts() - before).launches, float((C.to_local() - wanted).abs().max())


def test_ranks_launch_kernels():
    bound = float(_bound(64, torch.float32, 64 * 25.0))  # elements of at most 5
    for launches, distance in pool(2).run(_launches):
        assert launches == {"gemm": 2}  # one for each panel
        assert distance <= bound
