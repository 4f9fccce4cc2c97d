"""Sampler of gamma variates: the method of Marsaglia and Tsang (ACM TOMS 26, 2000) in float64.

Ratios of gamma variates with shapes below 1 (beta), Dirichlet vectors and Student's t are computed
from logarithms: with a small shape the samples themselves would underflow.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnrand._calls.arguments import Parameter
from trnrand._sampling.gamma_bound import LEAST, SQUEEZE, defined_bound
from trnrand._sampling.samplers import Offsets, accepted, at, float64
from trnrand._stream.elementary import exp, log, log1p, normals, root
from trnrand._stream.words import WIDE, Domain, Source, paired, unit53


def student_normals(source: Source, count: int) -> Tensor:
    """Return the standard normals in the numerator of Student's t."""
    blocks = paired(source.slots(Domain.STUDENT_T, count))
    return normals(blocks, both=False, compiled=source.compiled)[0]


def log_gammas(
    source: Source, offsets: Offsets, shape: Parameter, domain: Domain = Domain.GAMMA
) -> Tensor:
    """Return logarithms of standard gamma samples."""
    return gammas(source, offsets, shape, domain, logarithms=True)


def gammas(
    source: Source,
    offsets: Offsets,
    shape: Parameter,
    domain: Domain = Domain.GAMMA,
    logarithms: bool = False,
    which: Tensor | None = None,
) -> Tensor:
    """Return standard gamma samples or their logarithms; two blocks per sample and attempt.

    ``which`` has the index of each sample's shape; None for one shape, or one shape per sample.
    """
    k, compiled = float64(shape, source), source.compiled
    boosted = k < 1
    d = torch.where(boosted, k + 1, k) - 1 / 3
    c = 1 / root(9 * d)
    log_d = log(d, compiled)
    any_boosted = bool(boosted.any())

    def propose(some: Offsets, places: Offsets, attempt: int) -> tuple[Tensor, Tensor]:
        pairs = paired(source.slots(domain, some, attempt))
        more = paired(source.slots(domain | WIDE, some, attempt))
        own, index = [d, c, log_d, k], None
        if which is not None and compiled:
            index = at(which, places)
        elif which is not None:
            own = [p[at(which, places)] for p in own]
        else:
            own = [at(p, places) for p in own]
        if compiled:
            return _compiled(pairs, more, own, index, logarithms, any_boosted)
        return _on_tensors(pairs, more, own, logarithms, any_boosted)

    return accepted(offsets, propose)


def _on_tensors(
    pairs: Tensor, more: Tensor, parameters: list[Tensor], logarithms: bool, any_boosted: bool
) -> tuple[Tensor, Tensor]:
    """Return proposals, from two blocks of words each, and whether they are accepted."""
    d, c, log_d, k = parameters
    z = normals(pairs, both=False)[0]
    u, square = unit53(more), z * z
    x = c * z
    log_root = log1p(x.clamp(min=LEAST))
    good = log_acceptance(x, d, log_root) - log(u[:, 0]) > 0
    good |= u[:, 0] < 1 - SQUEEZE * (square * square)
    root = x + 1
    direct = d * (root * root * root)
    if not logarithms and not any_boosted:
        return direct, good
    value = 3 * log_root + log_d
    boosted = k < 1
    if any_boosted:
        # gamma(k) = gamma(k + 1) U**(1 / k), with words that the test above did not use.
        value = value + torch.where(boosted, log(1 - u[:, 1]) / k, 0.0)
    # A sample does not depend on whether others are boosted.
    return value if logarithms else torch.where(boosted, exp(value), direct), good


def _compiled(
    pairs: Tensor,
    more: Tensor,
    parameters: list[Tensor],
    index: Tensor | None,
    logarithms: bool,
    any_boosted: bool,
) -> tuple[Tensor, Tensor]:
    from trnrand._sampling.compiled_gammas import proposals

    values = torch.empty(len(pairs), dtype=torch.float64)
    good = torch.empty(len(pairs), dtype=torch.bool)
    own = tuple(p.reshape(-1).numpy() for p in parameters)
    which = torch.empty(0, dtype=torch.int64) if index is None else index
    words, flags = (pairs.numpy(), more.numpy()), (logarithms, any_boosted)
    proposals(*words, own, which.numpy(), *flags, values.numpy(), good.numpy())
    return values, good


_bound = defined_bound(torch.where, lambda function: function)


def log_acceptance(x: Tensor, d: Tensor, log_root: Tensor | None = None) -> Tensor:
    """Return the log acceptance probability of d (1 + x)**3; ``log_root`` is log(1 + x)."""
    if log_root is None:
        log_root = log1p(x.clamp(min=LEAST))
    return torch.where(x > -1, _bound(x, log_root, d), -math.inf)
