"""Samples that move with their parameters: the same numbers, and how the quantiles move."""

import inspect
import math

import mpmath
import pytest
import torch
from scipy import stats
from torch.autograd import forward_ad

import trnrand
from each_case import each_case
from trnrand import Generator, rsample
from trnrand._sampling.pathwise import log_gamma_slope, von_mises_slope

F64 = torch.float64
COUNT = 40

# Parameters of a call, and scipy's law with the same ones, in their order.
LAWS = {
    "uniform": ({"low": -1.0, "high": 2.5}, lambda a, b: stats.uniform(a, b - a)),
    "normal": ({"mean": 1.0, "std": 2.0}, stats.norm),
    "lognormal": ({"mean": 0.3, "std": 0.8}, lambda m, s: stats.lognorm(s, scale=math.exp(m))),
    "exponential": ({"rate": 2.5}, lambda r: stats.expon(scale=1 / r)),
    "laplace": ({"loc": 1.0, "scale": 2.0}, stats.laplace),
    "cauchy": ({"loc": 1.0, "scale": 2.0}, stats.cauchy),
    "gumbel": ({"loc": 1.0, "scale": 2.0}, stats.gumbel_r),
    "weibull": ({"shape": 1.7, "scale": 2.0}, lambda k, s: stats.weibull_min(k, scale=s)),
    "gamma": ({"shape": 2.3, "scale": 1.5}, lambda k, s: stats.gamma(k, scale=s)),
    "gamma of a small shape": ({"shape": 0.2, "scale": 1.5}, lambda k, s: stats.gamma(k, scale=s)),
    "gamma of a large shape": ({"shape": 70.0, "scale": 0.1}, lambda k, s: stats.gamma(k, scale=s)),
    "chi_squared": ({"df": 3.0}, stats.chi2),
    "von_mises": ({"loc": 0.2, "kappa": 2.0}, lambda m, k: stats.vonmises(k, loc=m)),
    "truncated_normal": (
        {"mean": 1.0, "std": 2.0, "low": -0.5, "high": 1.5},
        lambda m, s, a, b: stats.truncnorm(a, b, loc=m, scale=s),
    ),
    "truncated_normal below": (
        {"mean": 1.0, "std": 2.0, "low": -4.0, "high": -2.5},
        lambda m, s, a, b: stats.truncnorm(a, b, loc=m, scale=s),
    ),
}
# Made of two noises, so that their quantiles alone do not say how they move.
OF_TWO = {"beta": {"alpha": 0.7, "beta": 2.0}, "student_t": {"df": 3.5}}


def called(module, name, generator, dtype=F64, **parameters):
    function = getattr(module, name.partition(" ")[0])
    return function(COUNT, dtype=dtype, generator=generator, **parameters)


@each_case("dtype", [torch.float32, F64, torch.bfloat16], ids=str)
@each_case("name", [*LAWS, *OF_TWO])
def test_the_numbers_are_those_of_the_plain_function(name, dtype):
    parameters = LAWS[name][0] if name in LAWS else OF_TWO[name]
    tensors = {k: torch.tensor(v, dtype=F64, requires_grad=True) for k, v in parameters.items()}
    moved, still = Generator(1), Generator(1)
    got = called(rsample, name, moved, dtype, **tensors)
    assert got.requires_grad
    assert got.dtype is dtype
    assert torch.equal(got.detach(), called(trnrand, name, still, dtype, **parameters))
    assert moved.offset == still.offset == COUNT
    numbers = called(rsample, name, moved, dtype, **parameters)
    assert not numbers.requires_grad
    # A number that float32 does not have is not rounded to it.
    assert torch.equal(numbers, called(trnrand, name, still, dtype, **parameters))


