"""Random numbers on torch tensors: the same bits on every device and backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnrand._library import LIBRARY
from trnrand.categories import categorical
from trnrand.circular import von_mises
from trnrand.continuous import (
    cauchy,
    exponential,
    laplace,
    lognormal,
    normal,
    standard_normal,
    uniform,
)
from trnrand.counts import binomial, geometric, negative_binomial, poisson
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
from trnrand.extremes import gumbel, weibull
from trnrand.gammas import beta, chi_squared, dirichlet, gamma, student_t
from trnrand.generator import Generator
from trnrand.into import exponential_into, normal_into, uniform_into
from trnrand.permutations import choice, randperm, shuffle
from trnrand.programs import GeneratorProgram
from trnrand.torch_names import rand, rand_like, randint_like, randn, randn_like
from trnrand.truncated import truncated_normal
from trnrand.urns import hypergeometric, multinomial
from trnrand.vectors import multivariate_normal
from trnsci import __version__ as __version__
from trnsci.core.errors import NkiFallbackWarning
from trnsci.core.package import surface

if TYPE_CHECKING:
    from trnrand import nki as nki
    from trnrand import qmc as qmc
    from trnrand import rsample as rsample
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
    "categorical",
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
    "gumbel",
    "halton",
    "hypergeometric",
    "laplace",
    "latin_hypercube",
    "lognormal",
    "manual_seed",
    "multinomial",
    "multivariate_normal",
    "negative_binomial",
    "normal",
    "normal_into",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "set_backend",
    "set_rng_state",
    "shuffle",
    "sobol",
    "standard_normal",
    "student_t",
    "truncated_normal",
    "uniform",
    "uniform_into",
    "von_mises",
    "weibull",
]

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
backend = LIBRARY.backend
__getattr__, __dir__ = surface(
    __name__,
    LIBRARY,
    {
        "halton": "trnrand.qmc",
        "latin_hypercube": "trnrand.qmc",
        "nki": "trnrand.nki",
        "qmc": "trnrand.qmc",
        "rsample": "trnrand.rsample",
        "sobol": "trnrand.qmc",
    },
)
