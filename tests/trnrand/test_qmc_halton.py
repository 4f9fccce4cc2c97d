"""Halton points: against the definition, and what scrambling must keep and must do."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from drawn import examples
from each_case import each_case
from oracles import lowdiscrepancy as oracle
from trnrand.qmc import HaltonEngine, discrepancy, halton

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)
P_VALUE = 1e-4


def first_primes(count):
    return [p for p in range(2, 8000) if all(p % q for q in range(2, int(p**0.5) + 1))][:count]


def test_plain_points_are_the_definition_rounded_once():
    got = halton(3000, 10, torch.float64).numpy()
    for number in [*range(1, 40), 255, 256, 257, 728, 729, 730, 2999, 3000]:
        want = [float(oracle.radical_inverse(number, base)) for base in PRIMES]
        assert got[number - 1].tolist() == want


@each_case("start", [10**6, 10**12, 2**40 - 4])
def test_late_points_are_the_definition_rounded_once(start):
    got = halton(4, 10, torch.float64, start_index=start).numpy()
    for row, number in zip(got, range(start + 1, start + 5), strict=True):
        assert row.tolist() == [float(oracle.radical_inverse(number, base)) for base in PRIMES]


@each_case("seed", [0, 42, 2**64 - 1])
def test_scrambled_points_follow_the_definition(seed):
    got = halton(2000, 10, torch.float64, scramble=True, seed=seed).numpy()
    for number in (1, 2, 3, 64, 1999, 2000):
        want = [
            float(oracle.scrambled_inverse(number, base, dim, seed))
            for dim, base in enumerate(PRIMES)
        ]
        assert got[number - 1].tolist() == want


def test_bases_are_the_first_primes():
    for dims in (1, 2, 3, 5, 6, 7, 100, 1000):
        # Point 1 is 1/base.
        assert halton(1, dims, torch.float64)[0].tolist() == [1 / p for p in first_primes(dims)]


def test_bases_that_exceed_the_number_of_points():
    got = halton(700, 650, torch.float64, start_index=5 * 10**9)
    bases = first_primes(650)
    for row in (0, 350, 699):
        want = [float(oracle.radical_inverse(5 * 10**9 + 1 + row, base)) for base in bases]
        assert got[row].tolist() == want


@given(
    start=st.integers(0, 9000),
    count=st.integers(0, 9000),
    dims=st.integers(1, 12),
    scramble=st.booleans(),
)
@examples(30)
def test_a_later_start_gives_the_tail_of_a_longer_draw(start, count, dims, scramble):
    whole = halton(start + count, dims, torch.float64, scramble=scramble, seed=3)
    tail = halton(count, dims, torch.float64, scramble=scramble, seed=3, start_index=start)
    assert torch.equal(tail, whole[start:])


@each_case("scramble", [False, True])
@each_case("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_short_dtypes_round_down_and_stay_inside(scramble, dtype):
    exact = halton(70000, 3, torch.float64, scramble=scramble, seed=5)
    got = halton(70000, 3, dtype, scramble=scramble, seed=5)
    smallest = torch.nextafter(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype))
    above = torch.nextafter(got, torch.ones((), dtype=dtype)).double()
    assert ((got.double() <= exact) | (got == smallest)).all()
    assert (above > exact).all()
    assert got.min() > 0
    assert got.max() < 1


def test_float16_has_a_smallest_number():
    # The coordinate of number 2**30 is 2**-31.
    assert halton(1, 1, torch.float16, start_index=2**30 - 1).item() == 2.0**-24


@pytest.mark.parametrize("scramble", [False, True])
def test_every_interval_holds_its_share(scramble):
    """Of base**k aligned numbers, each interval of base**-k has one."""
    for dim, (base, k) in enumerate(((2, 9), (3, 6), (5, 4), (7, 3), (11, 2))):
        size = base**k
        points = halton(
            size, dim + 1, torch.float64, scramble=scramble, seed=8, start_index=2 * size - 1
        )
        # A coordinate of the plain sequence may be the interval's lower end rounded down.
        found = sorted(
            int(Fraction(x) * size + Fraction(1, 10**6)) for x in points[:, dim].tolist()
        )
        assert found == list(range(size))


def test_scrambled_points_are_uniform_over_seeds():
    points = torch.cat([halton(1, 6, torch.float64, scramble=True, seed=s) for s in range(200)])
    for column in points.T.numpy():
        assert stats.kstest(column, "uniform").pvalue > P_VALUE


def test_discrepancy_is_that_of_scrambled_halton_points():
    count, dims, seeds = 500, 6, 10
    ours = [discrepancy(halton(count, dims, scramble=True, seed=s)) for s in range(seeds)]
    rival = [
        stats.qmc.discrepancy(stats.qmc.Halton(dims, rng=np.random.default_rng(s)).random(count))
        for s in range(seeds)
    ]
    rng = np.random.default_rng(0)
    chance = [stats.qmc.discrepancy(rng.random((count, dims))) for _ in range(seeds)]
    # Both permute all digits at random; means agree within four standard errors.
    error = np.sqrt((np.var(ours) + np.var(rival)) / seeds)
    assert abs(np.mean(ours) - np.mean(rival)) < 4 * error
    assert max(ours) < min(chance) / 2


def test_scrambling_mends_high_dimensions():
    """Plain points of bases 97 and 101 run in parallel lines; scrambled ones do not."""
    plain = halton(90, 26, torch.float64)[:, 24:]
    mixed = halton(90, 26, torch.float64, scramble=True, seed=1)[:, 24:]
    assert abs(np.corrcoef(plain.T.numpy())[0, 1]) > 0.9
    # The correlation of 90 independent pairs has the standard deviation 1 / sqrt(89).
    assert abs(np.corrcoef(mixed.T.numpy())[0, 1]) < 4 / np.sqrt(89)


def test_an_engine_goes_on_where_it_was():
    whole = halton(100, 3, scramble=True, seed=4)
    engine = HaltonEngine(3, True, 4)
    parts = [engine.draw(n) for n in (0, 1, 2, 30)]
    assert engine.position == 33
    parts.append(engine.skip(7).draw(60))
    assert torch.equal(torch.cat(parts), whole[[*range(33), *range(40, 100)]])
    assert torch.equal(engine.reset().draw(100), whole)


def test_seeds_and_aliases():
    assert torch.equal(halton(n=5, d=2), halton(5, 2))
    assert not torch.equal(halton(5, 2, scramble=True), halton(5, 2, scramble=True))
    engine = HaltonEngine(2, scramble=True)
    assert torch.equal(engine.draw(5), halton(5, 2, scramble=True, seed=engine.seed))
    generator = torch.Generator().manual_seed(3)
    first = halton(5, 2, scramble=True, generator=generator)
    assert torch.equal(first, halton(5, 2, scramble=True, generator=generator.manual_seed(3)))


@each_case(
    ("arguments", "message"),
    [
        ({"n_dims": 0}, "n_dims must be an integer from 1 to 21201, got 0"),
        ({"n_points": -1}, "n_points must be an integer of at least 0, got -1"),
        ({"start_index": -2}, "start_index must be an integer of at least 0, got -2"),
        ({"start_index": 3**32}, f"start_index + n_points must be at most {3**32 - 1}"),
        ({"n_dims": 2001, "scramble": True}, "n_dims must be at most 2000 when scrambling"),
        ({"seed": -1}, "seed must be an integer from 0 to"),
        ({"seed": 2**64}, "seed must be an integer from 0 to"),
        ({"seed": 2**64, "scramble": True}, "seed must be an integer from 0 to"),
        ({"scramble": "owen"}, "scramble must be True or False, got 'owen'"),
        ({"dtype": torch.int32}, "dtype must be one of torch.float64"),
        ({"d": 3}, "give either n_dims or its alias d, got both"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=r"^halton: ") as caught:
        halton(**{"n_points": 4, "n_dims": 2, **arguments})
    assert message in str(caught.value)
