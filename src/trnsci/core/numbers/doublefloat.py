"""Scales by powers of two, and numbers as sums of float32 planes.

Each row of the left operand and each column of the right one is scaled so that its largest entry
lies in [1/2, 1). Scales are powers of two and applied in float64, so they round nothing, except
entries below 2**-1022 of their row's largest. A scaled entry x is the sum of two float32 numbers
and of at most 2**-49 |x|: the first is x rounded, the second what is left, rounded. An infinity
becomes a NaN, because what is left of it would be one.
"""

from __future__ import annotations

import torch
from torch import Tensor

_BIAS, _MANTISSA_BITS = 1023, 52  # of float64


def row_exponents(matrices: Tensor, most: float = 1.0) -> Tensor:
    """Return the exponent e of each row, as a column, with largest entry below ``most * 2**e``.

    It is the smallest such number; 0 for a row of zeros and for one with a NaN or an infinity.
    """
    largest = matrices.abs().amax(-1, keepdim=True).double()
    usable = torch.isfinite(largest) & (largest > 0)
    fraction, exponent = torch.frexp(torch.where(usable, largest, 0.5))
    # fraction is in [1/2, 1), and so is that of ``most``.
    fraction_of_most, exponent_of_most = torch.frexp(torch.tensor(most, dtype=torch.float64))
    exponent = exponent - exponent_of_most + (fraction >= fraction_of_most)
    return torch.where(usable, exponent, 0).long()


def row_range(matrices: Tensor) -> int:
    """Return the smallest r such that entries, scaled by rows, are at least 2**-r or 0.

    A NaN or an infinity is not counted.
    """
    magnitudes = matrices.abs().double()
    counted = torch.isfinite(magnitudes) & (magnitudes > 0)
    own = torch.frexp(torch.where(counted, magnitudes, 1.0)).exponent
    below = torch.where(counted, row_exponents(matrices) - own, 0)
    return 1 + int(below.max())


def times_power(values: Tensor, exponents: Tensor) -> Tensor:
    """Return ``values * 2**exponents`` in float64, rounded at most once.

    A power may be beyond the range of float64, where the product is not: half of it is applied at a
    time.
    """
    half = exponents.div(2, rounding_mode="floor")
    return values.double() * _power(half) * _power(exponents - half)


def plane(values: Tensor) -> Tensor:
    """Return values in float32; what is not finite becomes NaN."""
    rounded = values.float()
    return torch.where(torch.isfinite(rounded), rounded, torch.nan)


def planes(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return two float32 tensors with the sum ``values`` up to 2**-49 of it."""
    high = plane(values)
    return high, (values - high).float()


def joined(high: Tensor, low: Tensor, exponents: Tensor, dtype: torch.dtype) -> Tensor:
    """Return ``(high + low) * 2**exponents``."""
    return times_power(high.double() + low.double(), exponents).to(dtype)


def _power(exponents: Tensor) -> Tensor:
    """Return powers of two in float64; 0 below its normal numbers, and the largest above.

    An infinite power would make a NaN of 0. Numbers down to 2**-976 overflow by two largest powers.
    """
    clamped = exponents.clamp(-_BIAS, _BIAS)
    return ((clamped + _BIAS) << _MANTISSA_BITS).view(torch.float64)
