"""Latin hypercube samples: one point per interval, orders and places at random."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from drawn import examples
from each_case import each_case
from oracles import lowdiscrepancy as oracle
from trnrand.qmc import latin_hypercube

P_VALUE = 1e-4
# The most points that a dtype has a number for in every interval.
MOST = {torch.float32: 2**24, torch.float16: 2**11, torch.bfloat16: 2**8}


def intervals(column, count):
    """The intervals that coordinates are in, exactly."""
    return [int(Fraction(x) * count) for x in column.double().tolist()]


@given(
    count=st.integers(1, 300) | st.sampled_from([2**11, 2000]),
    dims=st.integers(1, 5),
    dtype=st.sampled_from([torch.float64, *MOST]),
    centered=st.booleans(),
    seed=st.integers(0, 2**64 - 1),
)
@examples(60)
def test_every_interval_holds_one_point(count, dims, dtype, centered, seed):
    sample = latin_hypercube(count, dims, dtype, seed=seed, centered=centered)
    assert sample.shape == (count, dims)
    assert sample.dtype is dtype
    assert sample.min() >= 0
    assert sample.max() < 1
    if count <= MOST.get(dtype, count):
        for column in sample.T:
            assert sorted(intervals(column, count)) == list(range(count))


def test_every_interval_holds_one_point_of_a_large_sample():
    count = 2**18 + 1
    column = latin_hypercube(count, 1, seed=3)[:, 0]
    # The products are exact in float64: 24 and 19 bits.
    found = torch.floor(column.double() * count).long()
    assert torch.equal(found.sort().values, torch.arange(count))


@each_case("seed", [0, 42, 2**64 - 1])
def test_samples_follow_the_definition(seed):
    count, dims = 50, 4
    got = latin_hypercube(count, dims, torch.float64, seed=seed).numpy()
    for dim in range(dims):
        order = oracle.order_of(oracle.random_numbers(seed, 5, dim, count))
        numbers = oracle.random_numbers(seed, 6, dim, count)
        # Half a unit of the 32nd digit makes the places 33 digits long; the division rounds once.
        places = [Fraction(number // 2**32 * 2 + 1, 2**33) for number in numbers]
        want = [float((i + p) / count) for i, p in zip(order, places, strict=True)]
        assert got[:, dim].tolist() == want


@each_case("count", [3, 100, 1000])
def test_centred_points_are_the_middles(count):
    sample = latin_hypercube(count, 3, torch.float64, seed=1, centered=True).numpy()
    middles = (np.arange(count) + 0.5) / count
    for column in sample.T:
        assert np.array_equal(np.sort(column), middles)


def test_orders_are_equally_likely_and_independent_between_dimensions():
    orders = list(permutations(range(3)))
    cells = np.zeros((6, 6))
    for seed in range(720):
        pair = latin_hypercube(3, 2, seed=seed).T
        first, second = (orders.index(tuple(intervals(column, 3))) for column in pair)
        cells[first, second] += 1
    assert stats.chisquare(cells.ravel()).pvalue > P_VALUE


def test_places_are_uniform_and_independent_of_the_interval():
    count = 20000
    column = latin_hypercube(count, 1, torch.float64, seed=2)[:, 0].numpy()
    interval, place = np.divmod(column * count, 1)
    assert stats.kstest(place, "uniform").pvalue > P_VALUE
    assert stats.spearmanr(interval, place).pvalue > P_VALUE
    assert stats.spearmanr(np.arange(count), interval).pvalue > P_VALUE


def test_means_vary_less_than_those_of_independent_points():
    """For a sum of monotone functions the variance is of order n**-3 instead of n**-1."""
    errors = [float(latin_hypercube(200, 4, seed=s).double().mean()) - 0.5 for s in range(50)]
    # Points in a 1/n interval have the variance 1 / (12 n**2); the mean of n and of 4 dimensions
    # has that over 4 n. A sample variance of 50 is above twice the true one once in 10**4.
    assert np.mean(np.square(errors)) < 2 / (12 * 200**2) / (4 * 200)


def test_generators_and_seeds():
    assert torch.equal(latin_hypercube(20, 3, seed=1), latin_hypercube(n=20, d=3, seed=1))
    assert not torch.equal(latin_hypercube(20, 3, seed=1), latin_hypercube(20, 3, seed=2))
    generator = torch.Generator().manual_seed(3)
    first, second = (latin_hypercube(20, 3, generator=generator) for _ in range(2))
    assert not torch.equal(first, second)
    generator.manual_seed(3)
    assert torch.equal(latin_hypercube(20, 3, torch.float32, generator), first)


def test_generators_of_the_library_draw_the_seed():
    import trnrand

    first, second = (
        latin_hypercube(20, 3, generator=generator)
        for generator in (trnrand.Generator(5), trnrand.Generator(6))
    )
    assert not torch.equal(first, second)
    generator = trnrand.Generator(5)
    assert torch.equal(latin_hypercube(20, 3, generator=generator), first)
    assert not torch.equal(latin_hypercube(20, 3, generator=generator), first)


def test_the_default_generator_is_that_of_the_library():
    import trnrand

    before = trnrand.get_default_generator()
    try:
        trnrand.manual_seed(9)
        first, second = latin_hypercube(20, 3), latin_hypercube(20, 3)
        trnrand.manual_seed(9)
        assert torch.equal(latin_hypercube(20, 3), first)
        assert not torch.equal(first, second)
    finally:
        trnrand.manual_seed(before.seed)


def test_empty_samples():
    assert latin_hypercube(0, 3, seed=1).shape == (0, 3)


@each_case(
    ("arguments", "message"),
    [
        ({"n_dims": 0}, "n_dims must be an integer from 1 to 21201, got 0"),
        ({"n_points": -1}, "n_points must be an integer from 0 to 4294967296, got -1"),
        ({"n_points": 1.0}, "n_points must be an integer from 0 to 4294967296, got float"),
        ({"seed": 2**64}, "seed must be an integer from 0 to"),
        ({"centered": 1}, "centered must be True or False, got 1"),
        ({"dtype": torch.long}, "dtype must be one of torch.float64"),
        ({"generator": "x", "seed": None}, "generator must be a torch.Generator or"),
        ({"generator": torch.Generator()}, "give either seed or generator, got both"),
        ({"n": 4}, "give either n_points or its alias n, got both"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=r"^latin_hypercube: ") as caught:
        latin_hypercube(**{"n_points": 4, "n_dims": 2, "seed": 1, **arguments})
    assert message in str(caught.value)
