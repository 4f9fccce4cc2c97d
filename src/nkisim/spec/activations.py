"""The Scalar engine's functions, on float32 arrays.

The device evaluates piecewise polynomials. Here NumPy evaluates a function in float32 if that is
accurate. The others are evaluated in float64 and rounded once: their error is at most one unit in
the last place, also where terms cancel. Functions that are valid only in an interval on the device
are listed with that interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

Array = np.ndarray
Function = Callable[[Array], Array]
_F = np.float32

# Constants of the tanh and sigmoid approximations of gelu.
_GELU_TANH = math.sqrt(2 / math.pi)
_GELU_CUBIC = 0.044715
_GELU_SIGMOID = 1.702

# Replaces infinity in float64: larger than every float32, and its products do not overflow.
_FAR = 1e39

# erfc falls below the smallest float32 before this argument.
_ERFC_END = 11.0


def _once_rounded(function: Function) -> Function:
    """Evaluate in float64 with infinities clipped, round once, and propagate NaN."""

    def evaluate(x: Array) -> Array:
        wide = np.clip(x.astype(np.float64), -_FAR, _FAR)
        return np.where(np.isnan(x), x, function(wide).astype(_F))

    return evaluate


def _copy(x: Array) -> Array:
    return x


def _relu(x: Array) -> Array:
    return np.maximum(x, _F(0))


def prelu(x: Array, slope: Array | np.float32) -> Array:
    """Return ``x``, or ``x * slope`` where ``x`` is negative."""
    return np.where(x < 0, x * slope, x)


def _sigmoid(x: Array) -> Array:
    # exp of a non-positive number only, so that nothing overflows.
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _silu(x: Array) -> Array:
    return x * _sigmoid(x)


def _silu_dx(x: Array) -> Array:
    return _sigmoid(x) * (1.0 + x * _sigmoid(-x))


@cache
def _erfc_series() -> Array:
    """Chebyshev coefficients of log(erfc(x) / t) + x*x in t = 2 / (2 + x)."""
    low = 2 / (2 + _ERFC_END)

    def sample(u: Array) -> Array:
        t = low + (u + 1) * (1 - low) / 2
        x = 2 / t - 2
        return np.array([math.log(math.erfc(v)) + v * v for v in x]) - np.log(t)

    return np.polynomial.chebyshev.chebinterpolate(sample, 36)


def _erfc(x: Array) -> Array:
    """Return the complementary error function, relative error about 1e-14."""
    a = np.minimum(np.abs(x), _ERFC_END)
    low = 2 / (2 + _ERFC_END)
    t = 2 / (2 + a)
    u = (t - low) * 2 / (1 - low) - 1
    tail = t * np.exp(-a * a + np.polynomial.chebyshev.chebval(u, _erfc_series()))
    tail = np.where(np.abs(x) > _ERFC_END, 0.0, tail)
    return np.where(x >= 0, tail, 2.0 - tail)


def _erf(x: Array) -> Array:
    # Near 0 the difference from 1 loses digits; seven terms of the series are exact below 0.2.
    a = np.abs(x)
    q = np.minimum(a, 1.0) ** 2
    series = 1 / 216 + q * (-1 / 1320 + q / 9360)
    series = 1 + q * (-1 / 3 + q * (1 / 10 + q * (-1 / 42 + q * series)))
    small = a * (2 / math.sqrt(math.pi)) * series
    return np.copysign(np.where(a < 0.2, small, 1.0 - _erfc(a)), x)


def _erf_dx(x: Array) -> Array:
    return 2 / math.sqrt(math.pi) * np.exp(-np.square(x))


def _normal_cdf(x: Array) -> Array:
    return 0.5 * _erfc(-x / math.sqrt(2))


def _gelu(x: Array) -> Array:
    return x * _normal_cdf(x)


def _gelu_dx(x: Array) -> Array:
    near = np.clip(x, -40.0, 40.0)
    return _normal_cdf(x) + near * np.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)


def _gelu_tanh(x: Array) -> Array:
    near = np.clip(x, -1e3, 1e3)
    # 0.5 * (1 + tanh(z)) is sigmoid(2 z), which does not cancel for negative z.
    return x * _sigmoid(2 * _GELU_TANH * (near + _GELU_CUBIC * near**3))


def _gelu_sigmoid(x: Array) -> Array:
    return x * _sigmoid(_GELU_SIGMOID * x)


def _gelu_sigmoid_dx(x: Array) -> Array:
    s = _sigmoid(_GELU_SIGMOID * x)
    return s * (1.0 + _GELU_SIGMOID * x * _sigmoid(-_GELU_SIGMOID * x))


def _mish(x: Array) -> Array:
    return x * np.tanh(_softplus(x))


def _rsqrt(x: Array) -> Array:
    # One rounding: the square root and the quotient in float64.
    return (1 / np.sqrt(x.astype(np.float64))).astype(_F)


def _reciprocal(x: Array) -> Array:
    return _F(1) / x


FUNCTIONS: tuple[tuple[str, Function, tuple[float, float] | None], ...] = (
    ("copy", _copy, None),
    ("square", np.square, None),
    ("sigmoid", _once_rounded(_sigmoid), None),
    ("relu", _relu, None),
    ("gelu", _once_rounded(_gelu), None),
    ("gelu_dx", _once_rounded(_gelu_dx), None),
    ("gelu_apprx_tanh", _once_rounded(_gelu_tanh), None),
    ("gelu_apprx_sigmoid", _once_rounded(_gelu_sigmoid), None),
    ("gelu_apprx_sigmoid_dx", _once_rounded(_gelu_sigmoid_dx), None),
    ("silu", _once_rounded(_silu), None),
    ("silu_dx", _once_rounded(_silu_dx), None),
    ("tanh", np.tanh, None),
    ("softplus", _once_rounded(_softplus), None),
    ("mish", _once_rounded(_mish), None),
    ("erf", _once_rounded(_erf), None),
    ("erf_dx", _once_rounded(_erf_dx), None),
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
"""Name, function and valid interval of every activation; reciprocal's bounds the magnitude."""
