"""Random number generators of the engines, as state machines over the 128 lanes of a core.

The device's streams are not published and not reproduced: a kernel gets other numbers on hardware.
The documented properties hold: the algorithm's name, the words of state per lane, and that a state
determines all following numbers. The streams are the same in every run, process and machine.

``Xorwow`` is the generator of Marsaglia (2003): five words of xorshift and a Weyl counter. It is
used for the GpSimd engine (one per lane) and the Vector engine of gen4 (four per lane). ``Lfsr`` is
used for the Vector engine before gen4, which is documented only as "linear feedback shift
register"; here it is the xorshift of the same paper with one word of state.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

Array = np.ndarray

LANES = 128
"""Lanes of an engine, one per partition."""
XORWOW_WORDS = 6
"""Words of one XORWOW generator: five of xorshift, oldest first, then the counter."""
WEYL = 362437
"""Increment of the counter of a XORWOW generator per number."""

_HISTORY = XORWOW_WORDS - 1
_GOLDEN = 0x9E3779B97F4A7C15
_NONZERO = np.uint32(0x9E3779B9)
"""Replaces an all-zero xorshift state, which would stay zero."""


def expand_seed(seed: int, count: int) -> Array:
    """Return ``count`` uint32 words that depend on every bit of a 32-bit seed.

    They are the high halves of the numbers of SplitMix64 (Steele, Lea and Flood, 2014) started at
    the seed. The first million states of two seeds are disjoint, since the first million multiples
    of the increment are more than 2^32 apart.
    """
    z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN) + np.uint64(seed)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(32)).astype(np.uint32)


class Generator(Protocol):
    """Interface of a generator.

    Attributes:
        words: Words of state per lane.
    """

    words: int

    def seed(self, seed: int) -> None:
        """Set every lane from one 32-bit seed; lanes get different states."""

    def draw(self, lanes: Array, count: int) -> Array:
        """Return ``count`` uint32 numbers of each of the lanes, and advance these lanes."""

    def get_state(self, lanes: Array) -> Array:
        """Return the state of some lanes as uint32 (lanes, words)."""

    def set_state(self, lanes: Array, state: Array) -> None:
        """Replace the state of some lanes."""


class Xorwow:
    """One or several XORWOW generators per lane.

    With several, number i of a lane comes from generator i modulo their count, and all of them
    advance together: numbers left over in the last cycle of a draw are discarded, as by hardware
    that produces one number per generator and cycle. A draw always begins with the first generator,
    so that the state words are the complete state.
    """

    def __init__(self, per_lane: int = 1) -> None:
        self.per_lane = per_lane
        self.words = per_lane * XORWOW_WORDS
        self._state = np.zeros((LANES, per_lane, XORWOW_WORDS), np.uint32)

    def seed(self, seed: int) -> None:
        """Set every lane from one 32-bit seed; lane 0 takes the first words, and so on."""
        self._state = expand_seed(seed, self._state.size).reshape(self._state.shape)
        stuck = ~self._state[..., :_HISTORY].any(axis=-1)
        self._state[stuck, 0] = _NONZERO

    def draw(self, lanes: Array, count: int) -> Array:
        """Return ``count`` uint32 numbers of each of the lanes, and advance these lanes."""
        state = self._state[lanes].reshape(-1, XORWOW_WORDS)
        cycles = -(-count // self.per_lane)
        history = np.empty((_HISTORY + cycles, len(state)), np.uint32)
        history[:_HISTORY] = state[:, :_HISTORY].T
        _extend_xorwow(history)
        steps = np.arange(1, cycles + 1, dtype=np.uint32)[:, None] * np.uint32(WEYL)
        numbers = history[_HISTORY:] + (state[:, _HISTORY] + steps)
        after = np.empty_like(state)
        after[:, :_HISTORY] = history[cycles:].T
        after[:, _HISTORY] = state[:, _HISTORY] + np.uint32(cycles * WEYL & 0xFFFFFFFF)
        self._state[lanes] = after.reshape(-1, self.per_lane, XORWOW_WORDS)
        by_lane = numbers.reshape(cycles, len(lanes), self.per_lane).transpose(1, 0, 2)
        return by_lane.reshape(len(lanes), cycles * self.per_lane)[:, :count]

    def get_state(self, lanes: Array) -> Array:
        """Return the state of some lanes, generator after generator, as uint32 (lanes, words)."""
        return self._state[lanes].reshape(len(lanes), self.words)

    def set_state(self, lanes: Array, state: Array) -> None:
        """Replace the state of some lanes, word for word.

        All-zero words are accepted: with five zeros only the counter changes.
        """
        self._state[lanes] = state.reshape(len(lanes), self.per_lane, XORWOW_WORDS)


def _extend_xorwow(history: Array) -> None:
    """Fill the rows after the first five with the xorshift recurrence of XORWOW.

    Row k + 5 depends on rows k and k + 4. The part from row k is computed for five rows at once,
    the rest row by row, for all lanes together.
    """
    shifted = np.empty(history.shape[1], np.uint32)
    for first in range(0, len(history) - _HISTORY, _HISTORY):
        last = min(first + _HISTORY, len(history) - _HISTORY)
        oldest = history[first:last] ^ (history[first:last] >> 2)
        oldest ^= oldest << 1
        for k in range(first, last):
            newest = history[k + _HISTORY - 1]
            np.left_shift(newest, 4, out=shifted)
            np.bitwise_xor(shifted, newest, out=shifted)
            np.bitwise_xor(shifted, oldest[k - first], out=history[k + _HISTORY])


class Lfsr:
    """A linear feedback shift register of 32 bits per lane, with period 2^32 - 1.

    One number is one step of xorshift with the shifts 13, 17 and 5.
    """

    words = 1

    def __init__(self) -> None:
        self._state = np.zeros(LANES, np.uint32)

    def seed(self, seed: int) -> None:
        """Set every lane from one 32-bit seed; lanes get different states."""
        self._state = expand_seed(seed, LANES)
        self._state[self._state == 0] = _NONZERO

    def draw(self, lanes: Array, count: int) -> Array:
        """Return ``count`` uint32 numbers of each of the lanes, and advance these lanes."""
        numbers = np.empty((count + 1, len(lanes)), np.uint32)
        numbers[0] = self._state[lanes]
        shifted = np.empty(len(lanes), np.uint32)
        for k in range(count):
            np.left_shift(numbers[k], 13, out=shifted)
            x = np.bitwise_xor(numbers[k], shifted, out=numbers[k + 1])
            np.right_shift(x, 17, out=shifted)
            np.bitwise_xor(x, shifted, out=x)
            np.left_shift(x, 5, out=shifted)
            np.bitwise_xor(x, shifted, out=x)
        self._state[lanes] = numbers[count]
        return numbers[1:].T

    def get_state(self, lanes: Array) -> Array:
        """Return the state of some lanes as uint32 (lanes, 1)."""
        return self._state[lanes].reshape(-1, 1)

    def set_state(self, lanes: Array, state: Array) -> None:
        """Replace the state of some lanes."""
        self._state[lanes] = state.reshape(-1)


def uniform(numbers: Array, low: Array, high: Array) -> Array:
    """Return float32 numbers in [low, high), one for each uint32 number.

    The upper 24 bits choose one of 2^24 equally spaced points, the rest is dropped: between 0 and 1
    every point is a float32. In other intervals points are rounded to float32; a point that would
    round up to ``high`` becomes the largest float32 below ``high``.
    """
    start, end = np.asarray(low, np.float64), np.asarray(high, np.float64)
    points = start + (numbers >> 8) * 2.0**-24 * (end - start)
    below = np.nextafter(np.asarray(high, np.float32), np.float32(-np.inf))
    return np.minimum(points.astype(np.float32), below)
