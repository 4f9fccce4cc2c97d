"""One BLAS thread while kernels run.

A tile's product takes a tenth of a millisecond. Splitting it over BLAS threads gains little on an
idle machine and is more than ten times slower on a busy one, where threads wait for descheduled
ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_HELD = threading.Lock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the BLAS libraries of this process to one thread, unless another run does already.

    The run that set the limit restores the thread counts. Other runs that are still active then
    continue with more threads and may be slower.
    """
    if not _HELD.acquire(blocking=False):
        yield
        return
    try:
        before = [library.get_num_threads() for library in _libraries()]
        for library in _libraries():
            library.set_num_threads(1)
        try:
            yield
        finally:
            for library, number in zip(_libraries(), before, strict=True):
                library.set_num_threads(number)
    finally:
        _HELD.release()


@cache
def _libraries() -> list[Any]:
    """Return the BLAS libraries that are loaded at the first call, NumPy's included."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers
