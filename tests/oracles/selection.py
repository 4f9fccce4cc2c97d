"""Selecting and pattern-generating instructions of NKI 0.3.0, one element at a time."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from oracles.elementwise import float32, narrow, widen

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "less": operator.lt,
    "less_equal": operator.le,
}

#: The least float32, which range_select writes where nothing is selected.
FLOAT32_MIN = -3.4028235e38


def affine(
    partitions: int, pattern: Sequence[Sequence[int]], offset: int, channel_multiplier: int
) -> list[list[int]]:
    """offset + channel * channel_multiplier + sum(index * step), the last entry running fastest."""
    steps = [step for step, _ in pattern]
    indices = list(product(*[range(count) for _, count in pattern]))
    along = [sum(i * s for i, s in zip(index, steps, strict=True)) for index in indices]
    return [[offset + p * channel_multiplier + value for value in along] for p in range(partitions)]


def iota(
    partitions: int,
    pattern: Sequence[Sequence[int]],
    offset: int,
    channel_multiplier: int,
    dtype: np.dtype,
) -> np.ndarray:
    """The affine values in ``dtype``; integers must fit, floats are reached through float32."""
    values = np.array(affine(partitions, pattern, offset, channel_multiplier), np.int64)
    if dtype.kind in "iu":
        assert values.min() >= np.iinfo(dtype).min
        assert values.max() <= np.iinfo(dtype).max
        return values.astype(dtype)
    return narrow(values.astype(np.float32), dtype)


def converted(stored: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Stored elements in another format, through float32; untouched when the format is the same."""
    return stored if stored.dtype == dtype else narrow(widen(stored), dtype)


def affine_select(
    on_true: np.ndarray,
    pattern: Sequence[Sequence[int]],
    offset: int,
    channel_multiplier: int,
    compare: str,
    on_false: float,
    dtype: np.dtype,
) -> np.ndarray:
    """``on_true`` where the affine value compares true with 0, else ``on_false``."""
    taken = converted(on_true, dtype)
    fill = narrow(float32([on_false]), dtype)[0]
    out = np.empty(on_true.shape, dtype)
    for p, row in enumerate(affine(len(on_true), pattern, offset, channel_multiplier)):
        for i, value in enumerate(row):
            out[p, i] = taken[p, i] if COMPARE[compare](value, 0) else fill
    return out


def predicated(
    old: np.ndarray, src: np.ndarray, predicate: np.ndarray, reverse: bool
) -> np.ndarray:
    """``src`` where the predicate is nonzero (zero when reversed), the old element elsewhere."""
    src = np.broadcast_to(src, old.shape)
    out = old.copy()
    for index in np.ndindex(*old.shape):
        if (predicate[index] != 0) != reverse:
            out[index] = src[index]
    return out


def select(
    on_true: np.ndarray, on_false: np.ndarray, predicate: np.ndarray, reverse: bool
) -> np.ndarray:
    """select_reduce before rounding: float32 values of ``on_true`` or of ``on_false``."""
    taken, other = widen(on_true), np.broadcast_to(float32(widen(on_false)), on_true.shape)
    out = np.empty(on_true.shape, np.float32)
    for index in np.ndindex(*on_true.shape):
        out[index] = taken[index] if (predicate[index] != 0) != reverse else other[index]
    return out


def range_select(
    on_true: np.ndarray,
    compare0: str,
    compare1: str,
    bound0: np.ndarray,
    bound1: np.ndarray,
    range_start: int,
) -> np.ndarray:
    """Float32 values whose position compares true with both bounds, else the least float32."""
    taken = widen(on_true)
    out = np.full(on_true.shape, FLOAT32_MIN, np.float32)
    for p, i in np.ndindex(*on_true.shape):
        position = range_start + i
        if COMPARE[compare0](position, bound0[p]) and COMPARE[compare1](position, bound1[p]):
            out[p, i] = taken[p, i]
    return out
