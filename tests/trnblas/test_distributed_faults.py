"""Faults of distributed calls: bad input, ranks that differ, end or are late."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.autograd import forward_ad
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from ranks import Pool, pool, refusal
from trnblas import distributed


def _zeros(mesh, rows, columns, placements, dtype=torch.float32):
    return distribute_tensor(torch.zeros(rows, columns, dtype=dtype), mesh, placements)


def _differing():
    """Calls in which one rank has other arguments than the rest."""
    mesh, rank = init_device_mesh("cpu", (2, 2)), dist.get_rank()
    split, odd = (Shard(0), Shard(1)), rank == 2
    A = DTensor.from_local(torch.zeros(2, 2), mesh, split)
    grad = DTensor.from_local(torch.zeros(2, 2), mesh, split).requires_grad_(odd)
    other = DTensor.from_local(torch.zeros(2, 3), mesh, split)
    plain = torch.zeros(4, 4)
    gemm = distributed.gemm
    return [
        refusal(lambda: gemm(2.0 if odd else 1.0, A, A)),
        refusal(lambda: gemm(1.0, A, other if odd else A)),
        refusal(lambda: gemm(1.0, A, A, placements=[Replicate(), Shard(1)] if odd else None)),
        refusal(lambda: gemm(1.0, A, grad)),
        refusal(lambda: gemm(1.0, A, plain if odd else A)),
        refusal(lambda: gemm("x" if odd else 1.0, A, A)),
        refusal(lambda: gemm(1.0, A, A)),
    ]


def test_ranks_that_differ_are_named_on_every_rank():
    for rank, found in enumerate(pool(4).run(_differing)):
        for kind, text in found[:4]:
            assert kind == "RankError"
            assert text.startswith("trnblas.distributed.gemm: all ranks must give the same")
            assert "on rank 0, 1, 3: A (4, 4)" in text
            assert "on rank 2: A (4, 4)" in text
        assert found[4][0] == "DTypeError"
        assert found[5][0] == "DTypeError"
        for kind, text in found[4:6]:
            assert kind == "DTypeError"
            assert ("on rank 2: " in text) == (rank != 2)
        assert found[6] is None


def _transformed():
    mesh = init_device_mesh("cpu", (2,))
    A, one = _zeros(mesh, 4, 4, (Shard(0),)), torch.ones(())

    def call(alpha, matrix=A):
        return distributed.gemm(alpha, matrix, A).to_local().sum()

    with forward_ad.dual_level():
        found = [refusal(lambda: call(forward_ad.make_dual(one, one)))]
        assert refusal(lambda: call(2.0)) is None
    return [
        *found,
        refusal(lambda: torch.func.grad(call)(one)),
        refusal(lambda: torch.func.jvp(call, (one,), (one,))),
        refusal(lambda: torch.vmap(call)(torch.ones(3))),
        refusal(lambda: torch.func.grad(lambda x: x * call(1.0))(one)),
    ]


def test_forward_mode_and_transforms_are_refused_by_name():
    for found in pool(2).run(_transformed):
        assert [kind for kind, _ in found] == ["DerivativeError"] * 5
        assert all(text.startswith("trnblas.distributed.gemm: ") for _, text in found)


def _bad_input():
    mesh, rank = init_device_mesh("cpu", (2,)), dist.get_rank()
    grid, cube = init_device_mesh("cpu", (1, 2)), init_device_mesh("cpu", (1, 1, 2))
    lone = DeviceMesh("cpu", [0])
    rows = (Shard(0),)
    A = _zeros(mesh, 4, 4, rows)
    gemm = distributed.gemm
    partial = DTensor.from_local(torch.zeros(4, 4), mesh, [Partial()])
    uneven = DTensor.from_local(
        torch.zeros(1 + 2 * rank, 4), mesh, rows, shape=torch.Size((4, 4)), stride=(4, 1)
    )
    double = _zeros(grid, 4, 4, (Shard(0), Shard(0)))
    factor = torch.tensor(1.0, requires_grad=True)
    outside = DTensor.from_local(torch.zeros(4, 4), lone, rows) if rank == 0 else None
    found = {
        "no DTensor": refusal(lambda: gemm(1.0, torch.zeros(4, 4), torch.zeros(4, 4))),
        "one DTensor": refusal(lambda: gemm(1.0, A, torch.zeros(4, 4))),
        "two meshes": refusal(lambda: gemm(1.0, A, _zeros(grid, 4, 4, (Replicate(), Shard(0))))),
        "cube": refusal(
            lambda: gemm(1.0, *[_zeros(cube, 4, 4, (Shard(0),) + (Replicate(),) * 2)] * 2)
        ),
        "partial": refusal(lambda: gemm(1.0, A, partial)),
        "uneven": refusal(lambda: gemm(1.0, uneven, A)),
        "double": refusal(lambda: gemm(1.0, double, double)),
        "shapes": refusal(lambda: gemm(1.0, A, _zeros(mesh, 5, 4, rows))),
        "dtypes": refusal(lambda: gemm(1.0, A, _zeros(mesh, 4, 4, rows, torch.float64))),
        "half": refusal(lambda: gemm(1.0, *[_zeros(mesh, 4, 4, rows, torch.bfloat16)] * 2)),
        "vector": refusal(lambda: gemm(1.0, A, distribute_tensor(torch.zeros(4), mesh, rows))),
        "beta": refusal(lambda: gemm(1.0, A, A, 1.0)),
        "C": refusal(
            lambda: gemm(1.0, A, A, 1.0, _zeros(mesh, 4, 4, (Shard(1),)), placements=rows)
        ),
        "C shape": refusal(lambda: gemm(1.0, A, A, 1.0, _zeros(mesh, 1, 4, rows))),
        "placements": refusal(lambda: gemm(1.0, A, A, placements=[Shard(0), Shard(1)])),
        "no placements": refusal(lambda: gemm(1.0, A, A, placements="ab")),
        "dimension": refusal(lambda: gemm(1.0, A, A, placements=[Shard(5)])),
        "factor": refusal(lambda: gemm(factor, A, A)),
    }
    if rank == 0:
        found["outside"] = refusal(lambda: gemm(1.0, outside, outside))
    else:
        found["outside"] = refusal(lambda: gemm(1.0, *[_outsider(lone)] * 2))
    return found


def _outsider(mesh):
    return DTensor.from_local(torch.zeros(0, 4), mesh, (Shard(0),), run_check=False)


BAD_INPUT = {
    "no DTensor": ("DTypeError", "A and B and C must be DTensors, got Tensor, Tensor"),
    "one DTensor": ("DTypeError", "B must be a DTensor, got Tensor"),
    "two meshes": ("FlagError", "all operands must be on one mesh"),
    "cube": ("FlagError", "the mesh must have 1 or 2 dimensions, got 3"),
    "partial": ("FlagError", "B must be Shard or Replicate along every mesh dimension"),
    "uneven": ("ShapeError", "A of shape (4, 4)"),
    "double": ("FlagError", "A must have every dimension split along one mesh dimension only"),
    "shapes": ("ShapeError", "A and B must agree in the contracted dimension"),
    "dtypes": ("DTypeError", "torch.float64"),
    "half": ("DTypeError", "float32, float64, complex64 or complex128"),
    "vector": ("ShapeError", "B must have 2 dimensions, got shape (4,)"),
    "beta": ("FlagError", "C"),
    "C": ("FlagError", "C must have the placements of the result"),
    "C shape": ("ShapeError", "C must have shape (4, 4), got (1, 4)"),
    "placements": ("FlagError", "placements must have one entry for each of 1 mesh dimensions"),
    "no placements": ("FlagError", "placements must be a list or tuple of placements, got 'ab'"),
    "dimension": ("FlagError", "placements must split dimensions of a tensor of 2 dimensions"),
    "factor": ("DerivativeError", "alpha must not require a gradient"),
}


def test_bad_input_is_refused_on_every_rank_with_its_reason():
    both = pool(2).run(_bad_input)
    for rank, found in enumerate(both):
        for name, (kind, text) in BAD_INPUT.items():
            assert found[name] is not None, name
            assert found[name][0] == kind, (name, found[name])
            assert found[name][1].startswith("trnblas.distributed.gemm: "), name
            assert text in found[name][1], (name, found[name])
        outside = found["outside"]
        assert outside is None if rank == 0 else outside[0] == "BackendError"
    assert "without rank 1" in both[1]["outside"][1]


def _one_ends():
    mesh = init_device_mesh("cpu", (2,))
    A = DTensor.from_local(torch.zeros(2, 4), mesh, [Shard(0)])
    distributed.gemm(1.0, A, A)
    dist.barrier()
    if dist.get_rank() == 1:
        os._exit(1)
    return refusal(lambda: distributed.gemm(1.0, A, A)), refusal(
        lambda: distributed.gemm(1.0, A, A, check=False)
    )


def test_a_rank_that_ended_is_an_error_that_names_the_function():
    own = Pool(2)
    try:
        found = own.run(_one_ends, ended=[1])[0]
    finally:
        own.end()
    for kind, text in found:
        assert kind == "RankError"
        assert text.startswith("trnblas.distributed.gemm: ")
        assert "failed on rank 0 of 2" in text


def _one_stays_away(seconds):
    """A mesh of two of three ranks, because all ranks compare arguments in the default group."""
    dist.barrier()
    group = dist.new_group([0, 1], timeout=timedelta(seconds=seconds))
    if dist.get_rank() == 2:
        return None
    A = DTensor.from_local(torch.zeros(2, 4), DeviceMesh.from_group(group, "cpu"), [Shard(0)])
    distributed.gemm(1.0, A, A)
    return refusal(lambda: distributed.gemm(1.0, A, A)) if dist.get_rank() == 0 else None


def test_a_rank_that_stays_away_ends_in_the_time_out_that_names_the_function():
    own = Pool(3)
    try:
        kind, text = own.run(_one_stays_away, 3)[0]
    finally:
        own.end()
    assert kind == "RankError"
    assert text.startswith("trnblas.distributed.gemm: all_gather failed on rank 0 of 2")
    assert "imed out" in text
