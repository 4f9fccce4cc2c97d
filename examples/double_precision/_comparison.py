"""A pipeline at the level doublefloat on kernels, compared with float64 on torch.

The gradients are those of half the squared norm of the result, by every operand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor

import trnblas
import trnfft
import trnsci
import trnsolver
import trntensor
from trnsci.core.counters import Counts, counts

LIMIT = 1e-12
"""Largest norm of an error, over the norm of what float64 gives."""

BACKENDS = ("simulator", "nki")


@dataclass(frozen=True)
class Part:
    """The forward or the backward pass: its tensors, and what ran in how many seconds."""

    tensors: Sequence[Tensor]
    since: Counts
    seconds: float


def passes(
    pipeline: Callable[..., Tensor], operands: Sequence[Tensor], backend: str
) -> tuple[Part, Part]:
    """Return the result of a pipeline, and the gradients by its operands."""
    with ExitStack() as stack:
        for library in (trnblas, trnfft, trnsolver, trntensor):
            stack.enter_context(library.backend(backend))
        stack.enter_context(trnsci.precision("doublefloat"))
        leaves = [x.detach().clone().requires_grad_() for x in operands]
        forward = _timed(lambda: [pipeline(*leaves)])
        (result,) = forward.tensors
        backward = _timed(lambda: torch.autograd.grad(result, leaves, result.detach()))
    return forward, backward


def _timed(call: Callable[[], Sequence[Tensor]]) -> Part:
    before, start = counts(), time.perf_counter()
    tensors = call()
    return Part(tensors, counts() - before, time.perf_counter() - start)


def compare(
    name: str, pipeline: Callable[..., Tensor], operands: Sequence[Tensor], backend: str
) -> None:
    """Print launches, refusals, seconds and errors of both passes; raise if torch computed any."""
    exact = passes(pipeline, operands, "pytorch")
    for part, wanted, kind in zip(
        passes(pipeline, operands, backend), exact, ("result", "gradients"), strict=True
    ):
        since = part.since
        left = since.refusals.total() + since.fallbacks.total() + since.no_kernel.total()
        kernels = ", ".join(f"{n} {kernel}" for kernel, n in sorted(since.launches.items()))
        error = max(map(relative_error, part.tensors, wanted.tensors))
        print(f"{name}, {kind}: {since.launches.total()} launches ({kernels}), {left} refusals")
        print(f"  {part.seconds:.2f} s, max |error| {error:.1e} of float64")
        if left or not since.launches or not error <= LIMIT:
            raise SystemExit(f"not at the level on kernels: {since}")


def relative_error(found: Tensor, exact: Tensor) -> float:
    """Return the norm of an error over the norm of the exact tensor."""
    return float((found - exact).detach().norm() / exact.detach().norm())
