"""The levels of precision of a product, their bounds, and the cheapest one for a target.

Errors of op(A) @ op(B) are relative to the 2-norms of a row of op(A) and a column of op(B), or, by
magnitudes, to |A| |B|; u = 2**-24 and K is the extent of the contraction.

===========  ==================================================  ===================================
level        arithmetic                                          bound
===========  ==================================================  ===================================
bfloat16     operands rounded to bfloat16, float32 sums          2**-7 + 2**-16, and K u
float16x3    three float16 products of scaled operands           3 * 2**-22, and 3 K u
float32      float32 products and sums                           K u
doublefloat  exact products of slices, summed in float32 pairs   that of the slices; 2**-45
===========  ==================================================  ===================================

The bound of float16x3 by norms also has 2**-39 sqrt(K), for entries that are small against the
largest of their row or column; it has none by magnitudes. The result has the dtype of the operands:
rounding it to float32 adds u.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from trnblas._precise.slicing import MOST_DEPTH, MOST_SLICES, PROMISE, bound
from trnsci.core.backend.precision import LEVELS
from trnsci.core.errors import FlagError

_U = 2.0**-24
_FLOAT16X3_ORDER = 1024  # float16x3 is predicted to be faster than float32 from here on


class Level(NamedTuple):
    """A level, and the error that a doublefloat product may have.

    Attributes:
        name: One of ``LEVELS``.
        target: The largest error, relative to norms or magnitudes.
        componentwise: Whether errors are relative to |A| |B| instead of norms.
    """

    name: str
    target: float = PROMISE
    componentwise: bool = False


def level_bound(name: str, depth: int) -> float:
    """Return the largest error of an entry at one of the levels below doublefloat, by norms."""
    sums = depth * _U / (1 - depth * _U) if depth * _U < 1 else float("inf")
    if name == "bfloat16":
        return 2.0**-7 + 2.0**-16 + sums * (1 + 2.0**-8) ** 2
    if name == "float16x3":
        return 3 * 2.0**-22 + 2.0**-39 * sqrt(depth) + 3 * sums * (1 + 2.0**-9)
    return sums


def cheapest(
    function: str,
    target: float,
    shape: tuple[int, int, int],
    rounding: float,
    names: tuple[str, ...] = LEVELS,
    componentwise: bool = False,
) -> Level:
    """Return the cheapest level whose bound, with the rounding of the result, is at most a target.

    Args:
        function: Name of the public function, for messages.
        target: Largest error of an entry of the product.
        shape: Rows, columns and contraction of the product.
        rounding: Unit roundoff of the result's dtype.
        names: Levels to choose from.
        componentwise: Whether the error is relative to |A| |B|.

    Raises:
        FlagError: No level has such a bound.
    """
    if not (isinstance(target, int | float) and target > 0):
        raise FlagError(f"{function}: target_forward_error must be above 0, got {target!r}")
    depth = max(1, shape[2])
    left = (target - rounding) / (1 + rounding)  # for the product before it is rounded
    for name in names:
        if name == "doublefloat" or (
            name == "float16x3" and (componentwise or min(shape) < _FLOAT16X3_ORDER)
        ):
            continue
        if level_bound(name, depth) <= left:
            return Level(name)
    least = bound(MOST_SLICES, depth) if depth <= MOST_DEPTH else PROMISE
    if "doublefloat" in names and left >= least:
        return Level("doublefloat", left, componentwise)
    reached = least if "doublefloat" in names else level_bound(names[-1], depth)
    raise FlagError(
        f"{function}: target_forward_error must be at least {reached + rounding:.3g} for a "
        f"contraction of {shape[2]} and this dtype of the result, got {target:.3g}"
    )
