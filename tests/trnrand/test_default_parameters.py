"""What holds where nothing is said, and the ends of what may be said."""

from __future__ import annotations

import math

import pytest
import torch

import trnrand
from each_case import each_case
from trnrand import Generator, ParameterError, qmc, rsample

DEFAULTS = {
    "bernoulli": {"p": 0.5},
    "cauchy": {"loc": 0.0, "scale": 1.0},
    "exponential": {"rate": 1.0},
    "gumbel": {"loc": 0.0, "scale": 1.0},
    "laplace": {"loc": 0.0, "scale": 1.0},
    "lognormal": {"mean": 0.0, "std": 1.0},
    "normal": {"mean": 0.0, "std": 1.0},
    "poisson": {"lam": 1.0},
    "truncated_normal": {"mean": 0.0, "std": 1.0, "low": -2.0, "high": 2.0},
    "uniform": {"low": 0.0, "high": 1.0},
    "von_mises": {"loc": 0.0, "kappa": 1.0},
    "gamma": {"scale": 1.0},
    "weibull": {"scale": 1.0},
}
NEEDED = {"gamma": "shape", "weibull": "shape"}


def equal_bits(a, b):
    return a.dtype is b.dtype and torch.equal(a.view(torch.uint8), b.view(torch.uint8))


@pytest.mark.parametrize("module", [trnrand, rsample], ids=["draws", "rsample"])
@pytest.mark.parametrize("name", DEFAULTS)
def test_distributions_are_standard_unless_it_is_said(module, name):
    draw = getattr(module, name, None)
    if draw is None:  # counts have no gradient
        assert name in {"bernoulli", "poisson"}
        return
    needed, standard = {NEEDED[name]: 1.5} if name in NEEDED else {}, DEFAULTS[name]
    got = draw(50, generator=Generator(2), **needed)
    assert equal_bits(got, draw(50, generator=Generator(2), **needed, **standard))
    for parameter, value in standard.items():
        moved = -1 if parameter == "low" else -0.25 if parameter == "p" else 1
        other = standard | {parameter: value + moved}
        assert not equal_bits(got, draw(50, generator=Generator(2), **needed, **other))


def test_halton_is_plain_and_sobol_scrambled_unless_it_is_said():
    assert qmc.HaltonEngine(1).draw(4).tolist() == [[0.5], [0.25], [0.75], [0.125]]
    assert qmc.halton(4, 1).tolist() == [[0.5], [0.25], [0.75], [0.125]]
    nested, plain = (qmc.SobolEngine(2, scramble, 3).draw(8) for scramble in ("owen", False))
    assert torch.equal(qmc.SobolEngine(2, seed=3).draw(8), nested)
    assert torch.equal(qmc.sobol(8, 2, 3), nested)
    assert not torch.equal(nested, plain)


@each_case("name", ["exponential", "normal", "uniform"])
def test_buffers_are_filled_with_standard_samples(name):
    out, want = torch.empty(50), torch.empty(50)
    getattr(trnrand, f"{name}_into")(out, generator=Generator(2))
    getattr(trnrand, f"{name}_into")(want, generator=Generator(2), **DEFAULTS[name])
    assert equal_bits(out, want)
    assert equal_bits(out, getattr(trnrand, name)(50, generator=Generator(2)))


@each_case("name", ["rand", "randn", "rand_like", "randn_like"])
def test_leaves_ask_for_no_gradient_unless_it_is_said(name):
    argument = torch.empty(3) if name.endswith("like") else 3
    draw = getattr(trnrand, name)
    assert not draw(argument).requires_grad
    assert draw(argument, requires_grad=True).requires_grad


def test_integers_like_a_tensor_begin_at_zero():
    x = torch.empty(200, dtype=torch.int64)
    with trnrand.fork_rng():
        trnrand.manual_seed(3)
        drawn = trnrand.randint_like(x, high=3)
    assert drawn.unique().tolist() == [0, 1, 2]


def test_members_are_put_back_and_rows_are_shuffled():
    assert len(trnrand.choice(3, 50, generator=Generator(2)).unique()) == 3
    x = torch.arange(40).reshape(20, 2)
    shuffled = trnrand.shuffle(x, generator=Generator(2))
    assert torch.equal(shuffled[:, 0] + 1, shuffled[:, 1])
    assert torch.equal(shuffled, trnrand.shuffle(x, dim=0, generator=Generator(2)))


def test_points_are_those_of_these_options():
    plain = {"dtype": torch.float32, "start_index": 0}
    pairs = [
        (trnrand.sobol(8, 3, seed=4), {"scramble": True, "bits": 32, "seed": 4}, trnrand.sobol),
        (trnrand.halton(8, 3), {"scramble": False}, trnrand.halton),
    ]
    for got, options, make in pairs:
        assert equal_bits(got, make(8, 3, **plain, **options))
        assert not equal_bits(got, make(8, 3, **(plain | options | {"start_index": 1})))
    spread = trnrand.latin_hypercube(8, 3, seed=4)
    assert equal_bits(spread, trnrand.latin_hypercube(8, 3, torch.float32, seed=4, centered=False))
    assert not equal_bits(spread, trnrand.latin_hypercube(8, 3, seed=4, centered=True))


# Parameters above zero, those from zero on, and the others of a call that has them.
ABOVE = {
    "exponential": ("rate",),
    "weibull": ("shape", "scale"),
    "truncated_normal": ("std",),
    "gamma": ("shape", "scale"),
    "chi_squared": ("df",),
    "beta": ("alpha", "beta"),
    "student_t": ("df",),
}
FROM = {"von_mises": ("kappa",)}


@each_case("module", [trnrand, rsample], ids=["draws", "rsample"])
@each_case("name", [*ABOVE, *FROM])
def test_parameters_at_the_ends_of_their_ranges(module, name):
    draw, names = getattr(module, name), ABOVE.get(name) or FROM[name]
    good = dict.fromkeys(names, 1.5)
    for parameter in names:
        for value in (-0.5, -1e-30, math.nan, math.inf, *((0.0,) if name in ABOVE else ())):
            for given in (value, torch.tensor([1.0, value])):
                with pytest.raises(ParameterError, match=f"^{name}: {parameter} must be"):
                    draw(2, generator=Generator(1), **(good | {parameter: given}))
        least = 1e-30 if name in ABOVE else 0.0
        assert draw(2, generator=Generator(1), **(good | {parameter: least})).shape == (2,)
