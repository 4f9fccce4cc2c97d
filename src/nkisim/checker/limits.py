"""How long a kernel may run before a check gives up on it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["GaveUp", "instruction_limit", "time_limit"]


class GaveUp(BaseException):
    """A kernel ran too long; no ``except Exception`` of the user catches it."""


def instruction_limit(most: int) -> Callable[[Any], None]:
    """Return a watcher that ends a run after a number of instructions."""
    count = 0

    def watch(_: Any) -> None:
        nonlocal count
        count += 1
        if count > most:
            raise GaveUp(f"the limit of {most:,} instructions; --max-instructions sets another")

    return watch


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End what runs in the context after some time; only in a main thread that has signals."""
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        return

    def give_up(*_: Any) -> None:
        raise GaveUp(f"the limit of {seconds:g} seconds; --max-seconds sets another")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
