"""Shards of tensors, and slices of contractions over ranks."""

from __future__ import annotations

import os

import pytest
import torch

import trntensor
from each_case import each_case
from fresh_process import found_by_ranks
from trnsci.core.testing import random_tensor, unit_roundoff
from trntensor.parallel import (
    ShardedTensor,
    einsum_over_ranks,
    gather,
    scatter,
    shard_boundaries,
)

from . import ranks as problems


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


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return found_by_ranks(problems.__file__, tmp_path_factory.mktemp("ranks"), problems.RANKS)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="ranks are forks of one process")
@pytest.mark.parametrize("number", range(len(problems.PROBLEMS)))
def test_any_number_of_ranks_gives_the_same(found, number):
    subscripts, shapes = problems.PROBLEMS[number]
    tensors = problems.operands(shapes)
    want = torch.einsum(subscripts, *(x.double() for x in tensors))
    size = torch.einsum(subscripts, *(x.double().abs() for x in tensors))
    # Sums of at most 99 terms, in 16 slices.
    bound = (99 + 16) * unit_roundoff(torch.float32) * size
    results = {}
    for ranks in problems.RANKS:
        each = [torch.tensor(part[number]["result"]) for part in found[ranks]]
        assert all(torch.equal(each[0], other) for other in each)
        assert found[ranks][0][number]["reductions"] == (ranks > 1)
        results[ranks] = each[0].reshape(want.shape)
        assert bool(((results[ranks] - want).abs() <= bound).all())
    apart = 16 * unit_roundoff(torch.float32) * size
    for ranks in problems.RANKS[1:]:
        assert bool(((results[ranks] - results[1]).abs() <= apart).all())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="ranks are forks of one process")
@pytest.mark.parametrize("number", range(len(problems.DIFFERENT)))
def test_a_rank_with_other_arguments_is_one_error_on_every_rank(found, number):
    for ranks in problems.RANKS[1:]:
        (error,) = {part[-1][number] for part in found[ranks]}
        assert error.startswith("einsum_over_ranks: all ranks must give the same subscripts")
        others = ", ".join(map(str, range(ranks - 1)))
        assert f"on rank {others}: 'ij,jk->ik' of (5, 40), (40, 6) in torch.float32" in error
        assert problems.DIFFERENT[number][-1] in error.partition(f"; on rank {ranks - 1}: ")[2]


def test_alone_it_is_the_sum_of_its_slices():
    a, b = random_tensor(4, 40), random_tensor(40, 3)
    assert torch.allclose(einsum_over_ranks("ij,jk->ik", a, b), a @ b, atol=1e-5)
    with pytest.raises(ValueError, match="pieces must be an integer of at least 1"):
        einsum_over_ranks("ij,jk->ik", a, b, pieces=0)
    with pytest.raises(ValueError, match="precision must be fast"):
        einsum_over_ranks("ij,jk->ik", a, b, precision="dd")
