"""Transforms over ranks: values, gradients, bytes and memory, against one rank and the plan."""

import functools
import math
import random
from functools import cache
from itertools import pairwise, permutations

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import trnfft
from ranks import Watched, pool, refusal, with_cases
from trnfft import distributed
from trnsci.core.counters import counts
from trnsci.core.distributed.layout import even_offsets

MESHES = [(1,), (2,), (3,), (4,), (6,), (2, 1), (1, 3), (2, 2), (2, 3), (3, 2)]
SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13]
LENGTHS = [1, 2, 3, 7, 12, 13, 16, 30, 36, 49, 60, 64, 97, 144, 210]
REAL, COMPLEX = [torch.float32, torch.float64], [torch.complex64, torch.complex128]
NORMS = [None, "backward", "forward", "ortho"]
CASES = 16
FAST_CASES = 8  # one with nothing in it, two with other lengths, half of them with gradients


def _values(shape, dtype, seed):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def _bound(points, dtype):
    """Return the relative L2 error of a transform, as of one rank: 8 roundoffs for each stage."""
    return 8 * torch.finfo(dtype).eps / 2 * (math.log2(points) + 1)


def _is_near(found, wanted, points, dtype, factor=1):
    wide = wanted.dtype
    error = torch.linalg.vector_norm(found.to(wide) - wanted)
    return bool(error <= factor * _bound(points, dtype) * torch.linalg.vector_norm(wanted))


@cache
def _mesh(shape):
    return init_device_mesh("cpu", shape)


def _nd_cases(mesh, count):
    """Return random calls of transforms along several dimensions, the same on every rank."""
    draw = random.Random(str(mesh))
    for seed in range(count):
        kind = draw.choice(["fftn", "ifftn", "rfftn", "irfftn"])
        ndim = draw.randint(len(mesh) + 1, 4)
        dims = draw.sample(range(ndim), draw.randint(1, min(ndim, 3)))
        shape = [draw.choice(SIZES) for _ in range(ndim)]
        if kind == "irfftn":
            shape[dims[-1]] = draw.choice(SIZES[1:])
        if seed % 8 == 7 and len(dims) < ndim:
            shape[next(dim for dim in range(ndim) if dim not in dims)] = 0
        splits = [list(map(Shard, p)) for p in permutations(range(ndim), len(mesh))]
        options = {"placements": draw.choice([None, *splits]), "dim": dims}
        if seed % 4 == 1:
            options["s"] = [draw.choice([-1, *SIZES[2:]]) for _ in dims]
        dtype = draw.choice(REAL if kind == "rfftn" else REAL + COMPLEX)
        yield seed, kind, shape, dtype, draw.choice(splits), draw.choice(NORMS), options


def _vector_cases(mesh, count):
    """Return random calls of transforms of vectors, the same on every rank."""
    draw = random.Random(f"vectors {mesh}")
    for seed in range(count):
        kind, transposed = draw.choice(["fft", "ifft"]), draw.choice([False, True])
        batch = [draw.choice([1, 2, 5]) for _ in range(draw.randint(len(mesh) - 1, 2))]
        shape = [*batch, draw.choice(LENGTHS)]
        if kind == "ifft" and transposed:
            shape = [*batch, draw.choice(SIZES), draw.choice(SIZES)]
        places = [Shard(len(shape) - 1)]
        if len(mesh) > 1:
            places.insert(draw.randint(0, 1), Shard(draw.randrange(len(batch))))
        dtype, norm = draw.choice(REAL + COMPLEX), draw.choice(NORMS)
        yield seed, kind, shape, dtype, places, norm, {"transposed": transposed}


def _spread(whole, mesh, places):
    """Return a DTensor whose parts have storages of their own size."""
    part = distribute_tensor(whole, mesh, places).to_local().clone()
    return DTensor.from_local(part, mesh, places, shape=whole.shape, stride=whole.stride())


def _compared(shape, cases, count):
    """Return what differs from one rank and from the plan, of random calls."""
    wrong = []
    for case in globals()[cases](shape, count):
        for what in _differences(_mesh(shape), case):
            wrong.append((*what, case))
    return wrong


