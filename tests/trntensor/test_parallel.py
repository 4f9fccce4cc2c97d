"""Shards of tensors, and slices of contractions over ranks."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import trntensor
from each_case import each_case
from ranks import Watched, pool, rank_numbers, refusal
from trnsci.core.testing import random_tensor, unit_roundoff
from trntensor.parallel import (
    ShardedTensor,
    einsum_over_ranks,
    gather,
    scatter,
    shard_boundaries,
)


def test_shards_are_parts_that_go_together_again():
    x = random_tensor(3, 10, 2)
    shards = scatter(x, 1, 4)
    assert shard_boundaries(shards) == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert torch.equal(gather(shards), x)
    assert shards.shape == (3, 10, 2)
    assert shards.dtype is torch.float32
    assert scatter(x, -1, 2).partition_dim == 2
    with pytest.raises(ValueError, match="n_shards must be an integer from 1 to 10, got 11"):
        scatter(x, 1, 11)
    with pytest.raises(ValueError, match="dim must be an integer from -3 to 2, got 3"):
        scatter(x, 3, 2)
    with pytest.raises(ValueError, match="chunks must differ in dimension 0 alone"):
        ShardedTensor([torch.ones(2, 3), torch.ones(2, 4)], 0)
    with pytest.raises(ValueError, match="at least one chunk"):
        ShardedTensor([], 0)


@each_case(
    ("subscripts", "shapes", "sharded", "partition"),
    [
        ("ij,jk->ik", ((7, 5), (5, 4)), {0: 0}, 0),
        ("ij,jk->ki", ((7, 5), (5, 4)), {0: 0}, 1),
        ("ij,jk->ik", ((7, 5), (5, 4)), {0: 1}, None),
        ("ij,jk->ik", ((7, 5), (5, 4)), {1: 0}, None),
        ("ij,jk->ik", ((7, 5), (5, 4)), {0: 1, 1: 0}, None),
        ("ij,jk->ik", ((7, 5), (5, 4)), {0: 0, 1: 0}, 0),
        ("ij,jk->ik", ((7, 5), (5, 4)), {0: 0, 1: 1}, 0),
        ("ij,jk,kl->il", ((7, 5), (5, 4), (4, 6)), {0: 0, 1: 1}, 0),
        ("bij,bjk->bik", ((5, 2, 3), (5, 3, 4)), {0: 0}, 0),
        ("ii,ij->j", ((5, 5), (5, 4)), {0: 0}, None),
        ("...i,ij->...j", ((5, 3, 4), (4, 2)), {0: 0}, 0),
    ],
)
def test_contractions_of_shards(subscripts, shapes, sharded, partition):
    tensors = [random_tensor(*s, dtype=torch.float64, seed=at) for at, s in enumerate(shapes)]
    want = 1.5 * torch.einsum(subscripts, *tensors)
    trntensor.einsum(subscripts, *tensors)  # a plan of the whole is not taken for the shards
    given = [scatter(x, sharded[at], 3) if at in sharded else x for at, x in enumerate(tensors)]
    got = trntensor.einsum(subscripts, *given, alpha=1.5)
    if partition is None:
        assert isinstance(got, torch.Tensor)
    else:
        assert got.partition_dim == partition
        assert len(got.chunks) == 3
        got = gather(got)
    assert torch.allclose(got, want, rtol=1e-12, atol=1e-12)


def test_shards_that_were_cut_in_different_places():
    a, b = random_tensor(4, 10, dtype=torch.float64), random_tensor(10, 3, dtype=torch.float64)
    got = trntensor.einsum("ij,jk->ik", scatter(a, 1, 4), scatter(b, 0, 3))
    assert torch.allclose(got, a @ b, rtol=1e-13)
    with pytest.raises(ValueError, match="out and beta do not go with operands in shards"):
        trntensor.einsum("ij,jk->ik", scatter(a, 1, 4), b, beta=1.0, out=got)


def test_shards_on_kernels():
    a, b = random_tensor(6, 5), random_tensor(5, 4)
    with trntensor.backend("simulator"):
        got = trntensor.einsum("ij,jk->ik", scatter(a, 0, 2), b)
    assert torch.allclose(gather(got), a @ b, atol=1e-5)


# -- ranks -----------------------------------------------------------------------------------------

RANKS = (1, 2, 3, 4)
PROBLEMS = (
    ("ij,jk->ik", ((5, 40), (40, 6))),
    ("ij,jk,kl->il", ((4, 9), (9, 11), (11, 3))),
    ("bij,bjk->bik", ((6, 2, 3), (6, 3, 2))),
    ("i,j->ij", ((4,), (5,))),
    ("ij->", ((3, 7),)),
    ("ij,jk->ik", ((2, 0), (0, 3))),
)
# What the last of several ranks gives in place of "ij,jk->ik" of (5, 40) and (40, 6) in float32,
# the class of the error, and what the error has of it.
DIFFERENT = (
    ("ij,jk->ik", ((5, 40), (40, 7)), {}, "ShapeError", "(40, 7)"),  # another result
    ("ij,jk->ik", ((5, 39), (39, 6)), {}, "ShapeError", "(5, 39), (39, 6)"),  # other slices
    (
        "ij,jk->ik",
        ((5, 40), (41, 6)),
        {},
        "ShapeError",
        "index 'j' has size 40 in operand 0 and 41",
    ),
    ("ij,jk->ki", ((5, 40), (40, 6)), {}, "ShapeError", "'ij,jk->ki'"),
    ("ij,jk->ik", ((5, 40), (40, 6)), {"dtype": torch.float64}, "ShapeError", "torch.float64"),
    ("ij,jk->ik", ((5, 40), (40, 6)), {"pieces": 0}, "ShapeError", "pieces must be"),
    ("ij,jk->ik", ((5, 40), (40, 6)), {"pieces": 3}, "ShapeError", "3 pieces"),
    ("ij,jk->ik", ((5, 40), (40, 6)), {"precision": "dd"}, "FlagError", "precision must be fast"),
    ("ij,jk->ik", ((5, 40),), {}, "ShapeError", "1 operand was given"),
)


def _operands(shapes, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def _results():
    """Return results, gradients of their sums, and collectives of each problem."""
    found = []
    for subscripts, shapes in PROBLEMS:
        tensors = [x.requires_grad_() for x in _operands(shapes)]
        with Watched() as seen:
            result = einsum_over_ranks(subscripts, *tensors)
        result.sum().backward()
        kinds = [kind for kind, _ in seen.calls]
        found.append((result.detach(), [x.grad for x in tensors], kinds))
    return found


@pytest.mark.parametrize("ranks", rank_numbers(RANKS))
def test_any_number_of_ranks_gives_the_same(ranks):
    every = pool(ranks).run(_results)
    for number, (subscripts, shapes) in enumerate(PROBLEMS):
        wide = [x.double().requires_grad_() for x in _operands(shapes)]
        want = torch.einsum(subscripts, *wide)
        want.sum().backward()
        sizes = [x.detach().abs().requires_grad_() for x in wide]
        size = torch.einsum(subscripts, *sizes)
        size.sum().backward()
        # Sums of at most 99 terms, in 16 slices.
        bound = (99 + 16) * unit_roundoff(torch.float32)
        for result, grads, kinds in (each[number] for each in every):
            assert torch.equal(result, every[0][number][0])
            assert kinds == (["allgather", "allreduce"] if ranks > 1 else [])
            assert bool(((result - want).abs() <= bound * size).all())
            for grad, x, y in zip(grads, wide, sizes, strict=True):
                assert bool(((grad - x.grad).abs() <= bound * y.grad).all())


def _errors():
    """Return the errors where the last rank gives other arguments."""
    found, last = [], dist.get_rank() == dist.get_world_size() - 1
    for subscripts, shapes, options, *_ in DIFFERENT:
        if not last:
            (subscripts, shapes), options = PROBLEMS[0], {}
        options = dict(options)
        tensors = _operands(shapes, options.pop("dtype", torch.float32))
        found.append(refusal(lambda: einsum_over_ranks(subscripts, *tensors, **options)))  # noqa: B023
    return found


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_with_other_arguments_is_one_error_on_every_rank(ranks):
    others = ", ".join(map(str, range(ranks - 1)))
    for rank, errors in enumerate(pool(ranks).run(_errors)):
        for (*_, kind, text), error in zip(DIFFERENT, errors, strict=True):
            assert error is not None
            assert error[0] == kind
            if "all ranks must give the same arguments" in error[1]:
                same = f"on rank {others}: 'ij,jk->ik' of (5, 40), (40, 6) in torch.float32"
                assert same in error[1]
                assert text in error[1].partition(f"; on rank {ranks - 1}: ")[2]
            else:  # the last rank could not read its arguments
                who = "" if rank == ranks - 1 else f"on rank {ranks - 1}: "
                assert error[1].startswith(f"einsum_over_ranks: {who}")
                assert text in error[1]


def test_alone_it_is_the_sum_of_its_slices():
    a, b = random_tensor(4, 40), random_tensor(40, 3)
    assert torch.allclose(einsum_over_ranks("ij,jk->ik", a, b), a @ b, atol=1e-5)
    with pytest.raises(ValueError, match="pieces must be an integer of at least 1"):
        einsum_over_ranks("ij,jk->ik", a, b, pieces=0)
    with pytest.raises(ValueError, match="precision must be fast"):
        einsum_over_ranks("ij,jk->ik", a, b, precision="dd")
