"""Draws over ranks: the bits of one rank, for every distribution, mesh and placement."""

import random
from math import prod

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import trnrand
from ranks import Watched, placements_of, pool, rank_numbers, refusal
from trnrand import Generator, distributed
from trnrand._sharded import boxes as runs
from trnsci.core.counters import counts
from trnsci.core.distributed.agreement import SIGNATURE_BYTES

MESHES = [(1,), (2,), (3,), (4,), (6,), (2, 2), (3, 2)]
SHAPES = [(), (7,), (5, 4), (4, 3, 6), (2, 0, 3), (1, 9)]
F64 = torch.float64
WEIGHTS = torch.tensor([0.0, 2.0, 0.5, 0.0, 1.0])

# Name, arguments before the size, options, and the number of dimensions after those of the size.
DRAWS = [
    ("bernoulli", (), {"p": 0.3}, 0),
    ("beta", (), {"alpha": 0.5, "beta": 2.0}, 0),
    ("binomial", (), {"n": 20, "p": 0.2}, 0),
    ("binomial", (), {"n": 200, "p": 0.7}, 0),
    ("categorical", (), {"p": WEIGHTS}, 0),
    ("cauchy", (), {}, 0),
    ("chi_squared", (), {"df": 5.0}, 0),
    ("choice", (7,), {}, 0),
    ("choice", (7,), {"p": torch.arange(7.0)}, 0),
    ("choice", (torch.arange(12.0).reshape(4, 3),), {}, 1),
    ("choice", (90,), {"replace": False}, 0),
    ("choice", (90,), {"replace": False, "p": torch.arange(1, 91.0)}, 0),
    ("dirichlet", (WEIGHTS + 1,), {}, 1),
    ("exponential", (), {"rate": 2.0}, 0),
    ("gamma", (), {"shape": 3.0}, 0),
    ("gamma", (), {"shape": 0.3, "dtype": F64}, 0),
    ("geometric", (), {"p": 0.2}, 0),
    ("gumbel", (), {"loc": 1.0, "scale": 2.0}, 0),
    ("hypergeometric", (), {"good": 300, "bad": 500, "draws": 200}, 0),
    ("laplace", (), {}, 0),
    ("lognormal", (), {}, 0),
    ("multinomial", (30, WEIGHTS), {}, 1),
    ("multivariate_normal", (torch.zeros(2), torch.tensor([[2.0, 1.0], [1.0, 3.0]])), {}, 1),
    ("negative_binomial", (), {"n": 2.5, "p": 0.2}, 0),
    ("normal", (), {"mean": 1.0, "std": 2.0}, 0),
    ("normal", (), {"dtype": F64}, 0),
    ("poisson", (), {"lam": 2.5}, 0),
    ("poisson", (), {"lam": 25.0}, 0),
    ("student_t", (), {"df": 4.0}, 0),
    ("truncated_normal", (), {"low": 6.0, "high": 7.0}, 0),
    ("uniform", (), {"low": -1.0, "high": 3.0}, 0),
    ("uniform", (), {"dtype": torch.bfloat16}, 0),
    ("von_mises", (), {"loc": 3.0, "kappa": 2.0}, 0),
    ("weibull", (), {"shape": 1.5}, 0),
    ("randint", (-5, 3_000_000_000), {}, 0),
    ("randperm", (13,), {}, None),
]


def test_every_distribution_is_tested():
    assert sorted({name for name, *_ in DRAWS}) == distributed.__all__


