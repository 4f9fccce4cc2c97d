"""Steps of the samplers of counts against exact probabilities: hats, squeezes, tests, tables."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

import trnrand
from each_case import each_case
from trnrand._sampling.counts import (
    _binomial_inverted,
    _btrs,
    _poisson_inverted,
    _ptrs,
    binomial_hat,
    binomials,
    gamma_end,
    geometric_of,
    inverted,
    inverted_by_number,
    poisson_hat,
    poissons,
)
from trnrand._sampling.mass import masses
from trnrand._stream.words import unit53
from trnrand.distributions.urns import (
    _by_ratio,
    _hypergeometric,
    _hypergeometric_inverted,
    ratio_hat,
)

from .chosen import Chosen

F64 = torch.float64
MASS = masses()


@pytest.fixture(autouse=True)
def few_attempts(monkeypatch):
    """What is not accepted soon here never is."""
    monkeypatch.setattr("trnrand._sampling.samplers._ATTEMPTS", 3)


@pytest.fixture(params=["arrays", "compiled"])
def loops(request, monkeypatch):
    """Decides with NumPy, and with numba."""
    if request.param == "compiled":
        pytest.importorskip("numba")
    monkeypatch.setattr(
        "trnrand._stream.numba_loops.compiled_wanted", lambda n: request.param == "compiled"
    )


# Means where the published hat or squeeze of PTRS would be passed, and others.
MEANS = [10.0, 10.5, 14.64, 20.0, 25.844, 26.0, 44.95, 100.0, 1e4]
TRIALS = [(20, 0.5), (40, 0.25), (101, 0.1), (1000, 0.011), (1000, 0.3), (10**6, 0.4999)]
URNS = [(40, 60, 30), (100, 100, 100), (50, 5000, 1500), (10**5, 10**5, 10**4)]

# Uniforms around 0, with both ends, where the proposals are far from the mean.
FIRST = np.concatenate([np.linspace(0, 1, 4001)[1:-1], 2.0 ** -np.arange(10, 30)])
FIRST = np.concatenate([FIRST, 1 - 2.0 ** -np.arange(10, 30)])


def number(value):
    return torch.tensor(value, dtype=F64)


def transformed(hat, centre, first):
    """The proposal of a uniform and its density, by the formulas of Hörmann's papers."""
    a, b = float(hat.a), float(hat.b)
    u = first - 0.5
    us = 0.5 - np.abs(u)
    return np.floor((2 * a / us + b) * u + centre), us, a / us**2 + b


# -- hats ------------------------------------------------------------------------------------------


@each_case("mean", MEANS)
def test_the_hat_of_poisson_is_above_and_close(mean):
    hat = poisson_hat(number(mean))
    k, us, density = transformed(hat, mean + 0.43, FIRST)
    ratio = stats.poisson(mean).pmf(k) * density / float(hat.inverse_alpha)
    assert 0.97 < ratio.max() <= 1
    middle = ratio[us >= 0.07].min()
    assert middle - 0.1 < float(hat.squeeze) <= middle
    # What is refused without a look at the probability: v above us, which is below 0.013.
    ends = (us < 0.013) & (k >= 0)
    assert np.all(ratio[ends] <= us[ends])


@each_case(("n", "p"), TRIALS)
def test_the_hat_of_binomial_is_above_and_close(n, p):
    hat = binomial_hat(number(n), number(p))
    law = stats.binom(n, p)
    k, us, density = transformed(hat, n * p + 0.5, FIRST)
    largest = law.pmf(math.floor((n + 1) * p))
    ratio = law.pmf(k) / largest * density / float(hat.alpha)
    assert 0.93 < ratio.max() <= 1
    middle = ratio[us >= 0.07].min()
    assert middle - 0.15 < float(hat.squeeze) <= middle


