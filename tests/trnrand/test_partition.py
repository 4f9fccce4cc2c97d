"""The ranks of a partition, put together, draw what one rank draws: every distribution."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import trnrand
from drawn import examples
from trnrand import Generator
from trnrand.engines import ENGINES

from .draws import DRAWS

engines = st.sampled_from(sorted(ENGINES))
seeds = st.integers(0, 2**64 - 1)
starts = st.integers(0, 2**40)

# Of each of two dozen distributions, which share the code that cuts requests.
few = examples(3)


def ranks_of(engine, seed, start, size):
    root = Generator(seed, engine=engine)
    root.seek(start)
    return root, [root.partition(rank, size) for rank in range(size)]


@pytest.mark.parametrize("name", DRAWS)
@few
@given(engine=engines, seed=seeds, start=starts, size=st.integers(1, 9), n=st.integers(0, 70))
def test_equal_shares(name, engine, seed, start, size, n):
    draw = DRAWS[name]
    one, ranks = ranks_of(engine, seed, start, size)
    for _ in range(2):  # the second call continues where all ranks stopped
        parts = [draw(n, generator=rank) for rank in ranks]
        assert torch.equal(torch.cat(parts), draw(n * size, generator=one))
    assert {rank.offset for rank in ranks} == {one.offset}


@pytest.mark.parametrize("name", DRAWS)
@few
@given(seed=seeds, start=starts, size=st.integers(1, 9), total=st.integers(0, 200))
def test_uneven_shares(name, seed, start, size, total):
    draw = DRAWS[name]
    one, ranks = ranks_of("philox", seed, start, size)
    lengths = [len(part) for part in np.array_split(np.arange(total), size)]
    parts = [draw(n, generator=rank, total=total) for n, rank in zip(lengths, ranks, strict=True)]
    assert torch.equal(torch.cat(parts), draw(total, generator=one))
    assert {rank.offset for rank in ranks} == {one.offset}


# In every run test_positions.py cuts the requests of every draw.
@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWS)
@few
@given(seed=seeds, cuts=st.lists(st.integers(0, 40), min_size=1, max_size=8))
def test_successive_requests(name, seed, cuts):
    draw = DRAWS[name]
    pieces, whole = Generator(seed), Generator(seed)
    parts = [draw(n, generator=pieces) for n in cuts]
    assert torch.equal(torch.cat(parts), draw(sum(cuts), generator=whole))


@pytest.mark.parametrize("name", DRAWS)
def test_long_requests_are_cut_without_a_trace(name, monkeypatch):
    """Chunks of work are no part of the numbers; both requests take more than one."""
    monkeypatch.setattr("trnrand._sampling.samplers.chunk_samples", lambda device: 1 << 11)
    draw = DRAWS[name]
    whole, tail = Generator(8), Generator(8)
    tail.seek(16_501)
    assert torch.equal(draw(33_501, generator=whole)[16_501:], draw(17_000, generator=tail))


@given(size=st.integers(1, 6), rows=st.integers(0, 20))
def test_rows_are_shared_by_rows(size, rows):
    one, ranks = ranks_of("philox", 3, 5, size)
    shares = [rank.share(rows) for rank in ranks]
    parts = [
        trnrand.normal(stop - start, 3, generator=rank, total=rows)
        for (start, stop), rank in zip(shares, ranks, strict=True)
    ]
    assert torch.equal(torch.cat(parts), trnrand.normal(rows, 3, generator=one))


@given(size=st.integers(1, 6), n=st.integers(0, 30))
def test_a_permutation_is_a_request_of_its_length(size, n):
    one, ranks = ranks_of("philox", 3, 5, size)
    for rank in ranks:
        assert torch.equal(trnrand.randperm(n, generator=rank), trnrand.randperm(n, generator=one))


@few
@given(size=st.integers(1, 6), n=st.integers(0, 30))
def test_vectors_are_shared(size, n):
    mean, covariance = torch.zeros(2), torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    weights = torch.tensor([0.5, 1.0, 2.0])
    for draw in (
        lambda n, g: trnrand.multivariate_normal(mean, covariance, n, generator=g),
        lambda n, g: trnrand.dirichlet(weights, n, generator=g),
        lambda n, g: trnrand.multinomial(30, weights, n, generator=g),
        lambda n, g: trnrand.choice(7, n, p=torch.arange(7.0), generator=g),
        lambda n, g: trnrand.choice(torch.arange(5.0), n, generator=g),
    ):
        one, ranks = ranks_of("philox", 3, 5, size)
        parts = torch.cat([draw(n, rank) for rank in ranks])
        # Products of matrices round by their size, so that the sum of two terms may differ.
        assert torch.allclose(parts, draw(n * size, one), rtol=0, atol=2**-20)


def test_uneven_shares_of_vectors():
    """``total`` counts vectors, not their components."""
    weights = torch.tensor([0.5, 1.0, 2.0])
    for draw in (
        lambda n, **k: trnrand.dirichlet(weights, n, **k),
        lambda n, **k: trnrand.multinomial(30, weights, n, **k),
    ):
        one, ranks = ranks_of("philox", 3, 5, 3)
        shares = [rank.share(10) for rank in ranks]
        parts = [
            draw(stop - start, total=10, generator=rank)
            for (start, stop), rank in zip(shares, ranks, strict=True)
        ]
        assert torch.equal(torch.cat(parts), draw(10, generator=one))
        assert {rank.offset for rank in ranks} == {one.offset}
        with pytest.raises(ValueError, match="total needs a size with a first dimension"):
            draw((), total=10, generator=one)


def test_long_requests_for_vectors_are_cut_without_a_trace(monkeypatch):
    monkeypatch.setattr("trnrand._sampling.samplers.chunk_samples", lambda device: 1 << 9)
    p = torch.rand(7, generator=torch.Generator().manual_seed(3))
    whole, tail = Generator(8), Generator(8)
    tail.seek(7 * 450)
    got = trnrand.multinomial(20, p, 1_800, generator=whole)
    assert torch.equal(got[450:], trnrand.multinomial(20, p, 1_350, generator=tail))
    n = torch.arange(1_800) % 5
    each = trnrand.multinomial(n, p.expand(1_800, 7), generator=Generator(8))
    assert torch.equal(each.sum(1), n.float())


def test_parameters_of_a_sample_are_all_that_matters():
    """A sample with tensor parameters is that of its own parameters alone."""
    lam = torch.tensor([0.5, 3.0, 12.0, 90.0, 0.0])
    together = trnrand.poisson(5, lam=lam, generator=Generator(6))
    for i, mean in enumerate(lam.tolist()):
        single = Generator(6)
        single.seek(i)
        assert trnrand.poisson(lam=mean, generator=single) == together[i]


def test_a_wrong_share_is_refused():
    rank = Generator(0, partition_rank=1, partition_size=3)
    assert [Generator(0, "cpu", r, 3).share(10) for r in range(3)] == [(0, 4), (4, 7), (7, 10)]
    with pytest.raises(ValueError, match=r"uniform: total 10 gives rank 1 of 3 .* 3, got 4"):
        trnrand.uniform(4, total=10, generator=rank)
    with pytest.raises(ValueError, match="total needs a size"):
        trnrand.uniform(total=10, generator=rank)
    assert rank.offset == 0
