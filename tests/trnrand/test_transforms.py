"""Draws inside the transforms of torch.func, with generators made inside and outside of them."""

import pytest
import torch
from torch.func import grad, jacfwd, jacrev, jvp, vmap

import trnrand
from each_case import each_case
from trnrand import Generator, rsample

F64 = torch.float64
COVARIANCE = [[1.0, 0.2], [0.2, 0.5]]

# Function of one parameter, and a value of it.
MOVING = {
    "uniform": (lambda p, g: rsample.uniform(4, high=p, generator=g, dtype=F64), 2.0),
    "normal": (lambda p, g: rsample.normal(4, std=p, generator=g, dtype=F64), 1.5),
    "lognormal": (lambda p, g: rsample.lognormal(4, mean=p, generator=g, dtype=F64), 0.3),
    "exponential": (lambda p, g: rsample.exponential(4, rate=p, generator=g, dtype=F64), 2.0),
    "laplace": (lambda p, g: rsample.laplace(4, scale=p, generator=g, dtype=F64), 2.0),
    "cauchy": (lambda p, g: rsample.cauchy(4, loc=p, generator=g, dtype=F64), 1.0),
    "gumbel": (lambda p, g: rsample.gumbel(4, scale=p, generator=g, dtype=F64), 2.0),
    "weibull": (lambda p, g: rsample.weibull(4, shape=p, generator=g, dtype=F64), 2.0),
    "truncated_normal": (
        lambda p, g: rsample.truncated_normal(4, low=p, generator=g, dtype=F64), -1.0
    ),
    "von_mises": (lambda p, g: rsample.von_mises(4, kappa=p, generator=g, dtype=F64), 1.5),
    "gamma": (lambda p, g: rsample.gamma(4, shape=p, generator=g, dtype=F64), 1.5),
    "chi_squared": (lambda p, g: rsample.chi_squared(4, df=p, generator=g, dtype=F64), 3.0),
    "beta": (lambda p, g: rsample.beta(4, alpha=p, beta=2.0, generator=g, dtype=F64), 1.5),
    "student_t": (lambda p, g: rsample.student_t(4, df=p, generator=g, dtype=F64), 5.0),
    "dirichlet": (
        lambda p, g: rsample.dirichlet(torch.stack([p, 2 * p]), 3, generator=g, dtype=F64), 1.5
    ),
    "multivariate_normal": (
        lambda p, g: rsample.multivariate_normal(
            torch.stack([p, p]), torch.tensor(COVARIANCE, dtype=F64) * p, 3, generator=g, dtype=F64
        ),
        1.5,
    ),
}  # fmt: skip
MOST_PARAMETERS = sorted(set(MOVING) - {"multivariate_normal"})  # which checks a whole matrix


def number(value, **options):
    return torch.tensor(value, dtype=F64, **options)


@pytest.fixture(params=sorted(MOVING))
def moving(request):
    law, value = MOVING[request.param]
    return lambda p: law(p, Generator(3)), number(value)


def test_gradients_are_those_of_autograd(moving):
    law, value = moving
    leaf = value.clone().requires_grad_()
    samples = law(leaf)
    (want,) = torch.autograd.grad(samples.square().sum(), leaf)
    assert torch.equal(law(value), samples)
    assert torch.equal(grad(lambda p: law(p).square().sum())(value), want)
    found, slope = jvp(lambda p: law(p).square().sum(), (value,), (torch.ones_like(value),))
    assert torch.equal(found, samples.square().sum())
    # The same sum of products, in the other order.
    assert torch.allclose(slope, want, rtol=1e-12, atol=1e-12)
    rows = jacrev(law)(value)
    assert torch.allclose(jacfwd(law, randomness="same")(value), rows, rtol=1e-12, atol=1e-12)


@each_case("name", ["normal", "gamma", "von_mises"])
def test_second_derivatives_are_those_of_autograd(name):
    law, value = MOVING[name]
    leaf = number(value, requires_grad=True)
    first = torch.autograd.grad(law(leaf, Generator(3)).pow(3).sum(), leaf, create_graph=True)[0]
    (want,) = torch.autograd.grad(first, leaf)

    def moved(p):
        return law(p, Generator(3)).pow(3).sum()

    assert torch.allclose(grad(grad(moved))(number(value)), want, rtol=1e-9)
    assert torch.allclose(jacrev(jacrev(moved))(number(value)), want, rtol=1e-9)


