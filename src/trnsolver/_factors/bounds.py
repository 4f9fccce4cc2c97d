"""Residuals in twice the working precision, and bounds on the error of a solution.

Everything is float64 with unit roundoff ``UNIT``; gamma_n is ``n u / (1 - n u)``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

UNIT = 2.0**-53
_SPLITTER = 2.0**27 + 1
_ROWS = 1 << 22
"""Number of values that are split at a time."""


class RealSystem(NamedTuple):
    """A system in float64; a complex one of order n as a real one of order 2 n.

    Attributes:
        a: Square matrix; of a complex one the form of ``of_columns``.
        b: Right-hand sides (n, k); ``columns`` of complex ones.
        paired: Whether the system is complex: row 2 j has a real part, the next its imaginary part.
    """

    a: Tensor
    b: Tensor
    paired: bool

    def moduli(self, values: Tensor) -> Tensor:
        """Return the magnitudes of rows, or those of the complex numbers that they are parts of.

        A modulus has a relative rounding error of at most 2 u.
        """
        if not self.paired:
            return values.abs()
        return torch.hypot(values[::2], values[1::2])


class Residual:
    """``B - A X`` with a bound on its rounding.

    Args:
        system: A and B.
        doubled: Whether to use twice float64: each product is split into two values (Veltkamp and
            Dekker), and the rounding error of each addition is summed (Knuth).
    """

    def __init__(self, system: RealSystem, doubled: bool) -> None:
        self._a, self._b, _ = system
        self._doubled = doubled
        self._sizes = self._a.abs()
        self._halves = halves(self._a) if doubled else None

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the residual of X, and a bound on the error of each entry."""
        n = self._a.shape[-1]
        magnitudes = self._sizes @ x.abs() * (1 + _gamma(n + 2)) + self._b.abs()
        if not self._doubled:
            r = self._b - self._a @ x
            return r, _gamma(n + 2) * magnitudes
        r = torch.stack([self._column(c, x[:, c]) for c in range(x.shape[-1])], -1)
        # The result is rounded once, and so is the sum of the rounding errors (Ogita, Rump and
        # Oishi 2005, Dot2).
        return r, UNIT * r.abs() + 2 * _gamma(n + 2) ** 2 * magnitudes

    def _column(self, place: int, x: Tensor) -> Tensor:
        assert self._halves is not None
        high, low = halves(x)
        n = x.shape[0]
        rows = max(1, _ROWS // n)
        found = []
        for first in range(0, n, rows):
            cut = slice(first, first + rows)
            a, a_high, a_low = self._a[cut], self._halves[0][cut], self._halves[1][cut]
            product = a * x
            lost = ((a_high * high - product) + a_high * low + a_low * high) + a_low * low
            terms = torch.cat([self._b[cut, place, None], -product], -1)
            lost = torch.cat([torch.zeros_like(terms[:, :1]), -lost], -1)
            found.append(_exact_sums(terms, lost))
        return torch.cat(found)


def error_bound(
    system: RealSystem, x: Tensor, r: Tensor, rounding: Tensor, solve: Any, condition: float
) -> tuple[float, float]:
    """Return a proven bound on the relative error of X, and the condition number.

    With R an approximate inverse and ``E = I - R A``, the error ``e = R r + E e`` of each entry is
    at most ``|R r| + |E| max |e|``; complex numbers take both of their parts.

    The bound is infinite if the approximate inverse is not accurate enough for a proof: A is
    singular in float64.
    """
    a = system.a
    n = a.shape[-1]
    eye = torch.eye(n, dtype=a.dtype, device=a.device)
    inverse = solve(eye)
    sizes = inverse.abs()
    off = (eye - inverse @ a).abs().sum(-1)
    # Rounding of sums of n + 1 products, and of the sums of magnitudes.
    slack = 1 + 2 * _gamma(n + 3)
    off = (off + _gamma(n + 2) * (sizes @ a.abs().sum(-1) + 1)) * slack
    rho = float(off.max())
    found_condition = float(sizes.sum(-1).max()) * float(a.abs().sum(-1).max())
    if not rho < 1:
        return float("inf"), max(condition, found_condition)
    reached = ((inverse @ r).abs() + sizes @ (rounding + _gamma(n + 2) * r.abs())) * slack
    errors = reached + off.unsqueeze(-1) * (reached.amax(0) / (1 - rho))
    return _relative(system.moduli(errors).amax(0), system.moduli(x).amax(0)), found_condition


def estimated_bound(
    system: RealSystem, x: Tensor, r: Tensor, rounding: Tensor, solve: Any
) -> float:
    """Return an estimate of the relative error of X.

    It is twice the norm of ``A^-1 r``, by the existing factor, plus the effect of the rounding of
    r: the norm of ``|A^-1| rounding`` by the estimator of ``inverse_norm``, as in LAPACK.
    """
    errors = []
    for column in rounding.mT:
        errors.append(_estimated(lambda v, w=column: _weighted(solve, v, w), x.shape[0], x))
    rounded = torch.tensor(errors, dtype=x.dtype, device=x.device)
    if system.paired:  # the estimate is of the larger part
        rounded = 2**0.5 * rounded
    reached = 2 * system.moduli(solve(r)).amax(0)
    return _relative(reached + rounded, system.moduli(x).amax(0))


def _weighted(solve: Any, v: tuple[Tensor, bool], weights: Tensor) -> Tensor:
    """Return ``diag(w) A^-T v``, or with the transpose ``A^-1 diag(w) v``."""
    vector, transposed = v
    if transposed:
        return solve((weights * vector).unsqueeze(-1), False).squeeze(-1)
    return weights * solve(vector.unsqueeze(-1), True).squeeze(-1)


def inverse_norm(solve: Any, n: int, like: Tensor) -> float:
    """Return an estimate of the 1-norm (largest column sum) of the inverse.

    Hager's method with Higham's improvements: a few solves, rarely off by more than a factor of 3.
    """
    return _estimated(lambda v: solve(v[0].unsqueeze(-1), v[1]).squeeze(-1), n, like)


def _estimated(apply: Any, n: int, like: Tensor) -> float:
    """Return the estimated largest column sum of an operator ``(v, transposed) -> product``."""
    options: Any = {"dtype": torch.float64, "device": like.device}
    v = torch.full((n,), 1.0 / n, **options)
    best, place = 0.0, -1
    for _ in range(5):
        image = apply((v, False))
        size = float(image.abs().sum())
        if not size > best:
            break
        best = size
        signs = torch.where(image >= 0, 1.0, -1.0).to(torch.float64)
        slope = apply((signs, True)).abs()
        new = int(slope.argmax())
        if new == place or (float(slope[new]) <= abs(float(slope @ v)) and place >= 0):
            break
        place = new
        v = torch.zeros(n, **options)
        v[place] = 1.0
    wave = 1 + torch.arange(n, **options) / max(n - 1, 1)
    wave[1::2] *= -1
    return max(best, 2 * float(apply((wave, False)).abs().sum()) / (3 * n))


def _relative(errors: Tensor, sizes: Tensor) -> float:
    """Return errors relative to a lower bound of the exact solution, from X and its error.

    Both may be rounded by 4 u, and the quotient is rounded again.
    """
    errors = errors * (1 + 8 * UNIT)
    exact = sizes * (1 - 8 * UNIT) - errors
    fine = torch.where(errors == 0, 0.0, torch.where(exact > 0, errors / exact, float("inf")))
    return float(fine.max()) * (1 + 8 * UNIT)


def halves(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return two tensors with half of the bits each, whose sum is exactly ``values``."""
    grown = _SPLITTER * values
    high = grown - (grown - values)
    return high, values - high


def _exact_sums(terms: Tensor, lost: Tensor) -> Tensor:
    """Return the pairwise sums of rows, including the rounding error of every addition."""
    while terms.shape[-1] > 1:
        if terms.shape[-1] % 2:
            terms = torch.nn.functional.pad(terms, (0, 1))
            lost = torch.nn.functional.pad(lost, (0, 1))
        a, b = terms[:, 0::2], terms[:, 1::2]
        total = a + b
        part = total - a
        error = (a - (total - part)) + (b - part)
        terms, lost = total, lost[:, 0::2] + lost[:, 1::2] + error
    return (terms + lost).squeeze(-1)


def _gamma(n: int) -> float:
    return n * UNIT / (1 - n * UNIT)