@each_case(("rare", "other", "few"), URNS)
def test_the_region_of_a_ratio_of_uniforms_is_inside_its_square(rare, other, few):
    """|x - centre| times the root of the probability over the largest is at most half the width."""
    hat = ratio_hat(number(rare), number(other), number(few))
    law = stats.hypergeom(rare + other, rare, few)
    k = np.arange(max(0, few - other), min(rare, few) + 1)
    root = np.sqrt(law.pmf(k) / law.pmf(float(hat.mode)))
    assert root.max() == pytest.approx(1, abs=1e-9)
    centre, width = float(hat.centre), float(hat.width)
    assert centre == pytest.approx(law.mean() + 0.5)
    # Both ends of the step that goes with a count.
    reach = np.maximum(np.abs(k - centre), np.abs(k + 1 - centre)) * root
    assert 0.9 * width / 2 < reach.max() <= width / 2


# -- what is accepted ------------------------------------------------------------------------------


def grid(first, count=20):
    u, v = np.meshgrid(first, (np.arange(count) + 0.5) / count)
    return u.ravel(), v.ravel()


def assert_accepts(refused, v, ratio):
    """A proposal stays where v is at most the ratio, but for what rounding may decide."""
    clear = np.abs(v - ratio) > 1e-9
    assert clear.mean() > 0.99
    assert np.array_equal(refused[clear], (v > ratio)[clear])


# Of the larger ones there is no table.
@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("mean", [10.0, 25.844, 1000.0, 3000.0])
def test_ptrs_accepts_what_is_under_the_probability(mean):
    u, v = grid(FIRST[::7])
    source = Chosen(u, v)
    got = _ptrs(source, len(u), number(mean)).numpy()
    hat = poisson_hat(number(mean))
    k, _, density = transformed(hat, mean + 0.43, u)
    refused = source.refused(len(u))
    assert np.array_equal(got[~refused], k[~refused])
    assert_accepts(refused, v, stats.poisson(mean).pmf(k) * density / float(hat.inverse_alpha))


@pytest.mark.usefixtures("loops")
@each_case(("n", "p"), [(20, 0.5), (1000, 0.011), (10**6, 0.4999)])
def test_btrs_accepts_what_is_under_the_probability(n, p):
    u, v = grid(FIRST[::7])
    source = Chosen(u, v)
    got = _btrs(source, len(u), number(n), number(p)).numpy()
    hat, law = binomial_hat(number(n), number(p)), stats.binom(n, p)
    k, _, density = transformed(hat, n * p + 0.5, u)
    refused = source.refused(len(u))
    assert np.array_equal(got[~refused], k[~refused])
    largest = law.pmf(math.floor((n + 1) * p))
    assert_accepts(refused, v, law.pmf(k) / largest * density / float(hat.alpha))


@pytest.mark.parametrize("bits", [0, 1, 2**53 - 1, 0x12345678_9ABCDE])
@pytest.mark.usefixtures("loops")
def test_uniforms_of_53_bits(bits):
    upper, lower = bits >> 26, bits & (2**26 - 1)
    # The bits of the words that are not used are set.
    pair = (upper << 5 | 31) | (lower << 6 | 63) << 32
    pairs = torch.tensor([[0, pair - (pair >> 63 << 64)]])
    assert unit53(pairs).tolist() == [[0.0, bits * 2.0**-53]]
    assert unit53(pairs[:, 1]).tolist() == [bits * 2.0**-53]


@each_case(("rare", "other", "few"), URNS)
def test_a_ratio_of_uniforms_accepts_what_is_under_the_root(rare, other, few):
    u, v = grid(np.linspace(0, 1, 301)[1:])
    u, v = v, np.minimum(u, 1 - 2.0**-53)
    # A small u accepts much, and the middle of v proposes the mean.
    source = Chosen(u, v, later=(0.01, 0.5))
    arguments = [number(x) for x in (rare, other, few)]
    got = _by_ratio(source, len(u), *arguments).numpy()
    hat, law = ratio_hat(*arguments), stats.hypergeom(rare + other, rare, few)
    k = np.floor(float(hat.centre) + float(hat.width) * (v - 0.5) / u)
    refused = source.refused(len(u))
    assert np.array_equal(got[~refused], k[~refused])
    assert_accepts(refused, u, np.sqrt(law.pmf(k) / law.pmf(float(hat.mode))))


# -- inversion -------------------------------------------------------------------------------------


