"""Comparisons of arrays in the number formats of NKI, with the first difference in the message."""

from __future__ import annotations

import numpy as np

from oracles.elementwise import interval, reals


def bits(array: np.ndarray) -> np.ndarray:
    """Bit patterns of the elements."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def assert_same_bits(got: np.ndarray, want: np.ndarray) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    equal = bits(got) == bits(want)
    assert equal.all(), _first_difference(got, want, equal)


def assert_same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal values of one shape and dtype; a NaN equals any NaN, and the zeros are equal."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    a, b = reals(got), reals(want)
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    assert equal.all(), _first_difference(got, want, equal)


def assert_within(got: np.ndarray, values: np.ndarray, tolerance: np.ndarray | float) -> None:
    """``got`` is what some float32 within ``tolerance`` of the real ``values`` is rounded to."""
    assert got.shape == np.shape(values)
    low, high = interval(values, tolerance * np.ones_like(values), got.dtype)
    inside = (reals(low) <= reals(got)) & (reals(got) <= reals(high))
    assert inside.all(), _first_difference(got, values, inside)


def _first_difference(got: np.ndarray, want: np.ndarray, equal: np.ndarray) -> str:
    where = tuple(int(i) for i in np.argwhere(~equal)[0])
    count = np.count_nonzero(~equal)
    return f"{count} differ, first at {where}: got {got[where]!r}, want {want[where]!r}"