def _differences(shape):
    """Return the draws that differ from those of one rank, in bits or in received bytes."""
    mesh, wrong = init_device_mesh("cpu", shape), []
    draw = random.Random(str(shape))
    signatures = SIGNATURE_BYTES * (prod(shape) - 1)
    for number, (name, leading, options, more) in enumerate(DRAWS):
        size = draw.choice(SHAPES)
        sizes = () if more is None else (size,)
        ndim = 1 if more is None else len(size) + more
        placements = draw.choice(placements_of(shape, ndim))
        engine, start = draw.choice(["philox", "threefry"]), draw.choice([0, 1001, 2**40])
        one, many = Generator(5, engine=engine), Generator(5, engine=engine)
        one.seek(start)
        many.seek(start)
        for check in (True, False):  # the second call continues where the first stopped
            whole = getattr(trnrand, name)(*leading, *sizes, generator=one, **options)
            with Watched() as seen:
                part = getattr(distributed, name)(
                    *leading,
                    *sizes,
                    generator=many,
                    device_mesh=mesh,
                    placements=placements,
                    check=check,
                    **options,
                )
            full = part.full_tensor()
            if full.dtype is not whole.dtype or not torch.equal(full, whole):
                wrong.append(("bits", number, name, size, placements))
            if tuple(part.placements) != tuple(placements) or many.offset != one.offset:
                wrong.append(("placements or position", number, name, size, placements))
            if seen.received != (signatures if check else 0):
                wrong.append(("bytes", number, name, seen.calls))
    return wrong


@pytest.mark.parametrize("mesh", rank_numbers(MESHES), ids=str)
def test_every_mesh_draws_the_bits_of_one_rank(mesh):
    for found in pool(prod(mesh)).run(_differences, mesh):
        assert found == []


def _with_tensors():
    """Return the draws with parameters that are tensors which differ from those of one rank."""
    mesh, wrong = init_device_mesh("cpu", (2, 2)), []
    size = (5, 3, 4)
    rate = torch.rand(size, generator=torch.Generator().manual_seed(1)) * 40
    row = rate[0, 0] + 1
    weights = rate[..., None] + torch.arange(5.0)
    calls = [
        ("poisson", (), {"lam": rate}),
        ("normal", (), {"mean": rate, "std": row}),
        ("gamma", (), {"shape": row, "scale": torch.tensor(2.0)}),
        ("categorical", (), {"p": weights}),
        ("dirichlet", (weights[:, :1] + 1,), {}),
        ("multinomial", (rate.long(), weights), {}),
        ("randint", (rate.long(), 100), {}),
    ]
    for placements in placements_of((2, 2), 3):
        for name, leading, options in calls:
            whole = getattr(trnrand, name)(*leading, size, generator=Generator(2), **options)
            given = {"generator": Generator(2), "device_mesh": mesh, "placements": placements}
            part = getattr(distributed, name)(*leading, size, **options, **given)
            if not torch.equal(part.full_tensor(), whole):
                wrong.append((name, placements))
        whole = trnrand.poisson(lam=rate, generator=Generator(2))
        for mine in {tuple(placements), (placements[0], Replicate()), (Replicate(),) * 2}:
            split = distribute_tensor(rate, mesh, mine)
            part = distributed.poisson(
                lam=split, generator=Generator(2), device_mesh=mesh, placements=placements
            )
            if not torch.equal(part.full_tensor(), whole):
                wrong.append(("DTensor", mine, placements))
    return wrong


@pytest.mark.slow
def test_parameters_are_tensors_and_dtensors():
    assert pool(4).run(_with_tensors) == [[]] * 4


def _large():
    mesh, wrong = init_device_mesh("cpu", (2,)), []
    for size in ((3, 40_000), (300, 4_000), (2, 600, 1_000)):  # runs one by one, and blocks
        whole = trnrand.uniform(size, generator=Generator(9))
        for dim in range(len(size)):
            part = distributed.uniform(
                size, generator=Generator(9), device_mesh=mesh, placements=[Shard(dim)]
            )
            if not torch.equal(part.full_tensor(), whole):
                wrong.append((size, dim))
    return wrong


def test_long_runs_and_blocks_leave_no_trace():
    assert pool(2).run(_large) == [[]] * 2


