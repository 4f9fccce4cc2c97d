"""Random number generators, one number at a time, and the statistics to judge them by.

XORWOW and the 32-bit xorshift are written from the recurrences in G. Marsaglia, "Xorshift RNGs",
Journal of Statistical Software 8 (2003), SplitMix64 from G. Steele, D. Lea and C. Flood, "Fast
splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

WORD = 2**32
LANES = 128
#: Words of a XORWOW state: x, y, z, w, v and the counter d.
STATE = 6


def xorwow(state: Sequence[int]) -> tuple[int, list[int]]:
    """The next number of a XORWOW generator, and its state after that."""
    x, y, z, w, v, d = state
    t = x ^ (x >> 2)
    new = (v ^ (v << 4)) ^ (t ^ (t << 1))
    new %= WORD
    d = (d + 362437) % WORD
    return (d + new) % WORD, [y, z, w, v, new, d]


def xorshift32(y: int) -> int:
    """The next state, which is also the next number, of the xorshift with shifts 13, 17, 5."""
    y ^= y << 13
    y %= WORD
    y ^= y >> 17
    y ^= y << 5
    return y % WORD


def splitmix64(seed: int, count: int) -> list[int]:
    """The first numbers of SplitMix64 started at a seed."""
    numbers = []
    for k in range(1, count + 1):
        z = (seed + k * 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        numbers.append(z ^ (z >> 31))
    return numbers


def seed_words(seed: int, count: int) -> list[int]:
    """The words that a seed is expanded to: the upper halves of SplitMix64's numbers."""
    return [z // WORD for z in splitmix64(seed, count)]


class Lane:
    """The generators of one lane: a list of XORWOW states, or one word of xorshift."""

    def __init__(self, words: Sequence[int]) -> None:
        self.words = [int(word) for word in words]

    def draw(self, count: int) -> list[int]:
        """The next numbers; generators take turns and each turn moves all of them."""
        if len(self.words) == 1:
            numbers = []
            for _ in range(count):
                self.words = [xorshift32(self.words[0])]
                numbers += self.words
            return numbers
        numbers = []
        while len(numbers) < count:
            after = []
            for first in range(0, len(self.words), STATE):
                number, state = xorwow(self.words[first : first + STATE])
                numbers.append(number)
                after += state
            self.words = after
        return numbers[:count]


def seeded_lane(seed: int, lane: int, words: int) -> Lane:
    """A lane after a seed was given to its engine: lane k has the k-th group of seed words."""
    return Lane(seed_words(seed, LANES * words)[lane * words : (lane + 1) * words])


def uniform(number: int, low: float, high: float) -> Fraction:
    """The point of [low, high) that the upper 24 bits of a number choose, exactly."""
    return Fraction(low) + Fraction(number >> 8, 2**24) * (Fraction(high) - Fraction(low))


def chi_square(counts: Iterable[int]) -> float:
    """Pearson's statistic of counts in cells of equal probability."""
    cells = list(counts)
    expected = sum(cells) / len(cells)
    return sum((count - expected) ** 2 for count in cells) / expected


def chi_square_tail(statistic: float, degrees: int) -> float:
    """The probability that a chi-square variable exceeds ``statistic``.

    Q(s + 1, x) = Q(s, x) + x^s e^-x / Gamma(s + 1) from Q(1/2, x) = erfc(sqrt x) or Q(1, x) = e^-x,
    with s half the degrees of freedom and x half the statistic.
    """
    x = statistic / 2
    s, tail = (0.5, math.erfc(math.sqrt(x))) if degrees % 2 else (1.0, math.exp(-x))
    while s < degrees / 2:
        tail += math.exp(s * math.log(x) - x - math.lgamma(s + 1))
        s += 1
    return tail


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """The correlation coefficient of two sequences."""
    n, mean_a, mean_b = len(a), math.fsum(a) / len(a), math.fsum(b) / len(b)
    covariance = math.fsum((p - mean_a) * (q - mean_b) for p, q in zip(a, b, strict=True)) / n
    variance_a = math.fsum((p - mean_a) ** 2 for p in a) / n
    variance_b = math.fsum((q - mean_b) ** 2 for q in b) / n
    return covariance / math.sqrt(variance_a * variance_b)
