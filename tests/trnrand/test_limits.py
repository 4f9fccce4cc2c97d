"""Parameters and results at the ends of their ranges: no overflow, no cancellation, no zero."""

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

import trnrand
from each_case import each_case
from trnrand import Generator

from .fits import assert_fits

F64, I64, I32 = torch.float64, torch.int64, torch.int32
COUNT = 100_000


# -- counts and their dtypes -----------------------------------------------------------------------


@each_case(
    ("draw", "dtype"),
    [
        (lambda **k: trnrand.poisson(3, lam=3e9, **k), I32),
        (lambda **k: trnrand.poisson(3, lam=torch.tensor([1.0, 3e9, 1.0]), **k), I32),
        (lambda **k: trnrand.poisson(3, lam=200.0, **k), torch.uint8),
        (lambda **k: trnrand.poisson(3, lam=1e5, **k), torch.float16),
        (lambda **k: trnrand.binomial(3, n=2**31, p=0.5, **k), I32),
        (lambda **k: trnrand.binomial(3, n=128, p=0.5, **k), torch.int8),
        (lambda **k: trnrand.geometric(3, p=1e-9, **k), I32),
        (lambda **k: trnrand.negative_binomial(3, n=5.0, p=1e-9, **k), I32),
        (lambda **k: trnrand.hypergeometric(3, good=300, bad=5, draws=290, **k), torch.uint8),
        (lambda **k: trnrand.multinomial(40_000, torch.ones(2), 3, **k), torch.int16),
    ],
)
def test_counts_that_may_not_fit_raise_and_draw_nothing(draw, dtype):
    generator = Generator(1)
    with pytest.raises(ValueError, match=f"counts must fit {dtype}"):
        draw(dtype=dtype, generator=generator)
    assert generator.offset == 0


def test_the_last_parameters_whose_counts_fit():
    """A byte holds n = 255; what a Poisson or geometric sample may reach is told by its tail."""
    assert trnrand.binomial(9, n=255, p=1.0, dtype=torch.uint8).tolist() == [255] * 9
    assert trnrand.binomial(9, n=127, p=1.0, dtype=torch.int8).tolist() == [127] * 9
    big = trnrand.binomial(9, n=2**31 - 1, p=1.0, dtype=I32)
    assert big.tolist() == [2**31 - 1] * 9
    small = trnrand.poisson(COUNT, lam=90.0, dtype=torch.uint8, generator=Generator(2))
    assert torch.equal(
        small.long(), trnrand.poisson(COUNT, lam=90.0, generator=Generator(2)).long()
    )
    # The largest uniform of 53 bits: 36.7 / 0.3 trials.
    assert trnrand.geometric(9, p=0.3, dtype=torch.int8).min() >= 1
    with pytest.raises(ValueError, match=r"counts must fit torch.int8"):
        trnrand.geometric(9, p=0.2, dtype=torch.int8)


@each_case("mean", [0.0, 0.5, 3.0, 11.0, 1e3, 1e9, 2.0**50])
def test_the_end_of_a_poisson_distribution(mean):
    from trnrand._sampling.counts import poisson_end

    end = float(poisson_end(mean))
    assert stats.poisson(mean).sf(math.ceil(end) - 1) < 2.0**-64
    assert end <= mean + 10 * mean**0.5 + 50


# -- exponentials ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, F64, torch.float16, torch.bfloat16], ids=str)
def test_exponentials_are_positive(dtype, monkeypatch):
    """The uniform 0 stands for a step of width 2**-24 (float64: 2**-53), whose middle it gives."""
    from trnrand._stream.words import Source

    monkeypatch.setattr(
        Source, "words", lambda self, domain, n, each=1: torch.zeros(n, dtype=torch.int32)
    )
    monkeypatch.setattr(
        "trnrand._stream.arrays.block_words",
        lambda engine, seed, first, steps, domain: [np.zeros(len(steps), np.uint64)] * 4,
    )
    # Compiled loops make words of their own; their samples are those of NumPy to the bit.
    monkeypatch.setattr("trnrand._stream.numba_loops.compiled_wanted", lambda samples: False)
    smallest = torch.finfo(dtype).tiny * torch.finfo(dtype).eps
    middle = 2.0**-54 if dtype is F64 else 2.0**-25
    got = trnrand.exponential(4, dtype=dtype, generator=Generator(1))
    assert got.tolist() == [max(middle, smallest)] * 4
    scaled = trnrand.exponential(4, rate=2.0**-6, dtype=dtype, generator=Generator(1))
    assert scaled.tolist() == [max(middle * 64, smallest)] * 4
    for rate in (1e30, torch.full((4,), 1e300, dtype=F64) if dtype is F64 else 3e38):
        fast = trnrand.exponential(4, rate=rate, dtype=dtype, generator=Generator(1))
        assert fast.min() >= smallest
    assert trnrand.exponential(0, rate=torch.ones(0), dtype=dtype).shape == (0,)


