"""Degree and number of steps of the Taylor method for ``exp(t A) B``.

Al-Mohy and Higham 2011: ``exp(A)`` is the s-th power of the Taylor polynomial of degree m of
``A / s``, whose backward error is at most the unit roundoff if the norm of ``A / s`` is at most
``theta_m``. The norm may be replaced by ``alpha_p = max(d_p, d_(p+1))`` with ``d_p = norm(A^p)^(1 /
p)`` for ``p (p - 1) <= m + 1``, which is smaller for nonnormal matrices. A product with B costs
``m s`` products with A.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

import torch
from torch import Tensor

from trnsci.core.errors import ConvergenceError

DEGREES = tuple(range(5, 60, 5))
# Largest theta with ``sum |c_k| theta^(k - 1) <= u`` where ``log(exp(-x) T_m(x)) = sum c_k x^k``.
THETA = {
    torch.float32: (
        *(0.1308, 0.9952, 2.2170, 3.5509, 4.9269, 6.3211),
        *(7.7238, 9.1307, 10.5394, 11.949, 13.3588),
    ),
    torch.float64: (
        *(0.0024, 0.1442, 0.6411, 1.4383, 2.4286, 3.5397),
        *(4.7283, 5.9688, 7.2451, 8.5469, 9.8675),
    ),
}
_MOST_PRODUCTS = 1_000_000
_HIGHEST = 8  # p of the last alpha_p, with p (p - 1) <= 56
_ESTIMATES = 5

Product = Callable[[Tensor], Tensor]


class Scaling(NamedTuple):
    """Degree m of the polynomial, and the number s of its factors."""

    degree: int
    steps: int


def scaling(product: Product, adjoint: Product, like: Tensor) -> Scaling:
    """Return the scaling for ``exp(A) B`` with the fewest products.

    Args:
        product: ``X -> A X`` for columns (..., n, k).
        adjoint: ``X -> A^H X``.
        like: Columns (..., n, k) in the dtype of the products; the norm is the largest of a batch.

    Raises:
        ConvergenceError: More than a million products would be needed, or the norm is not finite.
    """
    bounds = THETA[like.dtype.to_real()]
    roots = [norm_of_power(product, adjoint, like, 1)]
    best = _best(roots, bounds)
    # An estimate for the power p takes about 5 p products: 220 for all of them.
    if best.degree * best.steps > 220:
        roots += [
            norm_of_power(product, adjoint, like, p) ** (1 / p) for p in range(2, _HIGHEST + 2)
        ]
        best = _best(roots, bounds)
    return best


def _best(roots: list[float], bounds: tuple[float, ...]) -> Scaling:
    """Return the cheapest scaling for ``d_1, d_2, ...``, of which only the first may be known."""
    if not roots[0] < float("inf"):
        raise ConvergenceError("expm_multiply: A must be finite, and so must its norm")
    found = []
    for degree, theta in zip(DEGREES, bounds, strict=True):
        norms = [roots[0]]
        for p in range(2, len(roots)):
            if p * (p - 1) <= degree + 1:
                norms.append(max(roots[p - 1], roots[p]))
        steps = max(1, ceil(min(norms) / theta)) if min(norms) / theta < _MOST_PRODUCTS else 0
        if steps and degree * steps <= _MOST_PRODUCTS:
            found.append((degree * steps, degree, steps))
    if not found:
        raise ConvergenceError(
            f"expm_multiply: the norm {min(roots):.3g} of A and the times need more than "
            f"{_MOST_PRODUCTS:,} products"
        )
    _, degree, steps = min(found)
    return Scaling(degree, steps)


def norm_of_power(product: Product, adjoint: Product, like: Tensor, power: int) -> float:
    """Return an estimate, from below, of the 1-norm of a power of A, largest over a batch.

    Hager's and Higham's method, as in LAPACK: it is exact for most matrices, and within a factor 3
    for nearly all.
    """
    n = like.shape[-2]
    shape = (*like.shape[:-1], 1)
    x = torch.full(shape, 1 / n, dtype=like.dtype, device=like.device)
    found = 0.0
    for _ in range(_ESTIMATES):
        y = _repeated(product, x, power)
        size = _largest_sum(y)
        if not size > found:
            break
        found = size
        z = _repeated(adjoint, y.sgn() + (y == 0), power)
        place = z.abs().argmax(-2, keepdim=True)
        x = torch.zeros_like(x).scatter(-2, place, 1.0)
    # A vector for which the estimate is good where the steps stop at a bad one.
    signs = 1 - 2 * (torch.arange(n, device=like.device) % 2)
    slopes = signs * (1 + torch.arange(n, device=like.device) / max(n - 1, 1))
    last = _repeated(product, slopes.to(like.dtype).unsqueeze(-1).expand(shape), power)
    return max(found, _largest_sum(last) * 2 / (3 * n))


def _repeated(product: Product, x: Tensor, power: int) -> Tensor:
    for _ in range(power):
        x = product(x)
    return x


def _largest_sum(y: Tensor) -> float:
    """Return the largest 1-norm of columns, infinity for NaN."""
    largest = float(y.abs().sum(-2).max()) if y.numel() else 0.0
    return largest if largest == largest else float("inf")
