"""SciPy's transforms of one vector, for CPUs where torch has no MKL.

There torch runs the code that SciPy runs, but makes its tables anew in every call, which SciPy
keeps. Of short vectors SciPy takes longer, for the way to it; so it does up to some thousand points
of lengths with small factors alone, whose tables are few.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnfft._arguments import Norm
from trnfft.lengths import next_fast_len
from trnsci.core.arrays import array_of
from trnsci.core.eager import readable

__all__ = [
    "DTYPES",
    "HALF_SPECTRUM",
    "PUBLIC_SINGLE",
    "REAL_INPUT",
    "SINGLE",
    "SMOOTH_SINGLE",
    "scipy_fft",
    "single",
]

SINGLE = 384
"""Points from which on SciPy is the faster one; below, calling it costs more than it gains."""
SMOOTH_SINGLE = 4096
"""The same of lengths with small prime factors alone."""
PUBLIC_SINGLE = 1024
"""The least of both by SciPy's public functions."""
DTYPES = frozenset({torch.float32, torch.float64, torch.complex64, torch.complex128})
"""Of vectors that need not be converted."""
REAL_INPUT = frozenset({"rfft", "ihfft"})
"""Transforms that take reals only."""
HALF_SPECTRUM = frozenset({"irfft", "hfft"})
"""Transforms that take half a spectrum."""

# How SciPy's routines number the scales of a forward transform: by nothing, 1/sqrt(n), 1/n.
_SCALES = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
_AXES = (0,)


def single(name: str, x: Tensor, n: int | None, dim: int, norm: Norm) -> Tensor | None:
    """Return the transform ``name`` of a vector, or None where torch is to compute it.

    Arguments that torch refuses are left to torch.
    """
    if is_compiling():
        return None
    natural = 2 * (x.shape[0] - 1) if name in HALF_SPECTRUM else x.shape[0]
    size = natural if n is None else n
    # The length first: it usually decides, and is the cheapest to ask for.
    if type(size) is not int or size < SINGLE or (size < SMOOTH_SINGLE and _is_smooth(size)):
        return None
    if dim not in (-1, 0) or norm not in _SCALES or x.dtype not in DTYPES or not readable(x):
        return None
    if name in REAL_INPUT and x.is_complex():
        return None
    routines = _routines()
    if routines is None and size < PUBLIC_SINGLE:
        return None
    scipy = scipy_fft()
    if scipy is None:
        return None
    array = array_of(x)
    if routines is not None:
        routine, forward = routines[name]
        scale = _SCALES[norm] if forward else 2 - _SCALES[norm]
        if name not in HALF_SPECTRUM:
            if size == natural:
                return torch.from_numpy(routine(array, _AXES, forward, scale))
        elif x.shape[0] == size // 2 + 1 and x.is_complex():
            return torch.from_numpy(routine(array, _AXES, size, forward, scale))
    return torch.from_numpy(getattr(scipy, name)(array, n, -1, norm))


@lru_cache(maxsize=SMOOTH_SINGLE)
def _is_smooth(size: int) -> bool:
    return next_fast_len(size) == size


@cache
def _routines() -> dict[str, tuple[Callable[..., Any], bool]] | None:
    """Return SciPy's compiled routines and their directions, None where they are not as known.

    The public functions ask for backends and convert arguments in Python first, which takes as
    long as 500 points. What they call in the end is not public, so it is tried before it is used.
    """
    try:
        from scipy.fft._pocketfft import pypocketfft as found

        ramp = np.arange(3.0)
        bins = found.r2c(ramp, _AXES, True, 0)
        same = found.c2c(ramp, _AXES, False, 2)[: len(bins)]
        if not np.allclose(bins.conj(), 3 * same):
            return None
        if not np.allclose(found.c2r(bins, _AXES, 3, False, 2), ramp):
            return None
    except Exception:  # whatever a later SciPy makes of it
        return None
    return {
        "fft": (found.c2c, True),
        "ifft": (found.c2c, False),
        "rfft": (found.r2c, True),
        "ihfft": (found.r2c, False),
        "hfft": (found.c2r, True),
        "irfft": (found.c2r, False),
    }


@cache
def scipy_fft() -> Any:
    """Return the module ``scipy.fft``, None where there is no SciPy."""
    try:
        from scipy import fft
    except ImportError:
        return None
    return fft
