"""Blocks of an engine in one compiled loop, for processes that have numba loaded.

Importing this module imports numba. A loop is compiled at the first use of its engine, and cached
on disk.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numba
import numpy as np

from trnrand.engines import ENGINES, MASK
from trnsci.core.compiled import compiled_loop

__all__ = ["block_loop", "philox_of_eight", "threefry_of_eight"]

_MASK, _HALF = np.uint64(MASK), np.uint64(32)

# Inlined by numba: functions inlined by LLVM keep checks that prevent vectorisation.
_inlined = partial(numba.njit, inline="always")
_philox_block = ENGINES["philox"].make(np.uint64, _inlined)
threefry_of_eight = ENGINES["threefry"].make(np.uint64, _inlined)


@_inlined
def philox_of_eight(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, k2: Any, k3: Any) -> Any:
    return _philox_block(c0, c1, c2, c3, k0, k1)


@_inlined
def _fill(
    block: Any,
    out: Any,
    steps: Any,
    low: Any,
    high: Any,
    c2: Any,
    c3: Any,
    k0: Any,
    k1: Any,
    k2: Any,
    k3: Any,
) -> None:
    for i in range(steps.size):
        at = low + np.uint64(steps[i])
        c0, c1 = at & _MASK, (high + (at >> _HALF)) & _MASK
        w0, w1, w2, w3 = block(c0, c1, c2, c3, k0, k1, k2, k3)
        out[4 * i], out[4 * i + 1], out[4 * i + 2], out[4 * i + 3] = w0, w1, w2, w3


def _fill_philox(
    out: Any, steps: Any, low: Any, high: Any, c2: Any, c3: Any, k0: Any, k1: Any, k2: Any, k3: Any
) -> None:
    _fill(philox_of_eight, out, steps, low, high, c2, c3, k0, k1, k2, k3)


def _fill_threefry(
    out: Any, steps: Any, low: Any, high: Any, c2: Any, c3: Any, k0: Any, k1: Any, k2: Any, k3: Any
) -> None:
    _fill(threefry_of_eight, out, steps, low, high, c2, c3, k0, k1, k2, k3)


@cache
def block_loop(engine: str) -> Any:
    """Return ``fill(out, steps, low, high, domain, stream, *key)`` of an engine.

    Words 4 i to 4 i + 3 of ``out`` (uint32) become the block at ``low + 2**32 * high + steps[i]``.
    Numbers are uint64. A key of two words is padded to four.
    """
    return compiled_loop({"philox": _fill_philox, "threefry": _fill_threefry}[engine])
