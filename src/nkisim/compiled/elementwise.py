"""One or two operations on float32 and bfloat16 tiles in one pass; exact. Imports numba.

Every operation is rounded to float32, as NumPy rounds it, and the result once more into its type. A
tile is a flat array of float32 or of bfloat16 patterns (uint16). One compiled loop handles all
combinations of types: it takes a float32 and a uint16 array for each tile, and one of the two is
empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numba
import numpy as np

from nkisim.compiled.conversions import rounded, widened
from nkisim.compiled.loops import compiled_loop

_NOTHING, _ADD, _SUBTRACT, _SUBTRACT_FROM, _MULTIPLY = range(5)

CODES: dict[tuple[np.ufunc, bool], int] = {
    (np.add, False): _ADD,
    (np.add, True): _ADD,
    (np.subtract, False): _SUBTRACT,
    (np.subtract, True): _SUBTRACT_FROM,
    (np.multiply, False): _MULTIPLY,
    (np.multiply, True): _MULTIPLY,
}
"""Operation codes by ufunc and exchange of the operands."""

_NO_HALVES, _NO_FLOATS = np.empty(0, np.uint16), np.empty(0, np.float32)


def combine(
    out: np.ndarray, x: np.ndarray, operations: Sequence[tuple[np.ufunc, Any, bool]]
) -> None:
    """Write ``x``, after at most two operations, to ``out``, which may be an operand itself.

    Tiles are dense and two-dimensional. The other operand of an operation is a tile, a float32
    column or a number; at most one is a tile.
    """
    width = out.shape[1]
    columns = [_NO_FLOATS, _NO_FLOATS]
    codes, tile, with_tile = [_NOTHING, _NOTHING], _NO_FLOATS, -1
    for i, (ufunc, operand, exchanged) in enumerate(operations):
        codes[i] = CODES[ufunc, exchanged]
        if isinstance(operand, np.ndarray) and operand.shape[1] == width > 1:
            tile, with_tile = operand, i
        else:
            columns[i] = np.ascontiguousarray(operand, np.float32).reshape(-1)
    _loop()(width, *_views(out), *_views(x), *codes, *columns, with_tile, *_views(tile))


def _views(tile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    flat = tile.reshape(-1)
    return (_NO_HALVES, flat) if tile.itemsize == 4 else (flat.view(np.uint16), _NO_FLOATS)


@cache
def _loop() -> Any:
    return compiled_loop(_combine)


def _combine(
    width: int,
    out16: Any,
    out32: Any,
    x16: Any,
    x32: Any,
    first: int,
    second: int,
    column0: Any,
    column1: Any,
    with_tile: int,
    tile16: Any,
    tile32: Any,
) -> None:
    row, other = np.empty(width, np.float32), np.empty(width, np.float32)
    for start in range(0, max(out16.size, out32.size), width):
        end = start + width
        _load(x16[start:end], x32[start:end], row)
        if with_tile >= 0:
            _load(tile16[start:end], tile32[start:end], other)
        if with_tile == 0:
            _apply(first, row, other)
        elif first != _NOTHING:
            _apply_number(first, row, column0[start // width % column0.size])
        if with_tile == 1:
            _apply(second, row, other)
        elif second != _NOTHING:
            _apply_number(second, row, column1[start // width % column1.size])
        _store(row, out16[start:end], out32[start:end])


@numba.njit  # type: ignore[untyped-decorator]
def _load(halves: Any, floats: Any, row: Any) -> None:
    for i in range(halves.size):
        row[i] = widened(halves[i])
    for i in range(floats.size):
        row[i] = floats[i]


@numba.njit  # type: ignore[untyped-decorator]
def _store(row: Any, halves: Any, floats: Any) -> None:
    for i in range(halves.size):
        halves[i] = rounded(row[i])
    for i in range(floats.size):
        floats[i] = row[i]


@numba.njit  # type: ignore[untyped-decorator]
def _apply(code: int, row: Any, other: Any) -> None:
    if code == _ADD:
        for i in range(row.size):
            row[i] += other[i]
    elif code == _SUBTRACT:
        for i in range(row.size):
            row[i] -= other[i]
    elif code == _SUBTRACT_FROM:
        for i in range(row.size):
            row[i] = other[i] - row[i]
    else:
        for i in range(row.size):
            row[i] *= other[i]


@numba.njit  # type: ignore[untyped-decorator]
def _apply_number(code: int, row: Any, number: Any) -> None:
    if code == _ADD:
        for i in range(row.size):
            row[i] += number
    elif code == _SUBTRACT:
        for i in range(row.size):
            row[i] -= number
    elif code == _SUBTRACT_FROM:
        for i in range(row.size):
            row[i] = number - row[i]
    else:
        for i in range(row.size):
            row[i] *= number
