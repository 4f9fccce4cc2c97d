"""Element-by-element instructions of NKI 0.3.0, from their definition.

Stored elements are NumPy arrays (ml_dtypes for bfloat16 and float8). An engine widens each element
to float32, applies its operators in float32, and rounds once into the destination's format:

    widen    exact for floats and for integers up to 2^24; nearest even above
    operate  the real result rounded to float32; +, - and * of float32 values are right when
             computed in float64 and rounded, since 53 >= 2 * 24 + 2 bits make the second rounding
             harmless
    narrow   nearest even; integers are clamped to their range, NaN becomes 0
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import ml_dtypes
import numpy as np

DTYPES = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
    "float8_e4m3": np.dtype(ml_dtypes.float8_e4m3),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "int8": np.dtype(np.int8),
    "int16": np.dtype(np.int16),
    "int32": np.dtype(np.int32),
    "uint8": np.dtype(np.uint8),
    "uint16": np.dtype(np.uint16),
    "uint32": np.dtype(np.uint32),
}


def widen(stored: np.ndarray) -> np.ndarray:
    """The float32 values of stored elements."""
    with np.errstate(all="ignore"):
        return np.asarray(stored).astype(np.float32)


def reals(stored: np.ndarray) -> np.ndarray:
    """The float64 values of stored elements; of a signalling NaN NumPy would complain."""
    with np.errstate(invalid="ignore"):
        return np.asarray(stored).astype(np.float64)


def narrow(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Float32 values rounded once into ``dtype``."""
    values = np.asarray(values)
    assert values.dtype == np.float32, values.dtype
    if dtype.kind not in "iu":
        with np.errstate(all="ignore"):
            return values.astype(dtype)
    info = np.iinfo(dtype)
    exact = np.clip(np.nan_to_num(reals(values), nan=0.0), info.min, info.max)
    floor = np.floor(exact)
    excess = exact - floor
    up = (excess > 0.5) | ((excess == 0.5) & (floor % 2 == 1))
    return (floor + up).astype(np.int64).astype(dtype)


def float32(values: object) -> np.ndarray:
    """Real values rounded to float32."""
    with np.errstate(all="ignore"):
        return np.asarray(values, np.float64).astype(np.float32)


def _truth(test: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda a, b: test(a, b).astype(np.float64)


def _nonzero(test: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda a, b: test(a != 0, b != 0).astype(np.float64)


#: Operators with an exact answer, on float64 copies of float32 values.
ARITHMETIC: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "maximum": lambda a, b: np.where(a >= b, a, b),
    "minimum": lambda a, b: np.where(a <= b, a, b),
    "equal": _truth(operator.eq),
    "not_equal": _truth(operator.ne),
    "greater": _truth(operator.gt),
    "greater_equal": _truth(operator.ge),
    "less": _truth(operator.lt),
    "less_equal": _truth(operator.le),
    "logical_and": _nonzero(operator.and_),
    "logical_or": _nonzero(operator.or_),
    "logical_xor": _nonzero(operator.xor),
}


def alu(op: str, a: np.ndarray, b: np.ndarray, reverse: bool = False) -> np.ndarray:
    """``a <op> b`` (``b <op> a`` when reversed) on float32 values, rounded to float32."""
    left, right = (b, a) if reverse else (a, b)
    with np.errstate(all="ignore"):
        return float32(ARITHMETIC[op](np.float64(left), np.float64(right)))


def tensor_tensor(a: np.ndarray, b: np.ndarray, op: str, dtype: np.dtype) -> np.ndarray:
    return narrow(alu(op, widen(a), widen(b)), dtype)


def tensor_scalar(
    data: np.ndarray,
    op0: str,
    operand0: np.ndarray,
    reverse0: bool = False,
    op1: str | None = None,
    operand1: np.ndarray | None = None,
    reverse1: bool = False,
) -> np.ndarray:
    """``(data <op0> operand0) <op1> operand1`` before it is rounded; the operands broadcast.

    scalar_tensor_tensor is the same formula with an ``operand1`` as large as ``data``.
    """
    result = alu(op0, widen(data), float32(widen(operand0)), reverse0)
    if op1 is not None:
        assert operand1 is not None
        result = alu(op1, result, float32(widen(operand1)), reverse1)
    return result


def integer_tensor_tensor(a: np.ndarray, b: np.ndarray, op: str) -> np.ndarray:
    """32-bit integers in exact arithmetic; what does not fit keeps its lower 32 bits."""
    bits = 8 * a.dtype.itemsize
    low = int(np.iinfo(a.dtype).min)
    function = EXACT[op]
    wrapped = [
        (int(function(x, y)) - low) % 2**bits + low
        for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
    ]
    return np.array(wrapped, a.dtype).reshape(a.shape)


#: Operators on Python integers.
EXACT: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "maximum": max,
    "minimum": min,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "less": operator.lt,
    "less_equal": operator.le,
    "logical_and": lambda a, b: a != 0 and b != 0,
    "logical_or": lambda a, b: a != 0 or b != 0,
    "logical_xor": lambda a, b: (a != 0) != (b != 0),
}