# scipy takes long for the quantiles of von Mises; its slopes are looked at by themselves below.
@each_case("name", [name for name in LAWS if name != "von_mises"])
def test_samples_move_as_the_quantile_they_are(name):
    """dx / dp by central differences, whose error is that of the third derivative and rounding."""
    parameters, law = LAWS[name]
    leaves = [torch.full((COUNT,), v, dtype=F64, requires_grad=True) for v in parameters.values()]
    samples = called(rsample, name, Generator(2), **dict(zip(parameters, leaves, strict=True)))
    slopes = torch.autograd.grad(samples.sum(), leaves)
    x = samples.detach().numpy()
    values = list(parameters.values())
    q, above = law(*values).cdf(x), law(*values).sf(x)
    for i, slope in enumerate(slopes):
        step = 1e-4 * max(1.0, abs(values[i]))
        ends = []
        for sign in (1, -1):
            there = law(*(v + sign * step * (j == i) for j, v in enumerate(values)))
            # From the nearer end, where the probability keeps its digits.
            near_top = above < 0.5
            ends.append(
                torch.tensor(there.ppf(q)).where(
                    ~torch.tensor(near_top), torch.tensor(there.isf(above))
                )
            )
        want = (ends[0] - ends[1]) / (2 * step)
        assert torch.allclose(slope, want, rtol=2e-6, atol=2e-6)


@each_case("shape", [1e-4, 0.03, 0.7, 1.0, 3.0, 40.0, 2e3])
def test_slopes_of_gammas_against_exact_arithmetic(shape):
    """-dP/da over the density, P being summed in 60 digits and differenced by 1e-15 of a."""
    q = [1e-6, 0.02, 0.3, 0.5, 0.8, 0.99, 1 - 1e-6]
    # Where x underflows, of P = x**a / gamma(a + 1).
    x = [float(v) for v in stats.gamma(shape).ppf(q)]
    logs = [
        math.log(v) if v > 1e-290 else (math.log(p) + math.lgamma(shape + 1)) / shape
        for v, p in zip(x, q, strict=True)
    ]
    a = torch.full((len(q),), shape, dtype=F64)
    (got,) = log_gamma_slope(torch.tensor(logs, dtype=F64), a)
    with mpmath.workdps(60):
        for slope, log_x in zip(got.tolist(), logs, strict=True):
            exact, v = mpmath.mpf(shape), mpmath.exp(mpmath.mpf(log_x))
            step = exact * mpmath.mpf(10) ** -15

            def below(s, v=v):
                return mpmath.gammainc(s, 0, v, regularized=True)

            change = (below(exact + step) - below(exact - step)) / (2 * step)
            density = mpmath.exp(exact * log_x - v - mpmath.loggamma(exact))
            assert slope == pytest.approx(float(-change / density), rel=1e-8)


@pytest.mark.parametrize("kappa", [0.7, 20.0, 499.0, 501.0, 1e6])
def test_slopes_of_von_mises_against_exact_arithmetic(kappa):
    """The integral of cos(t) - A from the angle on, times the densities' ratio, in 25 digits."""
    scale = min(1.0, kappa**-0.5)
    angles = torch.tensor([0.01, 0.5, 1.0, -2.5], dtype=F64) * scale
    (got,) = von_mises_slope(angles, torch.full((4,), kappa, dtype=F64))
    with mpmath.workdps(25):
        k = mpmath.mpf(kappa)
        mean = mpmath.besseli(1, k) / mpmath.besseli(0, k)
        for slope, angle in zip(got.tolist(), angles.tolist(), strict=True):
            size = mpmath.mpf(abs(angle))

            def excess(t, size=size):
                return (mpmath.cos(t) - mean) * mpmath.exp(k * (mpmath.cos(t) - mpmath.cos(size)))

            end = min(mpmath.pi, size + 20 * mpmath.mpf(scale))
            want = mpmath.quad(excess, mpmath.linspace(size, end, 9))
            assert slope == pytest.approx(math.copysign(1, angle) * float(want), rel=1e-8)


