"""Reparameterized samples: the samples of the plain functions, with gradients.

Every function draws the samples of the function of the same name in ``trnrand``. The result is
differentiable by the parameters that are tensors. The derivatives are pathwise: the noise is held
constant; for rejection samplers they are implicit. Higher derivatives, forward mode and the
transforms of ``torch.func`` are supported; the argument ``randomness`` of ``vmap`` selects the
behaviour of a draw. The functions take the arguments of the plain functions, without ``out``.

Example:
    >>> shape = torch.tensor(2.0, requires_grad=True)
    >>> trnrand.rsample.gamma(1000, shape=shape).mean().backward()
"""

from trnrand._calls.calls import reparameterized
from trnrand.distributions import circular, continuous, extremes, gammas, truncated, vectors

__all__ = [
    "beta",
    "cauchy",
    "chi_squared",
    "dirichlet",
    "exponential",
    "gamma",
    "gumbel",
    "laplace",
    "lognormal",
    "multivariate_normal",
    "normal",
    "student_t",
    "truncated_normal",
    "uniform",
    "von_mises",
    "weibull",
]

beta = reparameterized(gammas.beta)
cauchy = reparameterized(continuous.cauchy)
chi_squared = reparameterized(gammas.chi_squared)
dirichlet = reparameterized(gammas.dirichlet)
exponential = reparameterized(continuous.exponential)
gamma = reparameterized(gammas.gamma)
gumbel = reparameterized(extremes.gumbel)
laplace = reparameterized(continuous.laplace)
lognormal = reparameterized(continuous.lognormal)
multivariate_normal = reparameterized(vectors.multivariate_normal)
normal = reparameterized(continuous.normal)
student_t = reparameterized(gammas.student_t)
truncated_normal = reparameterized(truncated.truncated_normal)
uniform = reparameterized(continuous.uniform)
von_mises = reparameterized(circular.von_mises)
weibull = reparameterized(extremes.weibull)
