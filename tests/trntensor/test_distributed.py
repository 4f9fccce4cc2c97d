"""Contractions over ranks: values, gradients, bytes and memory, against one rank and the plan."""

import random
from math import prod

import pytest
import torch
import torch.distributed as dist
from torch.autograd import forward_ad
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import trntensor
from ranks import Watched, placements_of, pool, refusal, with_cases
from trnsci.core.counters import counts
from trnsci.core.errors import FlagError, ShapeError
from trntensor import distributed

MESHES = [(1,), (2,), (3,), (4,), (6,), (1, 2), (2, 2), (2, 3), (3, 2)]
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
CASES = range(24)
FAST_CASES = (*range(12), 20, 21)  # every problem on one of the meshes
PROBLEMS = [
    ("ij,jk->ik", ((5, 7), (7, 3))),
    ("ij,jk->ki", ((13, 9), (9, 12))),
    ("bij,bjk->bik", ((4, 5, 3), (4, 3, 6))),
    ("bij,bjk->bik", ((1, 5, 3), (7, 3, 6))),  # the first broadcasts
    ("ij,jk,kl->il", ((4, 9), (9, 11), (11, 3))),
    ("i,j->ij", ((4,), (5,))),
    ("i,i->", ((13,), (13,))),
    ("ij->", ((3, 7),)),
    ("ij->ji", ((3, 7),)),
    ("ii->i", ((7, 7),)),
    ("ii,ij->j", ((6, 6), (6, 4))),
    ("...i,ij->...j", ((2, 3, 5), (5, 4))),
    ("ij,jk->ik", ((2, 0), (0, 3))),
    ("ij,jk->ik", ((0, 4), (4, 3))),
    ("ijab,kjcb->ikac", ((3, 2, 4, 5), (3, 2, 2, 5))),
]


def _tensor(shape, dtype, seed):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def _split(x, mesh, placements):
    """Return a DTensor whose parts are not views of larger tensors."""
    found = distribute_tensor(x, mesh, placements)
    local = found.to_local().clone()
    return DTensor.from_local(
        local, mesh, placements, run_check=False, shape=found.shape, stride=found.stride()
    ).requires_grad_()


def _ndim_of_result(subscripts, shapes):
    return torch.einsum(subscripts, *map(torch.zeros, shapes)).ndim


def _cases(mesh, seeds):
    """Return random calls, the same on every rank."""
    draw = random.Random(str(mesh))
    for seed in CASES:
        subscripts, shapes = draw.choice(PROBLEMS)
        places = [draw.choice(placements_of(mesh, len(shape))) for shape in shapes]
        ndim = _ndim_of_result(subscripts, shapes)
        out = draw.choice([None, *placements_of(mesh, ndim)])
        dtype = draw.choice(DTYPES)
        if seed in seeds:
            yield seed, subscripts, shapes, dtype, places, out


def _reference(subscripts, whole, weight):
    """Return value, gradients, and both of the magnitudes, in complex128."""
    found = []
    for values, w in ((whole, weight), ([x.abs() for x in whole], weight.abs())):
        wide = [x.to(torch.complex128).requires_grad_() for x in values]
        result = torch.einsum(subscripts, *wide)
        result.backward(w.to(torch.complex128))
        found.append((result.detach(), [x.grad for x in wide]))
    return found


def _near(found, wanted, magnitude, terms, dtype):
    """Two orders of a sum of ``terms`` and some terms, with the factor 4 of complex products."""
    roundoff = torch.finfo(dtype).eps / 2 * (4 if dtype.is_complex else 1)
    bound = 2 * (terms + 10) * roundoff * magnitude.abs()
    return bool(((found.to(torch.complex128) - wanted).abs() <= bound).all())


