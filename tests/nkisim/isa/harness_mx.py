"""Kernels around one MX instruction, and operands with what they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from oracles import mx as oracle
from oracles.matmul import BFLOAT16_ROUNDOFF, Sum
from tiles import loaded, stored

PACKS = list(oracle.ELEMENTS)
OFFSETS = [0, 4, 8, 12]
SENTINEL = 0xA5  # stands where no scale may be written


def run(
    kernel: Callable[..., Any],
    *arrays: Any,
    codes: frozenset[str] = frozenset(),
    release: str = "0.3.0",
) -> Any:
    """The outputs on gen4; the findings must be exactly ``codes``.

    Findings about the kernel's source are left out: kernels here are closures, which the compiler
    would refuse.
    """
    report = nkisim.check(kernel, target="gen4", nki=release)(*arrays)
    assert {code for code in report.codes if code[0] != "L"} == set(codes), str(report)
    return report.outputs


def as_words(array: np.ndarray) -> np.ndarray:
    """The stored words, without the name of the pack."""
    return array.view(f"u{array.dtype.itemsize}")


# -- operands of a product -------------------------------------------------------------------------


def random_words(rng: np.random.Generator, packed: str, rows: int, columns: int) -> np.ndarray:
    """Words of random finite elements."""
    element = oracle.ELEMENTS[packed]
    bits = oracle.element_bits(element)
    finite = [p for p in range(1 << bits) if element.kind(p) == "finite"]
    patterns = rng.choice(finite, (rows, columns, 4))
    words = (patterns << np.arange(0, 4 * bits, bits)).sum(axis=2)
    return words.astype(f"u{bits // 2}")


class Operand:
    """One side of a product: words, scales and the values they stand for."""

    def __init__(self, seed: int, packed: str, rows: int, columns: int, spread: int = 20) -> None:
        rng = np.random.default_rng(seed)
        self.packed = packed
        self.words = random_words(rng, packed, rows, columns)
        scales = rng.integers(127 - spread, 127 + spread, (rows // 8, columns))
        self.scales = scales.astype(np.uint8)

    @property
    def host(self) -> np.ndarray:
        """The words as a kernel takes them."""
        return self.words.view(np.dtype(self.packed))

    @property
    def values(self) -> np.ndarray:
        return oracle.dequantize(self.words, self.scales, self.packed)

    def scattered(self, offset: int = 0) -> np.ndarray:
        """The scales where the device wants them, in a tile as high as the data."""
        rows, columns = self.words.shape
        tile = np.full((rows, columns), SENTINEL, np.uint8)
        tile[oracle.scale_rows(rows, offset)] = self.scales
        return tile


def assert_product(got: np.ndarray, want: Sum) -> None:
    """Within the error of a float32 sum of exact products, rounded once more to bfloat16."""
    tolerance = (
        want.tolerance if got.dtype == np.float32 else want.rounded_tolerance(BFLOAT16_ROUNDOFF)
    )
    error = np.abs(got.astype(np.float64) - want.value)
    assert (error <= tolerance).all(), (error - tolerance).max()
    assert (want.value != 0).any()


# -- legality --------------------------------------------------------------------------------------


def tile_of(shape: tuple[int, ...], dtype: str, buffer: Any = None, start: int = 0) -> Any:
    """A tile of zeros whose first row is partition ``start``."""
    tile = nl.ndarray((shape[0] + start, *shape[1:]), dtype, buffer=buffer or nl.sbuf)
    nisa.memset(tile, 0)
    return tile[start:] if start else tile


def findings_of(body: Callable[[], None], target: str = "gen4") -> list[nkisim.Finding]:
    """What is found in instructions, but for the language."""

    def kernel(anything):
        body()
        return stored(loaded(anything))

    report = nkisim.check(kernel, target=target, detect=())(np.zeros((1, 1), np.float32))
    assert all(f.fix for f in report.findings)
    return [f for f in report.findings if f.rule.id[0] != "L"]


def codes_of(body: Callable[[], None], target: str = "gen4") -> set[str]:
    return {finding.rule.id for finding in findings_of(body, target)}


def called(
    instruction: Any, tiles: dict[str, Any], target: str = "gen4", **others: Any
) -> set[str]:
    """The codes of a call with tiles given as (shape, dtype, buffer, start partition)."""
    return codes_of(call_of(instruction, tiles, **others), target)


def call_of(instruction: Any, tiles: dict[str, Any], **others: Any) -> Callable[[], None]:
    """A call with tiles given as (shape, dtype, buffer, start partition)."""

    def body() -> None:
        operands = {}
        for name, (shape, dtype, *place) in tiles.items():
            buffer = {"psum": nl.psum, "hbm": nl.shared_hbm}.get(place[0]) if place else None
            operands[name] = (
                nl.ndarray(shape, dtype, buffer=buffer)
                if buffer == nl.shared_hbm
                else tile_of(shape, dtype, buffer, place[1] if len(place) > 1 else 0)
            )
        instruction(**operands, **others)

    return body
