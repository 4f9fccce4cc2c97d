"""Residuals in twice the working precision, and bounds on the error of a solution.

All of it is float64 with unit roundoff ``UNIT``; gamma_n stands for ``n u / (1 - n u)``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["UNIT", "Residual", "error_bound", "estimated_bound", "inverse_norm"]

UNIT = 2.0**-53
_SPLITTER = 2.0**27 + 1
_ROWS = 1 << 22
"""Numbers that are taken apart at a time."""


class Residual:
    """``B - A X`` with a bound on its rounding.

    Args:
        a: Square matrix in float64.
        b: Right sides (n, k).
        doubled: Whether products and sums are exact to twice float64: each product is the sum of
            two numbers (Veltkamp and Dekker), and each addition keeps what it rounds away (Knuth).
    """

    def __init__(self, a: Tensor, b: Tensor, doubled: bool) -> None:
        self._a, self._b, self._doubled = a, b, doubled
        self._sizes = a.abs()
        self._halves = _halves(a) if doubled else None

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the residual of X, and a bound on the error of each of its numbers."""
        n = self._a.shape[-1]
        magnitudes = self._sizes @ x.abs() * (1 + _gamma(n + 2)) + self._b.abs()
        if not self._doubled:
            r = self._b - self._a @ x
            return r, _gamma(n + 2) * magnitudes
        r = torch.stack([self._column(c, x[:, c]) for c in range(x.shape[-1])], -1)
        # The result is rounded once, and the sum of what was rounded away in turn (Ogita, Rump
        # and Oishi 2005, Dot2).
        return r, UNIT * r.abs() + 2 * _gamma(n + 2) ** 2 * magnitudes

    def _column(self, place: int, x: Tensor) -> Tensor:
        assert self._halves is not None
        high, low = _halves(x)
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
    a: Tensor, x: Tensor, r: Tensor, rounding: Tensor, solve: Any, condition: float
) -> tuple[float, float]:
    """Return a proven bound on the relative error of X, and the condition number it comes from.

    The bound is infinite where the approximate inverse proves nothing: A is singular as far as
    float64 can tell.
    """
    n = a.shape[-1]
    eye = torch.eye(n, dtype=a.dtype, device=a.device)
    inverse = solve(eye)
    sizes = inverse.abs()
    off = (eye - inverse @ a).abs().sum(-1)
    # Sums of n + 1 products, their rounding, and that of the sums of magnitudes.
    slack = 1 + 2 * _gamma(n + 3)
    off = (off + _gamma(n + 2) * (sizes @ a.abs().sum(-1) + 1)) * slack
    rho = float(off.max())
    found_condition = float(sizes.sum(-1).max()) * float(a.abs().sum(-1).max())
    if not rho < 1:
        return float("inf"), max(condition, found_condition)
    reached = (inverse @ r).abs() + sizes @ (rounding + _gamma(n + 2) * r.abs())
    errors = reached.amax(0) * slack / (1 - rho)
    return _relative(errors, x), found_condition


def estimated_bound(x: Tensor, r: Tensor, rounding: Tensor, solve: Any) -> float:
    """Return an estimate of the relative error of X.

    It is twice the norm of ``A^-1 r``, for which the factor is at hand, and what the rounding of r
    adds: the norm of ``|A^-1| rounding`` by the estimator of ``inverse_norm``, as in LAPACK.
    """
    errors = []
    for column in rounding.mT:
        errors.append(_estimated(lambda v, w=column: _weighted(solve, v, w), x.shape[0], x))
    reached = 2 * solve(r).abs().amax(0)
    return _relative(reached + torch.tensor(errors, dtype=x.dtype, device=x.device), x)


def _weighted(solve: Any, v: tuple[Tensor, bool], weights: Tensor) -> Tensor:
    """Return ``diag(w) A^-T v``, or with the transpose ``A^-1 diag(w) v``."""
    vector, turned = v
    if turned:
        return solve((weights * vector).unsqueeze(-1), False).squeeze(-1)
    return weights * solve(vector.unsqueeze(-1), True).squeeze(-1)


def inverse_norm(solve: Any, n: int, like: Tensor) -> float:
    """Return an estimate of the norm of the inverse, as the largest sum of a column.

    Hager's method with Higham's improvements: a handful of solutions, rarely off by more than 3.
    """
    return _estimated(lambda v: solve(v[0].unsqueeze(-1), v[1]).squeeze(-1), n, like)


def _estimated(apply: Any, n: int, like: Tensor) -> float:
    """Return the estimated largest column sum of an operator ``(v, turned) -> product``."""
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


def _relative(errors: Tensor, x: Tensor) -> float:
    """Return errors relative to the exact solution, of which X is off by so much."""
    sizes = x.abs().amax(0)
    exact = sizes - errors
    fine = torch.where(errors == 0, 0.0, torch.where(exact > 0, errors / exact, float("inf")))
    return float(fine.max()) * (1 + 4 * UNIT)


def _halves(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return numbers of half the bits whose sum is exact."""
    grown = _SPLITTER * values
    high = grown - (grown - values)
    return high, values - high


def _exact_sums(terms: Tensor, lost: Tensor) -> Tensor:
    """Return the sums of rows of pairs, by halves, with what every addition rounds away."""
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
