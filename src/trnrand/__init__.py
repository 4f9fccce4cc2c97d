"""Random numbers on torch tensors: the same bits on every device and backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnrand._library import LIBRARY  # first: it reports how to install torch

# isort: split
from trnrand import programs as programs  # makes the programs of Generator.new_program
from trnrand.defaults import (
    checkpoint_contexts,
    fork_rng,
    get_default_generator,
    get_rng_state,
    manual_seed,
    set_rng_state,
)
from trnrand.distributions.categories import categorical
from trnrand.distributions.circular import von_mises
from trnrand.distributions.continuous import (
    cauchy,
    exponential,
    laplace,
    lognormal,
    normal,
    uniform,
)
from trnrand.distributions.counts import binomial, geometric, negative_binomial, poisson
from trnrand.distributions.discrete import bernoulli, randint
from trnrand.distributions.extremes import gumbel, weibull
from trnrand.distributions.gammas import beta, chi_squared, dirichlet, gamma, student_t
from trnrand.distributions.permutations import choice, randperm, shuffle
from trnrand.distributions.torch_names import rand, rand_like, randint_like, randn, randn_like
from trnrand.distributions.truncated import truncated_normal
from trnrand.distributions.urns import hypergeometric, multinomial
from trnrand.distributions.vectors import multivariate_normal
from trnrand.errors import ParameterError
from trnrand.generator import Generator
from trnsci import __version__ as __version__
from trnsci.core.backend.library import surface
from trnsci.core.errors import NkiFallbackWarning

if TYPE_CHECKING:
    from trnrand import distributed as distributed
    from trnrand import nki as nki
    from trnrand import qmc as qmc
    from trnrand import rsample as rsample
    from trnrand.qmc import halton, latin_hypercube, sobol

    HAS_NKI: bool

__all__ = [
    "HAS_NKI",
    "Generator",
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
    "student_t",
    "truncated_normal",
    "uniform",
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
        "distributed": "trnrand.distributed",
        "halton": "trnrand.qmc",
        "latin_hypercube": "trnrand.qmc",
        "nki": "trnrand.nki",
        "qmc": "trnrand.qmc",
        "rsample": "trnrand.rsample",
        "sobol": "trnrand.qmc",
    },
)