def _differences(mesh, case):
    seed, kind, shape, dtype, places, norm, options = case
    # Peak memory is that of cases without signatures and without tensors that autograd saves.
    rank, checked = dist.get_rank(), bool(seed % 2)
    whole = _values(shape, dtype, seed)
    x = _spread(whole, mesh, places).requires_grad_(checked)
    options = {name: value for name, value in options.items() if value is not None}
    planned = distributed.plan(
        kind, shape, tuple(mesh.shape), in_placements=places, dtype=dtype, **options
    )
    peak = planned.peak_bytes[rank]
    # The result of an empty part is made of two elements, of at most 16 bytes each.
    limit = None if checked else peak + 32
    with Watched([x.to_local()], limit=limit, raises=False) as seen:
        y = getattr(distributed, kind)(x, norm=norm, check=checked, **options)
    wide = whole.to(torch.complex128 if dtype.is_complex else torch.float64).requires_grad_()
    wanted, points = _single(kind, wide, norm, options, y.shape)
    if y.dtype != (dtype.to_real() if kind == "irfftn" else dtype.to_complex()):
        yield "dtype", y.dtype
    if not _is_near(y.full_tensor(), wanted.detach(), points, dtype):
        yield ("value",)
    if "placements" in options and list(y.placements) != options["placements"]:
        yield "placements", y.placements
    signatures = 0 if checked else planned.steps[0].received[rank]
    if seen.received != planned.received(rank) - signatures:
        yield "bytes", seen.calls, planned.received(rank) - signatures
    if not checked and not peak / 2 <= seen.peak <= limit:
        yield "memory", seen.peak, peak
    if planned.ratio is not None and planned.ratio < 1:
        yield "bound", planned.ratio
    if not checked:
        return
    w = _values(y.shape, y.dtype, 99)
    wanted.backward(w.to(wanted.dtype))
    spread = distribute_tensor(w, mesh, y.placements)
    with Watched() as seen:
        y.backward(spread)
    if seen.received != planned.received(rank, backward=True):
        yield "backward bytes", seen.calls, planned.received(rank, backward=True)
    if x.grad.placements != x.placements:
        yield "placements of a gradient", x.grad.placements
    # The real part of a gradient can be smaller than the gradient that was rounded.
    if not _is_near(x.grad.full_tensor(), wide.grad, points, dtype, factor=4):
        yield ("gradient",)


def _single(kind, x, norm, options, shape):
    """Return the transform of one rank, in double precision, and its number of points."""
    if kind in ("fft", "ifft"):
        flat = x.flatten(-2) if kind == "ifft" and options["transposed"] else x
        found = getattr(torch.fft, kind)(flat, norm=norm)
        return found.reshape(shape), flat.shape[-1]
    s, dims = options.get("s"), options["dim"]
    if s is not None and kind != "irfftn":
        s = [x.shape[dim] if size == -1 else size for size, dim in zip(s, dims, strict=True)]
    transform = functools.partial(getattr(torch.fft, kind), s=s, dim=dims, norm=norm)
    if x.numel():
        found = transform(x)
    else:  # MKL refuses to transform nothing
        empty = transform(x.to("meta"))
        found = torch.zeros(empty.shape, dtype=empty.dtype) + 0 * x.sum()
    return found, math.prod(max(x.shape[dim], found.shape[dim]) for dim in dims)


@pytest.mark.parametrize("cases", ["_nd_cases", "_vector_cases"])
@pytest.mark.parametrize(("mesh", "count"), with_cases(MESHES, FAST_CASES, CASES), ids=str)
def test_every_mesh_gives_the_values_gradients_and_bytes_of_the_plan(mesh, cases, count):
    for found in pool(math.prod(mesh)).run(_compared, mesh, cases, count):
        assert found == []


# -- plans -----------------------------------------------------------------------------------------


def _exchanges(plan):
    return sum(step.kind == "all_to_all" for step in plan.steps)


def test_slabs_and_pencils_exchange_as_often_as_they_must():
    cube = (64, 48, 32)
    for function in ("fftn", "ifftn", "rfftn", "irfftn"):
        for mesh, first in ((4, [Shard(0)]), ((2, 4), [Shard(0), Shard(1)])):
            # A real inverse has to end with the last dimension.
            last = [Shard(dim + 1) for dim in range(len(first))] if function == "irfftn" else first
            transposed = distributed.plan(function, cube, mesh, in_placements=last)
            natural = distributed.plan(function, cube, mesh, placements=first)
            expected = (1, 2) if mesh == 4 else (2, 4)
            assert (_exchanges(transposed), _exchanges(natural)) == expected
            assert len(transposed.backward) == expected[0]
    for function, shape in (("fft", (4096,)), ("ifft", (64, 64))):
        assert _exchanges(distributed.plan(function, shape, 4, transposed=True)) == 2
        assert _exchanges(distributed.plan(function, (4096,), 4)) == 3