def test_extremes_of_extremes_are_finite(monkeypatch):
    from trnrand._stream.words import Source

    for word in (0, -1):
        monkeypatch.setattr(
            Source,
            "words",
            lambda self, domain, n, each=1, word=word: torch.full((n,), word, dtype=torch.int32),
        )
        assert trnrand.gumbel(4, generator=Generator(1)).isfinite().all()
        lives = trnrand.weibull(4, shape=1.0, generator=Generator(1))
        assert lives.min() > 0
        assert lives.isfinite().all()


# -- parameters that rounding took -----------------------------------------------------------------


def test_student_t_keeps_its_degrees_of_freedom():
    """Degrees that float32 cannot hold: 1e-60 as 0, 1e60 as infinity, and 0.1 by 1.5e-9."""
    z = trnrand.student_t(1000, df=1e60, dtype=F64, generator=Generator(3))
    assert_fits(z, stats.norm())
    number = trnrand.student_t(50, df=0.1, dtype=F64, generator=Generator(3))
    tensor = trnrand.student_t(50, df=torch.full((50,), 0.1, dtype=F64), generator=Generator(3))
    assert torch.equal(number.float(), tensor)
    same = trnrand.student_t(
        50, df=torch.full((50,), 0.1, dtype=F64), dtype=F64, generator=Generator(3)
    )
    assert torch.equal(number, same)
    assert not trnrand.student_t(5, df=1e-60, dtype=F64, generator=Generator(3)).isnan().any()


@each_case("shape", [1e10, 1e16, 1e24])
def test_gammas_of_large_shapes_are_normal(shape):
    """Their skewness, 2e-5 and less, is nothing that 100,000 samples tell from 0."""
    samples = trnrand.gamma(COUNT, shape=shape, dtype=F64, generator=Generator(4))
    assert_fits((samples - shape) / shape**0.5, stats.norm())


@each_case("d", [2 / 3, 1.0, 30.0, 9.9e3, 1.01e4, 1e8, 1e16, 1e30])
def test_what_accepts_a_gamma_against_exact_arithmetic(d):
    """z**2 / 2 + d - d v + d log(v), of which 120 digits are enough."""
    from trnrand._sampling.gammas import log_acceptance

    d64 = torch.tensor(d, dtype=F64)
    z = torch.tensor([-9.3, -3.0, -1.0, -0.1, 1e-3, 0.5, 2.0, 4.0, 9.3], dtype=F64)
    x = z / torch.sqrt(9 * d64)
    with mpmath.workdps(120):
        for got, one in zip(log_acceptance(x, d64).tolist(), x.tolist(), strict=True):
            if one <= -1:
                assert not got > -math.inf
                continue
            v = (1 + mpmath.mpf(one)) ** 3
            exact = mpmath.mpf(d) * (mpmath.mpf(4.5) * mpmath.mpf(one) ** 2 + 1 - v + mpmath.log(v))
            # Ten roundings, of terms up to the cubic one; or the first term that a series lacks.
            terms = abs(one) + one**2 + abs(one) ** 3
            allowed = 10 * 3 * d * terms * 2.0**-53 if d < 1e4 else 2e-8 * abs(exact)
            assert abs(got - exact) <= allowed


# -- the far tail of truncated normals -------------------------------------------------------------


