"""Samples follow their distributions: Kolmogorov-Smirnov, chi-squared, tails and bounds.

Seeds are fixed, so a test passes always or never. One fails where its p-value is below 1e-4: a
correct sampler would have met that with one seed in ten thousand, and there are about a hundred
tests. A seed is not changed to make a test pass.
"""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import trnrand
from each_case import each_case
from pairwise import pairwise
from trnrand import Generator

from .fits import SMALLEST_P, assert_counts_fit, assert_fits

F64, I64 = torch.float64, torch.int64
COUNT = 100_000


CONTINUOUS = {
    "uniform": (lambda **k: trnrand.uniform(COUNT, **k), stats.uniform()),
    "uniform on an interval": (
        lambda **k: trnrand.uniform(COUNT, low=2.0, high=5.0, **k),
        stats.uniform(2, 3),
    ),
    "normal": (lambda **k: trnrand.normal(COUNT, mean=5.0, std=2.0, **k), stats.norm(5, 2)),
    "lognormal": (
        lambda **k: trnrand.lognormal(COUNT, mean=0.5, std=0.75, **k),
        stats.lognorm(0.75, scale=math.exp(0.5)),
    ),
    "exponential": (lambda **k: trnrand.exponential(COUNT, rate=2.0, **k), stats.expon(scale=0.5)),
    "laplace": (lambda **k: trnrand.laplace(COUNT, loc=1.0, scale=3.0, **k), stats.laplace(1, 3)),
    "cauchy": (lambda **k: trnrand.cauchy(COUNT, loc=1.0, scale=3.0, **k), stats.cauchy(1, 3)),
    "student_t": (lambda **k: trnrand.student_t(COUNT, df=2.5, **k), stats.t(2.5)),
    "chi_squared": (lambda **k: trnrand.chi_squared(COUNT, df=8.0, **k), stats.chi2(8)),
}


