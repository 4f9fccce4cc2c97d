"""MX blocks from their definition, in exact arithmetic.

A block is 32 elements with one scale X, a power of two stored as the byte log2(X) + 127; element i
stands for X * P_i. To quantise, X is 2^(floor(log2 max|V|) - E) with E the exponent of the element
format's largest number, but not below 2^-127, and P_i is V_i / X, no further from zero than the
largest number, rounded to nearest even. From release 0.5.0 on, X is twice that.

A word packs four elements, the first in the lowest bits. A block is 8 rows by one word; the scales
of rows 32q to 32q + 31 lie in rows 32q + offset to 32q + offset + 3.
"""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np

from oracles.formats import BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT16, Format, power_of_two

#: No pattern is NaN: magnitudes have 3 bits, so 8 is out of their range.
FLOAT4_E2M1FN = Format("float4_e2m1fn", 2, 1, 1, False, nan=(8, 8), quiet_nan=8)

ELEMENTS = {
    "float8_e4m3fn_x4": FLOAT8_E4M3FN,
    "float8_e5m2_x4": FLOAT8_E5M2,
    "float4_e2m1fn_x4": FLOAT4_E2M1FN,
}
SOURCES = {"float16": FLOAT16, "bfloat16": BFLOAT16}
NAN_SCALE = 255


def element_bits(element: Format) -> int:
    return 1 + element.exponent_bits + element.mantissa_bits


def word_of(patterns: list[int], element: Format) -> int:
    """The word that packs four patterns."""
    return sum(p << (i * element_bits(element)) for i, p in enumerate(patterns))


def patterns_of(word: int, element: Format) -> list[int]:
    """The four patterns of a word."""
    bits = element_bits(element)
    return [(word >> (i * bits)) % (1 << bits) for i in range(4)]


def floor_log2(x: Fraction) -> int:
    """The largest n with 2^n <= x."""
    n = 0
    while power_of_two(n) > x:
        n -= 1
    while power_of_two(n + 1) <= x:
        n += 1
    return n


def scale_of(largest: Fraction, element: Format, release: str = "0.3.0") -> int:
    """The scale byte of a block with this largest magnitude."""
    if largest == 0:
        return 0
    exponent = floor_log2(largest) - floor_log2(element.max_finite)
    if release == "0.5.0":
        exponent += 1
    return max(exponent + 127, 0)


def quantize(
    bits: np.ndarray, source: str, packed: str, release: str = "0.3.0"
) -> tuple[np.ndarray, np.ndarray]:
    """Words (P, F/4) and scales (P/8, F/4) of a (P, F) array of finite 16-bit patterns."""
    read, element = SOURCES[source], ELEMENTS[packed]
    rows, columns = bits.shape
    words = np.zeros((rows, columns // 4), np.uint32)
    scales = np.zeros((rows // 8, columns // 4), np.uint8)
    for g in range(rows // 8):
        for w in range(columns // 4):
            block = [[int(bits[8 * g + r, 4 * w + i]) for i in range(4)] for r in range(8)]
            largest = max(abs(read.value(p)) for row in block for p in row)
            byte = scale_of(largest, element, release)
            scales[g, w] = byte
            for r, row in enumerate(block):
                quotients = [abs(read.value(p)) / power_of_two(byte - 127) for p in row]
                words[8 * g + r, w] = word_of(
                    [
                        element.nearest(min(x, element.max_finite), read.is_negative(p))
                        for x, p in zip(quotients, row, strict=True)
                    ],
                    element,
                )
    return words, scales


def scale_rows(rows: int, offset: int = 0) -> list[int]:
    """The rows that hold the scales of ``rows`` rows of data."""
    return [32 * (g // 4) + offset + g % 4 for g in range(rows // 8)]


def dequantize(words: np.ndarray, scales: np.ndarray, packed: str) -> np.ndarray:
    """The values (4K, F) of words (K, F) and scales (K/8, F), exact in float64.

    Row 4k + i holds element i of the words of row k.
    """
    element = ELEMENTS[packed]
    out = np.zeros((4 * words.shape[0], words.shape[1]))
    for k in range(words.shape[0]):
        for f in range(words.shape[1]):
            byte = int(scales[k // 8, f])
            for i, pattern in enumerate(patterns_of(int(words[k, f]), element)):
                out[4 * k + i, f] = scaled(pattern, byte, packed)
    return out


@functools.cache
def scaled(pattern: int, byte: int, packed: str) -> float:
    """What an element of a block with this scale stands for."""
    element = ELEMENTS[packed]
    kind = element.kind(pattern)
    if byte == NAN_SCALE or kind == "nan":
        return float("nan")
    if kind == "inf":
        return float("-inf") if element.is_negative(pattern) else float("inf")
    return float(element.value(pattern) * power_of_two(byte - 127))
