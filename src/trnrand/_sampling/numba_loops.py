"""Choice of compiled loops: used if numba is loaded, or enough samples are drawn to load it.

Results are bit-identical with and without them. Loading numba takes half a second, and the first
compilation of a loop on a machine some more.
"""

from __future__ import annotations

from functools import cache

from trnsci.core.compiled import numba_installed, numba_loaded

__all__ = ["compiled_wanted"]

# Samples of one request, or of all so far, from which a process loads numba.
_OF_ONE, _OF_ALL = 1 << 18, 1 << 21

_drawn = 0


def compiled_wanted(samples: int) -> bool:
    """Return whether to use compiled loops for this many samples."""
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
    except ImportError:  # numba raises it for NumPy versions that it does not support
        return False
    return True
