"""Halton points, plain or scrambled.

Coordinate j of point i is the radical inverse of i in base b, the j-th prime: the fraction with the
digits of i in reverse. Numerators over b**K, the largest power below 2**52, are summed as integers
that are exact in float64, and one division rounds. A coordinate therefore does not depend on the
number of points of a draw.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from trnrand._library import no_kernel
from trnrand.errors import FlagError, ShapeError
from trnrand.qmc._arguments import DTYPES, given_once
from trnrand.qmc._engine import PointEngine
from trnrand.qmc._rounding import rounded_down
from trnrand.qmc._seeding import (
    checked_seed,
    random_numbers,
    random_permutations,
    seed_from,
)

if TYPE_CHECKING:
    from trnrand.generator import Generator

# One bit less than the significand of float64, because scrambled fractions end in a half.
_WHOLE_BITS = 52
# Largest number of entries in a table of low digits.
_TABLE = 4096
# Coordinates per block; a few blocks fit in the level-2 cache of a core.
_BLOCK = 1 << 15
# Coordinates per table of high digits; without a table of low digits these are all digits.
_PART = 1 << 22
# Permutations of this many bases take 300 MB, of all bases 60 GB.
_MAX_SCRAMBLED_DIMS = 2000

# ``purpose`` of the digit permutations in random_numbers(); Sobol' points use 1 to 3.
_PERMUTATIONS = 4


@lru_cache(maxsize=4)
def _primes(count: int) -> tuple[int, ...]:
    """Return the first primes."""
    # The n-th prime is below n (ln n + ln ln n) from n = 6 on (Rosser and Schoenfeld, 1962).
    size = max(15, int(count * (np.log(count) + np.log(np.log(max(count, 3))))) + 1)
    sieve = np.ones(size, bool)
    sieve[:2] = False
    for number in range(2, int(size**0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = False
    return tuple(int(prime) for prime in np.flatnonzero(sieve)[:count])


def _digits(base: int) -> int:
    """Return the largest K with base**K below 2**52."""
    count = 0
    while base ** (count + 1) < 1 << _WHOLE_BITS:
        count += 1
    return count


class _Column:
    """One dimension of a sequence: reversed digits, with a permutation per position."""

    def __init__(self, dim: int, base: int, seed: int | None) -> None:
        self.base, self.digits = base, _digits(base)
        self.weights = [float(base ** (self.digits - 1 - k)) for k in range(self.digits)]
        # A scrambled fraction is the middle of the interval of its digits, never 0.
        self.end = 0.0 if seed is None else 0.5
        self.permutations: np.ndarray | None = None
        if seed is not None:
            random = random_numbers(seed, _PERMUTATIONS, np.array([dim]), self.digits * base)
            random = random.reshape(self.digits, base)
            self.permutations = random_permutations(random).astype(np.int32)

    def reversed(self, numbers: np.ndarray, first: int, count: int) -> np.ndarray:
        """Return the weighted digit sums of ``numbers`` at positions first to first + count."""
        total = np.zeros(len(numbers))
        if not count:
            return total
        largest = int(numbers.max())
        for position in range(first, first + count):
            if largest == 0:
                return total + self._zeros(position, first + count)
            numbers, digits = np.divmod(numbers, self.base)
            largest //= self.base
            if self.permutations is not None:
                digits = self.permutations[position][digits]
            total += digits * self.weights[position]
        return total

    def _zeros(self, first: int, last: int) -> float:
        """Return the weighted sum of zeros at positions first to last, an exact integer."""
        if self.permutations is None:
            return 0.0
        images = self.permutations[first:last, 0]
        return sum(int(i) * w for i, w in zip(images, self.weights[first:last], strict=True))

    def sums(self, start: int, count: int) -> _Sums:
        """Return the coordinates of ``count`` points as sums of a low and a high part."""
        low = 0
        while low < self.digits and self.base ** (low + 1) <= min(_TABLE, count):
            low += 1
        size = self.base**low
        return _Sums(
            start,
            self.reversed(np.arange(size), 0, low) + self.end,
            self.reversed(
                np.arange(start // size, (start + count - 1) // size + 1), low, self.digits - low
            ),
            float(self.base**self.digits),
        )


class _Sums:
    """Coordinates of a range of points: (low digits + high digits) / scale."""

    def __init__(self, start: int, low: np.ndarray, high: np.ndarray, scale: float) -> None:
        self.low, self.high, self.scale = low, high, scale
        self.origin = start // len(low) * len(low)

    def write(self, out: np.ndarray, start: int) -> None:
        """Write the coordinates of the points from ``start`` on, as many as ``out`` holds."""
        size, begin = len(self.low), start - self.origin
        rows = self.high[begin // size : (begin + len(out) - 1) // size + 1]
        sums = np.add.outer(rows, self.low).reshape(-1)
        begin %= size
        np.divide(sums[begin : begin + len(out)], self.scale, out=out)


class HaltonEngine(PointEngine):
    """A Halton sequence, drawn in order.

    Args:
        n_dims: Number of dimensions, from 1 to 21201, or to 2000 when scrambling.
        scramble: Whether every digit is permuted at random (A. B. Owen, "A randomized Halton
            algorithm in R", 2017). Recommended beyond some 10 dimensions, where neighbouring
            dimensions of the plain sequence are strongly correlated.
        seed: From 0 to 2**64 - 1; None draws one from the default generator. Stored as ``seed``
            when scrambling.
        start_index: Index of the first point; point i is the radical inverse of i + 1, because the
            radical inverse of 0 is 0.
        generator: A torch.Generator or a trnrand.Generator that draws the seed instead.

    Raises:
        ParameterError: An argument is out of range.

    Example:
        >>> HaltonEngine(1).draw(4).tolist()
        [[0.5], [0.25], [0.75], [0.125]]
    """

    _function = "halton"

    def __init__(
        self,
        n_dims: SupportsIndex,
        scramble: bool = False,
        seed: SupportsIndex | None = None,
        *,
        start_index: SupportsIndex = 0,
        generator: torch.Generator | Generator | None = None,
    ) -> None:
        super().__init__(n_dims, start_index)
        if not isinstance(scramble, bool):
            raise FlagError(f"halton: scramble must be True or False, got {scramble!r}")
        if scramble and self.n_dims > _MAX_SCRAMBLED_DIMS:
            raise ShapeError(
                f"halton: n_dims must be at most {_MAX_SCRAMBLED_DIMS} when scrambling, "
                f"got {self.n_dims}"
            )
        self.scramble = scramble
        if not scramble and seed is not None:
            checked_seed("halton", seed)
        self.seed = seed_from("halton", seed, generator) if scramble else None
        bases = _primes(self.n_dims)
        self._columns = [_Column(dim, base, self.seed) for dim, base in enumerate(bases)]
        self._length = min(base ** _digits(base) for base in bases[-2:]) - 1

    def _points(self, start: int, count: int, dtype: torch.dtype) -> Tensor:
        points = torch.empty((count, self.n_dims), dtype=dtype)
        if not count:
            return points
        smallest = torch.finfo(dtype).smallest_normal * 2.0 ** (1 - DTYPES[dtype])
        number = start + 1
        for part in torch.split(points, max(1, _PART // self.n_dims)):
            columns = [column.sums(number, len(part)) for column in self._columns]
            for rows in torch.split(part, max(1, _BLOCK // self.n_dims)):
                exact = torch.empty((self.n_dims, len(rows)), dtype=torch.float64)
                for column, coordinates in zip(columns, exact.numpy(), strict=True):
                    column.write(coordinates, number)
                # Has an effect in float16 only: its smallest number exceeds some coordinates.
                rows.copy_(rounded_down(exact.clamp_(min=smallest), dtype).mT)
                number += len(rows)
        return points


def halton(
    n_points: SupportsIndex | None = None,
    n_dims: SupportsIndex | None = None,
    dtype: torch.dtype = torch.float32,
    *,
    scramble: bool = False,
    seed: SupportsIndex | None = None,
    start_index: SupportsIndex = 0,
    generator: torch.Generator | Generator | None = None,
    device: torch.device | str | None = None,
    n: SupportsIndex | None = None,
    d: SupportsIndex | None = None,
) -> Tensor:
    """Return Halton points in (0, 1), both ends excluded, as an (n_points, n_dims) tensor.

    Args:
        n_points: Number of points.
        n_dims: Number of dimensions, from 1 to 21201, or to 2000 when scrambling; the bases are the
            first primes.
        dtype: float64, float32, float16 or bfloat16; coordinates are rounded down to it.
        scramble: Whether digits are permuted at random: see ``HaltonEngine``.
        seed: Seed of the scrambling, from 0 to 2**64 - 1; None draws one from the default
            generator.
        start_index: Index of the first point, as in ``HaltonEngine``; the points are the tail of a
            longer draw.
        generator: A torch.Generator or a trnrand.Generator that draws the seed instead.
        device: Device of the result.
        n: Alias of n_points.
        d: Alias of n_dims.

    Raises:
        ParameterError: An argument is out of range, or the points exceed the end of the sequence.

    Example:
        >>> halton(3, 2, torch.float64).tolist()[0]
        [0.5, 0.3333333333333333]
    """
    no_kernel("halton")
    count = given_once("halton", "n_points", n_points, "n", n)
    dims = given_once("halton", "n_dims", n_dims, "d", d)
    engine = HaltonEngine(dims, scramble, seed, start_index=start_index, generator=generator)
    return engine.draw(count, dtype, device)
