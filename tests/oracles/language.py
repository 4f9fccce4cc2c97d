"""Functions of nki.language 0.3.0, from their definition.

Values come back as the real result in float64, together with how far a float32 evaluation may be
from it, where the definition leaves the order or the method open; as float32 where it does not.
``UNIT`` is the largest relative error of one rounded float32 operation. A function taken from a
table or a library is taken to be good to ``FUNCTION`` units.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from oracles.elementwise import float32, float32_ulps
from oracles.reductions import UNIT, reduce

#: Four units in the last place, each of which is at most two roundings.
FUNCTION = 8
#: Covers the products of errors that the bounds below leave out: all are sums of less than 10^4
#: roundings, and (1 + UNIT)^n - 1 < 1.001 * n * UNIT there.
SECOND_ORDER = 1.001

# -- types -----------------------------------------------------------------------------------------

#: Exponent and fraction bits; of two formats of one width the one with the larger range is first.
FLOATS = {
    "float8_e4m3": (4, 3),
    "float8_e5m2": (5, 2),
    "bfloat16": (8, 7),
    "float16": (5, 10),
    "float32": (8, 23),
}
INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "uint8": (0, 2**8 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
}


def promoted(a: str, b: str) -> str:
    """The type of a result of operands of types ``a`` and ``b``.

    A float wins over an integer. Else it is the first type that holds the values of both; two
    integers that no integer type holds give float32.
    """
    if (a in FLOATS) != (b in FLOATS):
        return a if a in FLOATS else b
    if a in FLOATS:
        exponent = max(FLOATS[a][0], FLOATS[b][0])
        fraction = max(FLOATS[a][1], FLOATS[b][1])
        return next(n for n, (e, f) in FLOATS.items() if e >= exponent and f >= fraction)
    low = min(INTEGERS[a][0], INTEGERS[b][0])
    high = max(INTEGERS[a][1], INTEGERS[b][1])
    return next((n for n, (x, y) in INTEGERS.items() if x <= low and high <= y), "float32")


# -- element by element ----------------------------------------------------------------------------


def _each(function, *arrays: np.ndarray) -> np.ndarray:
    """``function`` of the exact values at each position, rounded to float32."""
    wide = np.broadcast_arrays(*[np.asarray(a, np.float64) for a in arrays])
    rows = zip(*[array.ravel().tolist() for array in wide], strict=True)
    results = [float(function(*[Fraction(v) for v in row])) for row in rows]
    return float32(np.reshape(results, wide[0].shape))


def floor(x: np.ndarray) -> np.ndarray:
    """The largest integer that is not above each finite ``x``."""
    return _each(math.floor, x)


def ceil(x: np.ndarray) -> np.ndarray:
    """The smallest integer that is not below each finite ``x``."""
    return _each(math.ceil, x)


def trunc(x: np.ndarray) -> np.ndarray:
    """Each finite ``x`` without its fraction."""
    return _each(math.trunc, x)


def mod(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x - y * floor(x / y): the remainder with the sign of the divisor."""
    return _each(lambda a, b: a - b * math.floor(a / b), x, y)


