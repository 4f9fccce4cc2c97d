"""Passes over the rows of float32 and bfloat16 tiles, compiled where numba is loaded.

Results are those of NumPy's way over float32, to the bit; only where both operands of a sum or
product are NaN, NumPy gives now the one and now the other, compiled code the first. Arrays are
two-dimensional with dense rows, which may be apart, and are writable. All but ``combine_rows`` need
numba: callers ask ``repays`` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from nkisim.compiled.codes import CODES, COLUMN, FULL, HALF, NOTHING, OPERATIONS
from nkisim.compiled.helper import helper_for
from nkisim.compiled.helper_layout import ROWS
from nkisim.compiled.processor import float_lanes
from nkisim.dtypes.convert import decode, encode, suits_numba
from nkisim.dtypes.formats import UNSIGNED, bfloat16

__all__ = [
    "Step",
    "blocks_of_rows",
    "bytes_transposer",
    "combine_rows",
    "compiled_exponential",
    "compiled_operations",
    "exponential_rows",
    "row_deviations",
    "row_extremes",
    "row_sums",
    "steps_of_rows",
    "transpose_rows",
    "widened_rows",
]

Array = np.ndarray

Step = tuple[str, Any, bool]
"""An operation, its other operand and whether that comes first.

The operand is a tile like the data, a float32 column, or a number.
"""

_BITS = np.dtype(np.uint16)
_F32 = np.dtype(np.float32)

_BLOCK_ELEMENTS = 65536
"""Elements of a block: 256 KiB of float32 stay in a level-2 cache beside what they come from."""

_EXPONENTIALS = 16
"""Elements that compiled exponentials are computed of at a time."""

_NONE = np.empty(0, np.float32)

_SUMS = 8  # NumPy adds in as many interleaved sums, and halves what is longer than 128
_UNDIVIDED = 2 * 128


def combine_rows(out: Array, x: Array, steps: Sequence[Step] = ()) -> None:
    """Write ``x``, after at most two operations, to ``out``, which may be an operand itself.

    Each operation is rounded to float32, the result to the type of ``out``. Without numba this
    takes several passes, over blocks that stay in the cache.
    """
    if suits_numba(out) and compiled_operations().issuperset(step[0] for step in steps):
        _combine_compiled(out, x, steps)
    else:
        for rows in blocks_of_rows(*out.shape):
            _combine_block(out[rows], x[rows], steps_of_rows(steps, rows))


def blocks_of_rows(rows: int, width: int, elements: int = _BLOCK_ELEMENTS) -> list[slice]:
    """Return the blocks in which to go through a tile, so that each stays in the cache."""
    height = max(1, elements // max(1, width))
    return [slice(first, min(first + height, rows)) for first in range(0, rows, height)]


def steps_of_rows(steps: Sequence[Step], rows: slice) -> list[Step]:
    """Return steps with some rows of their tiles and columns."""
    return [
        (name, operand[rows] if isinstance(operand, np.ndarray) else operand, exchanged)
        for name, operand, exchanged in steps
    ]


def _combine_block(out: Array, x: Array, steps: Sequence[Step]) -> None:
    # Operands other than x are needed after the first write.
    direct = out.dtype == _F32 and not any(
        isinstance(operand, np.ndarray) and np.may_share_memory(out, operand)
        for _, operand, _ in steps
    )
    room = out if direct else np.empty(out.shape, _F32)
    value = x if x.dtype == _F32 else decode(x, bfloat16, room)
    for name, operand, exchanged in steps:
        if isinstance(operand, np.ndarray):
            operand = widened_rows(operand)
        a, b = (operand, value) if exchanged else (value, operand)
        value = getattr(np, name)(a, b, out=room)
    if value is not out:
        out[...] = value if out.dtype == _F32 else encode(value, bfloat16)


def _combine_compiled(out: Array, x: Array, steps: Sequence[Step]) -> None:
    tile, kind = _tile(x)
    target, target_kind = _tile(out)
    width = out.shape[1]
    operands: list[Any] = []
    for name, operand, exchanged in steps:
        operands += CODES[name, exchanged], *_operand(operand, width)
    for _ in range(2 - len(steps)):
        operands += NOTHING, tile, kind  # an operand that is never looked at
    _compiled("combining")(helper_for(out.size), target, target_kind, width, tile, kind, *operands)


def _tile(array: Array) -> tuple[Array, int]:
    """Return an array as compiled code takes it, with its kind."""
    return array.view(_BITS), FULL if array.itemsize == 4 else HALF


def _operand(operand: Any, width: int) -> tuple[Array, int]:
    """Return an operand as compiled code takes it, with its kind."""
    if type(operand) is not np.ndarray:
        number = np.empty((1, 1), _F32)
        number[0, 0] = operand
        return number.view(_BITS), COLUMN
    if operand.shape[1] == width:
        return _tile(operand)
    return np.ascontiguousarray(operand, _F32).view(_BITS), COLUMN


@cache
def compiled_operations() -> frozenset[str]:
    """Return the operations that give NumPy's bits on this processor.

    Both pick their instructions by processor, and some flush subnormals or exchange zeros. Which of
    two NaNs a sum or product becomes differs within NumPy, so that is left out.
    """
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, (2, 64, 257), dtype=np.uint32)
    # Subnormals, special values and cancellations are rare among random patterns.
    special = np.array([0, 1, 0x7F7F_FFFF, 0x7F80_0000, 0x7F80_0001, 0x7FC0_0007], np.uint32)
    bits[:, :32] = rng.choice([*special, *(special | 1 << 31)], (2, 32, 257))
    bits[1, 32:48] = bits[0, 32:48] ^ rng.integers(0, 64, (16, 257), dtype=np.uint32)
    bits[:, 48:56] &= np.uint32(0x80FF_FFFF)
    a, b = bits.view(np.float32)
    return frozenset(name for name in OPERATIONS if _agrees(name, a, b))


def _agrees(name: str, a: Array, b: Array) -> bool:
    function = getattr(np, name)
    out = np.empty_like(a)
    for exchanged in (False, True):
        for operand in (b, b[:, :1]):
            _combine_compiled(out, a, [(name, operand, exchanged)])
            with np.errstate(all="ignore"):
                expected = function(operand, a) if exchanged else function(a, operand)
            one_number = ~(np.isnan(a) & np.isnan(operand))
            if out[one_number].tobytes() != expected[one_number].tobytes():
                return False
    return True


def row_extremes(x: Array, *, largest: bool) -> Array:
    """Return the greatest or the least element of every row as a column of float32."""
    tile, kind = _tile(x)
    found = np.empty(len(x), _F32)
    if _compiled("extremes")(tile, kind, x.shape[1], largest, found.view(np.int32)):
        # Of NaNs, and of zeros of both signs, NumPy's order of comparisons decides.
        unsure = (found == 0) | np.isnan(found)
        reduce = np.maximum.reduce if largest else np.minimum.reduce
        found[unsure] = reduce(widened_rows(x[unsure]), axis=-1)
    return found.reshape(-1, 1)


def row_sums(x: Array) -> Array:
    """Return the float32 sum of every row."""
    if x.shape[1] % _SUMS:
        return np.asarray(np.add.reduce(widened_rows(x), axis=-1))
    tile, kind = _tile(x)
    found = np.empty(len(x), _F32)
    if _compiled("sums")(tile, kind, x.shape[1], found):
        # Which of several NaNs a sum becomes is NumPy's to say.
        unsure = np.isnan(found)
        found[unsure] = np.add.reduce(widened_rows(x[unsure]), axis=-1)
    return found


def exponential_rows(
    out: Array, x: Array, scale: Any = 1.0, bias: Any = 0.0, sums: Array | None = None
) -> bool:
    """Write ``exp(x * scale + bias)`` to ``out``, which may be ``x``, and sums of its rows.

    Scale and bias are numbers or columns. False where it cannot be done, and nothing was: for other
    widths than multiples of 16, and on processors on which the bits would not be NumPy's.
    """
    width = out.shape[1]
    if width % _EXPONENTIALS or not compiled_exponential():
        return False
    _exponentials(out, x, scale, bias, _NONE if sums is None else sums)
    return True


def _exponentials(out: Array, x: Array, scale: Any, bias: Any, sums: Array) -> None:
    columns = [np.ascontiguousarray(number, _F32).reshape(-1) for number in (scale, bias)]
    width = out.shape[1]
    begins = np.arange(0, len(out), ROWS)
    room = np.empty((len(begins), width), _F32)
    operands = begins, *_tile(out), width, *_tile(x), *columns, sums, room
    run, helper = _compiled("exponentials"), helper_for(4 * out.size)
    while run(helper, *operands):
        ends = np.minimum(np.arange(ROWS, len(out) + ROWS, ROWS), len(out))
        for part in np.flatnonzero(begins < ends):
            sums[begins[part]] = np.add.reduce(room[part])
            begins[part] += 1


@cache
def compiled_exponential() -> bool:
    """Whether compiled exponentials have the bits of NumPy's, which picks them by processor."""
    if not float_lanes():
        return False
    # Every upper half of a float32, each with some lower halves.
    number = np.arange(1 << 20, dtype=np.uint32)
    x = (number << 12 | number * 0x9E37 & 0x0FFF).view(_F32).reshape(512, -1)
    out = np.empty_like(x)
    _exponentials(out, x, 1.0, 0.0, _NONE)
    with np.errstate(all="ignore"):
        return out.tobytes() == np.exp(x).tobytes()


