"""The numbers that define the streams: constants of the engines, domains, polynomial coefficients.

All implementations share them: torch, NumPy, compiled loops, Triton and NKI.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

MASK = 0xFFFF_FFFF

PHILOX_M0, PHILOX_M1 = 0xD251_1F53, 0xCD9E_8D57
PHILOX_W0, PHILOX_W1 = 0x9E37_79B9, 0xBB67_AE85  # golden ratio and sqrt(3) - 1, as fractions
PHILOX_ROUNDS = 10

THREEFRY_PARITY = 0x1BD1_1BDA
THREEFRY_ROUNDS = 20
THREEFRY_ROTATIONS = (
    (10, 26),
    (11, 21),
    (13, 27),
    (23, 5),
    (6, 20),
    (17, 11),
    (25, 10),
    (18, 20),
)
"""Rotations of both mixes of a round; round r uses row r modulo 8."""

WIDE = 0x80
"""Flag of a domain for two-word samples, so that they share no word with one-word samples."""


class Domain(IntEnum):
    """Purposes of words. The numbers are part of the streams and never change meaning."""

    UNIFORM = 0
    NORMAL = 1
    EXPONENTIAL = 2
    BERNOULLI = 3
    RANDINT = 4
    PERMUTATION = 5
    TRUNCATED_NORMAL = 6
    GAMMA = 7
    BETA_SECOND = 8
    POISSON = 9
    BINOMIAL = 10
    GEOMETRIC = 11
    LAPLACE = 12
    CAUCHY = 13
    CHOICE = 14
    STUDENT_T = 15
    GUMBEL = 16
    WEIBULL = 17
    VON_MISES = 18
    HYPERGEOMETRIC = 19
    SPLIT = 32
    SPAWN = 33
    FORK = 34


Kind = Literal["words", "uniform", "normal", "exponential"]

DOMAINS: dict[Kind, Domain] = {
    "words": Domain.UNIFORM,
    "uniform": Domain.UNIFORM,
    "normal": Domain.NORMAL,
    "exponential": Domain.EXPONENTIAL,
}
"""Domain of each kind of one-word samples; two-word samples add ``WIDE``."""

GROUPS: dict[Kind, int] = {"words": 1, "uniform": 1, "normal": 2, "exponential": 1}
"""Number of neighbouring samples that are computed together."""

# -- logarithm and sine in float32 -----------------------------------------------------------------
#
# Normals and exponentials are computed from the two functions below, in float32, by
# multiplications, additions and one square root, each rounded once, in this order. They are
# bit-identical on all IEEE 754 hardware, since no library function is used.
#
#   -2 log(u)   u = m 2**e with m from LOG_SPLIT to twice that, f = m - 1:
#               g = LOG[0]; g = g f + c for each further c of LOG; e MINUS_TWO_LN2 + g f
#   sin(x)      for |x| <= pi / 2, q = x x:
#               p = SINE[0]; p = p q + c for each further c of SINE; (p q) x + x
#
# Fitted for the least relative error (weighted least squares on 4000 Chebyshev nodes, weights moved
# to the largest errors), then rounded to float32: off by 2.2 and 2.5 units of 2**-24 at most.

LOG_SPLIT = 0.69921875
LOG_SPLIT_BITS = 0x3F33_0000
MINUS_TWO_LN2 = float.fromhex("-0x1.62e430p0")
LOG = tuple(
    float.fromhex(c)
    for c in (
        "0x1.5a4108p-3",
        "-0x1.0cef9cp-2",
        "0x1.0b2f34p-2",
        "-0x1.21b416p-2",
        "0x1.548b1ap-2",
        "-0x1.99acf2p-2",
        "0x1.000200p-1",
        "-0x1.555542p-1",
        "1.0",
        "-2.0",
    )
)
SINE = tuple(
    float.fromhex(c)
    for c in ("0x1.5dbdeep-19", "-0x1.9f6ffep-13", "0x1.110ed4p-7", "-0x1.55554cp-3")
)

LEAST_EXPONENTIAL = 2.0**-25
"""Least exponential in float32: half a step of the uniform, the sample for u = 0."""

LEAST_SQUARE = 2.0**-100
"""Least squared radius: at u = 1 the logarithm is 0, where some square roots are not valid."""

TURN24 = float.fromhex("0x1.921fb6p-22")
"""The angle of the last of 24 bits, 2 pi / 2**24 in float32."""
