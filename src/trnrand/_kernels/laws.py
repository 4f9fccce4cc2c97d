"""Conversion of random words to uniform, normal and exponential samples, in SBUF.

Layout   words as (P, F), samples in the same places; a normal pair is two neighbours
Limits   every integer in arithmetic is at most 2^24. Logarithm and sine are the polynomials of
         ``trnrand._kernels.definitions``, one rounding for each product and sum, so samples are
         bit-identical to other backends; the square root is the Scalar engine's
Cost     instructions per tile: uniform 2, exponential 20, normal 36, most of half the width, in
         addition to the words (Threefry 218, Philox 365)
Lever    words are converted in SBUF, and only samples are written to HBM; a step of Horner's
         rule is one instruction, (s + c) f, and cosines and sines are one tile
"""

from __future__ import annotations

from typing import Any

from trnrand._kernels.definitions import (
    LEAST_EXPONENTIAL,
    LEAST_SQUARE,
    LOG,
    LOG_SPLIT,
    MINUS_TWO_LN2,
    SINE,
    TURN24,
)
from trnrand._kernels.words import Tile, bits
from trnsci.core.nki import nisa, nl

_HALF_TURN = 2.0**23
_QUARTER_TURN = 2.0**22


def _new(x: Tile, dtype: Any) -> Tile:
    return nl.ndarray((x.shape[0], x.shape[1]), dtype=dtype, buffer=nl.sbuf)


def _scaled(x: Tile, scale: float, dtype: Any) -> Tile:
    """Return numbers, or integers below 2^24, times a number: one rounding, on Scalar."""
    result = _new(x, dtype)
    nisa.activation(dst=result, op=nl.copy, data=x, scale=scale)
    return result


def _filled(x: Tile, value: float) -> Tile:
    """Return a number for each partition of a tile."""
    result = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=result, value=value)
    return result


def uniforms(words: Tile, dtype: str) -> Tile:
    """Return the top 24, 11 or 8 bits of each word as a fraction in [0, 1).

    All of them are exact in ``dtype``, so none is rounded up to 1.
    """
    kept, target = 24, nl.float32
    if dtype == "bfloat16":
        kept, target = 8, nl.bfloat16
    elif dtype == "float16":
        kept, target = 11, nl.float16
    return _scaled(bits(words, nl.right_shift, 32 - kept), 2.0**-kept, target)


def exponentials(words: Tile) -> Tile:
    """Return -log(1 - u) for the uniform float32 u of each word, never 0; 1 - u is exact."""
    above = bits(words, nl.right_shift, 8)
    rest = _new(words, nl.float32)
    nisa.tensor_scalar(
        dst=rest, data=above, op0=nl.multiply, operand0=-1.0, op1=nl.add, operand1=2.0**24
    )
    logs = _minus_two_log(rest, 24)
    nisa.tensor_scalar(
        dst=logs,
        data=logs,
        op0=nl.multiply,
        operand0=0.5,
        op1=nl.maximum,
        operand1=LEAST_EXPONENTIAL,
    )
    return logs


def normals(words: Tile) -> Tile:
    """Return Box-Muller pairs: neighbours a, b become r cos(t) and r sin(t).

    r is sqrt(-2 log(u)) with u = (a + 1) / 2^32 rounded to float32, so |z| reaches 6.66; t is
    2 pi (b >> 8) / 2^24.
    """
    rows, half = words.shape[0], words.shape[1] // 2
    pairs = words.reshape((rows, half, 2))
    parts = words.view(nl.uint16).reshape((rows, half, 4))
    radii = _radii(parts[0:rows, 0:half, 0], parts[0:rows, 0:half, 1])
    result = nl.ndarray((rows, half, 2), dtype=nl.float32, buffer=nl.sbuf)
    _folded_turns(pairs[0:rows, 0:half, 1], result)
    sines = _sines(result.reshape((rows, 2 * half))).reshape((rows, half, 2))
    for side in range(2):
        nisa.tensor_tensor(
            dst=result[0:rows, 0:half, side],
            data1=radii,
            data2=sines[0:rows, 0:half, side],
            op=nl.multiply,
        )
    return result.reshape((rows, 2 * half))


