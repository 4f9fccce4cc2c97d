"""Runs one instruction on the simulator, on views of tiles loaded from HBM and stored back to it.

An ``Operand`` is the contents of a whole tile and the view of it that the instruction gets. ``run``
loads the tiles with ``dma_copy`` (through ``tensor_copy`` into PSUM), runs the instruction, stores
the written tiles whole, and checks that the instruction changed nothing outside its views. What a
test compares has therefore been through the device.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same, bits
from oracles.elementwise import DTYPES, narrow, widen

from ..draws import Draws

FLOATS = ["float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2"]
NARROW_INTEGERS = ["int8", "int16", "uint8", "uint16"]
INTEGERS = [*NARROW_INTEGERS, "int32", "uint32"]
ALL_DTYPES = FLOATS + INTEGERS

# Around the quarter, half and whole of the partitions.
PARTITIONS = [1, 2, 31, 32, 33, 63, 64, 65, 127, 128]
# Around powers of two that a vectorised loop may be cut at, and the 512 elements of a PSUM bank.
FREE_SIZES = [1, 2, 3, 31, 32, 33, 127, 128, 129, 511, 512, 513]

#: Findings about values, which the results below are compared for anyway.
INTEGERS_THROUGH_FLOAT32 = frozenset({"D016", "D017", "D018"})


#: The shape of a tile, and how a view is taken from it.
Layout = tuple[tuple[int, ...], Callable[[Any], Any]]


@dataclass(frozen=True)
class Operand:
    """A view of a tile.

    Attributes:
        base: Contents of the whole tile before the instruction.
        take: Makes the view from the tile.
        positions: For each element of the view, its position in the flattened tile.
        buffer: ``"sbuf"`` or ``"psum"``.
    """

    base: np.ndarray
    take: Callable[[Any], Any]
    positions: np.ndarray
    buffer: str = "sbuf"

    @property
    def data(self) -> np.ndarray:
        """Contents of the view."""
        return self.base.ravel()[self.positions]

    @property
    def rows(self) -> np.ndarray:
        """Contents of the view as (partitions, elements)."""
        return self.data.reshape(len(self.positions), -1)

    @property
    def dtype(self) -> np.dtype:
        return self.base.dtype


def run(
    instruction: Callable[..., None],
    operands: dict[str, Operand],
    writes: tuple[str, ...] = ("dst",),
    *,
    target: str | None = None,
    allow: Collection[str] = (),
) -> dict[str, np.ndarray]:
    """The contents of the written views after ``instruction(**views)``, as (partitions, elements).

    Fails on a finding of severity error that is not in ``allow``. Findings about the kernel's
    source are left out: the kernel below is a closure, which the compiler would refuse.
    """

    def kernel(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        tiles, views = {}, {}
        for (name, operand), array in zip(operands.items(), arrays, strict=True):
            tile = nl.ndarray(array.shape, dtype=array.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=array)
            if operand.buffer == "psum":
                staged = tile
                tile = nl.ndarray(array.shape, dtype=array.dtype, buffer=nl.psum)
                nisa.tensor_copy(dst=tile, src=staged)
            tiles[name], views[name] = tile, operand.take(tile)
        instruction(**views)
        stored = []
        for name in writes:
            tile = tiles[name]
            if operands[name].buffer == "psum":
                staged = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=staged, src=tile)
                tile = staged
            out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=tile)
            stored.append(out)
        return tuple(stored)

    bases = tuple(operand.base for operand in operands.values())
    report = nkisim.check(kernel, target=target)(bases)
    errors = [f for f in report.findings if f.severity == "error" and f.rule.id[0] != "L"]
    unexpected = [f"{f.rule.id}: {f.message}" for f in errors if f.rule.id not in allow]
    assert not unexpected, unexpected
    results = {}
    for name, after in zip(writes, report.outputs, strict=True):
        operand = operands[name]
        assert after.dtype == operand.dtype, name
        outside = np.ones(operand.base.size, bool)
        outside[operand.positions.ravel()] = False
        assert np.array_equal(bits(after).ravel()[outside], bits(operand.base).ravel()[outside]), (
            f"{name}: elements outside the view changed"
        )
        results[name] = after.ravel()[operand.positions].reshape(len(operand.positions), -1)
    return results


# -- comparing -------------------------------------------------------------------------------------


def assert_rounded(got: np.ndarray, values: np.ndarray) -> None:
    """``got`` is the float32 ``values`` rounded once."""
    assert_same(got, narrow(values, got.dtype))


# -- problems --------------------------------------------------------------------------------------


class Problem(Draws):
    """Draws the operands of one instruction: how many partitions, where, tiles and their views."""

    def __init__(
        self, data: st.DataObject, partitions: list[int] = PARTITIONS, sizes: list[int] = FREE_SIZES
    ) -> None:
        super().__init__(data)
        self.partitions = self.choose(partitions)
        self.sizes = sizes

    def on(self, partitions: int) -> Problem:
        """The same problem on another number of partitions."""
        other = copy(self)
        other.partitions = partitions
        return other

    def start(self) -> int:
        """A partition at which an access to this many partitions may start."""
        if self.partitions > 64:
            return 0
        return int(self.choose([0, 64] if self.partitions > 32 else [0, 32, 64, 96]))

    def free_shape(self) -> tuple[int, ...]:
        """One to three free dimensions."""
        shape = self.choose([(None,), (None,), (3, 5), (2, 33), (7, 1), (2, 3, 4), (1, 31, 2)])
        return tuple(self.choose(self.sizes) if n is None else n for n in shape)

    def read(
        self,
        dtype: str,
        free: tuple[int, ...],
        start: int,
        values: str = "any",
        buffer: str = "sbuf",
    ) -> Operand:
        kinds = ["whole", "rows", "steps", "pattern", "reshape", "broadcast", "windows"]
        return self.operand(self._kind(kinds, buffer), dtype, free, start, values, buffer)

    def write(
        self,
        dtype: str,
        free: tuple[int, ...],
        start: int,
        values: str = "any",
        buffer: str = "sbuf",
    ) -> Operand:
        kinds = ["whole", "rows", "steps", "pattern", "reshape"]
        return self.operand(self._kind(kinds, buffer), dtype, free, start, values, buffer)

    def column(self, dtype: str, start: int, values: str = "any", buffer: str = "sbuf") -> Operand:
        """A view of one element per partition."""
        kind = self.choose(["whole", "steps", "pattern"])
        return self.operand(kind, dtype, (1,), start, values, buffer)

    def _kind(self, kinds: list[str], buffer: str) -> str:
        # Steps in three dimensions make tiles of several PSUM banks, of which there are eight.
        return str(self.choose([k for k in kinds if buffer == "sbuf" or k != "steps"]))

    def operand(
        self,
        kind: str,
        dtype: str,
        free: tuple[int, ...],
        start: int,
        values: str,
        buffer: str = "sbuf",
    ) -> Operand:
        """A view of shape (partitions, *free) that begins at partition ``start`` of its tile."""
        shape, take = getattr(self, f"_{kind}")(free, start)
        base = contents(self.rng, shape, dtype, values)
        indices = np.arange(base.size).reshape(shape)
        return Operand(base, take, take(_Indices(indices)).array, buffer)

    # Each kind of view.

    def _whole(self, free: tuple[int, ...], start: int) -> Layout:
        if start == 0:
            return (self.partitions, *free), lambda t: t
        return self._rows(free, start)

    def _rows(self, free: tuple[int, ...], start: int) -> Layout:
        end = start + self.partitions
        return (self.choose([end, 128]), *free), lambda t: t[start:end]

    def _reshape(self, free: tuple[int, ...], start: int) -> Layout:
        end = start + self.partitions
        return (end, prod(free)), lambda t: t.reshape((end, *free))[start:end]

    def _steps(self, free: tuple[int, ...], start: int) -> Layout:
        extents, slices = [], [slice(start, start + self.partitions)]
        for count in free:
            lead, step, tail = self.choose([0, 1, 2]), self.choose([1, 2, 3]), self.choose([0, 1])
            end = lead + (count - 1) * step + 1
            extents.append(end + tail)
            slices.append(slice(lead, end, step))
        return (start + self.partitions, *extents), lambda t: t[tuple(slices)]

    def _strided(self, free: tuple[int, ...], start: int, steps: list[int]) -> Layout:
        lead = self.choose([0, 1, 3])
        reach = sum((n - 1) * s for n, s in zip(free, steps, strict=True))
        row = lead + reach + 1 + self.choose([0, 2])
        pattern = [[row, self.partitions], *([s, n] for s, n in zip(steps, free, strict=True))]
        return (start + self.partitions, row), lambda t: t.ap(pattern, offset=start * row + lead)

    def _pattern(self, free: tuple[int, ...], start: int) -> Layout:
        """Strides of its own for every dimension, none of which overlap."""
        steps: list[int] = []
        reach = 0
        for count in reversed(free):
            step = reach + self.choose([1, 2])
            steps.insert(0, step)
            reach += (count - 1) * step
        return self._strided(free, start, steps)

    def _broadcast(self, free: tuple[int, ...], start: int) -> Layout:
        """One dimension reads the same elements again and again."""
        still = self.choose(range(len(free)))
        return self._strided(free, start, [0 if d == still else 1 + d for d in range(len(free))])

    def _windows(self, free: tuple[int, ...], start: int) -> Layout:
        """Every dimension steps by one element, so that rows overlap."""
        return self._strided(free, start, [1] * len(free))


class _Indices:
    """Takes the views a tensor takes, on a NumPy array."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> _Indices:
        return _Indices(self.array[index])

    def reshape(self, shape: tuple[int, ...]) -> _Indices:
        return _Indices(self.array.reshape(shape))

    def ap(self, pattern: list[list[int]], offset: int) -> _Indices:
        positions = np.full([count for _, count in pattern], offset)
        for dim, (step, count) in enumerate(pattern):
            along = [count if d == dim else 1 for d in range(len(pattern))]
            positions = positions + (step * np.arange(count)).reshape(along)
        return _Indices(self.array.ravel()[positions])


