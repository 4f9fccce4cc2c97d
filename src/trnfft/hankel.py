"""Hankel transforms of functions sampled at logarithmic steps, with the semantics of ``scipy.fft``.

For samples a(r) at ``r_j = r_c exp((j - j_c) dln)``, with ``j_c = (n - 1) / 2``, the transform is

    A(k) = integral of a(r) J_mu(k r) k dr

at ``k_j = k_c exp((j - j_c) dln)``, where ``k_c r_c = exp(offset)``. In the logarithm of r the
integral is a convolution: the transform of a power r^(i y) is the power k^(-i y) times a quotient
of gamma functions. The algorithm is therefore a Fourier transform, a product with these quotients
and an inverse transform (A. J. S. Hamilton, Monthly Notices of the Royal Astronomical Society 312,
257, 2000). After division by ``r^bias`` the function is assumed periodic over the sampled range.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnfft._complex.arguments import NATIVE
from trnfft._paths.arguments import along
from trnfft._paths.kinds import closed_real, opened_real
from trnfft._paths.trigonometric import by_torch
from trnfft._planning.tables import cacheable
from trnfft.transforms import fourier_of_kernels
from trnsci.core.errors import ShapeError
from trnsci.core.interop import constant_to_compile
from trnsci.core.numbers.constants import Constants

__all__ = ["fht", "fhtoffset", "ifht"]

Key = tuple[int, float, float, float, float]

_LOG_2 = math.log(2.0)


def fht(a: Tensor, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Tensor:
    """Return the Hankel transform of real points at logarithmic steps, along the last dimension.

    Args:
        a: Shape (..., n).
        dln: Step of the logarithm.
        mu: Order of the Bessel function.
        offset: Logarithm of ``k_c r_c``; :func:`fhtoffset` returns an offset at which the result
            does not oscillate (ring).
        bias: Exponent of the power law divided out before the transform and restored after it.

    Raises:
        DTypeError: a is complex.
        ShapeError: There are no points, or dln is zero.

    Warns:
        RuntimeWarning: The transform is singular for these parameters; its constant is omitted.

    Example:
        >>> r = torch.logspace(-4, 4, 128, dtype=torch.float64)
        >>> dln = math.log(r[1] / r[0])
        >>> found = trnfft.fht(r**2 * torch.exp(-(r**2) / 2), dln, mu=1.0)
        >>> torch.allclose(found, r**2 * torch.exp(-(r**2) / 2), atol=1e-4)
        True
    """
    return _computed("fht", a, dln, mu, offset, bias)


def ifht(A: Tensor, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Tensor:
    """Return the inverse of :func:`fht` with the same arguments, errors and warnings."""
    return _computed("ifht", A, dln, mu, offset, bias)


@constant_to_compile
def fhtoffset(dln: float, mu: float, initial: float = 0.0, bias: float = 0.0) -> float:
    """Return the offset nearest to ``initial`` at which the transform does not ring.

    At this offset the coefficient of the highest frequency is real, so none of it is discarded.
    """
    from scipy import fft  # at the first use

    return float(fft.fhtoffset(dln, mu, initial, bias))


def _computed(name: str, a: Tensor, dln: float, mu: float, offset: float, bias: float) -> Tensor:
    fourier = fourier_of_kernels(name) or by_torch
    held = opened_real(name, a, "a" if name == "fht" else "A", on_torch=True)
    x: Tensor = held.x
    n, _ = along(name, x, None, -1, None)
    if dln == 0:
        raise ShapeError(f"{name}: dln must not be zero")
    inverse = name == "ifht"
    key = (n, float(dln), float(mu), float(offset), float(bias))
    u = _table(x, key)
    constant = _constant(float(mu), float(bias))
    if constant == 0 if inverse else not math.isfinite(constant):
        warnings.warn(
            f"{name}: singular for mu {mu} and bias {bias}; the constant is omitted",
            RuntimeWarning,
            stacklevel=3,
        )
    if bias:
        x = x * _powers(x, n, bias * dln, bias * offset if inverse else 0.0, 1 if inverse else -1)
    if not x.numel():  # an empty batch, for which MKL raises
        return closed_real(x, held)
    bins = fourier("rfft", x, None, None)
    if inverse:
        # A bin whose coefficient is zero is set to zero.
        inverted = torch.where(u == 0, 0, 1 / torch.where(u == 0, 1, u.conj()))
        bins = bins * inverted
    else:
        bins = bins * u
    y = fourier("irfft", bins, n, None).flip(-1)
    if bias:
        y = y * _powers(y, n, bias * dln, 0.0 if inverse else bias * offset, 1 if inverse else -1)
    return closed_real(y, held)


def _powers(like: Tensor, n: int, rate: float, shift: float, sign: int) -> Tensor:
    """Return ``exp(sign * (rate (j - j_c) + shift))`` for every point j."""
    j = torch.arange(n, dtype=torch.float64, device=like.device) - (n - 1) / 2
    return torch.exp(sign * (rate * j + shift)).to(like.dtype)


def _table(like: Tensor, key: Key) -> Tensor:
    dtype = NATIVE[like.dtype]
    if is_compiling() or cacheable(like):
        return _cached(key, like.device, dtype)
    return torch.tensor(coefficients(key)[0], dtype=dtype, device=like.device)


@constant_to_compile
def _cached(key: Key, device: torch.device, dtype: torch.dtype) -> Tensor:
    return _CACHE(key, device, dtype)[0]


def coefficients(key: Key) -> list[npt.NDArray[np.complex128]]:
    """Return the transforms of the powers ``r^(i y)`` of an n-point grid, in one array.

    With ``x = bias + i y`` each is ``2^x G((mu + 1 + x) / 2) / G((mu + 1 - x) / 2)`` times
    ``exp(-i y offset)``; G is the gamma function.
    """
    n, dln, mu, offset, bias = key
    y = 2 * math.pi * np.arange(n // 2 + 1) / (n * dln)
    plus, minus = (mu + 1 + bias) / 2 + 0.5j * y, (mu + 1 - bias) / 2 - 0.5j * y
    found = np.zeros(len(y), np.complex128)
    power = (bias + 1j * y[1:]) * _LOG_2 - 1j * y[1:] * offset
    found[1:] = np.exp(_log_gamma(plus[1:]) - _log_gamma(minus[1:]) + power)
    constant = _constant(mu, bias)
    found[0] = constant if math.isfinite(constant) else 0.0
    if n % 2 == 0:  # the highest frequency of real points has no phase
        found[-1] = found[-1].real
    return [found]


_CACHE: Constants[Key] = Constants(coefficients, most_bytes=16 << 20)


@constant_to_compile
def _constant(mu: float, bias: float) -> float:
    """Return the coefficient of the constant: ``2^q G((mu+1+q)/2) / G((mu+1-q)/2)``, q the bias."""
    plus, minus = (mu + 1 + bias) / 2, (mu + 1 - bias) / 2
    if bias == int(bias):
        # If the arguments of both gamma functions differ by an integer, the quotient is a finite
        # product, even between two poles.
        product = 1.0
        for step in range(abs(int(bias))):
            product *= min(plus, minus) + step
        if bias >= 0:
            return 2.0**bias * product
        return 2.0**bias / product if product else math.inf
    if _is_pole(minus):
        return 0.0
    if _is_pole(plus):
        return math.inf
    return float(np.exp(_log_gamma(plus) - _log_gamma(minus) + bias * _LOG_2).real)


def _is_pole(x: float) -> bool:
    return x <= 0 and x == int(x)


def _log_gamma(z: Any) -> Any:
    from scipy.special import loggamma  # at the first use

    return loggamma(np.asarray(z, np.complex128))