def test_second_derivatives_are_those_of_the_quantile():
    shape = torch.full((COUNT,), 2.3, dtype=F64, requires_grad=True)
    samples = rsample.gamma(COUNT, shape=shape, dtype=F64, generator=Generator(3))
    (first,) = torch.autograd.grad(samples.sum(), shape, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), shape)
    q, step = stats.gamma(2.3).cdf(samples.detach().numpy()), 1e-3
    low, middle, high = (torch.tensor(stats.gamma(2.3 + d).ppf(q)) for d in (-step, 0.0, step))
    want = (high - 2 * middle + low) / step**2
    assert torch.allclose(second, want, rtol=1e-5, atol=1e-5)


@each_case("name", ["gamma", "truncated_normal", "normal"])
def test_forward_mode_is_backward_mode(name):
    parameters = LAWS[name][0]
    values = [torch.full((COUNT,), v, dtype=F64) for v in parameters.values()]
    tangents = [torch.linspace(0.5, 1.5, COUNT, dtype=F64) * (i + 1) for i in range(len(values))]

    def draw(leaves):
        return called(rsample, name, Generator(4), **dict(zip(parameters, leaves, strict=True)))

    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(v, t) for v, t in zip(values, tangents, strict=True)]
        moved = forward_ad.unpack_dual(draw(duals)).tangent
    leaves = [v.clone().requires_grad_() for v in values]
    slopes = torch.autograd.grad(draw(leaves).sum(), leaves)
    want = sum(s * t for s, t in zip(slopes, tangents, strict=True))
    assert torch.allclose(moved, want, rtol=1e-13, atol=1e-13)


def within(estimate, want):
    """Within 4.5 standard errors: a right derivative is not, with probability 7e-6."""
    assert abs(estimate.mean() - want) < 4.5 * estimate.std() / len(estimate) ** 0.5


def slope_of(samples, leaf):
    return torch.autograd.grad(samples.sum(), leaf, retain_graph=True)[0]


def test_derivatives_of_means():
    """E x of beta is a / (a + b); E log|t| of Student's t with psi; E x**2 of von Mises."""
    count = 20_000
    a = torch.full((count,), 0.7, dtype=F64, requires_grad=True)
    b = torch.full((count,), 2.0, dtype=F64, requires_grad=True)
    x = rsample.beta(count, alpha=a, beta=b, dtype=F64, generator=Generator(5))
    within(slope_of(x, a), 2.0 / 2.7**2)
    within(slope_of(x, b), -0.7 / 2.7**2)
    df = torch.full((count,), 3.5, dtype=F64, requires_grad=True)
    t = rsample.student_t(count, df=df, dtype=F64, generator=Generator(6))
    half = torch.tensor(1.75, dtype=F64)
    # log|t| = log|z| - log(g) / 2 + log(df / 2) / 2, with E log(g) = psi(df / 2).
    want = 0.5 / 3.5 - 0.25 * torch.special.polygamma(1, half)
    within(slope_of(t.abs().log(), df), want)


def test_vectors_move_with_their_parameters():
    count = 20_000
    weights = torch.tensor([0.5, 1.0, 2.5], dtype=F64).expand(count, 3).clone().requires_grad_()
    x = rsample.dirichlet(weights, dtype=F64, generator=Generator(7))
    plain = trnrand.dirichlet(weights.detach(), dtype=F64, generator=Generator(7))
    assert torch.equal(x.detach(), plain)
    # E x_0 = w_0 / W: (W - w_0) / W**2 by its own weight, -w_0 / W**2 by another.
    slope = slope_of(x[:, 0], weights)
    within(slope[:, 0], 3.5 / 16)
    within(slope[:, 1], -0.5 / 16)

    mean = torch.tensor([1.0, 2.0], dtype=F64, requires_grad=True)
    spread = torch.tensor([[2.0, 0.6], [0.6, 1.0]], dtype=F64, requires_grad=True)
    y = rsample.multivariate_normal(mean, spread, 50, dtype=F64, generator=Generator(8))
    plain = trnrand.multivariate_normal(
        mean.detach(), spread.detach(), 50, dtype=F64, generator=Generator(8)
    )
    assert torch.equal(y.detach(), plain)

    def moved(m, s):
        return rsample.multivariate_normal(m, (s + s.mT) / 2, 5, dtype=F64, generator=Generator(8))

    # Nothing is rejected here: the call itself can be differenced.
    assert torch.autograd.gradcheck(moved, (mean, spread))