def _compared(shape, seeds):
    mesh = init_device_mesh("cpu", shape)
    rank, wrong = dist.get_rank(), []
    for case in _cases(shape, seeds):
        seed, subscripts, shapes, dtype, places, out = case
        whole = [_tensor(s, dtype, seed + at) for at, s in enumerate(shapes)]
        operands = [_split(x, mesh, p) for x, p in zip(whole, places, strict=True)]
        planned = distributed.plan(
            "einsum",
            subscripts,
            *shapes,
            mesh=shape,
            in_placements=places,
            placements=out,
            dtype=dtype,
        )
        checked, most = seed % 2 == 0, planned.peak_bytes[rank]
        with torch.no_grad(), Watched([x.to_local() for x in operands], most, raises=False) as held:
            distributed.einsum(subscripts, *operands, placements=out, check=False)
        with Watched() as seen:
            C = distributed.einsum(subscripts, *operands, placements=out, check=checked)
        W = _tensor(C.shape, dtype, 99)
        (value, grads), (magnitude, sizes) = _reference(subscripts, whole, W)
        terms = prod(max(size, 1) for shape in shapes for size in shape)
        if not _near(C.full_tensor().detach(), value, magnitude, terms, dtype):
            wrong.append(("value", case))
        if out is not None and tuple(C.placements) != tuple(out):
            wrong.append(("placements", case))
        signatures = 0 if checked else planned.steps[0].received[rank]
        if seen.received != planned.received(rank) - signatures:
            wrong.append(("bytes", case, seen.calls, str(planned)))
        if held.peak > most:
            wrong.append(("memory", case, held.peak, str(planned)))
        weight = distribute_tensor(W, mesh, C.placements)
        with Watched() as seen:
            C.backward(weight)
        if seen.received != planned.received(rank, backward=True):
            wrong.append(("backward bytes", case, seen.calls, planned.backward))
        for x, grad, size in zip(operands, grads, sizes, strict=True):
            if x.grad.placements != x.placements:
                wrong.append(("placements of a gradient", case, x.grad.placements))
            if not _near(x.grad.full_tensor(), grad, size, terms, dtype):
                wrong.append(("gradient", case))
    return wrong


@pytest.mark.parametrize(("mesh", "seeds"), with_cases(MESHES, FAST_CASES, CASES), ids=str)
def test_every_mesh_gives_the_values_gradients_and_bytes_of_the_plan(mesh, seeds):
    for found in pool(prod(mesh)).run(_compared, mesh, seeds):
        assert found == []


# -- the choice of the index -----------------------------------------------------------------------


def _by(subscripts, *shapes, **options):
    problem = distributed.plan("einsum", subscripts, *shapes, **options).problem
    return problem.partition(f"{options.get('dtype', torch.float32)}, ")[2]


def test_the_index_that_moves_the_fewest_bytes_is_split():
    tall, wide = (4096, 64), (64, 32)
    assert _by("ij,jk->ik", tall, wide, mesh=4) == "index i over 4 ranks"
    inner = ([Shard(1)], [Shard(0)])  # nothing moves but the small result
    assert _by("ij,jk->ik", (32, 4096), (4096, 8), mesh=4, in_placements=inner) == (
        "index j over 4 ranks"
    )
    assert _by("bij,bjk->bik", (8, 64, 32), (8, 32, 64), mesh=8) == "index b over 8 ranks"
    found = distributed.plan("einsum", "ij,jk->ik", (240, 480), (480, 360), mesh=(2, 3))
    assert "index i over 2 ranks, index k over 3 ranks" in found.problem
    # Each operand is gathered along one mesh dimension, as in SUMMA.
    assert found.most_received == 4 * (240 * 480 / 2 * 2 / 3 + 480 * 360 / 3 / 2)


def test_memory_decides_between_equal_bytes():
    replicated = ([Replicate()], [Replicate()])
    options = {"mesh": 4, "in_placements": replicated}
    found = distributed.plan("einsum", "ij,jk->ik", (64, 8), (8, 128), **options)
    assert found.most_received == 0
    # B has more elements than A, so the parts of B are what is worth splitting.
    assert "index k" in found.problem


