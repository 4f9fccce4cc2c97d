"""Applies a tile function to tiles loaded from HBM, and brings back what it returned.

The tiles reach the function through ``dma_copy`` (and ``tensor_copy`` into PSUM), and its result
goes back the same way, so that what a test compares has been through the device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same
from oracles.elementwise import DTYPES, narrow, widen
from tiles import stored


@dataclass(frozen=True)
class Result:
    """A tile that a function returned.

    Attributes:
        values: Its contents.
        buffer: ``"sbuf"``, ``"psum"``, ``"private_hbm"`` or ``"shared_hbm"``.
        codes: Ids of the findings of error severity.
    """

    values: np.ndarray
    buffer: str
    codes: frozenset[str]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype


def apply(
    function: Callable[..., Any], *arrays: np.ndarray, target: str | None = None, psum: str = ""
) -> Result:
    """The tile that ``function(*tiles)`` returns for tiles with the contents of ``arrays``.

    Args:
        function: Takes as many tiles as there are arrays.
        arrays: Contents of the tiles.
        target: Generation to run on.
        psum: One digit for each tile that is to lie in PSUM: its position.
    """
    seen: list[Any] = []

    def kernel(sources: tuple[Any, ...]) -> Any:
        tiles = []
        for place, source in enumerate(sources):
            tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=source)
            if str(place) in psum:
                staged, tile = tile, nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.psum)
                nisa.tensor_copy(dst=tile, src=staged)
            tiles.append(tile)
        result = function(*tiles)
        seen.append((result.shape, result.dtype, result.buffer))
        return stored(result)

    return _result(kernel, seen, (arrays,), target)


def build(function: Callable[[], Any], target: str | None = None) -> Result:
    """The tensor that ``function()`` makes inside a kernel."""
    seen: list[Any] = []

    def kernel(_: Any) -> Any:
        result = function()
        seen.append((result.shape, result.dtype, result.buffer))
        return stored(result)

    return _result(kernel, seen, (np.zeros((1, 1), np.float32),), target)


def _result(kernel: Any, seen: list[Any], arguments: tuple[Any, ...], target: str | None) -> Result:
    report = nkisim.check(kernel, target=target)(*arguments)
    assert seen, [str(f) for f in report.findings]
    (shape, dtype, buffer), values = seen[0], report.outputs
    assert (values.shape, values.dtype) == (shape, np.dtype(dtype))
    # A closure is what the compiler would refuse; rules about the kernel's source do not matter.
    codes = {f.rule.id for f in report.findings if f.severity == "error" and f.rule.id[0] != "L"}
    return Result(values, buffer.value, frozenset(codes))


def stops_with(function: Callable[..., Any], *arrays: np.ndarray, target: str | None = None) -> str:
    """The id of the rule at which ``function(*tiles)`` stops, in the default strictness."""
    seen: list[str] = []

    def kernel(sources: tuple[Any, ...]) -> Any:
        tiles = [nl.load(source) for source in sources]
        try:
            function(*tiles)
        except nkisim.NkiValidationError as stop:
            seen.append(stop.rule_id)
        return stored(tiles[0])

    nkisim.simulate(kernel, target=target)(arrays)
    return seen[0] if seen else "nothing"


def warnings_of(function: Callable[..., Any], *arrays: np.ndarray) -> set[str]:
    """Ids of the findings of ``function(*tiles)`` that are not errors."""

    def kernel(sources: tuple[Any, ...]) -> Any:
        return stored(function(*[nl.load(source) for source in sources]))

    report = nkisim.check(kernel)(arrays)
    return {f.rule.id for f in report.findings if f.severity != "error"}


# -- contents of tiles -----------------------------------------------------------------------------


def small(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Small numbers: sums and products of them are exact or of order one, and some are equal."""
    if "float" in dtype:
        return (rng.integers(-12, 12, shape) / 7).astype(DTYPES[dtype])
    low = 0 if dtype[0] == "u" else -11
    return rng.integers(low, 11, shape).astype(DTYPES[dtype])


def patterns(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Any bit patterns but those of NaN."""
    kind = DTYPES[dtype]
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 256, (*shape, kind.itemsize), np.uint8).view(kind)[..., 0]
    return np.where(np.isnan(widen(bits)), np.zeros_like(bits), bits)


# -- comparing -------------------------------------------------------------------------------------


def assert_rounded(result: Result, values: np.ndarray, dtype: np.dtype) -> None:
    """``result`` holds the float32 ``values``, rounded once to ``dtype``."""
    assert result.dtype == dtype
    want = narrow(np.asarray(values, np.float32), dtype)
    assert_same(result.values, want)