def contents(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, values: str
) -> np.ndarray:
    """Random elements.

    Args:
        rng: Source of randomness.
        shape: Shape of the array.
        dtype: Its format.
        values: ``"patterns"`` for all bit patterns, ``"any"`` for all but NaN (half of the floats
            of moderate size, so that sums do not only overflow), ``"small"`` for floats of order
            one and integers up to 50, ``"logical"`` for as many zeros as nonzeros.
    """
    kind = DTYPES[dtype]
    patterns = rng.integers(0, 256, (*shape, kind.itemsize), np.uint8).view(kind).reshape(shape)
    if values == "patterns":
        return patterns
    if values == "logical":
        return rng.choice(np.array([0, 0, 1, 3]), shape).astype(kind)
    if dtype in FLOATS:
        moderate = rng.standard_normal(shape, np.float32).astype(kind)
        if values == "small":
            return moderate
        keep = (rng.random(shape) < 0.5) & ~np.isnan(widen(patterns))
        return np.where(keep, patterns, moderate)
    if values == "small":
        low = 0 if kind.kind == "u" else -50
        return rng.integers(low, 50, shape, endpoint=True).astype(kind)
    return patterns


def chunks(total: int, parts: int) -> Iterator[slice]:
    """``total`` elements cut into ``parts`` neighbouring slices, none of them empty."""
    edges = [total * i // parts for i in range(parts + 1)]
    for low, high in pairwise(edges):
        assert low < high
        yield slice(low, high)
