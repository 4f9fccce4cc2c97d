"""From random words to samples, on the chip: uniform, normal and exponential.

Layout   words as (P, F), samples in the same places; a normal pair is two neighbours
Limits   every integer that meets arithmetic is at most 2^24; the arguments of transcendental
         functions stay in the intervals where the Scalar engine's are valid
Cost     instructions per tile: uniform 2, exponential 4, normal 14 of half the width
Lever    samples are made where their words are, and only they leave the chip; conversions,
         logarithms, roots and sines run on the Scalar engine beside the next words
"""

from __future__ import annotations

from typing import Any

from trnrand._kernels.words import Tile, bits
from trnsci.core.nki import nisa, nl

__all__ = ["STEP", "exponentials", "normals", "uniforms"]

STEP = 13176794 * 2.0**-21 * 2.0**-24
"""2 pi / 2^24 rounded down to float32: half a turn must not pass pi."""
_HALF_TURN = 2.0**23
_QUARTER_TURN = 2.0**22
# The root's argument at u = 1, where the logarithm is 0; the root is only valid above 2^-116.
_LEAST = 2.0**-100


def _new(x: Tile, dtype: Any) -> Tile:
    return nl.ndarray((x.shape[0], x.shape[1]), dtype=dtype, buffer=nl.sbuf)


def _scaled(words: Tile, scale: float, dtype: Any) -> Tile:
    """Return integers below 2^24 times a power of 2."""
    result = _new(words, dtype)
    nisa.activation(dst=result, op=nl.copy, data=words, scale=scale)
    return result


def uniforms(words: Tile, dtype: str) -> Tile:
    """Return the top bits of each word as a fraction in [0, 1): 24, 11 or 8 of them.

    All of them are numbers of ``dtype``, so that none is rounded up to 1.
    """
    kept, target = 24, nl.float32
    if dtype == "bfloat16":
        kept, target = 8, nl.bfloat16
    elif dtype == "float16":
        kept, target = 11, nl.float16
    return _scaled(bits(words, nl.right_shift, 32 - kept), 2.0**-kept, target)


def exponentials(words: Tile) -> Tile:
    """Return -log(1 - u) for the uniform float32 u of each word; 1 - u is exact."""
    above = bits(words, nl.right_shift, 8)
    rest, logs, result = _new(words, nl.float32), _new(words, nl.float32), _new(words, nl.float32)
    nisa.tensor_scalar(
        dst=rest, data=above, op0=nl.multiply, operand0=-1.0, op1=nl.add, operand1=2.0**24
    )
    nisa.activation(dst=logs, op=nl.log, data=rest, scale=2.0**-24)
    # 0 - x and not -x: the logarithm of 1 gives 0 and not -0.
    nisa.tensor_scalar(dst=result, data=logs, op0=nl.subtract, operand0=0.0, reverse0=True)
    return result


def normals(words: Tile) -> Tile:
    """Return Box-Muller pairs: neighbours a, b become r cos(t) and r sin(t).

    r is sqrt(-2 log(u)) with u = (a + 1) / 2^32 rounded to float32, so |z| reaches 6.66; t is
    2 pi (b >> 8) / 2^24.
    """
    half = words.shape[1] // 2
    pairs = words.reshape((words.shape[0], half, 2))
    result = nl.ndarray((words.shape[0], half, 2), dtype=nl.float32, buffer=nl.sbuf)
    radii = _radii(pairs[0 : words.shape[0], 0:half, 0])
    cosines, sines = _directions(pairs[0 : words.shape[0], 0:half, 1])
    nisa.tensor_tensor(
        dst=result[0 : words.shape[0], 0:half, 0], data1=radii, data2=cosines, op=nl.multiply
    )
    nisa.tensor_tensor(
        dst=result[0 : words.shape[0], 0:half, 1], data1=radii, data2=sines, op=nl.multiply
    )
    return result.reshape((words.shape[0], 2 * half))


def _radii(words: Tile) -> Tile:
    """Return sqrt(-2 log((w + 1) / 2^32)).

    The halves of w + 1 are exact in float32, so that their sum is w + 1 rounded once.
    """
    low = bits(words, nl.bitwise_and, 0xFFFF)
    high = _scaled(bits(words, nl.right_shift, 16), 2.0**16, nl.float32)
    total, logs = _new(words, nl.float32), _new(words, nl.float32)
    squares, radii = _new(words, nl.float32), _new(words, nl.float32)
    nisa.scalar_tensor_tensor(
        dst=total, data=low, op0=nl.add, operand0=1.0, op1=nl.add, operand1=high
    )
    nisa.activation(dst=logs, op=nl.log, data=total, scale=2.0**-32)
    nisa.tensor_scalar(
        dst=squares, data=logs, op0=nl.multiply, operand0=-2.0, op1=nl.maximum, operand1=_LEAST
    )
    nisa.activation(dst=radii, op=nl.sqrt, data=squares)
    return radii


def _directions(words: Tile) -> tuple[Tile, Tile]:
    """Return the cosine and the sine of 2 pi (w >> 8) / 2^24.

    The sine is valid in [-pi, pi] only. With d the distance from half a turn, sin(t) = sin(-d)
    and cos(t) = sin(|d| - pi/2).
    """
    turns = bits(words, nl.right_shift, 8)
    distance, folded = _new(words, nl.float32), _new(words, nl.float32)
    cosines, sines = _new(words, nl.float32), _new(words, nl.float32)
    nisa.tensor_scalar(dst=distance, data=turns, op0=nl.subtract, operand0=_HALF_TURN)
    nisa.tensor_scalar(
        dst=folded,
        data=distance,
        op0=nl.abs,
        operand0=0.0,
        op1=nl.subtract,
        operand1=_QUARTER_TURN,
    )
    nisa.activation(dst=cosines, op=nl.sin, data=folded, scale=STEP)
    nisa.activation(dst=sines, op=nl.sin, data=distance, scale=-STEP)
    return cosines, sines
