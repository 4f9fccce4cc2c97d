"""Sizes, dtypes, devices, buffers and parameters: what is accepted, and how the rest is refused."""

import math

import pytest
import torch

import trnrand
from each_case import each_case
from trnrand import Generator, ParameterError
from trnsci.core.errors import DeviceError, DTypeError, FlagError, ShapeError

from .draws import DRAWS

NAN, INF = math.nan, math.inf
NAMES = [name for name in DRAWS if " " not in name]


@pytest.fixture
def generator():
    return Generator(1)


# -- sizes, dtypes, buffers ------------------------------------------------------------------------


@each_case("name", DRAWS)
def test_sizes_in_every_form(name, generator):
    draw = DRAWS[name]
    for size in [(3, 4), ((3, 4),), ([3, 4],), (torch.Size([3, 4]),)]:
        assert draw(*size, generator=generator).shape == (3, 4)
    assert draw(5, generator=generator).shape == (5,)
    assert draw(generator=generator).shape == ()
    assert draw((), generator=generator).shape == ()
    assert draw(2, 0, 3, generator=generator).shape == (2, 0, 3)


@each_case("name", DRAWS)
def test_the_shape_is_no_part_of_the_numbers(name):
    flat = DRAWS[name](24, generator=Generator(2))
    assert torch.equal(DRAWS[name](2, 3, 4, generator=Generator(2)), flat.reshape(2, 3, 4))
    assert not flat.requires_grad


