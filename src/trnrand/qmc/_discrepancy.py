"""Discrepancy: the deviation of a point set from the uniform distribution on the unit cube.

The L2 discrepancies of F. J. Hickernell, "A generalized discrepancy and quadrature error bound",
Mathematics of Computation 67 (1998), and Y. Zhou, K.-T. Fang and J. Ning, "Mixture discrepancy for
quasi-random point sets", Journal of Complexity 29 (2013). Each is a constant, minus a mean over
points, plus a mean over pairs of points, of products over dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from trnrand.errors import FlagError, ParameterError, ShapeError

# Pairs are computed in square tiles with this many points a side, which fit in the level-2 cache.
_SIDE = 256


@dataclass(frozen=True)
class _Kernel:
    """The terms of a squared discrepancy, each a product of factors per dimension.

    A factor of two coordinates x and y is ``own(x) + own(y) - cross x y - larger max(x, y)``: with
    |x - y| = 2 max(x, y) - x - y, every kernel here has this form. The comments at the kernels have
    this factor in its published form.

    Attributes:
        constant: Factor of the constant term.
        sign: Sign of the constant term.
        single: Factor of a point, from its coordinate; None where there is no such term.
        single_scale: Constant factor of a point, per dimension.
        own: Function of each coordinate of a pair.
        cross: Coefficient of the product of the coordinates.
        larger: Coefficient of the larger coordinate.
    """

    constant: float
    sign: float
    single: Callable[[Tensor], Tensor] | None
    single_scale: float
    own: Callable[[Tensor], Tensor]
    cross: float
    larger: float


def _from_centre(x: Tensor) -> Tensor:
    return (x - 0.5).abs()


def _centred_single(x: Tensor) -> Tensor:
    z = _from_centre(x)
    return 1 + z / 2 - z * z / 2


def _mixture_single(x: Tensor) -> Tensor:
    z = _from_centre(x)
    return 5 / 3 - z / 4 - z * z / 4


_KERNELS = {
    # 1 + (|x - 1/2| + |y - 1/2| - |x - y|) / 2
    "CD": _Kernel(
        constant=13 / 12,
        sign=1.0,
        single=_centred_single,
        single_scale=1.0,
        own=lambda x: (1 + _from_centre(x) + x) / 2,
        cross=0.0,
        larger=1.0,
    ),
    # 3/2 - |x - y| + (x - y)**2
    "WD": _Kernel(
        constant=4 / 3,
        sign=-1.0,
        single=None,
        single_scale=1.0,
        own=lambda x: 0.75 + x + x * x,
        cross=2.0,
        larger=2.0,
    ),
    # 15/8 - (|x - 1/2| + |y - 1/2|) / 4 - 3/4 |x - y| + (x - y)**2 / 2
    "MD": _Kernel(
        constant=19 / 12,
        sign=1.0,
        single=_mixture_single,
        single_scale=1.0,
        own=lambda x: 15 / 16 - _from_centre(x) / 4 + 0.75 * x + x * x / 2,
        cross=1.0,
        larger=1.5,
    ),
    # 1 - max(x, y)
    "L2-star": _Kernel(
        constant=1 / 3,
        sign=1.0,
        single=lambda x: 1 - x * x,
        single_scale=0.5,
        own=lambda x: torch.full_like(x, 0.5),
        cross=0.0,
        larger=1.0,
    ),
}


def discrepancy(points: Tensor, method: Literal["CD", "WD", "MD", "L2-star"] = "CD") -> float:
    """Return a discrepancy of points in the unit cube; lower is more uniform.

    The values equal ``scipy.stats.qmc.discrepancy``: squared discrepancies, except for "L2-star",
    which is not squared. Time is quadratic in the number of points, memory linear.

    Args:
        points: (n, d) tensor of coordinates from 0 to 1, converted to float64.
        method: "CD" centred, "WD" wrap-around, "MD" mixture, or "L2-star".

    Raises:
        ParameterError: ``method`` is unknown, or ``points`` is not such a tensor.
    """
    if method not in _KERNELS:
        known = ", ".join(repr(name) for name in _KERNELS)
        raise FlagError(f"discrepancy: method must be one of {known}, got {method!r}")
    if not isinstance(points, Tensor) or points.ndim != 2 or points.numel() == 0:
        came = tuple(points.shape) if isinstance(points, Tensor) else type(points).__name__
        raise ShapeError(f"discrepancy: points must be an (n, d) tensor, not empty, got {came}")
    if points.is_complex() or not bool(((points >= 0) & (points <= 1)).all()):
        raise ParameterError("discrepancy: points must be real numbers from 0 to 1")
    kernel = _KERNELS[method]
    # Coordinates of one dimension are contiguous.
    columns = points.detach().to(torch.float64).mT.contiguous()
    dims, count = columns.shape
    squared = kernel.sign * kernel.constant**dims + _pair_mean(kernel, columns)
    if kernel.single is not None:
        mean = float(kernel.single(columns).prod(0).sum()) / count
        squared -= 2 * kernel.single_scale**dims * mean
    return squared**0.5 if method == "L2-star" else squared


def _pair_mean(kernel: _Kernel, columns: Tensor) -> float:
    """Return the mean of the products over all pairs of points, a point with itself included."""
    count = columns.shape[1]
    own = kernel.own(columns)
    memory = columns.new_empty((3, min(count, _SIDE) ** 2))
    total = 0.0
    for row in range(0, count, _SIDE):
        left = slice(row, min(row + _SIDE, count))
        for column in range(row, count, _SIDE):
            right = slice(column, min(column + _SIDE, count))
            shape = (left.stop - left.start, right.stop - right.start)
            product, factor, larger = (m[: shape[0] * shape[1]].view(shape) for m in memory)
            product.fill_(1.0)
            for x, own_x in zip(columns, own, strict=True):
                torch.add(own_x[left, None], own_x[right], out=factor)
                torch.maximum(x[left, None], x[right], out=larger)
                factor.sub_(larger, alpha=kernel.larger)
                if kernel.cross:
                    factor.addcmul_(x[left, None], x[right], value=-kernel.cross)
                product *= factor
            # A tile off the diagonal counts for its mirror image, too.
            total += float(product.sum()) * (1 if row == column else 2)
    return total / count**2
