"""For tests of the libraries: problems, bounds on rounding, and proof that a kernel ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.core.backend.launch import SIMULATE
from trnsci.core.counters import counts

__all__ = [
    "BACKENDS",
    "clean_simulation",
    "launched",
    "random_tensor",
    "strict_simulation",
    "sum_bound",
    "unit_roundoff",
]

BACKENDS = ("pytorch", "simulator")
"""The backends that every machine has."""


def random_tensor(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Return a tensor of standard normal numbers, the same for the same shape and seed.

    They are drawn in float64 and rounded, so that a problem is the same one in every dtype.
    """
    rng = np.random.default_rng([seed, *shape])
    if dtype.is_complex:
        drawn = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    else:
        drawn = rng.standard_normal(shape)
    return torch.from_numpy(np.asarray(drawn)).to(dtype)


def unit_roundoff(dtype: torch.dtype) -> float:
    """Return the largest relative error of rounding to ``dtype`` once."""
    return torch.finfo(dtype).eps / 2


def sum_bound(magnitudes: np.ndarray, length: int, dtype: torch.dtype) -> np.ndarray:
    """Return a bound on the error of sums of products, by any order of summation.

    With unit roundoff u, a product rounded once and summed in ``length - 1`` rounded steps is off
    by at most ``length*u / (1 - length*u)`` times the sum of the magnitudes (Higham, Accuracy and
    Stability of Numerical Algorithms, section 3.1). Kernels sum in float32 whatever their
    operands are, and round once more into ``dtype``.

    Args:
        magnitudes: The same sums over the absolute values of the terms, in float64.
        length: Number of terms of each sum.
        dtype: Of the results.
    """
    final = unit_roundoff(dtype)
    grown = length * min(final, unit_roundoff(torch.float32))
    gamma = grown / (1 - grown)
    return np.asarray(magnitudes, np.float64) * (gamma + final * (1 + gamma))


@contextmanager
def launched(*kernels: str) -> Iterator[None]:
    """Assert that the block launches each of ``kernels``, and that nothing else computes in it."""
    before = counts()
    yield
    since = counts() - before
    assert not since.fallbacks, f"fell back to torch: {dict(since.fallbacks)}"
    assert not since.refusals, f"refused, and left to torch: {dict(since.refusals)}"
    missing = [name for name in kernels if not since.launches[name]]
    assert not missing, f"not launched: {missing}; launched were {dict(since.launches)}"


@contextmanager
def strict_simulation(
    generation: str, *, watchers: tuple[Callable[[Any], None], ...] = ()
) -> Iterator[None]:
    """Make the simulator refuse, inside the block, all that the given generation would.

    Args:
        generation: ``"gen2"``, ``"gen3"`` or ``"gen4"``.
        watchers: Called with an event after every instruction.
    """
    import nkisim

    def strict(kernel: Any) -> Callable[..., Any]:
        return nkisim.simulate(kernel, strictness="strict", target=generation, watchers=watchers)

    with SIMULATE.scope(strict):
        yield


@contextmanager
def clean_simulation(*generations: str) -> Iterator[None]:
    """Assert that ``nkisim.check`` finds nothing in the kernels that the block launches.

    Notes and warnings count, and so does what the detectors of lost work and of races say.

    Args:
        *generations: Where each kernel is checked; the results are those on the first one.
    """
    import nkisim

    def clean(kernel: Any) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            reports = [nkisim.check(kernel, target=g)(*arguments) for g in generations]
            for generation, report in zip(generations, reports, strict=True):
                assert not report.findings, f"{kernel.__name__} on {generation}:\n{report}"
            return reports[0].outputs

        return run

    with SIMULATE.scope(clean):
        yield