def fmod(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x - y * trunc(x / y): the remainder with the sign of the dividend."""
    return _each(lambda a, b: a - b * math.trunc(a / b), x, y)


def divide(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x / y; a quotient rounded once, or a rounded product with a rounded reciprocal."""
    values = np.asarray(x, np.float64) / np.asarray(y, np.float64)
    return values, SECOND_ORDER * 2 * UNIT * np.abs(values)


def power(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values = np.asarray(x, np.float64) ** np.asarray(y, np.float64)
    return values, SECOND_ORDER * FUNCTION * UNIT * np.abs(values)


def _cosine_argument_error(x: np.ndarray) -> np.ndarray:
    """How far float32 may be from x + pi/2: the rounded constant, and the rounded sum."""
    constant = abs(float(np.float32(math.pi / 2)) - math.pi / 2)
    return constant + UNIT * (np.abs(x + math.pi / 2) + constant)


def cos(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cosine, and the error of the sine of a rounded x + pi/2; a sine's slope is at most 1."""
    wide = np.asarray(x, np.float64)
    values = np.cos(wide)
    error = _cosine_argument_error(wide)
    return values, error + float32_ulps(np.abs(values) + error, FUNCTION / 2)


def tan(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The tangent, and the error of sine times reciprocal of cosine."""
    wide = np.asarray(x, np.float64)
    values, (cosine, error) = np.tan(wide), cos(wide)
    relative = FUNCTION * UNIT + error / (np.abs(cosine) - error) + 2 * UNIT
    return values, SECOND_ORDER * relative * np.abs(values)


# -- along the free dimensions ---------------------------------------------------------------------


def rows(x: np.ndarray, first: int) -> np.ndarray:
    """Elements to reduce, one row per result, when the axes from ``first`` on are reduced."""
    return np.asarray(x, np.float64).reshape(math.prod(x.shape[:first]), -1)


def mean(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of each row; a sum, then a product with a rounded 1/n."""
    count = values.shape[1]
    total, error = reduce("add", values)
    return total / count, SECOND_ORDER * (error + 2 * UNIT * (np.abs(total) + error)) / count


def var(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean square deviation of each row from its mean.

    With a mean that is wrong by d the deviations have the mean square v + d^2. Each square has the
    error of a rounded difference, twice, and its own; their mean adds n + 2 roundings.
    """
    count = values.shape[1]
    centre, wrong = mean(values)
    exact = np.array(
        [
            math.fsum((v - c) ** 2 for v in row) / count
            for row, c in zip(values.tolist(), centre.tolist(), strict=True)
        ]
    )
    return exact, SECOND_ORDER * (wrong**2 + (count + 5) * UNIT * (exact + wrong**2))


def softmax(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """exp(x - max) / sum(exp(x - max)) of each row.

    A rounded difference D moves its exponential by a factor of 1 + D * UNIT. Relative errors of a
    term, of the sum of n such terms, of a reciprocal and of a product add up.
    """
    count = values.shape[1]
    below = values - values.max(axis=1, keepdims=True)
    powers = np.exp(below)
    result = powers / powers.sum(axis=1, keepdims=True)
    term = np.abs(below) + FUNCTION
    relative = term + term.max(axis=1, keepdims=True) + count + 2
    return result, SECOND_ORDER * UNIT * relative * result


def rms_norm(
    values: np.ndarray, weight: np.ndarray, n: int, epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """x / sqrt(sum(x * x) / n + epsilon) * w of each row.

    The mean square has the errors of a square, a sum, a product with a rounded 1/n and a sum; the
    reciprocal root halves them and adds its own; two products follow.
    """
    count = values.shape[1]
    mean_square = (values * values).sum(axis=1, keepdims=True) / n
    result = values / np.sqrt(mean_square + epsilon) * weight
    relative = (FUNCTION + count + 3 + 1) / 2 + FUNCTION + 2
    return result, SECOND_ORDER * UNIT * relative * np.abs(result)


# -- other shapes ----------------------------------------------------------------------------------


def transpose(x: np.ndarray) -> np.ndarray:
    """out[j, i] = x[i, j], the free dimensions counted as one."""
    flat = x.reshape(len(x), -1)
    out = np.empty((flat.shape[1], flat.shape[0]), x.dtype)
    for i in range(flat.shape[0]):
        for j in range(flat.shape[1]):
            out[j, i] = flat[i, j]
    return out


def gather(data: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """out[p, ...] = the elements of data[p], flattened, at indices[p, ...]."""
    flat = data.reshape(len(data), -1)
    out = np.empty(indices.shape, data.dtype)
    for place in np.ndindex(indices.shape):
        out[place] = flat[place[0], indices[place]]
    return out


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of two tiles combined; a tile of lower rank has extents 1 added at its end."""
    rank = max(len(a), len(b))
    longer = [(*s, *(1,) * (rank - len(s))) for s in (a, b)]
    return tuple(max(m, n) for m, n in zip(*longer, strict=True))


def identity(n: int) -> np.ndarray:
    """1 where row and column agree, else 0."""
    return np.array([[float(i == j) for j in range(n)] for i in range(n)], np.float32)
