"""Passes of transforms at the level ``doublefloat``, and the constants of their kernel.

A length is a product of axes of at most 256 points. A length with a larger prime factor is a cyclic
convolution with a chirp of P >= 2 n - 1 points. P is a product of pairwise coprime axes, and index
j has the place (j mod f for each axis f): the convolution is one over these axes, without twiddles,
and both of its transforms take the axes in the same order.

Constants are computed in float64 from exact angles, within 2**-51 of each entry. Matrices become
``SLICES`` digits of 7 bits, tables two float32 numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from trnfft._kernels.angles import chirp, dft_matrix, roots
from trnfft._kernels.doublefloat_geometry import (
    NOWHERE,
    Pass,
    Passes,
    matrix_size,
    table_size,
)
from trnfft._kernels.four_step_geometry import even_step
from trnfft._planning.doublefloat_bound import error_bound
from trnfft._planning.norm import Norm, factor_of
from trnfft._planning.recipe import KINDS
from trnsci.core.backend.plan import planned
from trnsci.core.errors import ShapeError
from trnsci.core.tiles.hardware import BANK, TILE

Wide = npt.NDArray[np.float64]
Complex = npt.NDArray[np.complex128]

SLICES = 8
LARGEST_AXIS = 256
"""Largest axis: up to eight pairs of digits have an exact sum over the 512 terms of both parts."""

LARGEST = 131_072
"""Largest number of points of a transform."""

_DIGIT_BITS = 7


@dataclass(frozen=True)
class DoublefloatPlan:
    """A transform of fixed sizes.

    Attributes:
        sizes: Points along each dimension.
        axes: Axes of each dimension; of a convolution those of the padded length.
        inverse: Whether the exponent is positive.
        scale: Factor of the results.
        convolved: Whether the transform is a convolution.
    """

    sizes: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]
    inverse: bool
    scale: float
    convolved: bool

    @cached_property
    def chain(self) -> tuple[int, ...]:
        """All axes in the order of the array."""
        return tuple(axis for axes in self.axes for axis in axes)

    @cached_property
    def _factors(self) -> tuple[float, int]:
        """Return the scale as a number above 1/2 and at most 1, and a power of two."""
        scale = self.scale * self._bound_of_filter / math.prod(self.chain if self.convolved else ())
        fraction, exponent = math.frexp(scale)
        return (1.0, exponent - 1) if fraction == 0.5 else (fraction, exponent)

    @property
    def exponent(self) -> int:
        """Exponent of the power of two by which the kernel's results are multiplied."""
        return self._factors[1]

    @cached_property
    def bound(self) -> float:
        """Largest error of a transform, relative to the 2-norm of its result."""
        passes, _ = self.passes(1)
        exponents = [0, *(each.exponent for each in passes.each)]
        tables = [offset != NOWHERE for offset in (passes.first, *(p.table for p in passes.each))]
        growth = self._bound_of_filter / math.sqrt(self.sizes[0]) if self.convolved else 1.0
        return error_bound([each.points for each in passes.each], tables, exponents, growth)

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:
        """Places of the points 0, 1... of a convolution in its array."""
        j = np.arange(math.prod(self.chain), dtype=np.int64)
        place = np.zeros_like(j)
        for axis in self.chain:
            place = place * axis + j % axis
        return place

    @cached_property
    def _filter(self) -> Complex:
        """Return the spectrum of the filter over the axes."""
        (n,), points = self.sizes, math.prod(self.chain)
        real, imaginary = chirp(n, self.inverse)
        values = np.zeros(points, np.complex128)
        values[:n] = real - 1j * imaginary
        values[points - n + 1 :] = values[1:n][::-1]
        array = np.empty_like(values)
        array[self.places] = values
        spectrum: Complex = np.fft.fftn(array.reshape(self.chain))
        return spectrum

    @cached_property
    def _bound_of_filter(self) -> float:
        """Return a power of two that no modulus of the filter's spectrum exceeds."""
        if not self.convolved:
            return 1.0
        return float(2.0 ** math.ceil(math.log2(np.abs(self._filter).max())))

    def passes(self, batch: int) -> tuple[Passes, int]:
        """Return the passes of a batch, and the transforms that share a row of the operand."""
        chain, m = self.chain, len(self.chain)
        together = min(batch, TILE) if m == 1 else 1
        tables = self._tables
        offset, offsets = 0, []
        for table in tables:
            offsets.append(NOWHERE if table is None else offset)
            offset += 0 if table is None else table_size(*table.shape)
        each, grown = [], 1
        count = 2 * m if self.convolved else m
        for p in range(count):
            a = p % m
            points, grown = chain[a], grown * chain[a]
            run = together if m == 1 else chain[a - 1]
            inner = 1 if m == 1 else math.prod(chain) // (points * run)
            exponent = math.ceil(math.log2(grown) / 2)
            each.append(Pass(points, inner, run, self._matrix_at(p), offsets[p + 1], exponent))
        return Passes(SLICES, offsets[0], tuple(each)), together

    @cached_property
    def _matrix_keys(self) -> tuple[tuple[int, bool, float], ...]:
        """Return the points, direction and scale of the matrix of each pass."""
        last = 1.0 if self.convolved else self._factors[0]
        keys = [(points, False if self.convolved else self.inverse, 1.0) for points in self.chain]
        if self.convolved:
            keys += [(points, True, 1.0) for points in self.chain]
        return (*keys[:-1], (*keys[-1][:2], last))

    def _matrix_at(self, p: int) -> int:
        keys = list(dict.fromkeys(self._matrix_keys))
        before = keys[: keys.index(self._matrix_keys[p])]
        return sum(matrix_size(points, SLICES) for points, _, _ in before)

    def matrices(self) -> Wide:
        """Return the digits of all matrices."""
        return np.concatenate([_digits(*key) for key in dict.fromkeys(self._matrix_keys)])

    @cached_property
    def _tables(self) -> list[Complex | None]:
        """Return the table of the operand, and that of each pass, as (rows, points)."""
        if not self.convolved:
            return [None, *(self._twiddles(p) for p in range(len(self.chain)))]
        (n,), m, points = self.sizes, len(self.chain), self.chain[-1]
        real, imaginary = chirp(n, self.inverse)
        tables: list[Complex | None] = [None] * (2 * m + 1)
        chirps = np.zeros(math.prod(self.chain), np.complex128)
        chirps[self.places[:n]] = real + 1j * imaginary
        waves: Complex = chirps.reshape(-1, points)
        tables[0] = waves
        tables[m] = self._filter.reshape(-1, points) / self._bound_of_filter
        tables[2 * m] = waves * self._factors[0]
        return tables

    def _twiddles(self, p: int) -> Complex | None:
        """Return the twiddles of the results of a pass, None after the last axis of a dimension."""
        start = 0
        for axes in self.axes:
            if p < start + len(axes):
                break
            start += len(axes)
        later = math.prod(axes[p - start + 1 :])
        if later == 1:
            return None
        points, n = self.chain[p], self.chain[p] * later
        j = np.repeat(np.arange(later), math.prod(self.chain) // n)
        k = np.arange(points)
        product = j[:, None] * k % n
        real, imaginary = roots(n, -product if self.inverse else product)
        return real + 1j * imaginary

    def tables(self) -> npt.NDArray[np.float32]:
        """Return all tables; one zero if there are none."""
        found = [_planes(table) for table in self._tables if table is not None]
        return np.concatenate(found) if found else np.zeros(1, np.float32)


def _digits(points: int, inverse: bool, scale: float) -> Wide:
    """Return the digits of the real form of a DFT matrix, as a vector."""
    real, imaginary = dft_matrix(points, inverse)
    rest = scale * np.block([[real, imaginary], [-imaginary, real]])
    digits = np.empty((2 * points, SLICES, 2 * points))
    for s in range(SLICES):
        unit = 2.0 ** (1 - _DIGIT_BITS * (s + 1))
        digits[:, s] = np.rint(rest / unit) * unit
        rest = rest - digits[:, s]
    return digits.reshape(-1)


def _planes(table: Complex) -> npt.NDArray[np.float32]:
    """Return a table, continued periodically, as two float32 planes in a vector."""
    rows = np.arange(len(table) + TILE - 1) % len(table)
    values = np.stack([table.real, table.imag, -table.imag], 1)[rows]
    high = values.astype(np.float32)
    return np.stack([high, (values - high).astype(np.float32)], 1).reshape(-1)


@planned
def doublefloat_plan(kind: str, sizes: tuple[int, ...], norm: Norm) -> DoublefloatPlan:
    """Return the plan of a transform; equal calls return one object.

    Raises:
        ShapeError: No kernel supports this number of points.
    """
    inverse = KINDS[kind][1]
    scale = factor_of(math.prod(sizes), inverse, norm)
    axes = [axes_of(n) for n in sizes]
    found = tuple(each for each in axes if each is not None)
    if max(sizes) <= LARGEST and len(found) == len(sizes):
        return DoublefloatPlan(sizes, found, inverse, scale, False)
    padded = padded_axes(2 * sizes[0] - 1) if max(sizes) <= LARGEST and len(sizes) == 1 else None
    if padded is None:
        raise ShapeError(
            f"the kernel of precision 'doublefloat' transforms up to {LARGEST} points, and along "
            f"several dimensions lengths without a prime factor above {LARGEST_AXIS}; got {sizes}"
        )
    return DoublefloatPlan(sizes, (padded,), inverse, scale, True)


# -- the choice of axes ----------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def axes_of(n: int) -> tuple[int, ...] | None:
    """Return the axes of a length, None if it has a prime factor above 256."""
    for count in range(1, 5):
        best = min(_products(n, count), key=_cost, default=None)
        if best is not None:
            return best
    return None


@lru_cache(maxsize=1024)
def padded_axes(least: int) -> tuple[int, ...] | None:
    """Return pairwise coprime axes with a product of at least ``least`` and the least cost."""
    found: list[tuple[int, ...]] = []
    for a in range(8, LARGEST_AXIS + 1):
        b = _coprime_from(-(-least // a), (a,))
        if b <= LARGEST_AXIS:
            found.append((a, b))
    if not found:
        for a in range(32, TILE + 1):
            for b in range(a + 1, TILE + 1):
                if math.gcd(a, b) == 1:
                    c = _coprime_from(-(-least // (a * b)), (a, b))
                    if c <= TILE:
                        found.append((a, b, c))
    return min(found, key=lambda axes: math.prod(axes) * _cost(axes), default=None)


def _coprime_from(least: int, others: tuple[int, ...]) -> int:
    """Return the first number from ``least`` on that is coprime to the others."""
    number = max(2, least)
    while any(math.gcd(number, other) > 1 for other in others):
        number += 1
    return number


def _products(n: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield the ordered products of ``count`` axes; one axis may be 1 only if n is."""
    if count == 1:
        if n <= LARGEST_AXIS:
            yield (n,)
        return
    for first in range(2, min(n, LARGEST_AXIS) + 1):
        if n % first == 0 and n // first > 1:
            for rest in _products(n // first, count - 1):
                yield (first, *rest)


def _cost(axes: tuple[int, ...]) -> float:
    """Return the modelled nanoseconds of a point: Tensor and Vector work of each pass in turn."""
    cost = 0.0
    for p, points in enumerate(axes):
        run = axes[p - 1] if len(axes) > 1 else TILE
        height = even_step(run, TILE) if run > TILE else TILE // run * run
        columns = max(1, BANK // (2 * points)) * 2 * points
        operations = 80.0 if p + 1 < len(axes) else 50.0
        vector = operations * 2 * points * (1 + 100 / columns) / 0.96
        depth = 1 if 2 * points <= TILE else 2 * -(-points // TILE)
        tensor = 43 * depth * (max(2 * points, height) + 8) / 2.4
        cost += max(vector, tensor) / (height * points)
    return cost