def around(law, last):
    """Uniforms on both sides of the steps of a distribution function, and which count they give."""
    steps = np.array([law.cdf(k) for k in range(last)])
    steps = steps[steps < 1 - 1e-9]
    counts = np.arange(len(steps))
    u = np.concatenate([[0.0], steps - 1e-12, steps + 1e-12])
    return u, np.concatenate([[0], counts, counts + 1])


@each_case("mean", [0.0, 1e-9, 0.3, 4.0, 9.999])
def test_poisson_is_inverted(mean):
    u, want = around(stats.poisson(mean), 40)
    got = _poisson_inverted(Chosen(u, u), len(u), number(mean))
    assert np.array_equal(got.numpy(), want)


@each_case(("n", "p"), [(0, 0.5), (1, 0.3), (12, 0.5), (1000, 0.005), (30, 0.2)])
def test_binomial_is_inverted(n, p):
    u, want = around(stats.binom(n, p), min(n, 60))
    got = _binomial_inverted(Chosen(u, u), len(u), number(n), number(p))
    assert np.array_equal(got.numpy(), want)


@each_case(("rare", "other", "few"), [(5, 20, 7), (1, 1, 1), (30, 900, 200)])
def test_hypergeometric_is_inverted(rare, other, few):
    u, want = around(stats.hypergeom(rare + other, rare, few), min(rare, few))
    arguments = [number(x) for x in (rare, other, few)]
    got = _hypergeometric_inverted(Chosen(u, u), len(u), *arguments)
    assert np.array_equal(got.numpy(), want)


def test_inversion_ends_where_terms_are_nothing():
    """The largest uniform is not reached by a sum of rounded terms; no loop waits for that."""
    u = torch.tensor([1 - 2.0**-53], dtype=F64)
    halves = inverted(u.clone(), number(0.25), lambda k: number(0.25))
    # The sum of 0.25**k ends at 1/3: the first term below 1e-20 is the 34th.
    assert halves.tolist() == [33.0]
    assert inverted_by_number(u.clone(), 0.25, lambda k: 0.25).tolist() == [33.0]


@pytest.mark.parametrize("mean", [0.0, 1e-9, 1.0, 2.5, 9.999])
def test_numbers_are_inverted_as_tensors_are(mean, monkeypatch):
    """To the bit, in several stretches, and whatever is left of the uniforms."""
    monkeypatch.setattr("trnrand._sampling.counts._CHUNK", 7)
    u = torch.rand(100, dtype=F64, generator=torch.Generator().manual_seed(1))
    first = torch.exp(-number(mean))
    got = inverted_by_number(u.clone(), float(first), lambda k: mean / k)
    want = inverted(u.clone(), first.expand(100), lambda k: number(mean).expand(100) / k)
    assert torch.equal(got, want)


def test_equal_parameters_draw_the_same_as_numbers_and_as_tensors():
    for law, options in ((trnrand.poisson, {"lam": 2.5}), (trnrand.binomial, {"n": 12, "p": 0.3})):
        numbers = law(300, generator=trnrand.Generator(4), **options)
        tensors = {name: torch.full((300,), x, dtype=F64) for name, x in options.items()}
        assert torch.equal(numbers, law(generator=trnrand.Generator(4), **tensors))


@each_case("p", [1.0, 0.7, 0.1, 1e-9])
def test_geometric_is_inverted(p):
    for count in (1, 2, 3, 50):
        step = -math.expm1(count * math.log1p(-p)) if p < 1 else 1.0
        if step < 1 - 1e-9:
            below = geometric_of(number(step * (1 - 1e-12)), number(p))
            above = geometric_of(number(step * (1 + 1e-12)), number(p))
            assert (float(below), float(above)) == (count, count + 1)
    assert float(geometric_of(number(0.0), number(p))) == 1