def test_a_draw_is_a_constant_to_a_derivative():
    generator = Generator(4)
    slope = grad(lambda x: (x * trnrand.poisson(50, lam=x, generator=generator)).sum())(number(3.0))
    assert slope == trnrand.poisson(50, lam=3.0, generator=Generator(4)).sum()
    assert generator.offset == 50


@each_case("draw", [trnrand.uniform, trnrand.poisson, trnrand.normal])
def test_vmap_refuses_draws_unless_told_what_they_mean(draw):
    with pytest.raises(RuntimeError, match=rf"^{draw.__name__}: .*randomness='same' or 'diff"):
        vmap(lambda x: x + draw(3))(torch.zeros(2))
    with pytest.raises(RuntimeError, match=r"^gamma: .*randomness"):
        vmap(lambda p: rsample.gamma(3, shape=p))(torch.ones(2))


@each_case("name", ["uniform", "normal", "randint", "poisson", "randperm"])
def test_batches_go_on_in_the_stream_or_share_a_draw(name):
    sizes = (5,) if name == "randperm" else (2, 3)
    options = {"poisson": {"lam": 40.0}}.get(name, {})
    if name == "randint":
        sizes = (1000, sizes)

    def draw(generator):
        return getattr(trnrand, name)(*sizes, generator=generator, **options)

    one, other, third = Generator(7), Generator(7), Generator(7)
    want = torch.stack([draw(one) for _ in range(4)])
    got = vmap(lambda x: draw(other) + 0 * x, randomness="different")(torch.zeros(4))
    assert torch.equal(got, want.to(got.dtype))
    assert other.offset == one.offset
    same = vmap(lambda x: draw(third) + 0 * x, randomness="same")(torch.zeros(4))
    assert torch.equal(same, want[:1].expand_as(same).to(same.dtype))
    assert third.offset == one.offset // 4


def test_batches_of_batches():
    def draw(generator):
        inner = vmap(lambda x: trnrand.uniform(2, generator=generator) + x, randomness="different")
        return vmap(inner, randomness="different")(torch.zeros(3, 5))

    want = trnrand.uniform(3, 5, 2, generator=Generator(8))
    assert torch.equal(draw(Generator(8)), want)
    generator = Generator(8)
    inner = vmap(lambda x: trnrand.uniform(2, generator=generator) + x, randomness="different")
    once = vmap(inner, randomness="same")(torch.zeros(3, 5))
    assert torch.equal(once, want[:1].expand(3, 5, 2))


@pytest.mark.parametrize("dim", [0, 1])
def test_batches_of_parameters(dim):
    lam = torch.tensor([[1.0, 30.0, 4.0], [200.0, 5.0, 0.5]], dtype=F64)
    given = lam if dim == 0 else lam.mT.contiguous()
    generator = Generator(9)

    def draw(p):
        return trnrand.poisson(3, lam=p, generator=generator)

    different = vmap(draw, in_dims=dim, randomness="different")(given)
    assert torch.equal(different, trnrand.poisson(2, 3, lam=lam, generator=Generator(9)))
    generator = Generator(9)
    same = vmap(draw, in_dims=dim, randomness="same")(given)
    rows = [trnrand.poisson(3, lam=row, generator=Generator(9)) for row in lam]
    assert torch.equal(same, torch.stack(rows))
    assert generator.offset == 3


@each_case("name", MOST_PARAMETERS)
def test_gradients_of_each_member_of_a_batch(name):
    law, value = MOVING[name]
    values = torch.stack([number(value), number(value) * 1.25])
    one, other = Generator(5), Generator(5)
    want = [grad(lambda p: law(p, one).square().sum())(v) for v in values]
    got = vmap(grad(lambda p: law(p, other).square().sum()), randomness="different")(values)
    assert torch.allclose(got, torch.stack(want), rtol=1e-12, atol=1e-12)
    assert one.offset == other.offset


def test_parameters_of_a_batch_are_checked():
    with pytest.raises(ValueError, match=r"^gamma: shape must be positive and finite, got -1\.0$"):
        vmap(lambda p: rsample.gamma(3, shape=p), randomness="same")(torch.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match=r"^uniform: low must be less than high"):
        vmap(lambda p: rsample.uniform(3, low=p), randomness="same")(torch.tensor([0.0, 1.0]))


def test_out_is_refused_inside_of_transforms():
    with pytest.raises(ValueError, match=r"^uniform: out must be None inside the transforms"):
        grad(lambda x: x * trnrand.uniform(out=torch.empty(3)).sum())(number(1.0))