def test_an_index_with_fewer_elements_than_ranks_is_split_only_if_there_is_no_other():
    assert _by("bij,bjk->bik", (2, 8, 8), (2, 8, 8), mesh=4) != "index b over 4 ranks"
    assert _by("b,b->b", (2,), (2,), mesh=4) == "index b over 4 ranks"
    assert _by("i,i->", (8,), (8,), mesh=(2, 2)).count("index i") == 1
    assert _by(",->", (), (), mesh=(2, 1)) == "the same on 2 ranks"


def _against_dtensor(shape):
    mesh = init_device_mesh("cpu", shape)
    placements = [Shard(0), Shard(1)][: mesh.ndim]
    a, b = (
        distribute_tensor(_tensor(s, torch.float32, 1), mesh, placements)
        for s in ((48, 36), (36, 24))
    )
    with Watched() as ours:
        distributed.einsum("ij,jk->ik", a, b, check=False)
    with Watched() as theirs:
        (a @ b).to_local()
    return ours.received, theirs.received


@pytest.mark.parametrize("mesh", [(4,), (2, 2)], ids=str)
def test_no_more_bytes_than_the_product_of_dtensors(mesh):
    ours, theirs = zip(*pool(4).run(_against_dtensor, mesh), strict=True)
    assert max(ours) <= max(theirs)


# -- operands that are the same on every rank ------------------------------------------------------


def _with_tensors():
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    a, b = (_tensor(s, torch.float64, 3) for s in ((7, 5), (5, 4)))
    split = distribute_tensor(a, mesh, [Shard(1)])
    b.requires_grad_()
    for subscripts, operands in (("ij,jk->ik", (split, b)), ("jk,ij->k", (b, split))):
        b.grad = None
        found = distributed.einsum(subscripts, *operands, placements=[Replicate()])
        found.to_local().square().sum().backward()
        mine, grad = found.to_local().detach(), b.grad
        ordered = (a, b) if operands[0] is split else (b, a)
        wanted = torch.einsum(subscripts, *ordered)
        (wanted_grad,) = torch.autograd.grad(wanted.square().sum(), b)
        # Sums of at most 35 products of numbers below 4, their squares' gradients below 2**12.
        assert torch.allclose(mine, wanted, rtol=0, atol=2**-40)
        assert torch.allclose(grad, wanted_grad, rtol=0, atol=2**-36)
    listed = distributed.einsum(split, [0, 1], b, [1, 2], [0, 2], check=False)
    assert torch.allclose(listed.full_tensor(), a @ b, rtol=0, atol=2**-40)


@pytest.mark.parametrize("ranks", [1, 3])
def test_tensors_are_operands_that_every_rank_has(ranks):
    pool(ranks).run(_with_tensors)


def _with_kernels():
    mesh = init_device_mesh("cpu", (2,))
    a, b = (_tensor(s, torch.float32, 5) for s in ((64, 128), (128, 64)))
    before = counts()
    with trntensor.backend("simulator"):
        found = distributed.einsum(
            "ij,jk->ik", *(distribute_tensor(x, mesh, [Shard(0)]) for x in (a, b))
        )
    assert torch.allclose(found.full_tensor(), a @ b, rtol=0, atol=128 * 2**-20)
    return dict((counts() - before).launches)


def test_every_rank_launches_the_kernel():
    assert pool(2).run(_with_kernels) == [{"contract": 1}] * 2


# -- faults ----------------------------------------------------------------------------------------


def _disagreeing(kind):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    last = dist.get_rank() == dist.get_world_size() - 1
    a, b = torch.ones(6, 4), torch.ones(4, 5)
    options, subscripts = {}, "ij,jk->ik"
    if last and kind == "subscripts":
        subscripts = "ij,jk->ki"
    if last and kind == "shape":
        a = torch.ones(6, 5)
    if last and kind == "dtype":
        a, b = a.double(), b.double()
    if last and kind == "placements":
        options["placements"] = [Replicate()]
    if last and kind == "precision":
        options["precision"] = "exact"
    a = DTensor.from_local(a, mesh, [Replicate()], run_check=False)
    if kind == "values":
        b[3, 4] += 2.0**-23 * last
    else:
        b = DTensor.from_local(b, mesh, [Replicate()], run_check=False)
    return refusal(lambda: distributed.einsum(subscripts, a, b, **options))


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        ("subscripts", "RankError", "on rank 2: 'ij,jk->ki'"),
        ("shape", "ShapeError", "index 'j' has size 5 in operand 0 and 4 in operand 1"),
        ("dtype", "RankError", "torch.float64"),
        ("placements", "RankError", "to (None,)"),
        ("precision", "FlagError", "precision must be"),
        ("values", "RankError", "values ["),
    ],
)
def test_ranks_that_differ_are_one_error_on_every_rank(kind, error, text):
    for found in pool(3).run(_disagreeing, kind):
        assert found is not None
        assert found[0] == error
        assert text in found[1]
        assert found[1].startswith("trntensor.distributed.einsum: ")


