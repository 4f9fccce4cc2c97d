"""Logarithm, exponential and cosine in float64, with the same bits on all IEEE 754 hardware.

Each function is a fixed sequence of sums, products and quotients, each rounded once. Library
functions differ in their last bits between devices, and some between the elements of one array. The
coefficients are Taylor coefficients, not fitted; errors are below 2 units in the last place.

The definitions are executed on tensors, or compiled by numba for single numbers: ``defined`` has
the few operations that differ as arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

SPLIT_BITS = 0x3FE6_A09E_667F_3BCD
"""Bits of sqrt(1/2): significands are reduced to the interval from here to sqrt(2)."""

_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
"""The first 32 bits of log(2), so that its product with an exponent is exact."""

_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_PER_LN2 = 1 / math.log(2)

# Terms to 2 s**21 / 21 for |s| < 0.1716: the next one is below 1e-18.
_LOG = tuple(1 / (2 * k + 1) for k in range(10, 0, -1))
# Terms to r**13 / 13! for |r| < 0.3466: the next one is below 1e-17.
_EXP = tuple(1 / math.factorial(k) for k in range(13, 1, -1))
# Terms to x**21 / 21! for |x| <= pi / 2: the next one is below 2e-18.
_SINE = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(10, 0, -1))
_TURN = 2 * math.pi

Definition = Callable[..., Any]


class Elementary(NamedTuple):
    """The functions of one implementation.

    Attributes:
        log: Logarithm of positive normal numbers; finite for 0.
        log1p: log(1 + x) for x > -1.
        exp: Exponential, 0 or infinite where it under- or overflows.
        cosine: Cosine of u turns, 0 <= u < 1.
        sine: Sine of u turns, 0 <= u < 1.
    """

    log: Definition
    log1p: Definition
    exp: Definition
    cosine: Definition
    sine: Definition


def defined(
    split: Definition,
    scaled: Definition,
    floor: Definition,
    clamp: Definition,
    compiled: Callable[[Definition], Definition],
) -> Elementary:
    """Return the elementary functions, written with these operations.

    Args:
        split: x = m 2**e as (e, m), with m from sqrt(1/2) to sqrt(2).
        scaled: (x, k) as x 2**k, for whole k from -2044 to 2046.
        floor: Largest integer below, as a float64.
        clamp: (x, low, high) as x limited to [low, high].
        compiled: Decorator of the functions, such as ``numba.njit``.
    """

    @compiled
    def log(x: Any) -> Any:
        e, m = split(x)
        f = m - 1.0
        s = f / (f + 2.0)
        q = s * s
        p = q * _LOG[0]
        p += _LOG[1]
        for coefficient in _LOG[2:]:
            p *= q
            p += coefficient
        # log(m) = 2 s (1 + q p), and 2 s = f - s f.
        return e * _LN2_HIGH + (f - (s * (f - 2.0 * q * p) - e * _LN2_LOW))

    @compiled
    def log1p(x: Any) -> Any:
        y = x + 1.0
        return log(y) + (x - (y - 1.0)) / y

    @compiled
    def exp(x: Any) -> Any:
        x = clamp(x, -1400.0, 1400.0)
        k = floor(x * _PER_LN2 + 0.5)
        r = (x - k * _LN2_HIGH) - k * _LN2_LOW
        p = r * _EXP[0]
        p += _EXP[1]
        for coefficient in _EXP[2:]:
            p *= r
            p += coefficient
        return scaled((p * r * r + r) + 1.0, clamp(k, -2044.0, 2046.0))

    @compiled
    def quarter(turns: Any) -> Any:
        """Return the sine of up to a quarter of a turn."""
        x = turns * _TURN
        q = x * x
        p = q * _SINE[0]
        p += _SINE[1]
        for coefficient in _SINE[2:]:
            p *= q
            p += coefficient
        return p * q * x + x

    # The reductions are exact for multiples of 2**-53.
    @compiled
    def cosine(u: Any) -> Any:
        return quarter(abs(u - 0.5) - 0.25)

    @compiled
    def sine(u: Any) -> Any:
        return quarter(0.25 - abs(abs(0.75 - u) - 0.5))

    return Elementary(log, log1p, exp, cosine, sine)
