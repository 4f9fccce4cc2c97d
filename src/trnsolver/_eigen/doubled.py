"""Residuals ``A V - V diag(w)`` of float64 matrices in twice float64, by products of matrices.

A and V are cut into slices; the first two have so few bits that their products are exact in float64
in any order of summation (Ozaki, Ogita, Oishi and Rump 2012). The terms are then added with the
rounding error of every addition (Knuth).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnsolver._factors.bounds import halves
from trnsolver._factors.forms import columns, joined_columns, of_columns

_BITS = 53
_TERMS = 8
"""Terms of a residual: products of slices, and both parts of ``v w``."""


def rounding_of_doubled(n: int) -> float:
    """Return the rounding of a residual over that of float64, relative to the norms of A and V.

    Sums of the terms lose the square of the roundoff. The third slices have the remaining bits, all
    of them for elements far below the peak: their products are rounded, at the magnitude of the
    peak times ``2**(-2 bits)``, for which sums of n elements take ``sqrt(n)`` norms.
    """
    eps = torch.finfo(torch.float64).eps
    return float(_TERMS**2 * eps + n**0.5 * 2.0 ** (1 - 2 * _bits(n)))


def doubled_residual(a: Tensor, v: Tensor, w: Tensor) -> Tensor:
    """Return the residual, rounded once.

    Args:
        a: Square matrix (n, n), real or complex, n below 2**17.
        v: Vectors (n, k).
        w: Real values (k,).
    """
    if a.is_complex():
        return joined_columns(doubled_residual(of_columns(a), columns(v), w))
    bits = _bits(a.shape[-1])
    a1, a2, a3 = _slices(a, bits, -1)
    v1, v2, v3 = _slices(v, bits, -2)
    terms = [a1 @ v1, a1 @ v2, a2 @ v1, a2 @ v2, (a1 + a2) @ v3, a3 @ v]
    terms += [-part for part in _product(v, w)]
    total, lost = terms[0], torch.zeros_like(terms[0])
    for term in terms[1:]:
        new = total + term
        part = new - total
        lost = lost + ((total - (new - part)) + (term - part))
        total = new
    return total + lost


def _bits(n: int) -> int:
    """Return the bits of a slice, for exact sums of n products."""
    return (_BITS - math.ceil(math.log2(max(n, 2)))) // 2


def _slices(values: Tensor, bits: int, dim: int) -> list[Tensor]:
    """Return three tensors that sum to ``values``; two of them have few bits below the peak."""
    found = []
    for _ in range(2):
        peak = values.abs().amax(dim, keepdim=True)
        exponent = torch.frexp(peak).exponent
        # Adding and subtracting this rounds to multiples of 2**(exponent - bits).
        shift = torch.ldexp(torch.full_like(peak, 0.75), exponent + _BITS - bits)
        high = (values + shift) - shift
        found.append(high)
        values = values - high
    return [*found, values]


def _product(v: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Return the product, and its rounding error, from halves of the bits (Dekker)."""
    product = v * w
    (v_high, v_low), (w_high, w_low) = halves(v), halves(w)
    return product, ((v_high * w_high - product) + v_high * w_low + v_low * w_high) + v_low * w_low
