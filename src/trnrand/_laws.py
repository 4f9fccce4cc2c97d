"""What standard samples are: which words they are made of, and how many bits of them.

Every way to make samples reads these numbers: torch, NumPy, compiled loops, Triton and NKI.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Literal

import torch

__all__ = [
    "DOMAINS",
    "FLOATS",
    "GROUPS",
    "TURN24",
    "UNIFORM_BITS",
    "WIDE",
    "Domain",
    "Kind",
]

WIDE = 0x80
"""Added to a domain for its samples of two words, so that they share no word with those of one."""


class Domain(IntEnum):
    """What words are for. Numbers are part of the streams: they never change meaning."""

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

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""The dtypes of continuous samples."""

DOMAINS: dict[Kind, Domain] = {
    "words": Domain.UNIFORM,
    "uniform": Domain.UNIFORM,
    "normal": Domain.NORMAL,
    "exponential": Domain.EXPONENTIAL,
}
"""Which words samples of one word are made of; those of two words add ``WIDE``."""

GROUPS: dict[Kind, int] = {"words": 1, "uniform": 1, "normal": 2, "exponential": 1}
"""How many neighbours are made together."""

UNIFORM_BITS = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
"""As many as the significand holds: the conversion to the dtype is exact, never up to 1."""

TURN24 = 2 * math.pi * 2.0**-24
"""The angle of the last of 24 bits."""
