"""Roots of unity and tables of them in float64, from exactly reduced angles.

An angle is a fraction ``k/n`` of ``2*pi``. It is reduced in integers, modulo ``n`` and then into
the first octant, and ``cos`` and ``sin`` are evaluated in [0, pi/4] only. No value depends on a
float product such as ``2*pi*j*k/n``, whose error grows with ``j*k``. Every entry is within 2**-51
of the exact value, and entries at multiples of ``pi/4`` are correctly rounded: 0, 1, -1 and the
float64 nearest to the square root of one half.

Every function returns a pair ``(re, im)`` of float64 arrays. Callers round them once, to the format
of their kernel. Tables are cached read-only in an LRU cache of ``CACHE_BYTES``; larger tables are
not cached.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import numpy as np
import numpy.typing as npt

from trnsci.core.errors import DTypeError, ShapeError

CACHE_BYTES = 128 * 1024 * 1024

Array = npt.NDArray[np.float64]
Pair = tuple[Array, Array]

_LARGEST_N = 2**31  # (n - 1)**2 and 8 * k stay below 2**63


class _TableCache:
    """LRU cache of pairs of arrays, limited in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._pairs: OrderedDict[Hashable, Pair] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, build: Callable[[], Pair]) -> Pair:
        """Return the cached pair of ``key``, or build it, make it read-only and cache it."""
        with self._lock:
            if key in self._pairs:
                self._pairs.move_to_end(key)
                return self._pairs[key]
        pair = build()  # outside the lock: building a large table must not block other readers
        for part in pair:
            part.setflags(write=False)
        with self._lock:
            if _bytes(pair) <= self._limit and key not in self._pairs:
                self._pairs[key] = pair
                self._held += _bytes(pair)
                while self._held > self._limit:
                    self._held -= _bytes(self._pairs.popitem(last=False)[1])
        return pair


def _bytes(pair: Pair) -> int:
    return pair[0].nbytes + pair[1].nbytes


_TABLES = _TableCache(CACHE_BYTES)


def roots(n: int, numerators: npt.ArrayLike) -> Pair:
    """Return the real and imaginary parts of ``exp(-2*pi*i*k/n)`` for every integer ``k`` given.

    The imaginary part is ``-sin(2*pi*k/n)``. Negative integers are accepted; with ``-k`` in place
    of ``k`` the roots belong to the inverse transform.
    """
    _check_length("roots", "n", n)
    k = np.asarray(numerators)
    if k.dtype.kind not in "iu":
        raise DTypeError(f"roots: numerators must be integers, got dtype {k.dtype}")
    octant, into = np.divmod(8 * np.mod(k.astype(np.int64), n), n)
    # In odd octants the angle is measured from the upper end, so that it is in [0, pi/4].
    odd = (octant & 1).astype(bool)
    fraction = np.where(odd, n - into, into)
    angle = fraction * (math.pi / 4.0) / n
    half_root = math.sqrt(0.5)
    cosine = np.where(fraction == n, half_root, np.cos(angle))
    sine = np.where(fraction == n, half_root, np.sin(angle))
    # Octants 1, 2, 5, 6 are nearer to the imaginary axis: sine and cosine are swapped there.
    swapped = ((octant + 1) & 2).astype(bool)
    real, imaginary = np.where(swapped, sine, cosine), np.where(swapped, cosine, sine)
    real = np.where((octant >= 2) & (octant < 6), -real, real)
    imaginary = np.where(octant < 4, -imaginary, imaginary)
    return real + 0.0, imaginary + 0.0  # adding zero converts -0.0 to 0.0


def dft_matrix(
    n: int, inverse: bool = False, rows: int | None = None, columns: int | None = None
) -> Pair:
    """Return the unscaled DFT matrix of order ``n``, or its leading ``rows`` by ``columns`` block.

    Entry ``[j, k]`` is ``exp(-2*pi*i*j*k/n)``, conjugated if ``inverse``. The whole matrix is
    symmetric, so it can be multiplied from either side.
    """
    _check_length("dft_matrix", "n", n)
    rows = n if rows is None else rows
    columns = n if columns is None else columns
    _check_length("dft_matrix", "rows", rows)
    _check_length("dft_matrix", "columns", columns)
    return _TABLES.get(
        ("dft_matrix", n, inverse, rows, columns),
        lambda: _products(n, rows, columns, inverse),
    )


def twiddles(n1: int, n2: int, inverse: bool = False) -> Pair:
    """Return ``exp(-2*pi*i*j*k/(n1*n2))`` for ``j < n1`` and ``k < n2``, shape ``(n1, n2)`` each.

    The values are conjugated if ``inverse``.
    """
    _check_length("twiddles", "n1", n1)
    _check_length("twiddles", "n2", n2)
    _check_length("twiddles", "n1 * n2", n1 * n2)
    return _TABLES.get(("twiddles", n1, n2, inverse), lambda: _products(n1 * n2, n1, n2, inverse))


def chirp(n: int, inverse: bool = False) -> Pair:
    """Return ``exp(-pi*i*k*k/n)`` for ``k`` in ``0 .. n-1``, shape ``(n,)`` each.

    The values are conjugated if ``inverse``. ``k*k`` is reduced modulo ``2*n`` in integers, so the
    phase is equally accurate at both ends of the chirp.
    """
    _check_length("chirp", "2 * n", 2 * n)
    return _TABLES.get(("chirp", n, inverse), lambda: _chirp(n, inverse))


def _chirp(n: int, inverse: bool) -> Pair:
    k = np.arange(n, dtype=np.int64)
    return _directed(roots(2 * n, k * k % (2 * n)), inverse)


def _products(n: int, rows: int, columns: int, inverse: bool) -> Pair:
    """Return the roots of order ``n`` at the products of row and column indices."""
    j = np.arange(rows, dtype=np.int64)[:, None]
    k = np.arange(columns, dtype=np.int64)[None, :]
    numerators = j * k % n
    if numerators.size < n:
        return _directed(roots(n, numerators), inverse)
    real, imaginary = roots(n, np.arange(n, dtype=np.int64))
    return _directed((real[numerators], imaginary[numerators]), inverse)


def _directed(pair: Pair, inverse: bool) -> Pair:
    """Return the conjugate of a pair if ``inverse``, otherwise the pair."""
    return (pair[0], 0.0 - pair[1]) if inverse else pair


def _check_length(function: str, argument: str, value: int) -> None:
    if not 1 <= value < _LARGEST_N:
        raise ShapeError(f"{function}: {argument} must be from 1 to {_LARGEST_N - 1}, got {value}")
