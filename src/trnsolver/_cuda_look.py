"""Whether matrices on a CUDA device are finite, found out while something else is computed.

To look at results costs a copy and a wait, a fifth of the time that a batch of small eigenproblems
takes. A kernel that was launched before them has ended when they have, and what it saw is already
on the host.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.cuda import wait_for
from trnsolver._arguments import checked_values, unchecked
from trnsolver._cuda_launch import NoKernelError, fits, launch, told

__all__ = ["LOOK", "Look", "all_finite", "begun_look"]

LOOK = """
extern "C" __global__ void look(const REAL* numbers, int count, double* bad) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        if (!(numbers[i] - numbers[i] == 0)) *bad = 1;   // NaN, or an infinity
}
"""

_THREADS, _PER_THREAD, _MOST_BLOCKS = 256, 8, 512
_MOST = 1 << 30
"""Numbers that an int can count, with a step of all threads to spare."""


class Look:
    """A look at numbers that a device takes."""

    def __init__(self, device: int, bad: Tensor) -> None:
        self._device, self._bad = device, bad

    def saw_only_numbers(self) -> bool:
        """Wait, and return whether nothing was seen that is not finite."""
        wait_for(self._device)
        return not self._bad.item()


def begun_look(a: Tensor) -> Look | None:
    """Return a look that has begun, or None where results are to be looked at."""
    if not a.is_cuda or a.dtype not in (torch.float32, torch.float64) or unchecked(a):
        return None
    count = a.numel()
    dense = a.is_contiguous() or a.mT.is_contiguous()
    if not (0 < count <= _MOST and dense and fits(a, 0)):
        return None
    bad = told().bad
    bad.zero_()
    blocks = min(_MOST_BLOCKS, -(-count // (_THREADS * _PER_THREAD)))
    try:
        launch(("look", LOOK), a, [a, count, bad], blocks, _THREADS)
    except NoKernelError:
        return None
    return Look(a.get_device(), bad)


def all_finite(look: Look | None, results: Tensor) -> bool:
    """Return whether a look, or one at the results if there was none, saw numbers only."""
    return checked_values(results) if look is None else look.saw_only_numbers()