def test_ranks_of_a_partition_move_alike():
    shape = torch.tensor([0.3, 2.0, 9.0], dtype=F64, requires_grad=True)
    whole = rsample.gamma(6, 3, shape=shape, generator=Generator(9))
    ranks = [Generator(9, partition_rank=r, partition_size=3) for r in range(3)]
    parts = torch.cat([rsample.gamma(2, 3, shape=shape, generator=g) for g in ranks])
    assert torch.equal(parts, whole)
    by_parts, by_whole = (torch.autograd.grad(x.sum(), shape)[0] for x in (parts, whole))
    assert torch.allclose(by_parts, by_whole, rtol=1e-12)


def test_parameters_broadcast_and_keep_their_dtype():
    mean = torch.zeros(3, requires_grad=True)
    std = torch.ones(2, 1, dtype=torch.float16, requires_grad=True)
    x = rsample.normal(5, 2, 3, mean=mean, std=std, generator=Generator(10))
    x.sum().backward()
    assert mean.grad.tolist() == [10.0] * 3
    assert std.grad.dtype is torch.float16
    assert rsample.gamma(shape=torch.ones(4, 1), scale=torch.ones(3)).shape == (4, 3)


def test_samples_that_underflowed_do_not_move():
    shape = torch.tensor(1e-300, dtype=F64, requires_grad=True)
    x = rsample.gamma(4, shape=shape, dtype=F64, generator=Generator(11))
    x.sum().backward()
    assert x.tolist() == [0.0] * 4
    assert shape.grad == 0


def test_angles_move_with_their_location():
    loc = torch.tensor([0.5, 3.0], dtype=F64, requires_grad=True)
    turned = rsample.von_mises(50, 2, loc=loc, kappa=1.0, dtype=F64, generator=Generator(13))
    (slope,) = torch.autograd.grad(turned.sum(), loc)
    assert slope.tolist() == [50.0, 50.0]


def test_bounds_far_away_do_not_move_a_sample():
    low = torch.tensor([-math.inf, -50.0], dtype=F64, requires_grad=True)
    high = torch.tensor([math.inf, 60.0], dtype=F64, requires_grad=True)
    z = rsample.truncated_normal(2, low=low, high=high, dtype=F64, generator=Generator(12))
    z.sum().backward()
    # The density at -37 over that at a sample, or less.
    assert low.grad.abs().max() < 1e-280
    assert high.grad.abs().max() < 1e-280


@each_case(
    ("call", "match"),
    [
        (lambda: rsample.uniform(3, low=1.0), "uniform: low must be less than high"),
        (lambda: rsample.normal(3, std=-1.0), "normal: std must be non-negative"),
        (lambda: rsample.gamma(3, shape=0.0), "gamma: shape must be positive"),
        (lambda: rsample.gumbel(3, scale=0.0), "gumbel: scale must be positive"),
        (lambda: rsample.truncated_normal(3, low=3.0), "low must be less than high"),
        (lambda: rsample.dirichlet(torch.ones(2, 0)), "concentration must have shape"),
        (
            lambda: rsample.multivariate_normal(torch.zeros(2), -torch.eye(2)),
            "covariance must be symmetric and positive definite",
        ),
    ],
)
def test_bad_parameters_raise(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@each_case("name", rsample.__all__)
def test_the_arguments_are_those_of_the_plain_function_without_out(name):
    plain, made = (inspect.signature(getattr(m, name)) for m in (trnrand, rsample))
    assert list(made.parameters) == [p for p in plain.parameters if p != "out"]
    assert plain.return_annotation == made.return_annotation == "Tensor"


def test_out_is_not_accepted():
    with pytest.raises(TypeError, match="out"):
        rsample.uniform(3, out=torch.empty(3))