def widened_rows(x: Array) -> Array:
    """Return rows in float32; those that are float32 themselves."""
    return x if x.dtype == _F32 else decode(x, bfloat16)


def row_deviations(x: Array) -> Array | None:
    """Return mean and summed squared deviation of even, then of odd elements of rows in float64.

    None where that cannot be done: for other widths than NumPy adds up in equal parts, and where a
    result is not finite.
    """
    width = x.shape[1]
    pieces = 1 if width <= _UNDIVIDED else 2
    if width % (2 * _SUMS * pieces) or width > 2 * _UNDIVIDED:
        return None
    tile, kind = _tile(x)
    out = np.empty((len(x), 4), np.float64)
    _compiled("deviations")(helper_for(4 * x.size), tile, kind, width, out)
    return out if np.isfinite(out).all() else None


def transpose_rows(out: Array, x: Array) -> None:
    """Write the transpose of ``x`` to ``out``, bit for bit; they share no memory."""
    unsigned = UNSIGNED[x.itemsize]
    _compiled("transposing", 8 * x.itemsize)(out.view(unsigned), x.view(unsigned))


def bytes_transposer() -> Any:
    """Return ``transposing_bytes``: what transposes without arrays of its operands."""
    return _compiled("transposing_bytes")


@cache
def _compiled(name: str, *arguments: int) -> Any:
    """Return a compiled function; the cache spares looking modules up in every call."""
    from nkisim.compiled import exponential, rows, statistics, transposition

    modules = (exponential, rows, statistics, transposition)
    module = next(m for m in modules if name in m.__all__)
    return getattr(module, name)(*arguments)
