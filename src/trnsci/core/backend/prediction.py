"""Predicted device time of an operation's launches, by ``nkisim.profile``.

The launch function runs on the fake tensors of an explanation. Instead of running,
each kernel is profiled for the shapes of its arguments, and fake results are returned. No values
are computed and no launch is counted. The prediction ends where the launch function reads values,
such as those of a sparse pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.explanation import Prediction, ending, only_torch, total
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.setting import restored, snapshot
from trnsci.core.interop import (
    fake_mode,
    is_fake,
    with_conjugate_views,
    without_function_modes,
    without_modes,
)
from trnsci.core.nki import has_aws_nki
from trnsci.core.numbers.conversions import read_only_array_of
from trnsci.core.tiles.hardware import resolve_generation

MOST_INSTRUCTIONS = 20_000
"""No time is predicted for kernels with more instructions; to profile as many takes seconds."""


class _Predictor(Launcher):
    """Launcher that profiles kernels instead of running them."""

    def __init__(self, generation: str) -> None:
        super().__init__("simulator")
        self._generation = generation
        self.profiles: list[Any] = []

    def __call__(self, kernel: Any, *args: Any) -> Any:
        """Profile a kernel; return fake tensors of the shapes and dtypes of its results."""
        from nkisim import outline, profile  # imported here because libraries start without it

        with without_modes(), without_function_modes():
            given = [_uninitialised(arg) if isinstance(arg, Tensor) else arg for arg in args]
            predict = profile(
                kernel, self._generation, advice=False, max_instructions=MOST_INSTRUCTIONS
            )
            found, results = (
                predict(*given),
                outline(kernel, target=self._generation)(*given).results,
            )
        self.profiles.append(found)
        self.launches += 1
        return tuple(map(_like, results)) if type(results) is tuple else _like(results)


def _uninitialised(tensor: Tensor) -> Any:
    """Return an uninitialised array of the shape and dtype of a tensor."""
    return read_only_array_of(torch.empty(tensor.shape, dtype=tensor.dtype))


def _like(result: Any) -> Tensor:
    """Return a tensor of the shape and dtype of a result."""
    return torch.empty(result.shape, dtype=getattr(torch, result.dtype))


def predictor(run: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[str | None], Prediction]:
    """Return a function that predicts the time of a launch function on a generation.

    The returned function restores the settings of the explanation, since it is called afterwards.

    Args:
        run: ``run(launcher, *args)`` launches the kernels.
        args: Its arguments, in which tensors are fake.
    """
    mode, settings = fake_mode(), snapshot()

    @cache
    def predict(generation: str | None = None) -> Prediction:
        generation = resolve_generation(generation)
        if has_aws_nki():
            return _unknown("the kernels of this process are compiled by AWS's NKI")
        if any(isinstance(arg, Tensor) and not is_fake(arg) for arg in args):
            return _unknown("the launches depend on values of operands")
        launcher, open_end = _Predictor(generation), ""
        with ExitStack() as stack:
            settled = restored(settings), mode, only_torch(), torch.no_grad()
            for context in (*settled, *with_conjugate_views()):
                stack.enter_context(context)
            try:
                run(launcher, *args)
            except Exception as stop:  # reported as the reason why the prediction ends
                open_end = ending(stop) or f"{type(stop).__name__}: {stop}".partition("\n")[0]
        times = [Prediction(p.latency_us, p.interval_us, p.target, "") for p in launcher.profiles]
        return total(times, open_end)

    return predict


def _unknown(reason: str) -> Prediction:
    return Prediction(0.0, (0.0, 0.0), "", reason)
