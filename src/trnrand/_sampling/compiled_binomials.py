"""Binomial samples, each with its own parameters, and multinomial vectors, in a compiled loop.

Importing this module imports numba. A loop is compiled at the first call of its engine, and cached
on disk. It rounds in the same order as the tensor version in ``counts``, so results are
bit-identical.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numba
import numpy as np

from trnrand._sampling.mass import INVERTED, NEGLIGIBLE, STIRLING_RESTS, defined_masses
from trnrand._stream.compiled import philox_of_eight, threefry_of_eight
from trnrand._stream.compiled_elementary import exp, log, log1p
from trnrand.engines import MASK
from trnsci.core.backend.compiled import compiled_loop

_compiled = partial(numba.njit, error_model="numpy")
_loop = partial(compiled_loop, error_model="numpy")
_inlined = partial(numba.njit, inline="always", error_model="numpy")

_MASK, _HALF, _ZERO = np.uint64(MASK), np.uint64(32), np.uint64(0)
_RESTS = np.array(STIRLING_RESTS)


def _either(test: Any, yes: Any, no: Any) -> Any:
    @_compiled
    def chosen(*values: Any) -> Any:
        if test(*values):
            return yes(*values)
        return no(*values)

    return chosen


@_compiled
def _small_rest(k: Any) -> Any:
    return _RESTS[np.int64(k)]


_log_binomial = defined_masses(log, log1p, _either, _small_rest, _compiled).binomial


@_compiled
def _unit53(low: Any, high: Any) -> Any:
    bits = (low >> np.uint64(5)) << np.uint64(26) | high >> np.uint64(6)
    return np.float64(bits) * 2.0**-53


@_compiled
def _inverted(u: Any, n: Any, p: Any) -> Any:
    term, odds, k = exp(n * log1p(-p)), p / (1.0 - p), 0.0
    u -= term
    while u >= 0.0 and term > NEGLIGIBLE:
        k += 1.0
        term = term * ((n - k + 1.0) / k * odds)
        u -= term
    return k


@_compiled
def _accepts(k: Any, us: Any, v: Any, n: Any, p: Any, a: Any, b: Any, alpha: Any) -> Any:
    exact = _log_binomial(k, n, p) - _log_binomial(np.floor((n + 1.0) * p), n, p)
    return log(v * alpha / (a / (us * us) + b)) <= exact


@_inlined
def _binomial(block: Any, numbers: Any, step: Any, n: Any, p: Any) -> Any:
    """Return the number of successes of the sample ``step`` positions after ``numbers``."""
    low, high, domain, c3, k0, k1, k2, k3 = numbers
    at = low + np.uint64(step)
    c0, c1 = at & _MASK, (high + (at >> _HALF)) & _MASK
    chance = 1.0 - p if p > 0.5 else p
    few = n * chance < INVERTED
    deviation = np.sqrt(n * chance * (1.0 - chance))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * chance
    alpha, squeeze = (2.83 + 5.1 / b) * deviation, 0.92 - 4.2 / b
    k, attempt = -1.0, _ZERO
    while True:
        slot = domain | attempt << np.uint64(8)
        w0, w1, w2, w3 = block(c0, c1, slot, c3, k0, k1, k2, k3)
        if few:
            k = _inverted(_unit53(w0, w1), n, chance)
            break
        u, v = _unit53(w0, w1) - 0.5, _unit53(w2, w3)
        us = 0.5 - abs(u)
        k = np.floor((2.0 * a / us + b) * u + (n * chance + 0.5))
        if us >= 0.07 and v <= squeeze:
            break
        if k >= 0.0 and k <= n and _accepts(k, us, v, n, chance, a, b, alpha):
            break
        attempt += np.uint64(1)
    return n - k if p > 0.5 else k


@_inlined
def _fill(block: Any, out: Any, steps: Any, n: Any, p: Any, numbers: Any) -> None:
    for row in range(steps.size):
        rest = n[row]
        for i in range(p.shape[1]):
            count = 0.0
            if rest > 0.0:
                count = _binomial(block, numbers, steps[row] + i, rest, p[row, i])
            out[row, i] = count
            rest -= count


@_loop
def _philox(out: Any, steps: Any, n: Any, p: Any, numbers: Any) -> None:
    _fill(philox_of_eight, out, steps, n, p, numbers)


@_loop
def _threefry(out: Any, steps: Any, n: Any, p: Any, numbers: Any) -> None:
    _fill(threefry_of_eight, out, steps, n, p, numbers)


BINOMIALS = {"philox": _philox, "threefry": _threefry}
"""``fill(out, steps, n, p, numbers)`` by engine.

Row j of ``out`` divides ``n[j]`` trials. Column i is the number of successes, with probability
``p[j, i]``, among the trials that the columns before it have not counted. Its position in the
stream is ``steps[j] + i`` after the position that ``numbers`` describes, as
``engines.block_numbers`` returns them.
"""