def test_slabs_receive_the_bytes_of_their_formula():
    for ranks in (2, 4, 8):
        found = distributed.plan("fftn", (64, 64, 64), ranks)
        assert found.most_received == 8 * 64**3 // ranks * (ranks - 1) // ranks
        assert found.ratio == 1  # no algorithm receives less


def test_a_batch_that_is_split_needs_no_communication():
    found = distributed.plan("fftn", (8, 16, 16), 4, dim=(1, 2))
    assert _exchanges(found) == 0
    assert found.lower_bound.bytes == 0


def test_the_lower_bound_is_the_rank_of_blocks_of_the_transform():
    for n, ranks in ((12, 3), (13, 4), (8, 2), (7, 6)):
        fourier = torch.fft.fft(torch.eye(n, dtype=torch.complex128))
        cuts = even_offsets(n, ranks)
        most = 0
        for first, last in pairwise(cuts):
            others = [at for at in range(n) if not first <= at < last]
            most = max(most, int(torch.linalg.matrix_rank(fourier[first:last][:, others])))
        found = distributed.plan("fft", (n,), ranks)
        assert found.lower_bound.bytes == 8 * most
    for split, result in ((0, 1), (0, 0), (1, 1)):
        places = {"in_placements": [Shard(split)], "placements": [Shard(result)]}
        found = distributed.plan("rfftn", (4, 6), 2, **places)
        signals = torch.eye(24, dtype=torch.float64).view(24, 4, 6)
        bins = torch.view_as_real(torch.fft.rfftn(signals, dim=(1, 2))).chunk(2, result + 1)
        most = 0
        for rank in range(2):
            held = torch.zeros(4, 6, dtype=torch.bool)
            held.chunk(2, split)[rank].fill_(True)
            block = bins[rank].flatten(1)[~held.flatten()]
            most = max(most, int(torch.linalg.matrix_rank(block)))
        assert 0 < found.lower_bound.bytes <= 4 * most


def test_a_plan_of_many_ranks_reads_as_a_table():
    text = str(distributed.plan("fftn", (1024, 1024, 1024), (16, 32)))
    assert "split 1 to 2, mesh dimension 1" in text
    assert "any linear algorithm" in text
    assert "backward" in text


# -- memory, kernels, faults -----------------------------------------------------------------------

LIMIT = 5 * 8 * 32**3 // 4
"""Bytes of live tensors: below operand and result on one rank, above the four of four ranks."""


def _limited():
    mesh = _mesh((dist.get_world_size(),))
    whole = _values((32, 32, 32), torch.complex64, 0)
    x = _spread(whole, mesh, [Shard(0)])
    kept = []
    with Watched([x.to_local()], limit=LIMIT):
        failed = refusal(lambda: kept.append(distributed.fftn(x, check=False)))
    if failed:
        return failed
    return _is_near(kept[0].full_tensor(), torch.fft.fftn(whole.cdouble()), 32**3, whole.dtype)


def test_four_ranks_transform_what_is_too_large_for_one():
    assert all(found is True for found in pool(4).run(_limited))
    ((kind, text),) = pool(1).run(_limited)
    assert kind == "MemoryError"
    assert "above the limit" in text


def _on_simulator():
    mesh = _mesh((2,))
    x = _values((4, 6, 8), torch.complex64, 0)
    before = counts()
    with trnfft.backend("simulator"):
        y = distributed.fftn(distribute_tensor(x, mesh, [Shard(0)]))
        v = distributed.fft(distribute_tensor(x.flatten(), mesh, [Shard(0)]))
    launches = dict((counts() - before).launches)
    near = [
        _is_near(y.full_tensor(), torch.fft.fftn(x.cdouble()), 192, x.dtype),
        _is_near(v.full_tensor(), torch.fft.fft(x.cdouble().flatten()), 192, x.dtype),
    ]
    return launches, near


def test_each_rank_launches_kernels():
    for launches, near in pool(2).run(_on_simulator):
        assert sum(launches.values()) == 4, launches  # two stages of each transform
        assert near == [True, True]


