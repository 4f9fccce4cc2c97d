"""Blocks of an engine in one compiled loop, for processes that have numba loaded.

Importing this module imports numba. A loop is compiled when its engine is first asked for.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from trnrand.engines import ENGINES, MASK

__all__ = ["block_loop"]


@cache
def block_loop(engine: str) -> Any:
    """Return ``fill(out, steps, low, high, domain, stream, *key)`` of an engine.

    Words 4 i to 4 i + 3 of ``out`` (uint32) become the block at ``low + 2**32 * high + steps[i]``.
    Numbers are uint64. A key of two words is passed with two more, which are not read.
    """
    # Inlined by numba itself: what LLVM inlines keeps checks that stop it from vectorising.
    block = ENGINES[engine].make(np.uint64, numba.njit(inline="always"))
    mask, half = np.uint64(MASK), np.uint64(32)
    short = ENGINES[engine].key_words == 2  # decided while compiling, as a frozen variable

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def fill(
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
            c0, c1 = at & mask, (high + (at >> half)) & mask
            if short:
                w0, w1, w2, w3 = block(c0, c1, c2, c3, k0, k1)
            else:
                w0, w1, w2, w3 = block(c0, c1, c2, c3, k0, k1, k2, k3)
            out[4 * i], out[4 * i + 1], out[4 * i + 2], out[4 * i + 3] = w0, w1, w2, w3

    return fill
