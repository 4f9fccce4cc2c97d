"""Draws over the ranks of a ``DeviceMesh``: each rank draws its part, and the result is a DTensor.

Every function draws the samples of the function of the same name in ``trnrand``: on any mesh and
with any placements, ``full_tensor()`` has the bits of the draw on one rank, and the generator moves
as it does there. Ranks communicate nothing but the comparison of their arguments.

The functions take the arguments of their namesakes in ``trnrand``, without ``out``, ``total`` and
``device``, and

- ``device_mesh``: a mesh of one or two dimensions, whose ranks call the function together;
- ``placements``: ``Shard`` or ``Replicate`` for each mesh dimension; by default replicated;
- ``check``: whether ranks compare their arguments first, by default true.

All ranks need generators with one seed and position, without a partition. Parameters are numbers,
tensors that are the same on every rank, which ``check`` compares by a checksum, or DTensors that
are split as the result or replicated.

Samples along the last dimensions that are split come in runs that are consecutive in the stream: a
rank draws runs one by one, or some samples of other ranks with its own. Samples of
``multivariate_normal``, ``randperm`` and ``choice(..., replace=False)`` depend on more than their
positions in the stream: every rank draws all of them, and keeps its part.

Example:
    >>> mesh = init_device_mesh("cpu", (4,))
    >>> g = trnrand.Generator(42)
    >>> trnrand.distributed.normal(1000, 64, device_mesh=mesh, placements=[Shard(0)], generator=g)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnrand._sharded.calls import NEVER_SPLIT, sharded
from trnrand.distributions import (
    categories,
    circular,
    continuous,
    counts,
    discrete,
    extremes,
    gammas,
    permutations,
    truncated,
    urns,
    vectors,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.distributed.tensor import DTensor

__all__ = [
    "bernoulli",
    "beta",
    "binomial",
    "categorical",
    "cauchy",
    "chi_squared",
    "choice",
    "dirichlet",
    "exponential",
    "gamma",
    "geometric",
    "gumbel",
    "hypergeometric",
    "laplace",
    "lognormal",
    "multinomial",
    "multivariate_normal",
    "negative_binomial",
    "normal",
    "poisson",
    "randint",
    "randperm",
    "student_t",
    "truncated_normal",
    "uniform",
    "von_mises",
    "weibull",
]

_integers = sharded(discrete.integers)

bernoulli = sharded(discrete.bernoulli)
beta = sharded(gammas.beta)
binomial = sharded(counts.binomial)
categorical = sharded(categories.categorical, events={"p": 1, "logits": 1})
cauchy = sharded(continuous.cauchy)
chi_squared = sharded(gammas.chi_squared)
choice = sharded(
    permutations.choice,
    events={"population": NEVER_SPLIT, "p": NEVER_SPLIT},
    whole=lambda arguments: not arguments.get("replace", True),
    each=lambda width: 1,
)
dirichlet = sharded(gammas.dirichlet, events={"concentration": 1})
exponential = sharded(continuous.exponential)
gamma = sharded(gammas.gamma)
geometric = sharded(counts.geometric)
gumbel = sharded(extremes.gumbel)
hypergeometric = sharded(urns.hypergeometric)
laplace = sharded(continuous.laplace)
lognormal = sharded(continuous.lognormal)
multinomial = sharded(urns.multinomial, events={"p": 1})
multivariate_normal = sharded(vectors.multivariate_normal, whole=lambda arguments: True)
negative_binomial = sharded(counts.negative_binomial)
normal = sharded(continuous.normal)
poisson = sharded(counts.poisson)
randperm = sharded(permutations.randperm, whole=lambda arguments: True)
student_t = sharded(gammas.student_t)
truncated_normal = sharded(truncated.truncated_normal)
uniform = sharded(continuous.uniform)
von_mises = sharded(circular.von_mises)
weibull = sharded(extremes.weibull)


def randint(low: Any, high: Any, size: Sequence[int], **options: Any) -> DTensor:
    """Return the samples of ``trnrand.randint`` as a DTensor; options as in the other functions."""
    return _integers(tuple(size), low=low, high=high, **options)