# -- which method ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "again"),
    [
        (lambda s: poissons(s, 4, math.nextafter(10, 0)), False),
        (lambda s: poissons(s, 4, 10.0), True),
        (lambda s: binomials(s, 4, 20, math.nextafter(0.5, 0)), False),
        (lambda s: binomials(s, 4, 20, 0.5), True),
        (lambda s: binomials(s, 4, 19, 0.5), False),
        (lambda s: binomials(s, 4, 40, 0.75), True),
        (lambda s: binomials(s, 4, 40, 0.76), False),
        (lambda s: _hypergeometric(s, 4, 39, 41, 20), False),
        (lambda s: _hypergeometric(s, 4, 40, 40, 20), True),
    ],
)
def test_methods_change_at_a_mean_of_ten(draw, again, monkeypatch):
    """Inversion asks once, whatever the uniforms; rejection asks again for the largest ones."""
    monkeypatch.setattr("trnrand._sampling.samplers._ATTEMPTS", 1)
    most = np.full(4, 1 - 2.0**-40)
    if again:
        with pytest.raises(RuntimeError, match="found no value"):
            draw(Chosen(most, most))
    else:
        assert draw(Chosen(most, most)).shape == (4,)


# -- probabilities ---------------------------------------------------------------------------------


@each_case("mean", [1e-3, 0.5, 9.0, 16.0, 300.0, 1e9, 2.0**50])
def test_log_poisson(mean):
    """Relative to the sum of its terms, each of them rounded: 1e-13 to k = 1e9."""
    root = math.sqrt(mean)
    counts = {0, 1, 15, 16, 17} | {max(0, round(mean + d * root)) for d in (-6, -1, 0, 1, 6, 40)}
    for k in sorted(counts):
        with mpmath.workdps(60):
            want = k * mpmath.log(mean) - mpmath.mpf(mean) - mpmath.loggamma(k + 1)
        got = float(MASS.poisson(number(float(k)), number(mean)))
        assert got == pytest.approx(float(want), rel=1e-13, abs=1e-13)


@each_case(("n", "p"), [(1, 0.3), (15, 0.5), (16, 0.01), (40, 0.9), (10**12, 0.25)])
def test_log_binomial(n, p):
    root = math.sqrt(n * p * (1 - p))
    near = {min(n, max(0, round(n * p + d * root))) for d in (-8, -1, 0, 1, 8)}
    for k in sorted({0, 1, n - 1, n} | near):
        with mpmath.workdps(60):
            ways = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
            want = ways + k * mpmath.log(mpmath.mpf(p)) + (n - k) * mpmath.log(1 - mpmath.mpf(p))
        got = float(MASS.binomial(number(float(k)), number(float(n)), number(p)))
        assert got == pytest.approx(float(want), rel=1e-13, abs=2e-13)


@each_case(("good", "bad", "draws"), [(5, 7, 6), (30, 40, 35), (0, 4, 2), (3, 0, 2)])
def test_log_hypergeometric(good, bad, draws):
    for k in range(max(0, draws - bad), min(good, draws) + 1):
        ways = Fraction(
            math.comb(good, k) * math.comb(bad, draws - k), math.comb(good + bad, draws)
        )
        got = MASS.hypergeometric(*(number(float(x)) for x in (k, good, bad, draws)))
        assert float(got) == pytest.approx(math.log(ways), rel=1e-13, abs=1e-13)


def test_terms_of_the_probabilities():
    """Both forms of each, on either side of where they change."""
    for k in (1.0, 15.0, 16.0, 17.0, 1e6):
        with mpmath.workdps(50):
            stirling = (k + 0.5) * mpmath.log(k) - k + mpmath.log(2 * mpmath.pi) / 2
            want = mpmath.loggamma(mpmath.mpf(k) + 1) - stirling
        assert float(MASS.stirling_rest(number(k))) == pytest.approx(float(want), abs=1e-13)
    for k, mean in [
        (10.0, 10.0),
        (11.0, 10.0),
        (12.2, 10.0),
        (12.3, 10.0),
        (8.1, 10.0),
        (1.0, 50.0),
    ]:
        with mpmath.workdps(50):
            want = (
                k * mpmath.log(mpmath.mpf(k) / mpmath.mpf(mean)) + mpmath.mpf(mean) - mpmath.mpf(k)
            )
        assert float(MASS.deviance(number(k), number(mean))) == pytest.approx(
            float(want), rel=1e-13
        )


@each_case("shape", [1e-3, 1.0, 50.0, 1e6])
def test_the_end_of_a_gamma_distribution(shape):
    end = float(gamma_end(shape))
    assert stats.gamma(shape).sf(end) < 2.0**-64
    assert end <= shape + 10 * shape**0.5 + 50