def _refused():
    mesh, other = init_device_mesh("cpu", (2,)), init_device_mesh("cpu", (2, 1))
    x = torch.ones(6, 4)
    a = distribute_tensor(x, mesh, [Shard(0)])
    b = distribute_tensor(x, other, [Shard(0), Replicate()])
    partial = DTensor.from_local(x, mesh, [Partial()], run_check=False)
    uneven = torch.ones(1 + 4 * dist.get_rank(), 4)
    uneven = DTensor.from_local(
        uneven, mesh, [Shard(0)], run_check=False, shape=x.shape, stride=x.stride()
    )
    einsum = distributed.einsum
    return [
        refusal(lambda: einsum("ij->ji", x)),
        refusal(lambda: einsum("ij,ij->ij", a, b)),
        refusal(lambda: einsum("ij->j", partial)),
        refusal(lambda: einsum("ij->j", uneven)),
        refusal(lambda: einsum("ij->j", a, placements=[Shard(1)])),
        refusal(lambda: einsum("ij->j", a, placements=[Shard(0), Shard(0)])),
    ]


def test_bad_input_is_refused_on_every_rank():
    wanted = [
        ("DTypeError", "an operand must be a DTensor, got Tensor"),
        ("FlagError", "all operands must be on one mesh"),
        ("FlagError", "must be Shard or Replicate along every mesh dimension"),
        ("ShapeError", "must have the part of torch.chunk"),
        ("FlagError", "placements must split dimensions of a tensor of 1 dimensions"),
        ("FlagError", "placements must have one entry for each of 1 mesh dimensions"),
    ]
    for found in pool(2).run(_refused):
        for (error, text), refused in zip(wanted, found, strict=True):
            assert refused is not None
            assert refused[0] == error, refused
            assert text in refused[1]


def _derivatives():
    mesh = init_device_mesh("cpu", (2,))
    plain = torch.ones(4, 4)
    x = distribute_tensor(plain, mesh, [Shard(1)])

    def call(y):
        return distributed.einsum("ij,jk->ik", y, x).to_local().sum()

    with forward_ad.dual_level():
        dual = refusal(lambda: call(forward_ad.make_dual(plain, plain)))
        assert refusal(lambda: call(plain)) is None
    return [dual, refusal(lambda: torch.func.grad(call)(plain))]


def test_forward_mode_and_transforms_are_refused_by_name():
    for found in pool(2).run(_derivatives):
        for error in found:
            assert error is not None
            assert error[0] == "DerivativeError"
            assert error[1].startswith("trntensor.distributed.einsum: gradients must be those of")


def test_a_plan_refuses_what_a_call_refuses():
    plan = distributed.plan
    with pytest.raises(FlagError, match="function must be einsum, got 'gemm'"):
        plan("gemm", "ij->", (3, 4), mesh=2)
    with pytest.raises(FlagError, match="mesh must have 1 or 2 dimensions"):
        plan("einsum", "ij->", (3, 4), mesh=(2, 2, 2))
    with pytest.raises(FlagError, match="in_placements must have one entry for each of 1 operands"):
        plan("einsum", "ij->", (3, 4), mesh=2, in_placements=())
    with pytest.raises(ShapeError, match="index 'j' has size 4 in operand 0 and 5"):
        plan("einsum", "ij,jk->ik", (3, 4), (5, 6), mesh=2)
