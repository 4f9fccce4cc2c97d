"""Example calls of the public functions; see ``trnsci.core.examples``."""

from __future__ import annotations

from typing import Any

import torch

from trnrand.generator import Generator
from trnsci.core.examples import Example, example
from trnsci.core.testing import random_tensor

_A, _X = random_tensor(4, 4), random_tensor(4, seed=3)
_COVARIANCE = _A @ _A.mT + 4 * torch.eye(4)
_WEIGHTS = torch.tensor([1.0, 3.0])


def _drawn(*args: Any, engine: str = "philox", **options: Any) -> Example:
    return Example(args, {**options, "generator": Generator(3, engine=engine)})


def _of_dtype(*args: Any, **options: Any) -> Example:
    return _drawn(*args, **options, dtype=torch.float32)


_LAWS = {
    **{
        name: _of_dtype(5)
        for name in [
            "bernoulli",
            "cauchy",
            "exponential",
            "gumbel",
            "laplace",
            "lognormal",
            "normal",
            "poisson",
            "rand",
            "randn",
            "truncated_normal",
            "uniform",
            "von_mises",
        ]
    },
    **{
        f"{name}, Threefry": _of_dtype(5, engine="threefry")
        for name in ("exponential", "normal", "uniform")
    },
    "beta": _of_dtype(5, alpha=2.0, beta=3.0),
    "binomial": _of_dtype(5, n=10, p=0.3),
    "chi_squared": _of_dtype(5, df=3.0),
    "dirichlet": _of_dtype(torch.ones(3), 5),
    "gamma": _of_dtype(5, shape=2.0),
    "geometric": _of_dtype(5, p=0.3),
    "hypergeometric": _of_dtype(5, good=5, bad=6, draws=4),
    "multivariate_normal": _of_dtype(_X, _COVARIANCE, 5),
    "negative_binomial": _of_dtype(5, n=4, p=0.3),
    "student_t": _of_dtype(5, df=3.0),
    "weibull": _of_dtype(5, shape=2.0),
}
_OTHERS = {
    "categorical": _drawn(5, p=_WEIGHTS),
    "choice": _drawn(_X, 3),
    "halton": example(4, 2, dtype=torch.float32),
    "latin_hypercube": example(4, 2, seed=1, dtype=torch.float32),
    "multinomial": _drawn(10, _WEIGHTS, 5),
    "rand_like": _drawn(_X),
    "randint": _of_dtype(9, (5,)),
    "randint_like": _drawn(_X, 0, 9),
    "randn_like": _drawn(_X),
    "randperm": _of_dtype(9),
    "shuffle": _drawn(_X),
    "sobol": example(4, 2, seed=1, dtype=torch.float32),
}

EXAMPLES: dict[str, Example] = {**_LAWS, **_OTHERS}
