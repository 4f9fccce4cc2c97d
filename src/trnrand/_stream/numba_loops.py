"""Choice of compiled loops: by the size of a call, if numba is installed.

Results are bit-identical with and without them. Loading numba takes half a second, and the first
compilation of a loop on a machine some more.
"""

from __future__ import annotations

from functools import cache

from trnsci.core.backend.compiled import numba_installed

# Samples of a call from which loops are compiled: NumPy takes about a millisecond for fewer.
_LEAST = 1 << 14


def compiled_wanted(samples: int, least: int = _LEAST) -> bool:
    """Return whether to use compiled loops for a call of this many samples, at least ``least``."""
    return samples >= least and _loads()


@cache
def _loads() -> bool:
    if not numba_installed():
        return False
    try:
        import numba  # noqa: F401
    except ImportError:  # numba raises it for NumPy versions that it does not support
        return False
    return True
