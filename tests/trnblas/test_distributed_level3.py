"""syrk, trsm and MP2 energies over ranks: values, gradients and bytes, against one rank."""

import random
from math import prod

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

import trnblas
from ranks import Watched, part_of, placements_of, pool, refusal, sharded, with_cases
from trnblas import distributed, mp2

MESHES = [(1,), (2,), (3,), (4,), (6,), (2, 2), (3, 2)]
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
CASES = 6
FAST_CASES = 4


def _matrix(shape, dtype, seed):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def _far(found, wanted, bound):
    """The largest distance of a part to that of a whole tensor, if it is above the bound."""
    wanted = part_of(wanted, found.device_mesh, found.placements)
    local = found.to_local()
    if local.shape != wanted.shape:
        return tuple(local.shape)
    distance = (local.to(wanted.dtype) - wanted).abs().max().item() if local.numel() else 0.0
    return distance if distance > bound else None


def _checked(wrong, case, call, planned, operands, wanted, grads, bounds):
    """Append what a call does otherwise than its plan and the one-rank function."""
    rank = dist.get_rank()
    parts = [x.to_local() if isinstance(x, DTensor) else x for x in operands]
    limit = planned.peak_bytes[rank] + 16
    with torch.no_grad(), Watched(parts, limit, raises=False) as seen:
        call(False)
    if seen.peak > limit:
        wrong.append((case, "memory", seen.peak, limit))
    if seen.received != planned.received(rank) - planned.steps[0].received[rank]:
        wrong.append((case, "bytes", seen.calls, [s for s in planned.steps[1:]]))
    found = call(True)
    if (far := _far(found, wanted, bounds[0])) is not None:
        wrong.append((case, "value", far, bounds[0]))
    W = sharded(_matrix(wanted.shape, found.dtype, 9), found.device_mesh, found.placements)
    with Watched() as seen:
        found.backward(W)
    if seen.received != planned.received(rank, backward=True):
        wrong.append((case, "backward bytes", seen.calls, planned.backward))
    for x, grad in zip(operands, grads, strict=True):
        given = x.grad
        if isinstance(x, DTensor):
            if given.placements != x.placements:
                wrong.append((case, "placements", given.placements))
        else:
            given = sharded(given, found.device_mesh, (Replicate(),) * found.device_mesh.ndim)
        if (far := _far(given, grad, bounds[1])) is not None:
            wrong.append((case, "gradient", far, bounds[1]))