#: Operators on bit patterns, given as non-negative Python integers.
BITWISE: dict[str, Callable[[int, int], int]] = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,  # of a non-negative number: zeros come in from the left
    "invert": lambda a, _: ~a,
}


def bitwise(op: str, a: np.ndarray, b: np.ndarray, reverse: bool = False) -> np.ndarray:
    """``a <op> b`` on the bit patterns of two integer arrays of one dtype."""
    assert a.dtype == b.dtype
    a, b = np.broadcast_arrays(a, b)
    bits = 8 * a.dtype.itemsize
    mask = 2**bits - 1
    left, right = (b, a) if reverse else (a, b)
    function = BITWISE[op]
    patterns = [
        function(x & mask, y & mask) & mask
        for x, y in zip(left.ravel().tolist(), right.ravel().tolist(), strict=True)
    ]
    return np.array(patterns, f"u{a.dtype.itemsize}").view(a.dtype).reshape(a.shape)


# -- activation functions: real functions of one real number ---------------------------------------


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    return math.exp(x) / (1 + math.exp(x))


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _normal_pdf(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _softplus(x: float) -> float:
    return math.log1p(math.exp(x)) if x < 30 else x + math.log1p(math.exp(-x))


def _gelu_apprx_tanh(x: float) -> float:
    # (1 + tanh(y)) / 2 is the sigmoid of 2 * y, which keeps its digits where tanh is near -1.
    return x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _gelu_apprx_sigmoid_dx(x: float) -> float:
    z = 1.702 * x
    return _sigmoid(z) * (1 + z * _sigmoid(-z))


ACTIVATIONS: dict[str, Callable[[float], float]] = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "sigmoid": _sigmoid,
    "relu": lambda x: x if x > 0 else 0.0,
    "gelu": lambda x: x * _normal_cdf(x),
    "gelu_dx": lambda x: _normal_cdf(x) + x * _normal_pdf(x),
    "gelu_apprx_tanh": _gelu_apprx_tanh,
    "gelu_apprx_sigmoid": lambda x: x * _sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": _gelu_apprx_sigmoid_dx,
    "silu": lambda x: x * _sigmoid(x),
    "silu_dx": lambda x: _sigmoid(x) * (1 + x * _sigmoid(-x)),
    "tanh": math.tanh,
    "softplus": _softplus,
    "mish": lambda x: x * math.tanh(_softplus(x)),
    "erf": math.erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x),
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "arctan": math.atan,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sign": lambda x: (x > 0) - (x < 0),
    "abs": abs,
}


def function(name: str, x: np.ndarray) -> np.ndarray:
    """The float64 value of an activation function at each finite ``x``."""
    f = ACTIVATIONS[name]
    return np.array([f(v) for v in np.float64(x).ravel().tolist()], np.float64).reshape(np.shape(x))


# -- tolerances ------------------------------------------------------------------------------------


def float32_ulps(values: np.ndarray, count: float) -> np.ndarray:
    """``count`` units in the last place of float32 at each value."""
    # All units from 2^127 up to the largest float32 are equal.
    nearest = np.minimum(np.abs(values), 2.0**127).astype(np.float32)
    return count * np.spacing(nearest).astype(np.float64)


def affine_argument(
    x: np.ndarray, scale: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """x * scale + bias, and the error of computing it in float32: a rounded product, a rounded sum.

    A fused multiply-add has the second rounding only. The factor covers the product of both errors.
    """
    product = np.float64(widen(x)) * scale
    total = product + bias
    rounded_product = np.where(scale == 1, 0, np.abs(product))
    rounded_sum = np.where(bias == 0, 0, np.abs(total))
    return total, 1.01 * 2.0**-24 * (rounded_product + rounded_sum)


def evaluate(
    name: str, x: np.ndarray, error: np.ndarray, ulps: float
) -> tuple[np.ndarray, np.ndarray]:
    """f(x), and how far f of an argument within ``error`` of x, good to ``ulps``, may be from it.

    For functions that are monotone, or convex with their minimum at 0: over an interval these
    differ most from f(x) at its ends.
    """
    y = function(name, x)
    ends = [function(name, x - error), function(name, x + error)]
    moved = np.maximum(*[np.abs(end - y) for end in ends])
    return y, moved + float32_ulps(np.maximum(*np.abs(ends)), ulps)


def interval(
    values: np.ndarray, tolerance: np.ndarray, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """The least and greatest stored value of a float32 result within ``tolerance`` of ``values``.

    Rounding is monotone, so a float32 between two reals rounds between what they round to.
    """
    return narrow(float32(values - tolerance), dtype), narrow(float32(values + tolerance), dtype)