@each_case("name", CONTINUOUS)
def test_continuous(name):
    i = list(CONTINUOUS).index(name)
    dtype, engine = (torch.float32, F64)[i % 2], ("philox", "threefry")[i // 2 % 2]
    assert_continuous(name, dtype, engine)


@pytest.mark.slow
@each_case(
    ("name", "dtype", "engine"),
    pairwise(list(CONTINUOUS), [torch.float32, F64], ["philox", "threefry"]),
)
def test_continuous_in_both_dtypes(name, dtype, engine):
    assert_continuous(name, dtype, engine)


def assert_continuous(name, dtype, engine):
    draw, law = CONTINUOUS[name]
    assert_fits(draw(generator=Generator(20240601, engine=engine), dtype=dtype), law)


# Of the shapes below 1 float32 would underflow, which is not what this looks at.
@each_case("shape", [0.01, 0.5, 1.0, 1.5, 3.0, 40.0, 1e6])
def test_gamma(shape):
    samples = trnrand.gamma(COUNT, shape=shape, scale=2.0, dtype=F64, generator=Generator(1))
    assert_fits(samples, stats.gamma(shape, scale=2))


@each_case(("a", "b"), [(2.0, 3.0), (0.5, 0.5), (0.05, 0.2), (30.0, 1.0), (3.0, 3.0)])
def test_beta(a, b):
    samples = trnrand.beta(COUNT, alpha=a, beta=b, dtype=F64, generator=Generator(2))
    assert_fits(samples, stats.beta(a, b))


@each_case(
    ("low", "high"),
    [(-2, 2), (-1, 3), (4, 5), (-9, -8), (39.5, 41), (0, math.inf), (-math.inf, -6), (-0.1, 0.1)],
)
def test_truncated_normal(low, high):
    samples = trnrand.truncated_normal(
        COUNT, mean=3.0, std=0.5, low=low, high=high, dtype=F64, generator=Generator(3)
    )
    assert_fits((samples - 3.0) / 0.5, stats.truncnorm(low, high))
    assert samples.min() >= 3.0 + 0.5 * low
    assert samples.max() <= 3.0 + 0.5 * high


# Both sides of 10, where the method changes.
@each_case("lam", [0.01, 1.0, 7.0, 9.999, 10.0, 20.0, 40.0, 500.0, 1e7])
def test_poisson(lam):
    samples = trnrand.poisson(COUNT, lam=lam, dtype=I64, generator=Generator(4))
    assert_counts_fit(samples, stats.poisson(lam))


def test_poisson_of_a_mean_that_swallows_its_logarithms():
    """Skewness 1e-6 and steps of 1e-6 deviations: nothing that 100,000 samples tell from normal."""
    samples = trnrand.poisson(COUNT, lam=1e12, dtype=I64, generator=Generator(4))
    assert_fits((samples - 10**12) / 1e6, stats.norm())


@each_case(
    ("n", "p"),
    [(1, 0.5), (10, 0.3), (19, 0.5), (20, 0.5), (100, 0.05), (100, 0.35), (400, 0.9), (10**6, 0.4)],
)
def test_binomial(n, p):
    samples = trnrand.binomial(COUNT, n=n, p=p, dtype=I64, generator=Generator(5))
    assert_counts_fit(samples, stats.binom(n, p))


@each_case("p", [0.9, 0.5, 0.05, 1e-3])
def test_geometric(p):
    samples = trnrand.geometric(COUNT, p=p, dtype=I64, generator=Generator(6))
    assert_counts_fit(samples, stats.geom(p))


# The last spans are just above a power of two: half of the words are refused.
@each_case("span", [2, 5, 96, 2**31 + 1, 2**32, 2**40 + 1, 2**63 + 1, 2**64])
def test_randint(span):
    low = -(span // 2)
    samples = trnrand.randint(low, low + span, (COUNT,), generator=Generator(7))
    assert samples.min() >= low
    # Cell c holds the integers x above the lowest with floor(96 x / span) = c.
    edges = [-(-c * span // 96) for c in range(97)]
    inner = np.array([low + edge for edge in edges[1:-1]], np.int64)
    cells = np.searchsorted(inner, samples.numpy(), side="right")
    expected = np.diff(np.array(edges, dtype=object)).astype(float) / span * COUNT
    kept = expected > 0
    observed = np.bincount(cells, minlength=96)
    assert observed[~kept].sum() == 0
    assert stats.chisquare(observed[kept], expected[kept]).pvalue > SMALLEST_P


@each_case("p", [0.0, 2.0**-40, 0.3, 0.5, 0.999, 1.0])
def test_bernoulli(p):
    ones = int(trnrand.bernoulli(COUNT, p=p, generator=Generator(8)).sum())
    assert stats.binomtest(ones, COUNT, p).pvalue > SMALLEST_P


def test_bernoulli_has_64_bits(monkeypatch):
    """Where the first word ties with p, the second decides."""
    from trnrand._stream.words import Source

    monkeypatch.setattr(Source, "words", lambda self, domain, n: torch.arange(n, dtype=torch.int32))
    monkeypatch.setattr(
        Source, "word_at", lambda self, domain, at, attempt: torch.full((len(at),), 2**30).int()
    )
    for fraction, want in [(0.25, 0), (0.26, 1), (0.5, 1), (0.0, 0)]:
        got = trnrand.bernoulli(8, p=(5 + fraction) * 2.0**-32, generator=Generator(1))
        assert got.tolist() == [1, 1, 1, 1, 1, want, 0, 0]


def test_permutations_are_equally_likely():
    generator = Generator(9)
    seen = [tuple(trnrand.randperm(4, generator=generator).tolist()) for _ in range(1200)]
    counts = np.unique(seen, axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > SMALLEST_P


def test_choices_follow_their_weights():
    weights = torch.tensor([0.0, 1.0, 2.0, 3.0, 0.0, 4.0, 0.0], dtype=F64)
    picked = trnrand.choice(7, COUNT, p=weights, generator=Generator(10)).bincount(minlength=7)
    assert picked[weights == 0].sum() == 0
    kept = weights > 0
    expected = (weights / weights.sum() * COUNT)[kept].numpy()
    assert stats.chisquare(picked[kept].numpy(), expected).pvalue > SMALLEST_P


def test_weighted_choices_without_putting_back():
    """The probability of an ordered pair (a, b) is w_a / W times w_b / (W - w_a)."""
    weights, generator = torch.tensor([1.0, 2.0, 3.0]), Generator(11)
    pairs = [
        tuple(trnrand.choice(3, 2, replace=False, p=weights, generator=generator).tolist())
        for _ in range(600)
    ]
    expected = {
        (a, b): (w / 6) * (v / (6 - w)) * len(pairs)
        for a, w in enumerate((1, 2, 3))
        for b, v in enumerate((1, 2, 3))
        if a != b
    }
    observed = [pairs.count(pair) for pair in expected]
    assert stats.chisquare(observed, list(expected.values())).pvalue > SMALLEST_P


def test_multivariate_normal():
    """In the coordinates of the Cholesky factor the components are independent and standard."""
    mean, root = torch.tensor([1.0, -2.0, 3.0], dtype=F64), torch.tril(torch.ones(3, 3, dtype=F64))
    samples = trnrand.multivariate_normal(
        mean, root @ root.mT, COUNT, dtype=F64, generator=Generator(12)
    )
    white = torch.linalg.solve_triangular(root, (samples - mean).mT, upper=False)
    for component in white:
        assert_fits(component, stats.norm())
    correlations = torch.corrcoef(white) - torch.eye(3)
    # Deviation 1 / sqrt(COUNT); beyond 4.5 of them with probability 1e-5 in three pairs.
    assert correlations.abs().max() < 4.5 / COUNT**0.5


def test_dirichlet():
    """A component is beta distributed, with the rest of the concentration against it."""
    weights = torch.tensor([0.5, 1.0, 2.5])
    samples = trnrand.dirichlet(weights, COUNT, dtype=F64, generator=Generator(13))
    # Rounding of three quotients of one sum.
    assert (samples.sum(1) - 1).abs().max() < 4 * 2.0**-53
    for i, w in enumerate(weights.tolist()):
        assert_fits(samples[:, i], stats.beta(w, 4.0 - w))


# -- tails -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
def test_tails_of_normals(dtype):
    z = trnrand.normal(2_000_000, generator=Generator(14), dtype=dtype).abs()
    for bound in (3.0, 4.0, 5.0):
        chance = 2 * stats.norm.sf(bound)
        assert stats.binomtest(int((z > bound).sum()), len(z), chance).pvalue > SMALLEST_P


@pytest.mark.slow
def test_far_tails_of_normals():
    """Of 400 million samples 46 are beyond 5.3 on average."""
    seen, generator = 0, Generator(16)
    for _ in range(100):
        z = trnrand.normal(4_000_000, generator=generator).abs()
        seen += int((z > 5.3).sum())
    assert stats.binomtest(seen, 400_000_000, 2 * stats.norm.sf(5.3)).pvalue > SMALLEST_P


def test_tails_of_poisson():
    """Where a rounded normal is wrong by factors: mean 20, at most 7 and at least 33."""
    samples = trnrand.poisson(1_000_000, lam=20.0, generator=Generator(15))
    law = stats.poisson(20)
    for seen, chance in (
        (int((samples >= 33).sum()), law.sf(32)),
        (int((samples <= 7).sum()), law.cdf(7)),
    ):
        assert stats.binomtest(seen, len(samples), chance).pvalue > SMALLEST_P


# -- bounds ----------------------------------------------------------------------------------------

FLOATS = [torch.float32, torch.float16, torch.bfloat16, F64]


@each_case("dtype", FLOATS, ids=str)
@each_case(
    ("low", "high"), [(0.0, 1.0), (2.0, 5.0), (-1.0, 0.0), (-3.0, -1.0), (0.1, 0.3), (100.0, 101.0)]
)
def test_uniforms_stay_below_the_upper_bound(dtype, low, high):
    samples = trnrand.uniform(200_000, low=low, high=high, dtype=dtype, generator=Generator(17))
    assert samples.dtype is dtype
    assert samples.min() >= torch.tensor(low, dtype=dtype)
    assert samples.max() < torch.tensor(high, dtype=dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_largest_uniform_is_below_the_upper_bound(dtype, monkeypatch):
    """The sample nearest to 1 is moved to (2, 5) and must not become 5 by rounding."""
    from trnrand._stream.words import Source

    monkeypatch.setattr(
        Source, "words", lambda self, domain, n, each=1: torch.full((n,), -1, dtype=torch.int32)
    )
    options = {"dtype": dtype, "generator": Generator(1)}
    assert trnrand.uniform(4, **options).max() < 1
    assert trnrand.uniform(4, low=2.0, high=5.0, **options).max() < 5
    assert trnrand.uniform(4, low=torch.tensor([2.0] * 4), high=5.0, **options).max() < 5
    assert trnrand.exponential(4, **options).isfinite().all()


@each_case("dtype", FLOATS, ids=str)
def test_beta_is_strictly_inside(dtype):
    samples = trnrand.beta(50_000, alpha=0.02, beta=0.02, dtype=dtype, generator=Generator(18))
    assert samples.min() > 0
    assert samples.max() < 1
