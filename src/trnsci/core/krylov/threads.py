"""One thread for iterations with a small matrix.

A step of such a method takes less than a millisecond. With several threads each of its products and
sums ends with a wait for all of them, and on a busy machine for one that is not running.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from trnsci.core.krylov.operators import LinearOperator

SMALL = 2**20
"""Most stored entries of a small matrix, times the vectors that a product takes at once."""

_HELD = threading.Lock()


@contextmanager
def few_threads(op: LinearOperator, b: Tensor) -> Iterator[None]:
    """Run torch with one thread on the CPU while a small matrix is iterated with.

    The number of threads belongs to the process: of iterations at the same time, the first sets
    and restores it. The cost of a function is unknown, so that its iterations keep the threads.
    """
    entries = getattr(op.matrix, "nnz", None)
    if entries is None and isinstance(op.matrix, Tensor):
        entries = op.matrix.numel()
    vectors = b.shape[-1] if b.ndim == 2 else 1
    small = entries is not None and entries * vectors <= SMALL and b.device.type == "cpu"
    before = torch.get_num_threads()
    if not small or before == 1 or not _HELD.acquire(blocking=False):
        yield
        return
    try:
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)
        _HELD.release()
