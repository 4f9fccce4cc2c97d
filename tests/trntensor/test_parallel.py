"""Shards of tensors."""

from __future__ import annotations

import pytest
import torch

import trntensor
from each_case import each_case
from trnsci.core.testing import random_tensor
from trntensor.parallel import ShardedTensor, gather, scatter, shard_boundaries


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
