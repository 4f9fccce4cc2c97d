"""Number formats from their definition, in exact arithmetic.

A binary format has a sign bit, ``exponent_bits`` and ``mantissa_bits``. With exponent field E,
fraction field F and m fraction bits its magnitude is

    E = 0    F * 2^(1 - bias - m)                  zero and the subnormals
    E > 0    (2^m + F) * 2^(E - bias - m)          the normals

except for the patterns set aside for infinity and NaN. IEEE-style formats set aside the whole top
exponent: F = 0 is infinity, the rest NaN. "fn" formats set aside only their last pattern, for NaN.

Rounding picks the nearest value of the format; of two equally near, the one whose pattern is even.
Beyond the largest finite value the format is continued by one more step, and rounding to that step
is overflow.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Kind = Literal["finite", "inf", "nan"]


@functools.cache
def power_of_two(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


@dataclass(frozen=True)
class Format:
    """A binary floating-point format; patterns are unsigned integers with the sign bit on top."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    has_inf: bool
    #: Smallest and largest magnitude pattern that is NaN.
    nan: tuple[int, int]
    #: Magnitude pattern that rounding gives for NaN.
    quiet_nan: int

    @property
    def sign_bit(self) -> int:
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def inf(self) -> int:
        assert self.has_inf
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    def kind(self, pattern: int) -> Kind:
        magnitude = pattern & (self.sign_bit - 1)
        if self.nan[0] <= magnitude <= self.nan[1]:
            return "nan"
        if self.has_inf and magnitude == self.inf:
            return "inf"
        return "finite"

    def is_negative(self, pattern: int) -> bool:
        return bool(pattern & self.sign_bit)

    def value(self, pattern: int) -> Fraction:
        """The exact value of a finite pattern; both zeros give 0."""
        assert self.kind(pattern) == "finite"
        return -self._magnitude(pattern) if self.is_negative(pattern) else self._magnitude(pattern)

    def _magnitude(self, pattern: int) -> Fraction:
        fraction = pattern & ((1 << self.mantissa_bits) - 1)
        exponent = (pattern >> self.mantissa_bits) & ((1 << self.exponent_bits) - 1)
        if exponent == 0:
            return fraction * power_of_two(1 - self.bias - self.mantissa_bits)
        hidden = 1 << self.mantissa_bits
        return (hidden + fraction) * power_of_two(exponent - self.bias - self.mantissa_bits)

    @property
    def end(self) -> int:
        """The number of finite magnitudes, which ascend with their patterns."""
        return self.inf if self.has_inf else self.nan[0]

    @functools.cached_property
    def magnitude(self) -> Callable[[int], Fraction]:
        """The magnitude of a finite pattern without sign."""
        return functools.cache(self._magnitude)

    @functools.cached_property
    def beyond(self) -> Fraction:
        """The step beyond the largest finite value."""
        return 2 * self.magnitude(self.end - 1) - self.magnitude(self.end - 2)

    @property
    def magnitudes(self) -> list[Fraction]:
        """Every finite magnitude."""
        return [self.magnitude(pattern) for pattern in range(self.end)]

    @property
    def max_finite(self) -> Fraction:
        return self.magnitude(self.end - 1)

    def nearest(self, x: Fraction, negative: bool) -> int:
        """The pattern that magnitude ``x`` with the given sign rounds to."""
        assert x >= 0
        sign = self.sign_bit if negative else 0
        top = self.end
        if x >= self.beyond:
            pattern = top
        else:
            upper = bisect_left(range(top), x, key=self.magnitude)
            above = self.magnitude(upper) if upper < top else self.beyond
            if above == x:
                pattern = upper
            else:
                below_gap, above_gap = x - self.magnitude(upper - 1), above - x
                if below_gap == above_gap:
                    pattern = upper if upper % 2 == 0 else upper - 1
                else:
                    pattern = upper if above_gap < below_gap else upper - 1
        if pattern == top:
            return sign | (self.inf if self.has_inf else self.quiet_nan)
        return sign | pattern

    def from_float32(self, bits: int) -> int:
        """The pattern that the float32 with pattern ``bits`` rounds to."""
        negative = FLOAT32.is_negative(bits)
        sign = self.sign_bit if negative else 0
        kind = FLOAT32.kind(bits)
        if kind == "nan" or (kind == "inf" and not self.has_inf):
            return sign | self.quiet_nan
        if kind == "inf":
            return sign | self.inf
        return self.nearest(abs(FLOAT32.value(bits)), negative)

    def to_float32(self, pattern: int) -> int:
        """The float32 pattern of the same value; NaN gives the quiet NaN of its sign."""
        sign = FLOAT32.sign_bit if self.is_negative(pattern) else 0
        kind = self.kind(pattern)
        if kind == "nan":
            return sign | FLOAT32.quiet_nan
        if kind == "inf":
            return sign | FLOAT32.inf
        return sign | float32_pattern(abs(self.value(pattern)))


def _ieee(name: str, exponent_bits: int, mantissa_bits: int) -> Format:
    top = ((1 << exponent_bits) - 1) << mantissa_bits
    return Format(
        name,
        exponent_bits,
        mantissa_bits,
        bias=(1 << (exponent_bits - 1)) - 1,
        has_inf=True,
        nan=(top + 1, top + (1 << mantissa_bits) - 1),
        quiet_nan=top + (1 << (mantissa_bits - 1)),
    )


FLOAT32 = _ieee("float32", 8, 23)
TFLOAT32 = _ieee("tfloat32", 8, 10)
BFLOAT16 = _ieee("bfloat16", 8, 7)
FLOAT16 = _ieee("float16", 5, 10)
FLOAT8_E5M2 = _ieee("float8_e5m2", 5, 2)
FLOAT8_E4M3 = _ieee("float8_e4m3", 4, 3)
FLOAT8_E4M3FN = Format("float8_e4m3fn", 4, 3, 7, False, nan=(0x7F, 0x7F), quiet_nan=0x7F)

FORMATS = {
    f.name: f for f in (FLOAT8_E4M3, FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT16, BFLOAT16, TFLOAT32)
}


def float32_pattern(x: Fraction) -> int:
    """The float32 pattern of a magnitude that is exactly a float32."""
    if x == 0:
        return 0
    # The largest exponent with 2^exponent <= x; the difference of lengths is at most one too high.
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if power_of_two(exponent) > x:
        exponent -= 1
    exponent = max(exponent, -126)
    scaled = x / power_of_two(exponent - 23)
    assert scaled.denominator == 1, f"{x} is not a float32"
    # A subnormal has exponent field 0 and no hidden bit; a normal adds its hidden bit to the field.
    return int(scaled) + ((exponent + 126) << 23)


def integer_from_float32(bits: int, low: int, high: int) -> int:
    """Round the float32 ``bits`` to nearest even and clamp to [low, high]; NaN gives 0."""
    kind = FLOAT32.kind(bits)
    if kind == "nan":
        return 0
    if kind == "inf":
        return low if FLOAT32.is_negative(bits) else high
    x = FLOAT32.value(bits)
    floor = x.numerator // x.denominator
    excess = x - floor
    if excess > Fraction(1, 2) or (excess == Fraction(1, 2) and floor % 2 == 1):
        floor += 1
    return min(max(floor, low), high)
