"""Transforms to 30 digits by the definition, in mpmath, for operands in float64."""

from __future__ import annotations

import mpmath
import numpy as np

DIGITS = 30


def transform(x: np.ndarray, inverse: bool = False) -> list[mpmath.mpc]:
    """The unscaled transform of a vector: sums of exact numbers times roots of 30 digits."""
    n = len(x)
    with mpmath.workdps(DIGITS):
        sign = 2 if inverse else -2
        roots = [mpmath.expjpi(mpmath.mpf(sign * k) / n) for k in range(n)]
        points = [mpmath.mpc(complex(value)) for value in x]
        return [mpmath.fdot(points, [roots[j * k % n] for j in range(n)]) for k in range(n)]


def relative_error(got: np.ndarray, want: list[mpmath.mpc]) -> float:
    """The relative L2 error of a vector in float64."""
    assert len(got) == len(want)
    with mpmath.workdps(DIGITS):
        error = mpmath.norm([mpmath.mpc(complex(a)) - b for a, b in zip(got, want, strict=True)])
        return float(error / mpmath.norm(want))
