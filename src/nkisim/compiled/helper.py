"""The second thread, which takes its share of large loops.

There is one in a process, started when the first large loop comes. It sleeps between loops and ends
with the process. None is started where there is a single processor, with ``NKISIM_THREADS=1`` in
the environment, and on systems without POSIX threads.

Importing this module imports no numba.
"""

from __future__ import annotations

import ctypes
import os
import threading

import numpy as np

from nkisim.compiled.helper_layout import MUTEX, SIGNAL, SIZE

__all__ = ["THREADS_VARIABLE", "helper_for"]

THREADS_VARIABLE = "NKISIM_THREADS"

_LINE = 64  # bytes of a cache line

# Elements of a pass that takes several times as long as to wake it, a few microseconds.
_WORTH_WAKING = 1 << 17


class _Helper:
    """The memory of the helper, and where it begins: 0 without one, None before anybody asked."""

    starting = threading.Lock()
    memory: np.ndarray
    address: int | None = None


def helper_for(elements: int) -> int:
    """Return what a compiled loop takes to share its parts; 0 where it is not worth it.

    ``elements`` are those of a pass that loads, adds and stores; of others, as many as take as
    long.
    """
    if elements < _WORTH_WAKING:
        return 0
    found = _Helper.address
    return _first_asked() if found is None else found


def _first_asked() -> int:
    with _Helper.starting:
        if _Helper.address is None:
            _Helper.address = _start() if _threads() > 1 else 0
        return _Helper.address


def _threads() -> int:
    """Return how many threads may compute."""
    if os.name != "posix" or os.environ.get(THREADS_VARIABLE) == "1":
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _start() -> int:
    """Start the helper; returns where its memory begins, 0 if no thread can be had."""
    from nkisim.compiled.parts import helping

    _Helper.memory = np.zeros(SIZE + _LINE, np.uint8)
    address = -(-int(_Helper.memory.ctypes.data) // _LINE) * _LINE
    system = ctypes.CDLL(None)
    system.pthread_mutex_init(ctypes.c_void_p(address + MUTEX), None)
    system.pthread_cond_init(ctypes.c_void_p(address + SIGNAL), None)
    thread = threading.Thread(target=helping(), args=(address,), name="nkisim helper", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return 0
    return address


def _forget() -> None:
    """Have none: of the threads of a process that forks, its child has only the one that forked."""
    _Helper.starting = threading.Lock()
    _Helper.address = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
