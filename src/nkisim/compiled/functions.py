"""Elementary functions of float32, element by element in one pass. Imports numba.

``exp`` is a polynomial in float32, accurate to one unit in the last place. The others are evaluated
in float64 and rounded once, by the same formulas as ``spec.activations``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np

from nkisim.compiled.loops import compiled_loop, compiled_ufunc


def evaluate_in_place(name: str, values: np.ndarray) -> None:
    """Replace the elements of a dense float32 array by their values under one of ``FUNCTIONS``."""
    if name == "exp":
        _exp_loop()(values.reshape(-1))
    else:
        _ufunc(name)(values, out=values)


@cache
def _exp_loop() -> Callable[..., None]:
    # A loop, not a ufunc: ufuncs are vectorised only if the result does not overlap the input.
    return compiled_loop(_exp)


@cache
def _ufunc(name: str) -> Callable[..., np.ndarray]:
    return compiled_ufunc(_SCALARS[name], "float32(float32)")


# exp(x) = 2^n * exp(r) with the integer n nearest to x / log(2), and |r| <= log(2) / 2.
_LOG2_E = np.float32(1.4426950408889634)
# log(2) in two parts; n times the first one is exact.
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.1219444e-4)
# Added to a number below 2^22, this rounds it to an integer, in the lowest bits of the pattern.
_SHIFT = np.float32(1.5 * 2**23)
_SHIFT_BITS = np.int32(_SHIFT.view(np.int32))
# For arguments beyond these bounds the results are zero and infinity.
_LOWEST, _HIGHEST = np.float32(-104), np.float32(89)
# exp(r) = 1 + r + r^2 (C2 + C3 r + ...): minimax coefficients for the relative error.
_C2, _C3 = np.float32(4.9999993412e-01), np.float32(1.6666520108e-01)
_C4, _C5 = np.float32(4.1668394217e-02), np.float32(8.3687804291e-03)
_C6 = np.float32(1.3814466742e-03)
_ONE = np.float32(1)


# The steps of one element wait for each other; the compiler interleaves the steps of a group of
# elements.
_GROUP = 32


def _exp(values: Any) -> None:
    whole = values.size - values.size % _GROUP
    for start in range(0, whole, _GROUP):
        group = values[start : start + _GROUP]
        for i in range(_GROUP):
            group[i] = _exp_of(group[i])
    for i in range(whole, values.size):
        values[i] = _exp_of(values[i])


@numba.njit  # type: ignore[untyped-decorator]
def _exp_of(x: Any) -> Any:
    y = _LOWEST if x < _LOWEST else x
    y = _HIGHEST if y > _HIGHEST else y  # NaN passes both
    shifted = y * _LOG2_E + _SHIFT
    n = shifted - _SHIFT
    r = (y - n * _LN2_HIGH) - n * _LN2_LOW
    p = (((_C6 * r + _C5) * r + _C4) * r + _C3) * r + _C2
    p = p * (r * r) + r + _ONE
    # 2^n in two factors, since it may be subnormal or beyond the largest number.
    k = np.int32(np.float32(shifted).view(np.int32) - _SHIFT_BITS)
    half = np.int32(k >> 1)
    first = np.int32((half + 127) << 23).view(np.float32)
    second = np.int32((np.int32(k - half) + 127) << 23).view(np.float32)
    return p * first * second


# Replaces infinity in float64: larger than every float32, and its products do not overflow.
_FAR = 1e39
_GELU_TANH, _GELU_CUBIC, _GELU_SIGMOID = math.sqrt(2 / math.pi), 0.044715, 1.702
_SQRT_HALF = math.sqrt(0.5)


@numba.njit  # type: ignore[untyped-decorator]
def _finite(x: float) -> float:
    return min(max(float(x), -_FAR), _FAR) if x == x else float(x)


@numba.njit  # type: ignore[untyped-decorator]
def _sigmoid(x: float) -> float:
    e = math.exp(-abs(x))
    return (1.0 if x >= 0 else e) / (1.0 + e)


@numba.njit  # type: ignore[untyped-decorator]
def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x * _SQRT_HALF)


def _sigmoid_of(x: Any) -> Any:
    return _sigmoid(_finite(x))


def _silu(x: Any) -> Any:
    y = _finite(x)
    return y * _sigmoid(y)


def _silu_dx(x: Any) -> Any:
    y = _finite(x)
    return _sigmoid(y) * (1.0 + y * _sigmoid(-y))


def _gelu(x: Any) -> Any:
    y = _finite(x)
    return y * _normal_cdf(y)


def _gelu_dx(x: Any) -> Any:
    y = _finite(x)
    near = min(max(y, -40.0), 40.0)
    return _normal_cdf(y) + near * math.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)


def _gelu_tanh(x: Any) -> Any:
    y = _finite(x)
    near = min(max(y, -1e3), 1e3)
    return y * _sigmoid(2 * _GELU_TANH * (near + _GELU_CUBIC * near**3))


def _gelu_sigmoid(x: Any) -> Any:
    y = _finite(x)
    return y * _sigmoid(_GELU_SIGMOID * y)


def _gelu_sigmoid_dx(x: Any) -> Any:
    y = _GELU_SIGMOID * _finite(x)
    return _sigmoid(y) * (1.0 + y * _sigmoid(-y))


@numba.njit  # type: ignore[untyped-decorator]
def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _softplus_of(x: Any) -> Any:
    return _softplus(_finite(x))


def _mish(x: Any) -> Any:
    y = _finite(x)
    return y * math.tanh(_softplus(y))


def _erf(x: Any) -> Any:
    return math.erf(_finite(x))


def _erf_dx(x: Any) -> Any:
    y = _finite(x)
    return 2 / math.sqrt(math.pi) * math.exp(-y * y)


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "sigmoid": _sigmoid_of,
    "silu": _silu,
    "silu_dx": _silu_dx,
    "gelu": _gelu,
    "gelu_dx": _gelu_dx,
    "gelu_apprx_tanh": _gelu_tanh,
    "gelu_apprx_sigmoid": _gelu_sigmoid,
    "gelu_apprx_sigmoid_dx": _gelu_sigmoid_dx,
    "softplus": _softplus_of,
    "mish": _mish,
    "erf": _erf,
    "erf_dx": _erf_dx,
}
