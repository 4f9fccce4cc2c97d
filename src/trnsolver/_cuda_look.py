"""Numbers of a CUDA device that are on the host without a wait of their own.

To look at results costs a copy and a wait, a fifth of the time that a batch of small eigenproblems
takes. What is asked for before, or before more work is launched, is there when that has ended. The
memory for it holds NaN until then, so that numbers which are there too late are seen to be.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from trnsci.core.eager import unchecked
from trnsci.core.finite import only_finite
from trnsolver._cuda_launch import told

__all__ = ["Look", "all_finite", "begun_look", "on_the_way"]


class Look:
    """A sum of numbers that a device is writing to memory of the host."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def saw_only_numbers(self) -> bool:
        """Return whether the sum is there, and finite: it is not if a term is not."""
        return isfinite(self._array[0])


def begun_look(a: Tensor) -> Look | None:
    """Return a look that has begun, or None where results are to be looked at."""
    if not a.is_cuda or a.dtype not in (torch.float32, torch.float64) or unchecked(a):
        return None
    memory, array = told().room("sum", a.dtype, 1)
    memory.copy_((a.detach() if a.requires_grad else a).sum(), non_blocking=True)
    return Look(array)


def all_finite(look: Look | None, results: Tensor) -> bool:
    """Return whether a look, or one at the results if there was none, saw numbers only."""
    return only_finite(results) if look is None else look.saw_only_numbers()


def on_the_way(value: Tensor) -> Callable[[], list[float]]:
    """Return a function that has a few real numbers, whose copy from a device begins now."""
    if not value.is_cuda:
        return value.tolist
    memory, array = told().room("values", value.dtype, value.numel())
    memory.copy_(value, non_blocking=True)

    def arrived() -> list[float]:
        numbers: list[float] = array.tolist()
        if not isfinite(sum(numbers)):
            torch.cuda.current_stream(value.device).synchronize()
            numbers = array.tolist()
        return numbers

    return arrived
