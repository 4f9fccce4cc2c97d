"""The Scalar engine's functions, on float32 arrays.

The device evaluates piecewise polynomials; here each function is evaluated in float32 (erf and what
needs it in float64) and is right to a few units in the last place. Where the device's function is
only valid in an interval, that interval stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.polynomial import chebyshev

__all__ = ["FUNCTIONS"]

Array = np.ndarray
_F = np.float32

# Constants of the tanh and sigmoid approximations of gelu.
_GELU_TANH = math.sqrt(2 / math.pi)
_GELU_CUBIC = 0.044715
_GELU_SIGMOID = 1.702


def _copy(x: Array) -> Array:
    return x


def _sigmoid(x: Array) -> Array:
    # exp of a non-positive number only, so that nothing overflows.
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, _F(1), e) / (_F(1) + e)


def _softplus(x: Array) -> Array:
    return np.maximum(x, _F(0)) + np.log1p(np.exp(-np.abs(x)))


def _silu(x: Array) -> Array:
    # x * sigmoid(x) is NaN at -inf, where the limit is 0.
    return np.where(np.isneginf(x), _F(-0.0), x * _sigmoid(x))


def _silu_dx(x: Array) -> Array:
    s = _sigmoid(x)
    finite = np.clip(x, _F(-1e30), _F(1e30))
    return s * (_F(1) + finite * (_F(1) - s))


def _relu(x: Array) -> Array:
    return np.maximum(x, _F(0))


@cache
def _erfc_series() -> Array:
    """Chebyshev coefficients of log(erfc(x) / t) + x*x in t = 2 / (2 + x), for x from 0 to 8."""
    low = 2 / (2 + 8.0)

    def sample(u: Array) -> Array:
        t = low + (u + 1) * (1 - low) / 2
        x = 2 / t - 2
        return np.array([math.log(math.erfc(v)) + v * v for v in x]) - np.log(t)

    return chebyshev.chebinterpolate(sample, 32)


def _erf64(x: Array) -> Array:
    """Return erf in float64, right to about 1e-15."""
    a = np.minimum(np.abs(x), 8.0)
    low = 2 / (2 + 8.0)
    t = 2 / (2 + a)
    u = (t - low) * 2 / (1 - low) - 1
    tail = 1 - t * np.exp(-a * a + chebyshev.chebval(u, _erfc_series()))
    # Near 0 the difference from 1 loses digits; six terms of the power series are exact enough
    # below 0.2.
    q = a * a
    series = 1 + q * (
        -1 / 3 + q * (1 / 10 + q * (-1 / 42 + q * (1 / 216 + q * (-1 / 1320 + q / 9360))))
    )
    small = a * (2 / math.sqrt(math.pi)) * series
    return np.copysign(np.where(a < 0.2, small, tail), x)


def _erf(x: Array) -> Array:
    y = _erf64(x.astype(np.float64)).astype(_F)
    return np.where(np.isnan(x), x, y)


def _erf_dx(x: Array) -> Array:
    return _F(2 / math.sqrt(math.pi)) * np.exp(-np.square(x))


def _gelu(x: Array) -> Array:
    wide = x.astype(np.float64)
    cdf = 0.5 * (1 + _erf64(wide / math.sqrt(2)))
    y = np.where(np.isneginf(wide), -0.0, wide * cdf)
    return np.where(np.isnan(x), x, y.astype(_F))


def _gelu_dx(x: Array) -> Array:
    wide = np.clip(x.astype(np.float64), -40, 40)
    cdf = 0.5 * (1 + _erf64(wide / math.sqrt(2)))
    pdf = np.exp(-0.5 * wide * wide) / math.sqrt(2 * math.pi)
    return np.where(np.isnan(x), x, (cdf + wide * pdf).astype(_F))


def _gelu_tanh(x: Array) -> Array:
    inner = _F(_GELU_TANH) * (x + _F(_GELU_CUBIC) * x * x * x)
    y = _F(0.5) * x * (_F(1) + np.tanh(inner))
    return np.where(np.isneginf(x), _F(-0.0), y)


def _gelu_sigmoid(x: Array) -> Array:
    y = x * _sigmoid(_F(_GELU_SIGMOID) * x)
    return np.where(np.isneginf(x), _F(-0.0), y)


def _gelu_sigmoid_dx(x: Array) -> Array:
    finite = np.clip(x, _F(-1e30), _F(1e30))
    s = _sigmoid(_F(_GELU_SIGMOID) * finite)
    return s + _F(_GELU_SIGMOID) * finite * s * (_F(1) - s)


def _mish(x: Array) -> Array:
    y = x * np.tanh(_softplus(x))
    return np.where(np.isneginf(x), _F(-0.0), y)


def _rsqrt(x: Array) -> Array:
    # One rounding: the square root and the quotient in float64.
    return (1 / np.sqrt(x.astype(np.float64))).astype(_F)


def _reciprocal(x: Array) -> Array:
    return _F(1) / x


FUNCTIONS: tuple[tuple[str, Callable[[Array], Array], tuple[float, float] | None], ...] = (
    ("copy", _copy, None),
    ("square", np.square, None),
    ("sigmoid", _sigmoid, None),
    ("relu", _relu, None),
    ("gelu", _gelu, None),
    ("gelu_dx", _gelu_dx, None),
    ("gelu_apprx_tanh", _gelu_tanh, None),
    ("gelu_apprx_sigmoid", _gelu_sigmoid, None),
    ("gelu_apprx_sigmoid_dx", _gelu_sigmoid_dx, None),
    ("silu", _silu, None),
    ("silu_dx", _silu_dx, None),
    ("tanh", np.tanh, None),
    ("softplus", _softplus, None),
    ("mish", _mish, None),
    ("erf", _erf, None),
    ("erf_dx", _erf_dx, None),
    ("exp", np.exp, None),
    ("log", np.log, (2.0**-64, 2.0**64)),
    ("sin", np.sin, (-math.pi, math.pi)),
    ("arctan", np.arctan, (-math.pi / 2, math.pi / 2)),
    ("sqrt", np.sqrt, (2.0**-116, 2.0**118)),
    ("rsqrt", _rsqrt, (2.0**-87, 2.0**97)),
    ("reciprocal", _reciprocal, (2.0**-42, 2.0**42)),
    ("sign", np.sign, None),
    ("abs", np.abs, None),
)
"""Name, function and valid interval of every activation; reciprocal's interval is of the magnitude.
"""
