"""Compiled loops: proposals of counts, integers of a range, and the order of random keys.

Importing this module imports numba. The loops round in the same order as the tensor versions, so
results are bit-identical. Arrays are contiguous; pairs are
int64, words uint32. A loop is compiled at its first call, and cached on disk.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from trnrand._stream.compiled import unit53
from trnsci.core.backend.compiled import compiled_loop

_loop = partial(compiled_loop, error_model="numpy")


@_loop
def proposals(pairs: Any, a: Any, b: Any, centre: Any, v: Any, us: Any, k: Any) -> None:
    """Convert two pairs of words each to a proposal of transformed rejection."""
    for i in range(len(pairs)):
        u = unit53(pairs[i, 0]) - 0.5
        distance = 0.5 - abs(u)
        us[i] = distance
        v[i] = unit53(pairs[i, 1])
        k[i] = np.floor((2 * a / distance + b) * u + centre)


@_loop
def tabled(pairs: Any, table: Any, hat: Any, values: Any, good: Any) -> None:
    """Compute proposals and whether they are accepted, as ``tables.Hat`` defines it."""
    a, b, scale, squeeze, centre, narrow = hat
    for i in range(len(pairs)):
        u = unit53(pairs[i, 0]) - 0.5
        us = 0.5 - abs(u)
        v = unit53(pairs[i, 1])
        steep = a / us
        k = np.floor((2.0 * steep + b) * u + centre)
        values[i] = k
        if us >= 0.07 and v <= squeeze:
            good[i] = True
        elif k >= 0.0 and k < len(table) and (us >= narrow or v <= us):
            good[i] = v * scale <= (steep / us + b) * table[int(k)]
        else:
            good[i] = False


@_loop
def products(words: Any, span: Any, biased: Any, values: Any, good: Any) -> None:
    """Compute the upper halves of words times a span, and whether the lower halves are unbiased."""
    for i in range(words.size):
        product = np.uint64(words[i]) * span
        values[i] = product >> np.uint64(32)
        good[i] = product & np.uint64(0xFFFF_FFFF) >= biased


@_loop
def order(keys: Any, shift: Any, starts: Any, ordered: Any, out: Any) -> None:
    """Order keys stably: into buckets by their upper bits, then by insertion.

    ``starts`` holds a 0 for each bucket and one more, and ``ordered`` has the size of ``keys``.
    """
    for i in range(keys.size):
        starts[(keys[i] >> shift) + 1] += 1
    for bucket in range(1, starts.size):
        starts[bucket] += starts[bucket - 1]
    for i in range(keys.size):
        bucket = keys[i] >> shift
        place = starts[bucket]
        starts[bucket] = place + 1
        ordered[place], out[place] = keys[i], i
    for i in range(1, keys.size):
        key, index, place = ordered[i], out[i], i
        while place > 0 and ordered[place - 1] > key:
            ordered[place], out[place] = ordered[place - 1], out[place - 1]
            place -= 1
        ordered[place], out[place] = key, index
