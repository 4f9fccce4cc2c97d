"""The functions of ``series`` compiled for single numbers, and loops of them over arrays.

Importing this module imports numba. A loop is compiled at its first call, and cached on disk.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numba
import numpy as np

from trnrand._stream.compiled import unit53
from trnrand._stream.series import SPLIT_BITS, defined
from trnsci.core.backend.compiled import compiled_loop

_compiled = partial(numba.njit, error_model="numpy")
_loop = partial(compiled_loop, error_model="numpy")

# Pairs of words per pass of the loop over normals: their uniforms fit in the cache.
_PASS = 1 << 10
# Minimum of rows per pass of the loop over proportions: several vector registers.
_LEAST_ROWS = 32


@_compiled
def _split(x: Any) -> Any:
    bits = np.float64(x).view(np.int64)
    exponent = (bits - SPLIT_BITS) >> 52
    return np.float64(exponent), np.int64(bits - (exponent << 52)).view(np.float64)


@_compiled
def _power(k: Any) -> Any:
    return np.int64((k + 1023) << 52).view(np.float64)


@_compiled
def _scaled(x: Any, k: Any) -> Any:
    whole = np.int64(k)
    half = whole >> 1
    return x * _power(half) * _power(whole - half)


@_compiled
def _floor(x: Any) -> Any:
    return np.floor(x)


@_compiled
def _clamp(x: Any, low: Any, high: Any) -> Any:
    return min(max(x, low), high)


log, log1p, exp, cosine, sine = defined(_split, _scaled, _floor, _clamp, _compiled)


@_compiled
def unit64(pair: Any) -> Any:
    """Return the uniform of a pair of words with all 64 bits, in (0, 1]."""
    upper = np.float64(pair & 0xFFFF_FFFF) * 2.0**32
    return (upper + (np.float64(pair >> 32 & 0xFFFF_FFFF) + 1.0)) * 2.0**-64


@_loop
def _logs(x: Any, out: Any) -> None:
    for i in range(x.size):
        out[i] = log(x[i])


@_loop
def _logs1p(x: Any, out: Any) -> None:
    for i in range(x.size):
        out[i] = log1p(x[i])


@_loop
def _exps(x: Any, out: Any) -> None:
    for i in range(x.size):
        out[i] = exp(x[i])


# A pass has two loops, because a loop that also converts integers is not vectorised.
@_loop
def normals(pairs: Any, cosines: Any, sines: Any) -> None:
    """Write two normals of each pair of (n, 2) pairs of words; ``sines`` may be empty."""
    radius, angle = np.empty(_PASS), np.empty(_PASS)
    for begin in range(0, len(pairs), _PASS):
        count = min(_PASS, len(pairs) - begin)
        for i in range(count):
            radius[i] = unit64(pairs[begin + i, 0])
            angle[i] = unit53(pairs[begin + i, 1])
        for i in range(count):
            radius[i] = np.sqrt(-2.0 * log(radius[i]))
        for i in range(count):
            cosines[begin + i] = radius[i] * cosine(angle[i])
        if sines.size:
            for i in range(count):
                sines[begin + i] = radius[i] * sine(angle[i])


# A pass stores components in its first dimension, so that loops over rows are vectorised.
@_loop
def proportions(x: Any, out: Any) -> None:
    """Write the softmax of each row of x; the sum adds the second half to the first, repeatedly."""
    width = x.shape[1]
    rows = max(_LEAST_ROWS, _PASS // width)
    parts, sums, peak = np.empty((width, rows)), np.empty((width, rows)), np.empty(rows)
    for begin in range(0, len(x), rows):
        count = min(rows, len(x) - begin)
        for row in range(count):
            peak[row] = x[begin + row, 0]
        for i in range(width):
            for row in range(count):
                parts[i, row] = x[begin + row, i]
                peak[row] = max(peak[row], parts[i, row])
        for i in range(width):
            for row in range(count):
                parts[i, row] = exp(parts[i, row] - peak[row])
            for row in range(count):
                sums[i, row] = parts[i, row]
        left = width
        while left > 1:
            half = left // 2
            for i in range(half):
                for row in range(count):
                    sums[i, row] += sums[half + i, row]
            if left % 2:
                for row in range(count):
                    sums[half, row] = sums[left - 1, row]
            left -= half
        for i in range(width):
            for row in range(count):
                out[begin + row, i] = parts[i, row] / sums[0, row]


LOOPS = {"log": _logs, "log1p": _logs1p, "exp": _exps}
"""Loops over contiguous arrays of float64 by name."""
