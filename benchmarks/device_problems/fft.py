"""Fourier transforms of complex operands in float32."""

from __future__ import annotations

import math
from functools import partial

import torch

import trnfft
from device_problems.problem import Problem


def problem(function: str, *shape: int, goal_us: float | None = None) -> Problem:
    """Return one transform; operand and result are complex64."""
    return Problem(
        f"{function} {' x '.join(map(str, shape))}",
        "trnfft",
        lambda: partial(getattr(trnfft, function), torch.zeros(shape, dtype=torch.complex64)),
        2 * 8 * math.prod(shape),
        goal_us=goal_us,
    )


PROBLEMS = (
    problem("fft", 128, 65536, goal_us=1200),
    problem("fft", 128, 1024, goal_us=45),
    problem("fft2", 1024, 1024, goal_us=310),
)
LARGER = (
    problem("fft", 128, 98304),
    problem("fft", 192, 65536),
    problem("fft", 128, 1536),
    problem("fft", 192, 1024),
    problem("fft2", 1024, 768),
)
ODD = (
    problem("fft", 77, 59049),
    problem("fft", 131, 1025),
    problem("fft", 7, 65520),
    problem("fft2", 999, 1001),
)