def test_boxes_are_consecutive_samples_that_cover_a_part(monkeypatch):
    draw = random.Random(3)
    for _ in range(300):
        monkeypatch.setattr(runs, "_GAP", draw.choice([0, 3, 20, 1000]))
        monkeypatch.setattr(runs, "_BLOCK", draw.choice([1, 7, 30, 1000]))
        shape = tuple(draw.randint(1, 5) for _ in range(draw.randint(1, 4)))
        indices = torch.arange(prod(shape)).reshape(shape)
        bounds = [sorted(draw.sample(range(size + 1), 2)) for size in shape]
        part = tuple(range(*bound) for bound in bounds)
        exact = draw.choice([True, False])
        covered = []
        for box in runs.boxes(shape, part, exact=exact):
            inside = indices[tuple(slice(r.start, r.stop) for r in box)].flatten()
            assert inside.tolist() == list(range(inside[0], inside[0] + len(inside)))
            assert inside[0] == runs.first_of(shape, box)
            covered += inside.tolist()
        own = set(indices[tuple(slice(*bound) for bound in bounds)].flatten().tolist())
        assert len(covered) == len(set(covered))
        assert set(covered) == own if exact else set(covered) >= own


def _with_kernels():
    mesh = init_device_mesh("cpu", (2,))
    before = counts()
    with trnrand.backend("simulator"):
        part = distributed.uniform(
            2, 512, generator=Generator(4), device_mesh=mesh, placements=[Shard(0)]
        )
    launches = dict((counts() - before).launches)
    return torch.equal(
        part.full_tensor(), trnrand.uniform(2, 512, generator=Generator(4))
    ), launches


def test_every_rank_launches_the_kernel():
    for equal, launches in pool(2).run(_with_kernels):
        assert equal
        assert sum(launches.values()) == 1


# -- faults ----------------------------------------------------------------------------------------


def _refused():
    last = dist.get_rank() == dist.get_world_size() - 1
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    many = {"device_mesh": mesh, "placements": [Shard(0)]}
    seed = Generator(int(last))
    moved = Generator(0)
    rates = DTensor.from_local(torch.full((2,), -1.0 if last else 1.0), mesh, [Shard(0)])
    found = [
        refusal(lambda: distributed.normal(6, generator=seed, **many)),
        refusal(lambda: distributed.normal(6 + last, generator=moved, **many)),
        refusal(lambda: distributed.poisson(lam=rates, generator=moved, **many)),
        refusal(lambda: distributed.normal(6, generator=Generator(0, "cpu", 1, 3), **many)),
        refusal(lambda: distributed.normal(6, device_mesh=mesh, placements=[Shard(1)])),
        refusal(lambda: distributed.normal(6, device_mesh=mesh, placements=[])),
        refusal(
            lambda: distributed.poisson(
                3, 2, lam=torch.tensor([1.0, 2.0 + last]), generator=moved, **many
            )
        ),
        refusal(lambda: distributed.normal(6, total=12, generator=moved, **many)),
        refusal(lambda: distributed.choice(rates, 6, generator=moved, **many)),
        refusal(
            lambda: distributed.poisson(
                lam=rates, generator=moved, device_mesh=mesh, placements=[Replicate()]
            )
        ),
    ]
    return found, moved.offset


def test_bad_input_is_refused_on_every_rank_and_moves_no_generator():
    wanted = [
        ("RankError", "on rank 0, 1: (6,) in torch.float32"),
        ("RankError", "on rank 2: (7,) in torch.float32"),
        ("ParameterError", "lam must be"),
        ("FlagError", "generator must have no partition"),
        ("FlagError", "placements must split dimensions of a tensor of 1 dimensions"),
        ("FlagError", "placements must have one entry for each of 1 mesh dimensions"),
        ("RankError", "all ranks must give the same arguments"),
        ("FlagError", "total must be absent"),
        ("FlagError", "population must be a tensor that is the same on every rank"),
        ("FlagError", "lam must be split as the result, or replicated"),
    ]
    for found, offset in pool(3).run(_refused):
        for (kind, text), refused in zip(wanted, found, strict=True):
            assert refused is not None
            assert refused[0] == kind, refused
            assert text in refused[1]
        assert offset == 0