@each_case(
    ("low", "high"),
    [
        (5.1, math.inf),
        (5.1, 5.2),
        (37.0, 38.0),
        (1e8, math.inf),
        (1e8, 1e8 + 1e-8),
        (6.0, 6.0 + 1e-9),
        (-math.inf, -1e5),
        (-1e5 - 1e-6, -1e5),
    ],
)
def test_truncated_normals_far_out_to_the_last_digit(low, high):
    """What lies above a sample, in 60 digits, is as far from the bounds as its uniform says."""
    from trnrand.distributions.truncated import _uniforms

    generator = Generator(5)
    got = trnrand.truncated_normal(200, low=low, high=high, dtype=F64, generator=generator)
    u = _uniforms(Generator(5).reserve("", 200, torch.device("cpu")), 200)
    flip = -1 if high < 0 else 1
    near, far = (low, high) if flip > 0 else (-high, -low)

    def above(x):
        return mpmath.erfc(mpmath.mpf(x) / mpmath.sqrt(2)) / 2

    with mpmath.workdps(60):
        least = above(far)
        between = above(near) - least
        for z, part in zip((flip * got).tolist(), u.tolist(), strict=True):
            wanted = least + mpmath.mpf(part) * between
            density = mpmath.exp(-(mpmath.mpf(z) ** 2) / 2) / mpmath.sqrt(2 * mpmath.pi)
            assert abs(above(z) - wanted) / density <= 2.0**-52 * abs(z)
            assert near <= z <= far


@each_case("low", [1e100, 1e160, 1e300])
def test_truncated_normals_at_any_distance(low):
    assert (trnrand.truncated_normal(5, low=low, high=math.inf, dtype=F64) == low).all()
    assert (trnrand.truncated_normal(5, low=-math.inf, high=-low, dtype=F64) == -low).all()


def test_bounds_near_and_far_in_one_call():
    low = torch.tensor([-1.0, 4.99, 5.01, 50.0, -50.0], dtype=F64)
    high = low + torch.tensor([3.0, 1.0, 1.0, 1.0, 1.0], dtype=F64)
    got = trnrand.truncated_normal(5, low=low, high=high, dtype=F64, generator=Generator(6))
    for i in range(5):
        alone = Generator(6)
        alone.seek(i)
        one = trnrand.truncated_normal(
            low=float(low[i]), high=float(high[i]), dtype=F64, generator=alone
        )
        assert one == got[i]


# -- weights ---------------------------------------------------------------------------------------


@each_case("scale", [5e-324, 1e-310, 1e-200, 1.0, 1e308])
def test_choices_do_not_depend_on_the_scale_of_the_weights(scale):
    weights = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0], dtype=F64)
    for replace, count in ((True, 500), (False, 3)):
        want = trnrand.choice(5, count, p=weights, replace=replace, generator=Generator(7))
        got = trnrand.choice(5, count, p=weights * scale, replace=replace, generator=Generator(7))
        assert torch.equal(got, want)
        assert set(got.tolist()) <= {1, 3, 4}


def test_members_without_weight_come_after_those_with_hardly_any():
    weights = torch.tensor([0.0, 1e-300, 1.0, 0.0, 1e-320], dtype=F64)
    for seed in range(20):
        got = trnrand.choice(5, 3, p=weights, replace=False, generator=Generator(seed))
        assert got.tolist() == [2, 1, 4]


# -- covariances -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
def test_a_covariance_as_asymmetric_as_rounding_leaves_it(dtype):
    random = np.random.default_rng(8)
    data = torch.tensor(random.normal(size=(5000, 6)) * [1, 10, 1e-3, 1, 1, 1e4], dtype=dtype)
    spread = data.mT @ data / 5000
    noise = torch.tensor(random.uniform(-1, 1, (6, 6)), dtype=dtype) * torch.finfo(dtype).eps * 100
    root = spread.diagonal().sqrt()
    rounded = spread + noise * root[:, None] * root
    assert not torch.equal(rounded, rounded.mT)
    mean = torch.zeros(6)
    got = trnrand.multivariate_normal(mean, rounded, 4, generator=Generator(9), dtype=F64)
    middle = (rounded.double() + rounded.double().mT) / 2
    want = trnrand.multivariate_normal(mean, middle, 4, generator=Generator(9), dtype=F64)
    assert torch.equal(got, want)


def test_a_covariance_that_is_not_symmetric():
    mean, wrong = torch.zeros(2), torch.tensor([[1.0, 0.5], [0.4, 1.0]])
    with pytest.raises(ValueError, match="covariance must be symmetric and positive definite"):
        trnrand.multivariate_normal(mean, wrong)
    batch = torch.stack([torch.eye(2), torch.tensor([[1.0, 2.0], [2.0, 1.0]])])
    with pytest.raises(ValueError, match="covariance must be symmetric and positive definite"):
        trnrand.multivariate_normal(mean, batch)
    # Rounding of 1e-20 beside variances of 1 is none of the covariance's business.
    assert trnrand.multivariate_normal(mean, torch.tensor([[1.0, 1e-20], [-1e-20, 1.0]])).shape