def _refusals():
    rank, world = dist.get_rank(), dist.get_world_size()
    line, square = _mesh((4,)), _mesh((2, 2))
    x = _values((4, 6, 8), torch.complex64, 0)

    def on(mesh, *places, values=x):
        return distribute_tensor(values, mesh, places)

    slabs, pencils = on(line, Shard(0)), on(square, Shard(0), Shard(1))
    odd = DTensor.from_local(
        x[: 2 if rank == 1 else 1], line, [Shard(0)], shape=x.shape, stride=x.stride()
    )
    deep = _mesh((2, 2, 1))
    partial = DTensor.from_local(x, line, [Partial()])
    calls = {
        "no DTensor": lambda: distributed.fftn(x),
        "three mesh dimensions": lambda: distributed.fftn(on(deep, Shard(0), Shard(1), Shard(2))),
        "replicated": lambda: distributed.fftn(on(line, Replicate())),
        "partial": lambda: distributed.fft(partial),
        "replicated result": lambda: distributed.fftn(slabs, placements=[Replicate()]),
        "too few placements": lambda: distributed.fftn(pencils, placements=[Shard(0)]),
        "no such placement": lambda: distributed.fftn(slabs, placements=[Shard(3)]),
        "no whole dimension": lambda: distributed.fftn(on(line, Shard(0), values=x.flatten())),
        "integers": lambda: distributed.fftn(on(line, Shard(0), values=torch.arange(8))),
        "complex": lambda: distributed.rfftn(slabs),
        "no such dimension": lambda: distributed.fftn(slabs, dim=3),
        "twice": lambda: distributed.fftn(slabs, dim=(0, 0)),
        "norm": lambda: distributed.fft(on(line, Shard(2)), norm="unit"),
        "vectors not split": lambda: distributed.fft(slabs),
        "rows of a matrix split": lambda: distributed.ifft(
            on(square, Shard(1), Shard(2)), transposed=True
        ),
        "no points": lambda: distributed.fft(on(line, Shard(0), values=x.flatten()[:0])),
        "a part that is not torch.chunk's": lambda: distributed.fftn(odd),
        "ranks differ": lambda: distributed.fftn(slabs, norm="ortho" if rank == 2 else None),
        "one rank fails": lambda: distributed.fftn(slabs, dim=5 if rank == world - 1 else 0),
    }
    return {name: refusal(call) for name, call in calls.items()}


def test_errors_are_raised_on_every_rank():
    expected = {
        "no DTensor": ("DTypeError", "DTensor"),
        "three mesh dimensions": ("FlagError", "1 or 2 dimensions, got 3"),
        "replicated": ("FlagError", "must be Shard along every mesh dimension"),
        "partial": ("FlagError", "must be Shard"),
        "replicated result": ("FlagError", "placements must be Shard"),
        "too few placements": ("FlagError", "one entry for each of 2 mesh dimensions"),
        "no such placement": ("FlagError", "of a tensor of 3 dimensions"),
        "no whole dimension": ("FlagError", "fft for one vector"),
        "integers": ("DTypeError", "torch.complex64"),
        "complex": ("DTypeError", "torch.float64, got torch.complex64"),
        "no such dimension": ("DimensionError", "got 3"),
        "twice": ("ShapeError", "dim"),
        "norm": ("FlagError", "norm must be one of"),
        "vectors not split": ("FlagError", "split along its last dimension"),
        "rows of a matrix split": ("FlagError", "not along the one before"),
        "no points": ("ShapeError", "length of the vectors"),
        "a part that is not torch.chunk's": ("ShapeError", "torch.chunk"),
        "ranks differ": ("RankError", "on rank 2:"),
        "one rank fails": ("DimensionError", "got 5"),
    }
    for found in pool(4).run(_refusals):
        assert found.keys() == expected.keys()
        for name, (kind, text) in expected.items():
            assert found[name] is not None, name
            assert found[name][0] == kind, (name, found[name])
            assert "trnfft.distributed." in found[name][1], name
            assert text in found[name][1], (name, found[name])


def test_plans_refuse_what_calls_refuse():
    calls = [
        (lambda: distributed.plan("dct", (8, 8), 2), "function must be one of"),
        (lambda: distributed.plan("fftn", (8, 8, 8, 8), (2, 2, 2)), "1 or 2 dimensions"),
        (lambda: distributed.plan("fftn", (8, 8), (2, 2)), "not split"),
        (lambda: distributed.plan("fftn", (8, 8), 0), "mesh"),
        (lambda: distributed.plan("fftn", (8, 8), 2, transposed=True), "transposed"),
        (lambda: distributed.plan("fft", (8, 8), 2, dim=0), "no placements, s and dim"),
        (lambda: distributed.plan("rfftn", (8, 8), 2, dtype=torch.complex64), "dtypes"),
    ]
    for call, text in calls:
        with pytest.raises((ValueError, TypeError), match=text):
            call()