@each_case("name", DRAWS)
def test_out_is_filled_and_returned(name):
    want = DRAWS[name](3, 5, generator=Generator(2))
    for out in (torch.empty(3, 5, dtype=want.dtype), torch.empty(5, 3, dtype=want.dtype).mT):
        place = out.data_ptr()
        got = DRAWS[name](generator=Generator(2), out=out)
        assert got is out
        assert out.data_ptr() == place
        assert torch.equal(out, want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_out_may_be_a_parameter(dtype):
    mean = torch.tensor([100.0, 200.0, 300.0], dtype=dtype)
    want = trnrand.normal(3, mean=mean, generator=Generator(2), dtype=dtype)
    assert torch.equal(trnrand.normal(mean=mean, generator=Generator(2), out=mean), want)


@each_case("name", NAMES)
@each_case("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_dtypes(name, dtype, generator):
    if name == "randint":
        assert trnrand.randint(100, (5,), dtype=dtype, generator=generator).dtype is dtype
    else:
        assert DRAWS[name](5, dtype=dtype, generator=generator).dtype is dtype


def test_default_dtypes(generator):
    for name in NAMES:
        want = torch.int64 if name in ("randint", "categorical") else torch.float32
        assert DRAWS[name](5, generator=generator).dtype is want
    assert trnrand.randperm(5, generator=generator).dtype is torch.int64
    assert trnrand.randperm(5, dtype=torch.int32, generator=generator).dtype is torch.int32
    assert trnrand.bernoulli(5, dtype=torch.bool, generator=generator).dtype is torch.bool


def test_parameters_are_tensors_that_broadcast(generator):
    low = torch.tensor([0.0, 10.0, 20.0])
    samples = trnrand.uniform(100, 3, low=low, high=low + 5, generator=generator)
    assert ((samples >= low) & (samples < low + 5)).all()
    assert trnrand.gamma(shape=torch.ones(4, 1), scale=torch.ones(3)).shape == (4, 3)
    bounds = torch.tensor([[1], [50]])
    assert (trnrand.randint(bounds, bounds + 1, (2, 100)) == bounds).all()
    means = torch.tensor([1e3, 2e3], requires_grad=True)
    assert not trnrand.normal(2, mean=means).requires_grad


def test_limits_of_parameters(generator):
    assert (trnrand.normal(5, std=0.0, mean=2.0, generator=generator) == 2).all()
    assert (trnrand.poisson(5, lam=0.0, generator=generator) == 0).all()
    assert (trnrand.binomial(5, n=7, p=1.0, generator=generator) == 7).all()
    assert (trnrand.binomial(5, n=0, p=0.5, generator=generator) == 0).all()
    assert (trnrand.geometric(5, p=1.0, generator=generator) == 1).all()
    assert (trnrand.randint(3, 4, (5,), generator=generator) == 3).all()
    assert trnrand.randperm(0, generator=generator).shape == (0,)
    assert trnrand.gamma(5, shape=1e-300, dtype=torch.float64, generator=generator).max() == 0


# -- what is refused -------------------------------------------------------------------------------

REFUSED = [
    (lambda **k: trnrand.uniform(3, low=1.0, high=1.0, **k), "uniform: low must be less than high"),
    (lambda **k: trnrand.uniform(3, low=2.0, **k), "uniform: low must be less than high"),
    (lambda **k: trnrand.uniform(3, high=1e-50, **k), "uniform: low must be less"),
    (lambda **k: trnrand.uniform(3, high=INF, **k), "uniform: high must be finite, got inf"),
    (lambda **k: trnrand.uniform(3, low=NAN, **k), "uniform: low must be finite, got nan"),
    (lambda **k: trnrand.uniform(3, low=-3e38, high=3e38, **k), "high - low finite"),
    (lambda **k: trnrand.uniform(3, low="a", **k), "uniform: low must be a real number, got 'a'"),
    (lambda **k: trnrand.uniform(3, dtype=torch.int32, **k), "uniform: dtype must be one of"),
    (lambda **k: trnrand.normal(3, std=-1.0, **k), "normal: std must be non-negative .*got -1"),
    (lambda **k: trnrand.normal(3, std=NAN, **k), "normal: std must be .* got nan"),
    (lambda **k: trnrand.normal(3, mean=INF, **k), "normal: mean must be finite"),
    (lambda **k: trnrand.lognormal(3, std=-1.0, **k), "lognormal: std must be"),
    (lambda **k: trnrand.exponential(3, rate=0.0, **k), "exponential: rate must be positive"),
    (lambda **k: trnrand.exponential(3, rate=-1.0, **k), "exponential: rate must be positive"),
    (lambda **k: trnrand.laplace(3, scale=0.0, **k), "laplace: scale must be positive"),
    (lambda **k: trnrand.cauchy(3, scale=-1.0, **k), "cauchy: scale must be positive"),
    (lambda **k: trnrand.gamma(3, shape=0.0, **k), "gamma: shape must be positive"),
    (lambda **k: trnrand.gamma(3, shape=1.0, scale=-2.0, **k), "gamma: scale must be positive"),
    (lambda **k: trnrand.chi_squared(3, df=-1.0, **k), "chi_squared: df must be positive"),
    (lambda **k: trnrand.beta(3, alpha=1.0, beta=0.0, **k), "beta: beta must be positive"),
    (lambda **k: trnrand.student_t(3, df=0.0, **k), "student_t: df must be positive"),
    (lambda **k: trnrand.poisson(3, lam=-0.1, **k), "poisson: lam must be at least 0"),
    (lambda **k: trnrand.poisson(3, lam=NAN, **k), "poisson: lam must be .* got nan"),
    (lambda **k: trnrand.poisson(3, lam=1e300, **k), "poisson: lam must be .* at most"),
    (
        lambda **k: trnrand.poisson(3, lam=torch.tensor([1.0, -2.0, 3.0]), **k),
        "poisson: lam must be .* got -2.0",
    ),
    (lambda **k: trnrand.poisson(3, lam=torch.ones(2), **k), r"lam must broadcast .*\(3,\), got"),
    (lambda **k: trnrand.binomial(3, n=1.5, p=0.5, **k), "binomial: n must be whole"),
    (lambda **k: trnrand.binomial(3, n=-1, p=0.5, **k), "binomial: n must be at least 0"),
    (lambda **k: trnrand.binomial(3, n=5, p=1.1, **k), "binomial: p must be .* at most 1"),
    (lambda **k: trnrand.geometric(3, p=0.0, **k), "geometric: p must be"),
    (lambda **k: trnrand.bernoulli(3, p=-0.1, **k), "bernoulli: p must be at least 0"),
    (lambda **k: trnrand.bernoulli(3, p=1.5, **k), "bernoulli: p must be .* at most 1"),
    (lambda **k: trnrand.randint(4, 4, (3,), **k), "randint: low must be less than high"),
    (lambda **k: trnrand.randint(2.5, (3,), **k), "randint: high must be an integer, got 2.5"),
    (lambda **k: trnrand.randint(300, (3,), dtype=torch.uint8, **k), "must fit torch.uint8"),
    (lambda **k: trnrand.randint(2**12, (3,), dtype=torch.float16, **k), "must fit"),
    (lambda **k: trnrand.randint(torch.tensor([1.0, 2, 3]), (3,), **k), "must hold integers"),
    (lambda **k: trnrand.randint(2**65, (3,), **k), "randint: high must fit 64 bits"),
    (lambda **k: trnrand.randperm(-1, **k), "randperm: n must be non-negative, got -1"),
    (lambda **k: trnrand.randperm(2.0, **k), "randperm: n must be an integer"),
    (lambda **k: trnrand.randperm(300, dtype=torch.uint8, **k), "randperm: dtype must hold"),
    (lambda **k: trnrand.truncated_normal(3, low=2.0, high=2.0, **k), "low must be less than high"),
    (lambda **k: trnrand.truncated_normal(3, low=NAN, **k), "low must be not NaN, got nan"),
    (lambda **k: trnrand.truncated_normal(3, std=0.0, **k), "std must be positive"),
    (lambda **k: trnrand.choice(0, 3, **k), "choice: population must have members"),
    (lambda **k: trnrand.choice(3, 4, replace=False, **k), "choice: population must have members"),
    (lambda **k: trnrand.choice(3, 4, p=torch.ones(2), **k), "choice: p must have a weight"),
    (lambda **k: trnrand.choice(3, 4, p=torch.zeros(3), **k), "choice: p must have a positive"),
    (lambda **k: trnrand.gumbel(3, scale=0.0, **k), "gumbel: scale must be positive"),
    (lambda **k: trnrand.weibull(3, shape=0.0, **k), "weibull: shape must be positive"),
    (lambda **k: trnrand.von_mises(3, kappa=-1.0, **k), "von_mises: kappa must be non-negative"),
    (lambda **k: trnrand.negative_binomial(3, n=0.0, p=0.5, **k), "n must be positive"),
    (lambda **k: trnrand.negative_binomial(3, n=1.0, p=0.0, **k), "p must be positive"),
    (lambda **k: trnrand.negative_binomial(3, n=1.0, p=1e-15, **k), "must fit .* 9.00719925e.15"),
    (lambda **k: trnrand.hypergeometric(3, good=2, bad=3, draws=6, **k), "at most good . bad"),
    (lambda **k: trnrand.hypergeometric(3, good=2.5, bad=3, draws=1, **k), "good must be whole"),
    (lambda **k: trnrand.hypergeometric(3, good=2, bad=-1, draws=1, **k), "bad must be at least 0"),
    (lambda **k: trnrand.multinomial(-1, torch.ones(2), **k), "multinomial: n must be at least 0"),
    (lambda **k: trnrand.multinomial(5, torch.zeros(2), **k), "p must have a positive weight"),
    (lambda **k: trnrand.multinomial(5, 0.5, **k), r"p must have shape \(..., k\), got 0.5"),
    (lambda **k: trnrand.multinomial(5, torch.ones(4, 2), 3, **k), "p must broadcast to the size"),
    (lambda **k: trnrand.categorical(3, **k), "give either p or logits, got neither"),
    (lambda **k: trnrand.categorical(3, p=torch.ones(2), logits=torch.ones(2), **k), "got both"),
    (lambda **k: trnrand.categorical(3, p=torch.zeros(2), **k), "p must have a positive weight"),
    (lambda **k: trnrand.categorical(3, p=torch.ones(0), **k), "p must have a positive weight"),
    (lambda **k: trnrand.categorical(3, p=0.5, **k), r"p must have shape \(..., k\)"),
    (lambda **k: trnrand.categorical(3, logits=torch.ones(0), **k), r"logits must have shape"),
    (lambda **k: trnrand.categorical(3, logits=torch.tensor([INF, 0.0]), **k), "a finite largest"),
    (lambda **k: trnrand.categorical(3, logits=-INF * torch.ones(2), **k), "a finite largest"),
    (
        lambda **k: trnrand.categorical(3, p=torch.ones(257), dtype=torch.uint8, **k),
        "dtype must hold the last category, got torch.uint8 and 256",
    ),
    (lambda **k: trnrand.shuffle([1, 2], **k), "shuffle: values must be a tensor .* got list"),
    (lambda **k: trnrand.shuffle(torch.ones(2), 1, **k), r"with dimension 1, got \(2,\)"),
    (lambda **k: trnrand.shuffle(torch.ones(2), -2, **k), r"with dimension -2, got \(2,\)"),
    (lambda **k: trnrand.choice(2, 4, p=torch.tensor([1.0, -1.0]), **k), "choice: p must be"),
    (lambda **k: trnrand.dirichlet(torch.tensor([1.0, 0.0]), **k), "concentration must be"),
    (lambda **k: trnrand.dirichlet(torch.ones(2, 0), **k), "concentration must have shape"),
    (lambda **k: trnrand.dirichlet(torch.ones(2, 3), 3, **k), r"concentration must broadcast to"),
    (
        lambda **k: trnrand.multivariate_normal(torch.zeros(2), torch.eye(3), **k),
        r"covariance must have shape \(..., 2, 2\), got \(3, 3\)",
    ),
    (
        lambda **k: trnrand.multivariate_normal(torch.zeros(2), -torch.eye(2), **k),
        "covariance must be symmetric and positive definite",
    ),
]


@each_case(("call", "match"), REFUSED, ids=[match for _, match in REFUSED])
def test_bad_parameters_raise_and_draw_nothing(call, match, generator):
    with pytest.raises(ValueError, match=match):
        call(generator=generator)
    assert generator.offset == 0


@each_case("name", DRAWS)
def test_bad_sizes_raise_and_draw_nothing(name, generator):
    function = name.partition(" ")[0]
    for size in [(-1,), (2.5,), ("3",), (True,), ((2, -1),), (None,)]:
        with pytest.raises(ValueError, match=f"{function}: size must be"):
            DRAWS[name](*size, generator=generator)
    with pytest.raises(ValueError, match=f"{function}: size .* more than any memory holds"):
        DRAWS[name](2**40, 2**40, generator=generator)
    assert generator.offset == 0


def test_wrong_buffers_and_generators():
    with pytest.raises(ValueError, match=r"normal: out must be a torch.Tensor, got list"):
        trnrand.normal(out=[1.0])
    with pytest.raises(ValueError, match=r"normal: out must have the size .* \(2,\) and \(3,\)"):
        trnrand.normal(3, out=torch.empty(2))
    with pytest.raises(ValueError, match=r"normal: out must have dtype torch.float64"):
        trnrand.normal(out=torch.empty(2), dtype=torch.float64)
    with pytest.raises(ValueError, match="normal: dtype must be one of"):
        trnrand.normal(out=torch.empty(2, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"generator must be a trnrand.Generator, got Generator"):
        trnrand.normal(3, generator=torch.Generator())


def test_the_error_is_also_an_assertion_error():
    """Callers of older releases catch that of an assert."""
    assert issubclass(ParameterError, ValueError)
    with pytest.raises(AssertionError):
        trnrand.gamma(3, shape=-1.0)


@each_case("function", ["gamma", "chi_squared", "beta"])
def test_parameters_without_a_default(function):
    with pytest.raises(TypeError, match="required keyword-only argument"):
        getattr(trnrand, function)(3)


@pytest.mark.parametrize("name", ["uniform", "normal", "gamma", "poisson", "randint"])
def test_a_size_that_memory_cannot_hold_is_named_and_nothing_is_drawn(name, monkeypatch):
    def full(*args, **kwargs):
        raise RuntimeError("can't allocate memory")

    options = {"gamma": {"shape": 2.0}}.get(name, {})
    size = (9, (7,)) if name == "randint" else (7,)
    generator = trnrand.Generator(0)
    monkeypatch.setattr(torch, "empty", full)
    with pytest.raises(ValueError, match=rf"^{name}: size must fit in the memory of cpu, got \(7"):
        getattr(trnrand, name)(*size, generator=generator, **options)
    assert generator.offset == 0


@each_case("size", [(-1,), (2, -1), ((3, -1),), (0, -1), (-1, 0)])
@each_case("name", ["uniform", "normal", "exponential", "poisson", "rand"])
def test_sizes_below_zero_are_refused(name, size):
    generator = trnrand.Generator(0)
    with pytest.raises(ValueError, match=r"size must be non-negative, got"):
        getattr(trnrand, name)(*size, generator=generator)
    assert generator.offset == 0


@each_case("size", [(0,), (3, 0), ((0, 2),)])
@each_case("name", ["uniform", "normal", "exponential", "poisson", "rand"])
def test_sizes_of_nothing_draw_nothing(name, size):
    generator = trnrand.Generator(0)
    drawn = getattr(trnrand, name)(*size, generator=generator)
    assert tuple(drawn.shape) == (size[0] if isinstance(size[0], tuple) else size)
    assert generator.offset == 0


# -- classes of errors -----------------------------------------------------------------------------

OUT = torch.zeros(3)
MISTAKES = [
    (ShapeError, lambda: trnrand.uniform(-1)),
    (ShapeError, lambda: trnrand.normal(2.5)),
    (ShapeError, lambda: trnrand.normal(4, out=OUT)),
    (ShapeError, lambda: trnrand.normal(4, mean=OUT)),
    (ShapeError, lambda: trnrand.dirichlet(torch.tensor(1.0))),
    (ShapeError, lambda: trnrand.multivariate_normal(OUT, torch.eye(2))),
    (ShapeError, lambda: trnrand.choice(3, 4, replace=False)),
    (DTypeError, lambda: trnrand.uniform(3, dtype=torch.int32)),
    (DTypeError, lambda: trnrand.uniform(out=OUT, dtype=torch.float64)),
    (DTypeError, lambda: trnrand.uniform(3, generator=torch.Generator())),
    (DTypeError, lambda: trnrand.rand_like(3)),
    (DTypeError, lambda: trnrand.randperm(300, dtype=torch.uint8)),
    (DeviceError, lambda: trnrand.uniform(out=OUT, device="cuda")),
    (FlagError, lambda: Generator(1, engine="mt19937")),
    (FlagError, lambda: trnrand.categorical(3)),
    (FlagError, lambda: trnrand.sobol(4, 2, scramble="no")),
    (FlagError, lambda: trnrand.set_backend("cuda")),
    (ParameterError, lambda: trnrand.gamma(3, shape=-1.0)),
    (ParameterError, lambda: trnrand.normal(3, std=-1.0)),
    (ParameterError, lambda: Generator(1, partition_size=0)),
]


@each_case(("kind", "call"), MISTAKES)
def test_a_mistake_raises_the_class_of_the_suite_and_a_parameter_error(kind, call):
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, ParameterError)
    others = {ShapeError, DTypeError, DeviceError, FlagError} - {kind}
    assert not isinstance(caught.value, tuple(others))
