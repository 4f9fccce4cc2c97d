"""SciPy's transforms of one vector, for lengths where it is faster than torch.

On x86-64 torch calls MKL and prepares a new descriptor for every call, which for most lengths takes
several times as long as the transform; SciPy keeps what it prepares. MKL is the faster one where it
has a quick way to prepare: long complex transforms and lengths with a large odd part. Without MKL
torch runs the code that SciPy runs, and the choice matters little. What is not SciPy's ``_eager``
computes, where descriptors are kept too.

The choice depends on the length alone and not on measurements in this process: which of the two
computes a transform decides its last bits, and those should be the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.compiler import is_compiling, is_dynamo_compiling

from trnfft._arguments import Norm
from trnsci.core.arrays import array_of
from trnsci.core.eager import readable, recorded, settled

__all__ = ["SINGLE", "scipy_fft", "scipy_is_faster", "single", "vector_transform"]

SINGLE = 192
"""Points from which on SciPy can be the faster one; below, calling it costs more than it gains."""

_DTYPES = frozenset({torch.float32, torch.float64, torch.complex64, torch.complex128})
# How SciPy's routines number the scales of a forward transform: by nothing, 1/sqrt(n), 1/n.
_SCALES = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
_AXES = (0,)
_REAL_INPUT = frozenset({"rfft", "ihfft"})
_HALF_SPECTRUM = frozenset({"irfft", "hfft"})
_WHOLE_SPECTRUM = frozenset({"fft", "ifft"})
_TO_COMPLEX = MappingProxyType({torch.float32: torch.complex64, torch.float64: torch.complex128})

# Measured with MKL 2024.2 and SciPy 1.17 on one thread (benchmarks/bench_fft.py shows the ratios).
_LONG = 10_000
_VERY_LONG = 1 << 17
_LARGE_ODD_PART = 45
_LARGE_FACTOR, _LARGE_REAL_FACTOR = 128, 100
_PRIMES = range(5_000, 20_000)  # between these MKL is the faster one at primes
# Lengths of a small odd part for which MKL nevertheless has a quick way.
_QUICK = frozenset({12_288, 57_344, 114_688, 122_880})


def single(name: str, x: Tensor, n: int | None, dim: int, norm: Norm) -> Tensor | None:
    """Return the transform ``name`` of a vector, or None where torch is to compute it.

    Arguments that torch refuses are left to torch.
    """
    if is_compiling():
        return None
    natural = 2 * (x.shape[0] - 1) if name in _HALF_SPECTRUM else x.shape[0]
    size = natural if n is None else n
    if type(size) is not int or size < 1:
        return None
    # The length first: it usually decides, and is the cheapest to ask for.
    faster = scipy_is_faster(name, size)
    if not faster and size < _LONG:
        return None
    if dim not in (-1, 0) or norm not in _SCALES or x.dtype not in _DTYPES or not readable(x):
        return None
    if name in _REAL_INPUT and x.is_complex():
        return None
    if not faster:
        return _by_torch(name, x, n, norm)
    scipy = scipy_fft()
    if scipy is None:
        return None
    array = array_of(x)
    routines = _routines()
    if routines is not None:
        routine, forward = routines[name]
        scale = _SCALES[norm] if forward else 2 - _SCALES[norm]
        if name not in _HALF_SPECTRUM:
            if size == natural:
                return torch.from_numpy(routine(array, _AXES, forward, scale))
        elif x.shape[0] == size // 2 + 1 and x.is_complex():
            return torch.from_numpy(routine(array, _AXES, size, forward, scale))
    return torch.from_numpy(getattr(scipy, name)(array, n, -1, norm))


def vector_transform(
    name: str, function: Callable[..., Tensor], general: Callable[..., Tensor], forward: bool
) -> Callable[..., Tensor]:
    """Return the transform ``name`` as a function of a CPU vector, a length, a dimension, a norm.

    Vectors are float32, float64 or complex of these; a transform of reals gets no complex ones.
    By defaults they are transformed by what ``single`` chooses, of which only that is asked here
    which can be otherwise: all of it takes as long as a tenth of a transform of 4096 points.

    Args:
        name: The transform.
        function: What computes it where SciPy does not.
        general: What any arguments are given to, with the direction behind them.
        forward: The direction.
    """
    half, scale = name in _HALF_SPECTRUM, 0 if forward else 2

    def transform(x: Tensor, n: Any = None, dim: Any = -1, norm: Any = None) -> Tensor:
        if n is None and norm is None and dim == -1 and not is_dynamo_compiling():
            if recorded():
                return function(x)  # numbers of points are tensors there
            size = 2 * (x.numel() - 1) if half else x.numel()
            if not scipy_is_faster(name, size):
                if size < _LONG or name not in _WHOLE_SPECTRUM or x.dtype.is_complex:
                    return function(x)
            elif (
                (routines := _routines()) is not None
                and (not half or x.dtype.is_complex)
                and not (x.requires_grad and torch.is_grad_enabled())
                and settled()
            ):
                routine, array = routines[name][0], array_of(x)
                if half:
                    return torch.from_numpy(routine(array, _AXES, size, forward, scale))
                return torch.from_numpy(routine(array, _AXES, forward, scale))
        return general(x, n, dim, norm, forward)

    return transform


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


@lru_cache(maxsize=4096)
def scipy_is_faster(name: str, n: int) -> bool:
    """Return whether SciPy computes the transform ``name`` of n points faster than torch."""
    if n < SINGLE:
        return False
    odd = n
    while odd % 2 == 0:
        odd //= 2
    factor = _largest_factor(odd)
    if n < 512 and factor <= 13:
        # Only without the way through SciPy's public functions.
        return _routines() is not None
    if factor == n:
        return not _PRIMES.start <= n < _PRIMES.stop
    if name in _WHOLE_SPECTRUM:
        if n >= _VERY_LONG:
            return False
        if n >= _LONG:
            return odd < _LARGE_ODD_PART and odd != 5 and n not in _QUICK
    # Of an even length with a large prime factor MKL transforms the halves, SciPy pads; of reals
    # the halves are half as long once more.
    real = name not in _WHOLE_SPECTRUM and n <= 4 * factor
    return n % 2 == 1 or factor <= (_LARGE_REAL_FACTOR if real else _LARGE_FACTOR)


def _by_torch(name: str, x: Tensor, n: int | None, norm: Norm) -> Tensor | None:
    """Return the transform of a long real vector as that of a complex one, None of any other."""
    # Where MKL prepares complex transforms quickly it does not prepare real ones so, and the work
    # of the twice as large transform is the smaller part.
    if name in _WHOLE_SPECTRUM and x.dtype in _TO_COMPLEX and x.shape[0] >= _LONG:
        function = torch.fft.fft if name == "fft" else torch.fft.ifft
        return function(x.to(_TO_COMPLEX[x.dtype]), n, -1, norm)
    return None


def _largest_factor(odd: int) -> int:
    """Return the largest prime factor of an odd number, 1 of 1."""
    divisor, largest = 3, 1
    while divisor * divisor <= odd:
        if odd % divisor == 0:
            odd //= divisor
            largest = divisor
        else:
            divisor += 2
    return max(odd, largest)


@cache
def scipy_fft() -> Any:
    """Return the module ``scipy.fft``, None where there is no SciPy."""
    try:
        from scipy import fft
    except ImportError:
        return None
    return fft
