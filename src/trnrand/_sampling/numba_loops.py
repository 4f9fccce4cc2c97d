"""When samples are made by compiled loops: where numba is loaded, or worth loading.

The numbers are the same either way. Loading numba takes half a second, and compiling a loop for the
first time on a machine some more.
"""

from __future__ import annotations

from functools import cache

from trnsci.core.compiled import numba_installed, numba_loaded

__all__ = ["compiled_wanted"]

# Samples that one request, or all so far, must have for a process to load numba.
_OF_ONE, _OF_ALL = 1 << 18, 1 << 21

_drawn = 0


def compiled_wanted(samples: int) -> bool:
    """Return whether compiled loops are to make this many samples."""
    global _drawn
    if numba_loaded():
        return True
    _drawn += samples
    return (samples >= _OF_ONE or _drawn >= _OF_ALL) and _loads()


@cache
def _loads() -> bool:
    if not numba_installed():
        return False
    try:
        import numba  # noqa: F401
    except ImportError:  # for one of a NumPy that it does not know
        return False
    return True
