"""The chirp z-transform: bins on a spiral of the complex plane, with the semantics of SciPy.

With ``j k = (j**2 + k**2 - (k - j)**2) / 2`` the sums are a convolution of the weighted points with
a chirp, which three Fourier transforms compute, on kernels where these run. The angle of w is taken
as a fraction of a turn, and the angles of its powers are reduced in integers: on the unit circle no
phase depends on the rounding of ``k**2`` times a float.
"""

from __future__ import annotations

import cmath
import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnfft._paths.arguments import along
from trnfft._paths.empty import empty_like, is_empty
from trnfft._paths.kinds import Spectrum, closed, opened
from trnfft._planning.tables import cacheable
from trnfft.complex_tensor import ComplexTensor
from trnfft.lengths import next_fast_len
from trnfft.nd import transform_nd
from trnsci.core.arguments import whole
from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsci.core.interop import constant_to_compile
from trnsci.core.numbers.constants import Constants
from trnsci.core.numbers.conversions import real_dtype

__all__ = ["czt"]

Key: TypeAlias = tuple[int, int, int, complex | None, complex]

# A fraction of a turn within the rounding of w is that fraction.
_LARGEST_DENOMINATOR = 2**20
_ROUNDING = 2.0**-52


def czt(
    input: Spectrum,
    m: int | None = None,
    w: complex | None = None,
    a: complex = 1.0,
    dim: int = -1,
) -> Spectrum:
    """Return the sums of ``input[j] a**-j w**(j k)`` over j, for k from 0 to m - 1.

    These are the values of the z-transform at ``a * w**-k``. On the unit circle the error is that
    of three transforms. Elsewhere powers of the modulus of w up to ``k**2 / 2`` enter, so that it
    grows with their range.

    Args:
        input: Tensor of at least one dimension.
        m: Number of bins; None for the number of points.
        w: Ratio of adjacent points; None for ``exp(-2 pi i / m)``, without rounding. A number
            whose angle is p / q of a turn, up to its rounding and for q up to 2**20, is taken as
            exactly that.
        a: Starting point.
        dim: Dimension to transform.

    Raises:
        ShapeError: m is below one, or there are no points.
        IndexError: The dimension does not exist.
        FlagError: w or a is zero or not finite.
        DTypeError: input is not a tensor, or w or a is not a number.

    Example:
        >>> x = torch.tensor([1.0, 2.0, 3.0, 4.0])
        >>> zoomed = trnfft.czt(x, 3, w=1j, a=-1.0).to_torch_complex()
        >>> [complex(round(v.real), round(v.imag)) for v in zoomed.tolist()]
        [(-2+0j), (-2-2j), (10+0j)]
    """
    held = opened("czt", input)
    n, dim = along("czt", held.x, None, dim, None)
    m = n if m is None else whole("czt", "m", m)
    if m < 1:
        raise ShapeError(f"czt: m must be at least 1, got {m}")
    ratio = None if w is None else _number("w", w)
    start = _number("a", a)
    x = held.x
    if is_empty(x):
        shape = [*x.shape[:dim], m, *x.shape[dim + 1 :]]
        return closed(empty_like(x, shape, False), held)
    size = next_fast_len(n + m - 1)
    first, chirp, last = _tables(x, (n, m, size, ratio, start))
    weighted = x.movedim(dim, -1) * first
    spectra = (transform_nd("fftn", v, [size], [v.ndim - 1], None) for v in (weighted, chirp))
    points, filtered = spectra
    sums = transform_nd("ifftn", points * filtered, [size], [points.ndim - 1], None)
    return closed((sums[..., :m] * last).movedim(-1, dim), held)


@constant_to_compile
def _number(name: str, value: complex) -> complex:
    if isinstance(value, bool) or not isinstance(value, (int, float, complex, np.number)):
        raise DTypeError(f"czt: {name} must be a number, got {type(value).__name__}")
    found = complex(value)
    if found == 0 or not cmath.isfinite(found):
        raise FlagError(f"czt: {name} must be finite and not zero, got {value!r}")
    return found


def _tables(like: Any, key: Key) -> list[Any]:
    """Return the weights of points, the chirp of the convolution and the weights of bins."""
    dtype = real_dtype(like.dtype)
    if is_compiling() or cacheable(like):
        parts = _cached(key, like.device, dtype)
    else:
        parts = [torch.tensor(v, dtype=dtype, device=like.device) for v in coefficients(key)]
    made: Any = ComplexTensor if isinstance(like, ComplexTensor) else torch.complex
    return [made(*parts[place : place + 2]) for place in range(0, 6, 2)]


@constant_to_compile
def _cached(key: Key, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    return list(_CACHE(key, device, dtype))


def coefficients(key: Key) -> list[npt.NDArray[np.float64]]:
    """Return real and imaginary parts of the tables: of ``n``, ``size`` and ``m`` elements."""
    n, m, size, ratio, start = key
    grow, turn = (0.0, Fraction(-1, m)) if ratio is None else _polar(ratio)
    grow_a, turn_a = _polar(start)
    longest = max(n, m)
    squares = [k * k for k in range(longest)]
    chirp = _powers(squares, grow / 2, turn / 2)
    inverse = _powers(squares, -grow / 2, -turn / 2)
    start_powers = _powers(list(range(n)), -grow_a, -turn_a)
    filled = np.zeros(size, np.complex128)
    filled[:m] = inverse[:m]
    filled[size - n + 1 :] = inverse[n - 1 : 0 : -1]
    tables = chirp[:n] * start_powers, filled, chirp[:m]
    return [part for table in tables for part in (table.real.copy(), table.imag.copy())]


_CACHE: Constants[Key] = Constants(coefficients, most_bytes=16 << 20)


def _polar(z: complex) -> tuple[float, Fraction]:
    """Return the logarithm of the modulus, 0 on the unit circle, and the fraction of a turn."""
    modulus = abs(z)
    grow = 0.0 if abs(modulus - 1) <= _ROUNDING else math.log(modulus)
    turn = Fraction(cmath.phase(z) / (2 * math.pi))
    simple = turn.limit_denominator(_LARGEST_DENOMINATOR)
    return grow, simple if abs(simple - turn) <= _ROUNDING else turn


def _powers(exponents: list[int], grow: float, turn: Fraction) -> npt.NDArray[np.complex128]:
    """Return ``exp(e (grow + 2 pi i turn))`` for every exponent e, with turns reduced exactly."""
    p, q = turn.numerator, turn.denominator
    fractions = np.array([(e * p % q) / q for e in exponents])
    angles = 2 * math.pi * (fractions - np.round(fractions))
    moduli = np.exp(grow * np.array(exponents, dtype=np.float64)) if grow else 1.0
    found: npt.NDArray[np.complex128] = moduli * np.exp(1j * angles)
    return found
