"""Proposals of gamma samples in one compiled loop.

Importing this module imports numba. The loop is compiled at its first call, and cached on disk. It
rounds in the same order as the tensor version in ``gammas``, so results are bit-identical.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numba
import numpy as np

from trnrand._sampling.gamma_bound import LEAST, SQUEEZE, defined_bound
from trnrand._stream.compiled import unit53
from trnrand._stream.compiled_elementary import cosine, exp, log, log1p, unit64
from trnsci.core.backend.compiled import compiled_loop

# Samples per pass, whose intermediate values fit in the level-1 cache of a core. A pass consists of
# short loops, since one with conversions of integers or branches is not vectorised.
_PASS = 512


_compiled = partial(numba.njit, error_model="numpy")


@_compiled
def _where(condition: Any, yes: Any, no: Any) -> Any:
    return yes if condition else no


_bound = defined_bound(_where, _compiled)


@partial(compiled_loop, error_model="numpy")
def proposals(
    pairs: Any,
    more: Any,
    parameters: Any,
    which: Any,
    logarithms: Any,
    boosted: Any,
    values: Any,
    good: Any,
) -> None:
    """Write n proposals: two words each for its normal variate, and two for its acceptance test.

    Parameters are arrays of length 1 or n, and ``which`` is empty; or they have any length, and
    ``which`` has the index of the parameters of each proposal. The results are ``values`` (float64)
    and ``good`` (bool).
    """
    d, c, log_d, k = parameters
    z, angle, u, value = np.empty(_PASS), np.empty(_PASS), np.empty(_PASS), np.empty(_PASS)
    x, d1, k1 = np.empty(_PASS), np.empty(_PASS), np.empty(_PASS)
    at = np.empty(_PASS, np.int64)
    step = 1 if d.size > 1 else 0
    for begin in range(0, len(pairs), _PASS):
        count = min(_PASS, len(pairs) - begin)
        if which.size:
            for i in range(count):
                at[i] = which[begin + i]
        else:
            for i in range(count):
                at[i] = (begin + i) * step
        for i in range(count):
            z[i] = unit64(pairs[begin + i, 0])
            angle[i] = unit53(pairs[begin + i, 1])
            u[i] = unit53(more[begin + i, 0])
        for i in range(count):
            z[i] = np.sqrt(-2.0 * log(z[i]))
        for i in range(count):
            z[i] = z[i] * cosine(angle[i])
        for i in range(count):
            d1[i] = d[at[i]]
            x[i] = c[at[i]] * z[i]
        for i in range(count):
            square = z[i] * z[i]
            if u[i] < 1.0 - SQUEEZE * (square * square):
                good[begin + i] = True
            elif x[i] > -1.0:
                bound = _bound(x[i], log1p(max(x[i], LEAST)), d1[i])
                good[begin + i] = bound - log(u[i]) > 0.0
            else:
                good[begin + i] = False
        if not logarithms:
            for i in range(count):
                root = x[i] + 1.0
                values[begin + i] = d1[i] * (root * root * root)
            if not boosted:
                continue
        for i in range(count):
            value[i] = 3.0 * log1p(max(x[i], LEAST))
        for i in range(count):
            value[i] = value[i] + log_d[at[i]]
        if boosted:
            for i in range(count):
                u[i] = 1.0 - unit53(more[begin + i, 1])
                k1[i] = k[at[i]]
            for i in range(count):
                u[i] = log(u[i]) / k1[i]
            for i in range(count):
                value[i] = value[i] + (u[i] if k1[i] < 1.0 else 0.0)
        if logarithms:
            for i in range(count):
                values[begin + i] = value[i]
        else:
            for i in range(count):
                value[i] = exp(value[i])
            for i in range(count):
                if k1[i] < 1.0:
                    values[begin + i] = value[i]