def _radii(lower: Tile, upper: Tile) -> Tile:
    """Return sqrt(-2 log((w + 1) / 2^32)) of words by their halves, uint16.

    The halves of w + 1 are exact in float32, so their sum is w + 1 rounded once.
    """
    total, high = _new(lower, nl.float32), _scaled(upper, 2.0**16, nl.float32)
    nisa.scalar_tensor_tensor(
        dst=total, data=lower, op0=nl.add, operand0=1.0, op1=nl.add, operand1=high
    )
    squares = _minus_two_log(total, 32)
    # A square is 0 or above 2^-24, so that the sum with LEAST_SQUARE is the larger of both.
    nisa.activation(dst=squares, op=nl.sqrt, data=squares, bias=_filled(squares, LEAST_SQUARE))
    return squares


def _minus_two_log(x: Tile, less: int) -> Tile:
    """Return -2 log(x / 2^less) of float32 >= 1, as ``trnrand._kernels.definitions`` defines it."""
    pattern = x.view(nl.uint32)
    exponents, f = bits(pattern, nl.right_shift, 23), _new(x, nl.float32)
    # m in [1, 2); from twice LOG_SPLIT on, m is halved and the exponent incremented.
    m = bits(pattern, nl.bitwise_and, 0x7F_FFFF, nl.bitwise_or, 0x3F80_0000).view(nl.float32)
    large = _new(x, nl.float32)
    nisa.tensor_scalar(dst=large, data=m, op0=nl.greater_equal, operand0=2 * LOG_SPLIT)
    nisa.scalar_tensor_tensor(
        dst=f, data=large, op0=nl.multiply, operand0=-0.5, op1=nl.multiply, operand1=m
    )
    nisa.scalar_tensor_tensor(dst=f, data=m, op0=nl.subtract, operand0=1.0, op1=nl.add, operand1=f)
    nisa.scalar_tensor_tensor(
        dst=large,
        data=exponents,
        op0=nl.subtract,
        operand0=127.0 + less,
        op1=nl.add,
        operand1=large,
    )
    s = _scaled(f, LOG[0], nl.float32)
    for coefficient in LOG[1:]:
        _horner(s, coefficient, f)
    nisa.scalar_tensor_tensor(
        dst=s, data=large, op0=nl.multiply, operand0=MINUS_TWO_LN2, op1=nl.add, operand1=s
    )
    return s


def _horner(s: Tile, coefficient: float, x: Tile) -> None:
    """Replace s by (s + coefficient) x."""
    nisa.scalar_tensor_tensor(
        dst=s, data=s, op0=nl.add, operand0=coefficient, op1=nl.multiply, operand1=x
    )


def _folded_turns(words: Tile, into: Tile) -> None:
    """Write two angles of at most a quarter turn whose sines are cos(t) and sin(t) of the words.

    With d = half a turn - (w >> 8), they are |d| - a quarter turn, and d reflected at the quarters.
    """
    rows, half = words.shape[0], words.shape[1]
    turns, before = bits(words, nl.right_shift, 8), _new(words, nl.float32)
    nisa.tensor_scalar(
        dst=before, data=turns, op0=nl.multiply, operand0=-1.0, op1=nl.add, operand1=_HALF_TURN
    )
    nisa.tensor_scalar(
        dst=into[0:rows, 0:half, 0],
        data=before,
        op0=nl.abs,
        operand0=0.0,
        op1=nl.subtract,
        operand1=_QUARTER_TURN,
    )
    nisa.tensor_tensor(dst=before, data1=before, data2=turns, op=nl.minimum)
    nisa.scalar_tensor_tensor(
        dst=into[0:rows, 0:half, 1],
        data=turns,
        op0=nl.subtract,
        operand0=2 * _HALF_TURN,
        op1=nl.maximum,
        operand1=before,
    )


def _sines(steps: Tile) -> Tile:
    """Return the sines of angles in steps, as ``trnrand._kernels.definitions`` defines them."""
    angles, square = _scaled(steps, TURN24, nl.float32), _new(steps, nl.float32)
    nisa.tensor_tensor(dst=square, data1=angles, data2=angles, op=nl.multiply)
    s = _scaled(square, SINE[0], nl.float32)
    for coefficient in SINE[1:]:
        _horner(s, coefficient, square)
    nisa.tensor_tensor(dst=s, data1=s, data2=angles, op=nl.multiply)
    nisa.tensor_tensor(dst=s, data1=s, data2=angles, op=nl.add)
    return s
