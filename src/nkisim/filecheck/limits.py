"""Limits on the instructions and the time of a checked kernel."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


class GaveUp(BaseException):
    """A kernel exceeded a limit; not caught by the user's ``except Exception``."""


def instruction_limit(most: int) -> Callable[[Any], None]:
    """Return a watcher that aborts a run after a number of instructions."""
    count = 0

    def watch(_: Any) -> None:
        nonlocal count
        count += 1
        if count > most:
            raise GaveUp(f"the limit of {most:,} instructions; --max-instructions sets another")

    return watch


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Context manager with a timeout; effective only in a main thread that has signals."""
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
