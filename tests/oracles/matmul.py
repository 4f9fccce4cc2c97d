"""Matrix products and transposes by their definition, and how far a float32 sum may be from them.

Products of two float32 have 48 significant bits and are exact in float64; a float64 sum of a few
hundred of them is wrong by 2^-29 of what a float32 sum may be wrong by, so it stands for the exact
one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

FLOAT32_ROUNDOFF = 2.0**-24
BFLOAT16_ROUNDOFF = 2.0**-8


@dataclass
class Sum:
    """A matrix of sums of products: value, sum of magnitudes, and how many roundings went in."""

    value: np.ndarray
    magnitude: np.ndarray
    roundings: int

    def __add__(self, other: Sum) -> Sum:
        return Sum(
            self.value + other.value,
            self.magnitude + other.magnitude,
            self.roundings + other.roundings + 1,
        )

    @property
    def tolerance(self) -> np.ndarray:
        """How far float32 may be from the value, per element.

        A sum of K products in float32, in any order, rounds each product once (u = 2^-24) and
        passes every term through at most K - 1 rounded additions, so that
        |error| <= K u / (1 - K u) * sum |a b|.
        """
        ku = self.roundings * FLOAT32_ROUNDOFF
        return ku / (1 - ku) * self.magnitude

    def rounded_tolerance(self, roundoff: float) -> np.ndarray:
        """The same when the float32 result is then rounded once more, to a narrower type."""
        return self.tolerance + roundoff * (np.abs(self.value) + self.tolerance)


def matmul(stationary: np.ndarray, moving: np.ndarray) -> Sum:
    """``out[m, n] = sum over k of stationary[k, m] * moving[k, n]``."""
    a = np.asarray(stationary).astype(np.float64)
    b = np.asarray(moving).astype(np.float64)
    assert a.shape[0] == b.shape[0]
    value = np.zeros((a.shape[1], b.shape[1]))
    magnitude = np.zeros_like(value)
    for k in range(a.shape[0]):
        product = np.multiply.outer(a[k], b[k])
        value += product
        magnitude += np.abs(product)
    return Sum(value, magnitude, a.shape[0])


def double_row(stationary: np.ndarray, moving: np.ndarray) -> Sum:
    """``out[m, n] = sum over k and j of stationary[k, j, m] * moving[k, j, n]``, j = 0, 1."""
    assert stationary.shape[1] == moving.shape[1] == 2
    return matmul(stationary[:, 0], moving[:, 0]) + matmul(stationary[:, 1], moving[:, 1])


def transpose(data: np.ndarray) -> np.ndarray:
    """``out[f, p] = data[p, f]``, with all free dimensions taken as one."""
    rows = data.shape[0]
    flat = data.reshape(rows, -1)
    out = np.empty((flat.shape[1], rows), data.dtype)
    for p in range(rows):
        for f in range(flat.shape[1]):
            out[f, p] = flat[p, f]
    return out


def permuted(data: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The array whose dimension i is dimension ``axes[i]`` of ``data``."""
    out = np.empty([data.shape[axis] for axis in axes], data.dtype)
    for old in np.ndindex(*data.shape):
        out[tuple(old[axis] for axis in axes)] = data[old]
    return out


@dataclass
class Accumulators:
    """A PSUM tile, element by element: its value, and whether a matmul has opened it."""

    rows: int
    columns: int
    value: dict[tuple[int, int], float] = field(default_factory=dict)

    def add(self, row: int, column: int, product: np.ndarray, accumulate: bool | None) -> None:
        """Put ``product`` at (row, column): overwrite, add, or (None) overwrite once, then add."""
        for m in range(product.shape[0]):
            for n in range(product.shape[1]):
                at = (row + m, column + n)
                old = self.value.get(at, float("nan"))
                adds = at in self.value if accumulate is None else accumulate
                self.value[at] = old + product[m, n] if adds else product[m, n]

    def opened(self, row: int, column: int, rows: int, columns: int) -> bool:
        """Whether every element of a rectangle has been written."""
        return all((row + m, column + n) in self.value for m in range(rows) for n in range(columns))

    def array(self) -> np.ndarray:
        """The tile; NaN where nothing was written."""
        out = np.full((self.rows, self.columns), np.nan, np.float32)
        for (row, column), value in self.value.items():
            out[row, column] = value
        return out
