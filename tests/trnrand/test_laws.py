"""Laws beside the classical ones follow their distributions, from any parameter to any shape."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import trnrand
from each_case import each_case
from trnrand import Generator
from trnrand._kernels.definitions import DOMAINS, GROUPS, WIDE, Domain
from trnrand._stream.words import UNIFORM_BITS

from .fits import SMALLEST_P, assert_counts_fit, assert_fits

F64, I64 = torch.float64, torch.int64
COUNT = 100_000


@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
def test_gumbel(dtype):
    samples = trnrand.gumbel(COUNT, loc=2.0, scale=3.0, dtype=dtype, generator=Generator(1))
    assert_fits(samples, stats.gumbel_r(2, 3))


@each_case("shape", [0.3, 1.0, 1.5, 20.0])
def test_weibull(shape):
    samples = trnrand.weibull(COUNT, shape=shape, scale=2.0, dtype=F64, generator=Generator(2))
    assert_fits(samples, stats.weibull_min(shape, scale=2))


@each_case("kappa", [0.0, 1e-6, 0.3, 2.0, 40.0])
def test_von_mises(kappa):
    angles = trnrand.von_mises(COUNT, kappa=kappa, dtype=F64, generator=Generator(3))
    law = stats.vonmises(kappa) if kappa else stats.uniform(-math.pi, 2 * math.pi)
    assert_fits(angles, law)
    assert angles.abs().max() <= math.pi


@each_case("kappa", [1e6, 1e12, 1e300])
def test_von_mises_of_a_large_kappa_is_normal(kappa):
    """Of the density exp(-kappa x**2 / 2 + kappa x**4 / 24 ...) nothing but the first is left."""
    angles = trnrand.von_mises(COUNT, kappa=kappa, dtype=F64, generator=Generator(3))
    assert_fits(angles * kappa**0.5, stats.norm())


def test_von_mises_turns_and_wraps():
    centred = trnrand.von_mises(1000, kappa=0.7, dtype=F64, generator=Generator(4))
    turned = trnrand.von_mises(1000, loc=3.0, kappa=0.7, dtype=F64, generator=Generator(4))
    further = trnrand.von_mises(
        1000, loc=3.0 - 8 * math.pi, kappa=0.7, dtype=F64, generator=Generator(4)
    )
    want = torch.remainder(centred + 3.0 + math.pi, 2 * math.pi) - math.pi
    # The angles themselves are below 30, so that 8 eps is above what three roundings do.
    assert torch.allclose(turned, want, rtol=0, atol=8 * 30 * 2.0**-53)
    assert torch.allclose(further, want, rtol=0, atol=8 * 30 * 2.0**-53)
    assert turned.abs().max() <= math.pi


@each_case(("n", "p"), [(0.2, 0.1), (1.0, 0.5), (2.5, 0.01), (30.0, 0.3), (3.0, 0.9)])
def test_negative_binomial(n, p):
    samples = trnrand.negative_binomial(COUNT, n=n, p=p, dtype=I64, generator=Generator(5))
    assert_counts_fit(samples, stats.nbinom(n, p))


def test_nothing_fails_before_sure_successes():
    assert trnrand.negative_binomial(5, n=3.0, p=1.0).tolist() == [0] * 5


# Inverted and by ratio, of either kind the more, of more or less than half of the members.
@pytest.mark.parametrize(
    ("good", "bad", "draws"),
    [
        (5, 20, 7),
        (20, 5, 7),
        (5, 20, 18),
        (20, 5, 18),
        (60, 90, 40),
        (90, 60, 40),
        (60, 90, 110),
        (90, 60, 110),
        (10**6, 3 * 10**6, 10**5),
        (50, 10**9, 10**8),
    ],
)
def test_hypergeometric(good, bad, draws):
    samples = trnrand.hypergeometric(
        COUNT, good=good, bad=bad, draws=draws, dtype=I64, generator=Generator(6)
    )
    assert_counts_fit(samples, stats.hypergeom(good + bad, good, draws))
    assert samples.min() >= max(0, draws - bad)
    assert samples.max() <= min(good, draws)


def test_hypergeometric_at_the_ends():
    for good, bad, draws, want in [(0, 5, 3, 0), (5, 0, 3, 3), (4, 5, 9, 4), (4, 5, 0, 0)]:
        got = trnrand.hypergeometric(20, good=good, bad=bad, draws=draws, generator=Generator(7))
        assert got.tolist() == [want] * 20
    assert trnrand.hypergeometric(2, good=0, bad=0, draws=0).tolist() == [0, 0]


def test_more_draws_than_members_by_one_of_many():
    """Numbers that float32 does not have."""
    most = 2**24 + 2
    assert float(trnrand.hypergeometric(good=most, bad=1, draws=most + 1, dtype=I64)) == most
    with pytest.raises(ValueError, match="draws must be at most"):
        trnrand.hypergeometric(good=most, bad=0, draws=most + 1)


def test_hypergeometric_of_tensors_is_that_of_each():
    good, draws = torch.tensor([3, 300, 40, 800]), torch.tensor([50, 400, 5, 900])
    got = trnrand.hypergeometric(good=good, bad=400, draws=draws, generator=Generator(8))
    for i, (some, taken) in enumerate(zip(good.tolist(), draws.tolist(), strict=True)):
        single = Generator(8)
        single.seek(i)
        one = trnrand.hypergeometric(good=some, bad=400, draws=taken, generator=single)
        assert one == got[i]


def test_multinomial():
    """A component is binomial, and so is one among those that went to two."""
    p = torch.tensor([2.0, 0.0, 5.0, 1.0], dtype=F64)
    counts = trnrand.multinomial(50, p, COUNT, dtype=I64, generator=Generator(9))
    assert counts.shape == (COUNT, 4)
    assert (counts.sum(1) == 50).all()
    assert (counts[:, 1] == 0).all()
    for i, chance in ((0, 2 / 8), (2, 5 / 8), (3, 1 / 8)):
        assert_counts_fit(counts[:, i], stats.binom(50, chance))
    of_two = counts[counts[:, 0] + counts[:, 2] == 44][:, 0]
    assert len(of_two) > 1000
    assert_counts_fit(of_two, stats.binom(44, 2 / 7))


def test_multinomial_broadcasts():
    n = torch.tensor([0, 3, 1000])
    p = torch.tensor([[[1.0, 1.0]], [[1.0, 0.0]]])
    got = trnrand.multinomial(n, p, 4, 2, 3, generator=Generator(10))
    assert got.shape == (4, 2, 3, 2)
    assert torch.equal(got.sum(-1), n.expand(4, 2, 3).float())
    assert torch.equal(got[:, 1, :, 0], n.expand(4, 3).float())
    assert trnrand.multinomial(n, p).shape == (2, 3, 2)
    assert trnrand.multinomial(7, torch.ones(1), 3).tolist() == [[7.0]] * 3
    assert trnrand.multinomial(7, torch.ones(2), 0).shape == (0, 2)
    assert trnrand.multinomial(7, 1e308 * torch.ones(3, dtype=F64)).sum() == 7


def test_a_vector_of_counts_depends_on_its_own_parameters():
    n, p = torch.tensor([5, 900, 40]), torch.rand(3, 6, generator=torch.Generator().manual_seed(1))
    together = trnrand.multinomial(n, p, generator=Generator(11))
    for i in range(3):
        alone = Generator(11)
        alone.seek(6 * i)
        assert torch.equal(trnrand.multinomial(int(n[i]), p[i], generator=alone), together[i])


def test_categorical():
    weights = torch.tensor([0.0, 1.0, 2.0, 0.0, 4.0, 0.0])
    picked = trnrand.categorical(COUNT, p=weights, generator=Generator(12))
    assert picked.dtype is I64
    counts = picked.bincount(minlength=6)
    kept = weights > 0
    assert counts[~kept].sum() == 0
    expected = (weights.double() / 7 * COUNT)[kept].numpy()
    assert stats.chisquare(counts[kept].numpy(), expected).pvalue > SMALLEST_P
    # Logarithms say the same up to their rounding, and a factor is nothing.
    logits = weights.double().log() + 600.0
    again = trnrand.categorical(COUNT, logits=logits, generator=Generator(12))
    assert torch.equal(again, picked)
    assert torch.equal(trnrand.choice(6, COUNT, p=weights, generator=Generator(12)), picked)


@each_case("width", [1, 2, 3, 7, 8, 9, 64])
def test_categories_of_rows_are_those_of_each_row(width):
    random = np.random.default_rng(width)
    table = torch.tensor(random.random((5, width)) * (random.random((5, width)) < 0.7))
    table[:, width // 2] += 0.1
    got = trnrand.categorical(12, 5, p=table, generator=Generator(13))
    for i in range(12):
        for row in range(5):
            alone = Generator(13)
            alone.seek(5 * i + row)
            assert trnrand.categorical(p=table[row], generator=alone) == got[i, row]


def test_the_end_of_a_row_of_weights_is_never_passed(monkeypatch):
    """The largest uniform times a sum may round up to the sum."""
    from trnrand._stream.words import Source

    monkeypatch.setattr(
        Source, "words", lambda self, domain, n, each=1: torch.full((n,), -1, dtype=torch.int32)
    )
    weights = torch.tensor([[0.1, 0.2, 0.7, 0.0], [0.3, 0.0, 0.0, 0.0]])
    generator = Generator(1)
    assert trnrand.categorical(3, p=weights[0], generator=generator).tolist() == [2, 2, 2]
    assert trnrand.categorical(p=weights, generator=generator).tolist() == [2, 0]


def test_shuffle_is_an_order_of_slices():
    values = torch.arange(24.0).view(4, 6)
    order = trnrand.randperm(6, generator=Generator(14))
    for dim in (1, -1):
        generator = Generator(14)
        got = trnrand.shuffle(values, dim, generator=generator)
        assert torch.equal(got, values[:, order])
        assert generator.offset == 6
    assert torch.equal(values, torch.arange(24.0).view(4, 6))
    assert sorted(trnrand.shuffle(torch.arange(9)).tolist()) == list(range(9))


def test_vectors_of_every_batch():
    mean = torch.tensor([[0.0, 100.0], [200.0, 300.0], [400.0, 500.0]])
    got = trnrand.multivariate_normal(mean, torch.eye(2), 5, 3, generator=Generator(15))
    assert torch.allclose(got - mean, torch.zeros(()), atol=6.7)
    spread = torch.stack([torch.eye(2) * v for v in (1e-6, 1e4)])
    assert trnrand.multivariate_normal(torch.zeros(2), spread).shape == (2, 2)
    wide = trnrand.multivariate_normal(torch.zeros(2), spread, 2000, 2, generator=Generator(16))
    assert wide[:, 0].abs().max() < 6.7e-3
    assert 80 < wide[:, 1].std() < 120
    each = trnrand.dirichlet(torch.tensor([[1e6, 1e6], [1.0, 1e6]]), 50, 2, dtype=F64)
    assert (each[:, 0] - 0.5).abs().max() < 0.01
    assert each[:, 1, 0].max() < 1e-4


def test_a_batch_of_covariances_is_each_of_them():
    random = torch.Generator().manual_seed(2)
    roots = torch.randn(3, 4, 4, generator=random, dtype=F64)
    spread = roots @ roots.mT + torch.eye(4)
    mean = torch.randn(3, 4, generator=random, dtype=F64)
    together = trnrand.multivariate_normal(mean, spread, generator=Generator(17), dtype=F64)
    for i in range(3):
        alone = Generator(17)
        alone.seek(4 * i)
        one = trnrand.multivariate_normal(mean[i], spread[i], generator=alone, dtype=F64)
        assert torch.allclose(together[i], one, rtol=1e-14, atol=1e-14)


def test_numbers_that_are_part_of_the_streams_never_change():
    assert {domain.name: domain.value for domain in Domain} == {
        "UNIFORM": 0,
        "NORMAL": 1,
        "EXPONENTIAL": 2,
        "BERNOULLI": 3,
        "RANDINT": 4,
        "PERMUTATION": 5,
        "TRUNCATED_NORMAL": 6,
        "GAMMA": 7,
        "BETA_SECOND": 8,
        "POISSON": 9,
        "BINOMIAL": 10,
        "GEOMETRIC": 11,
        "LAPLACE": 12,
        "CAUCHY": 13,
        "CHOICE": 14,
        "STUDENT_T": 15,
        "GUMBEL": 16,
        "WEIBULL": 17,
        "VON_MISES": 18,
        "HYPERGEOMETRIC": 19,
        "SPLIT": 32,
        "SPAWN": 33,
        "FORK": 34,
    }
    assert {kind: domain.name for kind, domain in DOMAINS.items()} == {
        "words": "UNIFORM",
        "uniform": "UNIFORM",
        "normal": "NORMAL",
        "exponential": "EXPONENTIAL",
    }
    assert GROUPS == {"words": 1, "uniform": 1, "normal": 2, "exponential": 1}
    assert {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8} == UNIFORM_BITS
    assert WIDE == 128  # above every domain, below the attempts of a sampler
    assert max(Domain) < WIDE < 256
