"""Transformed rejection of counts with a table of their probabilities, for scalar parameters.

A table lookup replaces two dozen logarithms per proposal. All other operations round once, so
compiled loops and arrays accept the same proposals.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnrand._sampling.mass import masses
from trnrand._sampling.samplers import Offsets
from trnrand._stream.elementary import exp
from trnrand._stream.words import Domain, Source, paired, unit53

LARGEST_TABLE = 2048
"""Exclusive upper bound of counts in a table."""

Floats = NDArray[np.float64]


class Hat(NamedTuple):
    """Constants of a transformed rejection.

    A proposal is floor((2 a / us + b) u + centre) with u in [-0.5, 0.5) and us = 0.5 - |u|. With a
    second uniform v it is accepted if us is at least 0.07 and v at most ``squeeze``, rejected if us
    is below ``narrow`` and v above us, and otherwise accepted if v times ``scale`` is at most
    a / us**2 + b times its probability.
    """

    a: float
    b: float
    scale: float
    squeeze: float
    centre: float
    narrow: float

    @classmethod
    def of(cls, hat: tuple[Tensor, Tensor, Tensor, Tensor], centre: Tensor, narrow: float) -> Hat:
        """Return the constants of a hat given as 0-d tensors."""
        a, b, scale, squeeze = map(float, hat)
        return cls(a, b, scale, squeeze, float(centre), narrow)


# Tensors would be changed by active torch modes, NumPy arrays are not.
@lru_cache(maxsize=64)
def poisson_table(mean: float, end: int) -> Floats:
    """Return the probabilities of the counts below ``end``."""
    k = torch.arange(end, dtype=torch.float64, device="cpu")
    return exp(masses().poisson(k, torch.tensor(mean, dtype=torch.float64, device="cpu"))).numpy()


@lru_cache(maxsize=64)
def binomial_table(n: int, p: float, peak: float) -> Floats:
    """Return the probabilities of the counts up to n, divided by exp(peak)."""
    k = torch.arange(n + 1, dtype=torch.float64, device="cpu")
    trials, chance = (torch.tensor(x, dtype=torch.float64, device="cpu") for x in (n, p))
    return exp(masses().binomial(k, trials, chance).sub_(peak)).numpy()


def tabled(
    source: Source, domain: Domain, hat: Hat, table: Floats
) -> Callable[[Offsets, Offsets, int], tuple[Tensor, Tensor]]:
    """Return the ``propose`` function of ``accepted``; counts outside the table are rejected."""

    def propose(some: Offsets, places: Offsets, attempt: int) -> tuple[Tensor, Tensor]:
        pairs = paired(source.slots(domain, some, attempt))
        k = torch.empty(len(pairs), dtype=torch.float64)
        good = torch.empty(len(pairs), dtype=torch.bool)
        if source.compiled:
            from trnrand._sampling import compiled_integers

            compiled_integers.tabled(pairs.numpy(), table, hat, k.numpy(), good.numpy())
        else:
            _tabled(unit53(pairs).numpy(), table, hat, k.numpy(), good.numpy())
        return k, good

    return propose


def _tabled(units: Floats, table: Floats, hat: Hat, k: Floats, good: NDArray[np.bool_]) -> None:
    a, b, scale, squeeze, centre, narrow = hat
    u, v = units[:, 0] - 0.5, units[:, 1].copy()
    us = np.abs(u)
    np.subtract(0.5, us, out=us)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        steep = a / us
        np.multiply(2.0, steep, out=k)
        k += b
        k *= u
        k += centre
        np.floor(k, out=k)
        steep /= us
        steep += b
        inside = (k >= 0.0) & (k < len(table))
        steep *= table.take(np.where(inside, k, 0.0).astype(np.int64))
        np.less_equal(v * scale, steep, out=good)
    good &= inside
    if narrow:
        good &= (us >= narrow) | (v <= us)
    good |= (us >= 0.07) & (v <= squeeze)
