"""Normalisation of transforms."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

Norm: TypeAlias = Literal["forward", "backward", "ortho"] | None


def factor_of(n: int, inverse: bool, norm: Norm) -> float:
    """Return the factor of a normalisation for n points."""
    norm = norm or "backward"
    if norm == "ortho":
        return 1.0 / math.sqrt(n)
    return 1.0 / n if (norm == "forward") != inverse else 1.0
