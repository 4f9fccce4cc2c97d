"""Random numbers on torch tensors: the same bits on every device and backend."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trnrand._library import LIBRARY
from trnrand.continuous import (
    cauchy,
    exponential,
    laplace,
    lognormal,
    multivariate_normal,
    normal,
    standard_normal,
    uniform,
)
from trnrand.counts import binomial, geometric, poisson
from trnrand.defaults import (
    checkpoint_contexts,
    fork_rng,
    get_default_generator,
    get_rng_state,
    manual_seed,
    set_rng_state,
)
from trnrand.discrete import bernoulli, randint
from trnrand.errors import ParameterError
from trnrand.gammas import beta, chi_squared, dirichlet, gamma, student_t
from trnrand.generator import Generator
from trnrand.into import exponential_into, normal_into, uniform_into
from trnrand.permutations import choice, randperm
from trnrand.programs import GeneratorProgram
from trnrand.truncated import truncated_normal
from trnsci import __version__ as __version__
from trnsci.core.errors import NkiFallbackWarning

if TYPE_CHECKING:
    from trnrand.qmc import halton, latin_hypercube, sobol

    HAS_NKI: bool

__all__ = [
    "HAS_NKI",
    "Generator",
    "GeneratorProgram",
    "NkiFallbackWarning",
    "ParameterError",
    "backend",
    "bernoulli",
    "beta",
    "binomial",
    "cauchy",
    "checkpoint_contexts",
    "chi_squared",
    "choice",
    "dirichlet",
    "exponential",
    "exponential_into",
    "fork_rng",
    "gamma",
    "geometric",
    "get_backend",
    "get_default_generator",
    "get_rng_state",
    "halton",
    "laplace",
    "latin_hypercube",
    "lognormal",
    "manual_seed",
    "multivariate_normal",
    "normal",
    "normal_into",
    "poisson",
    "randint",
    "randperm",
    "set_backend",
    "set_rng_state",
    "sobol",
    "standard_normal",
    "student_t",
    "truncated_normal",
    "uniform",
    "uniform_into",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
backend = LIBRARY.backend

_QUASI_RANDOM = ("halton", "latin_hypercube", "sobol")


def __getattr__(name: str) -> Any:
    if name == "HAS_NKI":
        return LIBRARY.has_nki
    if name in _QUASI_RANDOM:
        return getattr(import_module("trnrand.qmc"), name)
    raise AttributeError(f"module 'trnrand' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
