"""Quasi-random points from their definitions, one number at a time in exact arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod

import numpy as np

from oracles.generators import splitmix64

# Degree, inner coefficients and first direction numbers of the dimensions after the first:
# S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional projections",
# SIAM Journal on Scientific Computing 30 (2008).
JOE_KUO = (
    (1, 0, (1,)),
    (2, 1, (1, 3)),
    (3, 1, (1, 3, 1)),
    (3, 2, (1, 1, 1)),
    (4, 1, (1, 1, 3, 3)),
    (4, 4, (1, 3, 5, 13)),
    (5, 2, (1, 1, 5, 5, 17)),
    (5, 4, (1, 1, 5, 5, 5)),
    (5, 7, (1, 1, 7, 11, 19)),
)
# Direction numbers of a sequence, by the bits of a word.
DIRECTIONS = {32: 30, 64: 64}


def directions(dim: int, bits: int = 32) -> list[int]:
    """The direction numbers of a dimension, as words whose top bit is the first digit."""
    if dim == 0:
        odd = [1] * DIRECTIONS[bits]
    else:
        degree, inner, first = JOE_KUO[dim - 1]
        odd = list(first)
        for k in range(degree, DIRECTIONS[bits]):
            m = odd[k - degree] ^ odd[k - degree] << degree
            for i in range(1, degree):
                if inner >> (degree - 1 - i) & 1:
                    m ^= odd[k - i] << i
            odd.append(m)
    return [m << (bits - 1 - k) for k, m in enumerate(odd)]


def sobol_word(index: int, dim: int, bits: int = 32) -> int:
    word = 0
    for k, direction in enumerate(directions(dim, bits)):
        if (index ^ index >> 1) >> k & 1:
            word ^= direction
    return word


def random_numbers(seed: int, purpose: int, stream: int, count: int) -> list[int]:
    """The numbers that a seed is expanded to: SplitMix64 started at a hash of its arguments."""

    def mixed(number: int) -> int:
        return splitmix64(number - 0x9E3779B97F4A7C15, 1)[0]

    root = mixed((mixed(seed) + purpose) % 2**64)
    return splitmix64(splitmix64(root, stream + 1)[-1], count)


def _times_triangular(digits: str, rows: Sequence[int]) -> str:
    """Binary digits after each has added the random bits below its place to those after it."""
    total = 0
    for place, digit in enumerate(digits):
        if digit == "1":
            unit = 1 << (len(digits) - 1 - place)
            total ^= unit | rows[place] % unit
    return f"{total:0{len(digits)}b}"


def nested_scrambled(word: int, dim: int, seed: int, levels: int, bits: int = 32) -> int:
    """A word after a tree of flips over its first digits, and a matrix and shift for the rest."""
    digits = f"{word:0{bits}b}"
    top, low = digits[:levels], digits[levels:]
    numbers = random_numbers(seed, 1, dim, 2**levels)
    flipped = ""
    for level, digit in enumerate(top):
        node = numbers[2**level + int("0" + top[:level], 2)]
        flipped += "10"[int(digit)] if node >= 2**63 else digit
    matrix = [number >> (64 - bits) for number in random_numbers(seed, 2, dim, len(low))]
    # The lowest digits of the leaf's number first, then those above them.
    leaf = f"{numbers[int(top, 2)]:064b}"
    first = 32 - levels
    shift = leaf[64 - first :] + leaf[64 - first - (bits - 32) : 64 - first]
    rest = int(_times_triangular(low, matrix), 2) ^ int(shift, 2)
    return int(flipped, 2) << len(low) | rest


def linear_scrambled(word: int, dim: int, seed: int, bits: int = 32) -> int:
    """A word after a triangular matrix and a shift."""
    matrix = [number >> (64 - bits) for number in random_numbers(seed, 2, dim, bits)]
    shift = random_numbers(seed, 3, dim, 1)[0] >> (64 - bits)
    return int(_times_triangular(f"{word:0{bits}b}", matrix), 2) ^ shift


def order_of(numbers: Sequence[int]) -> list[int]:
    """Indices in the order of the numbers, without as many of their last bits as an index has."""
    unit = 2 ** (len(numbers) - 1).bit_length()
    return sorted(range(len(numbers)), key=lambda i: numbers[i] // unit)


def digits_of(number: int, base: int) -> list[int]:
    """Digits of a number, the last first."""
    found = []
    while number:
        number, digit = divmod(number, base)
        found.append(digit)
    return found


def radical_inverse(number: int, base: int) -> Fraction:
    return sum(
        (Fraction(digit, base ** (k + 1)) for k, digit in enumerate(digits_of(number, base))),
        Fraction(0),
    )


def scrambled_inverse(number: int, base: int, dim: int, seed: int) -> Fraction:
    """The radical inverse with permuted digits, as many as base**places < 2**52 allows, and half a
    unit of the last."""
    places = max(k for k in range(1, 53) if base**k < 2**52)
    numbers = random_numbers(seed, 4, dim, places * base)
    digits = digits_of(number, base) + [0] * places
    total = Fraction(1, 2 * base**places)
    for k in range(places):
        row = numbers[k * base : (k + 1) * base]
        permutation = order_of(row)
        total += Fraction(permutation[digits[k]], base ** (k + 1))
    return total


def box_counts(points: np.ndarray, digits: Sequence[int]) -> np.ndarray:
    """How many points are in each box of sides 2**-digits[j], for points of float64."""
    box = np.zeros(len(points), np.int64)
    for column, k in zip(points.T, digits, strict=True):
        box = box << k | (column * 2**k).astype(np.int64)
    return np.bincount(box, minlength=2 ** sum(digits))


def discrepancy(points: Sequence[Sequence[Fraction]], method: str) -> Fraction:
    """The squared discrepancy, from the formulas in the papers of Hickernell and of Zhou."""
    half = Fraction(1, 2)
    singles = {
        "CD": lambda x: 1 + abs(x - half) / 2 - abs(x - half) ** 2 / 2,
        "WD": lambda x: Fraction(0),
        "MD": lambda x: Fraction(5, 3) - abs(x - half) / 4 - abs(x - half) ** 2 / 4,
        "L2-star": lambda x: (1 - x * x) / 2,
    }
    pairs = {
        "CD": lambda x, y: 1 + (abs(x - half) + abs(y - half) - abs(x - y)) / 2,
        "WD": lambda x, y: Fraction(3, 2) - abs(x - y) * (1 - abs(x - y)),
        "MD": lambda x, y: (
            Fraction(15, 8)
            - (abs(x - half) + abs(y - half) + 3 * abs(x - y)) / 4
            + abs(x - y) ** 2 / 2
        ),
        "L2-star": lambda x, y: 1 - max(x, y),
    }
    constants = {
        "CD": Fraction(13, 12),
        "WD": Fraction(4, 3),
        "MD": Fraction(19, 12),
        "L2-star": Fraction(1, 3),
    }
    count, dims = len(points), len(points[0])
    single, pair = singles[method], pairs[method]
    constant = constants[method] ** dims * (-1 if method == "WD" else 1)
    one = sum(prod(single(x) for x in p) for p in points) * 2 / count
    two = sum(
        prod(pair(x, y) for x, y in zip(p, q, strict=True)) for p in points for q in points
    ) / Fraction(count**2)
    return constant - one + two
