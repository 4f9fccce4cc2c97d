"""Test utilities of the libraries: random problems, rounding bounds, checks of kernel launches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.core.backend.launch import SIMULATE
from trnsci.core.counters import counts
from trnsci.core.errors import NkiRefusalWarning

__all__ = [
    "BACKENDS",
    "clean_simulation",
    "launched",
    "random_tensor",
    "refusals_expected",
    "strict_simulation",
    "sum_bound",
    "uninitialized_as_nan",
    "unit_roundoff",
]

BACKENDS = ("pytorch", "simulator")
"""The backends that are available on every machine."""


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
    """Return the largest relative error of one rounding to ``dtype``."""
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
        dtype: Dtype of the results.
    """
    final = unit_roundoff(dtype)
    grown = length * min(final, unit_roundoff(torch.float32))
    gamma = grown / (1 - grown)
    return np.asarray(magnitudes, np.float64) * (gamma + final * (1 + gamma))


@contextmanager
def uninitialized_as_nan() -> Iterator[None]:
    """Fill new memory with NaN, so that code which reads it before writing gives NaN."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@contextmanager
def refusals_expected() -> Iterator[None]:
    """Do not show warnings of refused calls, in tests of the results or counts of such calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NkiRefusalWarning)
        yield


@contextmanager
def launched(*kernels: str) -> Iterator[None]:
    """Assert that the block launches each of ``kernels``, without fallbacks or refusals."""
    before = counts()
    yield
    since = counts() - before
    assert not since.fallbacks, f"fell back to torch: {dict(since.fallbacks)}"
    assert not since.refusals, f"refused, and computed by torch: {dict(since.refusals)}"
    missing = [name for name in kernels if not since.launches[name]]
    assert not missing, f"not launched: {missing}; launched were {dict(since.launches)}"


@contextmanager
def strict_simulation(
    generation: str, *, watchers: tuple[Callable[[Any], None], ...] = ()
) -> Iterator[None]:
    """Simulate one generation inside the block, and reject what that generation rejects.

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
    """Assert that ``nkisim.check`` has no findings in the kernels that the block launches.

    Notes and warnings count, and so do findings of the lost-work and race detectors.

    Args:
        *generations: Generations to check on; the results are those of the first one.
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