def _gradients(function, operands, shape, dtype):
    """Return value and gradients of the one-rank function in double precision."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    leaves = [x.to(wide, copy=True).requires_grad_() for x in operands]
    value = function(*leaves)
    value.backward(_matrix(shape, dtype, 9).to(wide))
    return value.detach(), [x.grad for x in leaves]


def _syrk(shape, seeds):
    mesh, wrong = init_device_mesh("cpu", shape), []
    for seed in seeds:
        draw = random.Random(f"syrk {shape} {seed}")
        dtype, trans = draw.choice(DTYPES), draw.choice([False, True])
        n, k = draw.choice([(5, 3), (1, 4), (0, 2), (6, 0), (8, 8), (13, 7)])
        uplo, placements = draw.choice(["upper", "lower"]), draw.choice(placements_of(shape, 2))
        out = draw.choice([None, *placements_of(shape, 2)])
        whole = _matrix((k, n) if trans else (n, k), dtype, seed)
        A = sharded(whole, mesh, placements).requires_grad_()
        options = {"trans": trans, "uplo": uplo, "placements": out}
        planned = distributed.plan(
            "syrk",
            whole.shape,
            mesh=shape,
            in_placements=[placements],
            placements=out,
            trans=trans,
            dtype=dtype,
        )

        def call(check, A=A, options=options):
            return distributed.syrk(0.5, A, check=check, **options)

        value, _ = _gradients(
            lambda x, t=trans: 0.5 * (x.mT @ x if t else x @ x.mT), [whole], (n, n), dtype
        )
        # The gradient of a mirrored triangle: both elements of a pair are one value.
        weight = _matrix((n, n), dtype, 9).to(value.dtype)
        triangle = torch.triu(weight + weight.mT, 1) if uplo == "upper" else 0
        if uplo == "lower":
            triangle = torch.tril(weight + weight.mT, -1)
        full = triangle + torch.diag(weight.diagonal())
        x = whole.to(value.dtype, copy=True).requires_grad_()
        (0.5 * (x.mT @ x if trans else x @ x.mT)).backward(full)
        u = torch.finfo(dtype).eps
        bound = 40 * (n + k + 4) * u * (1 + float(whole.abs().max()) ** 2 if whole.numel() else 1)
        case = (seed, dtype, n, k, options, placements)
        _checked(wrong, case, call, planned, [A], value, [x.grad], (bound, 10 * bound))
        C = call(True).full_tensor()
        if not torch.equal(C, C.mT):
            wrong.append((case, "not symmetric"))
    return wrong


def _trsm(shape, seeds):
    mesh, wrong = init_device_mesh("cpu", shape), []
    for seed in seeds:
        draw = random.Random(f"trsm {shape} {seed}")
        dtype, trans = draw.choice(DTYPES), draw.choice(["N", "T", "C"])
        n, columns = draw.choice([(5, 3), (1, 4), (0, 2), (6, 0), (8, 40), (13, 1)])
        side, uplo = draw.choice(["left", "right"]), draw.choice(["upper", "lower"])
        diag = draw.choice(["unit", "nonunit"])
        split_a, split_b = (
            draw.choice(placements_of(shape, 2)),
            draw.choice(placements_of(shape, 2)),
        )
        out = draw.choice([None, *placements_of(shape, 2)])
        # A diagonal of 1 to 2 and other elements of at most 1 / (2 n): the inverse is below 2.
        whole = torch.clamp(_matrix((n, n), dtype, seed).abs(), 0, 1).to(dtype) / (2 * max(n, 1))
        whole = whole + torch.diag(torch.linspace(1, 2, n).to(dtype))
        right = _matrix((n, columns) if side == "left" else (columns, n), dtype, seed + 1)
        A, B = sharded(whole, mesh, split_a), sharded(right, mesh, split_b)
        A.requires_grad_()
        B.requires_grad_()
        flags = {"side": side, "uplo": uplo, "trans": trans}
        planned = distributed.plan(
            "trsm",
            whole.shape,
            right.shape,
            mesh=shape,
            in_placements=[split_a, split_b],
            placements=out,
            dtype=dtype,
            **flags,
        )
        factor = -0.5

        def call(check, A=A, B=B, flags=flags, diag=diag, out=out):
            return distributed.trsm(-0.5, A, B, diag=diag, placements=out, check=check, **flags)

        def alone(a, b, flags=flags, diag=diag):
            return trnblas.trsm(-0.5, a, b, diag=diag, **flags)

        value, grads = _gradients(alone, [whole, right], right.shape, dtype)
        bound = 100 * (n + columns + 4) * torch.finfo(dtype).eps * (1 + abs(factor))
        case = (seed, dtype, n, columns, flags, diag, split_a, split_b, out)
        _checked(wrong, case, call, planned, [A, B], value, grads, (bound, 10 * bound))
    return wrong


def _pairs(shape, seeds):
    mesh, wrong = init_device_mesh("cpu", shape), []
    placements = (Shard(0), Replicate())[: len(shape)]
    for seed in seeds:
        draw = random.Random(f"pairs {shape} {seed}")
        dtype = draw.choice(DTYPES[:2])
        nocc, nvir, naux = draw.choice([(5, 3, 4), (1, 2, 3), (6, 2, 2), (3, 4, 1), (7, 3, 5)])
        whole = _matrix((nocc, nvir, naux), dtype, seed)
        occupied = -1 - torch.rand(nocc, generator=torch.Generator().manual_seed(seed)).to(dtype)
        virtual = 1 + torch.rand(nvir, generator=torch.Generator().manual_seed(seed)).to(dtype)
        B = sharded(whole, mesh, placements).requires_grad_()
        energies = [occupied.clone().requires_grad_(), virtual.clone().requires_grad_()]
        planned = distributed.plan("batched_pair_energy", whole.shape, mesh=shape, dtype=dtype)

        def call(check, B=B, energies=energies):
            return distributed.batched_pair_energy(B, *energies, check=check)

        alone = mp2.nki_batched_pair_energy
        value, grads = _gradients(alone, [whole, occupied, virtual], (), dtype)
        size = float((whole.abs().flatten(0, 1) @ whole.abs().flatten(0, 1).mT).square().sum())
        bound = 20 * (naux + nocc * nvir) * torch.finfo(dtype).eps * (1 + 3 * size)
        case = (seed, dtype, nocc, nvir, naux)
        operands = [B, *energies]
        _checked(wrong, case, call, planned, operands, value, grads, (bound, 10 * bound))
    return wrong


@pytest.mark.parametrize(("mesh", "count"), with_cases(MESHES, FAST_CASES, CASES), ids=str)
@pytest.mark.parametrize("function", [_syrk, _trsm, _pairs])
def test_values_gradients_bytes_and_memory(function, mesh, count):
    for found in pool(prod(mesh)).run(function, mesh, range(count)):
        assert found == []


def test_few_right_hand_sides_go_by_rows_and_many_by_columns():
    rows = ([Shard(0)], [Shard(0)])
    few = distributed.plan("trsm", (1024, 1024), (1024, 2), mesh=8, in_placements=rows)
    assert "rows over 8" in few.problem
    assert few.most_received < 1024 * 2 * 4
    many = distributed.plan("trsm", (64, 64), (64, 4096), mesh=8, in_placements=rows)
    assert "columns over 8" in many.problem


def test_each_rank_receives_half_of_the_orbitals():
    found = distributed.plan("batched_pair_energy", (64, 100, 300), mesh=8)
    assert found.most_received == 4 * (64 // 8) * 100 * 300 * 4 + 7


def _bad():
    mesh = init_device_mesh("cpu", (2,))
    B = sharded(torch.ones(4, 2, 3), mesh, [Replicate()])
    C = sharded(torch.ones(4, 2, 3), mesh, [Shard(0)])
    A = sharded(torch.ones(4, 3), mesh, [Shard(0)])
    e = torch.ones(4), torch.ones(2)
    late = dist.get_rank() == 1
    return [
        refusal(lambda: distributed.batched_pair_energy(B, *e)),
        refusal(lambda: distributed.batched_pair_energy(C, e[1], e[0])),
        refusal(lambda: distributed.trsm(1.0, A, A)),
        refusal(lambda: distributed.syrk(1.0, A, uplo="diagonal" if late else "upper")),
        refusal(lambda: distributed.syrk(1.0, A, uplo="lower" if late else "upper")),
        refusal(lambda: distributed.syrk(1.0, A, trans="C")),
    ]


def test_bad_input_is_refused_on_every_rank():
    for found in pool(2).run(_bad):
        assert [kind for kind, _ in found[:5]] == [
            "FlagError",
            "ShapeError",
            "ShapeError",
            "FlagError",
            "RankError",
        ]
        assert "B must be Shard(0), got (Replicate(),)" in found[0][1]
        assert found[5] is None  # of a real matrix
