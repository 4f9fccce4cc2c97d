"""One draw per distribution, for tests of what holds for all of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import trnrand

Draw = Callable[..., Tensor]

F64 = torch.float64
WEIGHTS = torch.tensor([0.0, 2.0, 0.5, 0.0, 1.0])


# Each takes a size and the keywords that all distributions have.
def randint(low, high):
    """``trnrand.randint`` with the size in front, in every form that the other functions take."""

    def draw(*size, **options):
        if len(size) == 1 and isinstance(size[0], (tuple, list)):
            (size,) = size
        if not size and "out" in options:
            size = None
        return trnrand.randint(low, high, size=size, **options)

    return draw


DRAWS: dict[str, Draw] = {
    "uniform": lambda *size, **k: trnrand.uniform(*size, low=-1.0, high=3.0, **k),
    "uniform float64": lambda *size, **k: trnrand.uniform(*size, dtype=F64, **k),
    "uniform bfloat16": lambda *size, **k: trnrand.uniform(*size, dtype=torch.bfloat16, **k),
    "normal": lambda *size, **k: trnrand.normal(*size, mean=1.0, std=2.0, **k),
    "normal float64": lambda *size, **k: trnrand.normal(*size, dtype=F64, **k),
    "lognormal": trnrand.lognormal,
    "exponential": lambda *size, **k: trnrand.exponential(*size, rate=2.0, **k),
    "laplace": trnrand.laplace,
    "cauchy": trnrand.cauchy,
    "truncated_normal": trnrand.truncated_normal,
    "truncated_normal far": lambda *size, **k: trnrand.truncated_normal(
        *size, low=6.0, high=7.0, **k
    ),
    "gamma": lambda *size, **k: trnrand.gamma(*size, shape=3.0, **k),
    "gamma boosted": lambda *size, **k: trnrand.gamma(*size, shape=0.3, **k),
    "chi_squared": lambda *size, **k: trnrand.chi_squared(*size, df=5.0, **k),
    "beta": lambda *size, **k: trnrand.beta(*size, alpha=0.5, beta=2.0, **k),
    "student_t": lambda *size, **k: trnrand.student_t(*size, df=4.0, **k),
    "poisson small": lambda *size, **k: trnrand.poisson(*size, lam=2.5, **k),
    "poisson large": lambda *size, **k: trnrand.poisson(*size, lam=25.0, **k),
    "binomial small": lambda *size, **k: trnrand.binomial(*size, n=20, p=0.2, **k),
    "binomial large": lambda *size, **k: trnrand.binomial(*size, n=200, p=0.7, **k),
    "geometric": lambda *size, **k: trnrand.geometric(*size, p=0.2, **k),
    "negative_binomial": lambda *size, **k: trnrand.negative_binomial(*size, n=2.5, p=0.2, **k),
    "hypergeometric small": lambda *size, **k: trnrand.hypergeometric(
        *size, good=30, bad=5, draws=9, **k
    ),
    "hypergeometric large": lambda *size, **k: trnrand.hypergeometric(
        *size, good=300, bad=500, draws=200, **k
    ),
    "gumbel": lambda *size, **k: trnrand.gumbel(*size, loc=1.0, scale=2.0, **k),
    "weibull": lambda *size, **k: trnrand.weibull(*size, shape=1.5, **k),
    "von_mises": lambda *size, **k: trnrand.von_mises(*size, loc=3.0, kappa=2.0, **k),
    "categorical": lambda *size, **k: trnrand.categorical(*size, p=WEIGHTS, **k),
    "bernoulli": lambda *size, **k: trnrand.bernoulli(*size, p=0.3, **k),
    "randint": randint(-5, 3_000_000_000),
    "randint wide": randint(-(2**63), 3 * 2**60),
}
