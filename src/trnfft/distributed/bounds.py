"""Lower bounds of the bytes that a rank receives in a Fourier transform.

A rank that holds the inputs I and computes the outputs O receives at least as many values as the
rank of the block F[O, not I] of the transform, whatever linear algorithm all ranks use. Blocks of
consecutive rows or columns of a Fourier matrix have full rank, as they are Vandermonde matrices.
Along one dimension of n points, the combinations of the rows O that vanish outside I therefore form
a space of dimension ``max(0, |I| + |O| - n)``. For several dimensions that space is the tensor
product, and the rank of the block is ``|O|`` minus the product of these numbers.

A real tensor has Hermitian-symmetric transforms: O then also contains the bins -k of all its bins
k, and values are real. An inverse transform to a real tensor has the same rank as its transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from trnfft.distributed.schedule import Parts, Problem, coordinates
from trnsci.core.distributed.plans import LowerBound

NAME = "rank of the transform between the layouts, any linear algorithm"


@dataclass(frozen=True)
class Axis:
    """The part of one rank along one dimension.

    Attributes:
        points: Number of points of the transform; 0 for a dimension that is not transformed.
        held: Number of inputs that the rank holds.
        computed: Number of outputs that it computes.
        common: Outputs whose mirror image is also an output, or, if the dimension is not
            transformed, outputs that are also inputs.
    """

    points: int
    held: int
    computed: int
    common: int


def least_received(axes: Sequence[Axis], real: str | None) -> int:
    """Return the least number of values that a rank receives.

    Args:
        axes: The part of the rank along each dimension.
        real: ``"held"`` if the inputs are real, ``"computed"`` if the outputs are real, and the
            count is of real values; None if both are complex.
    """
    transformed = [axis for axis in axes if axis.points]
    batch = [axis for axis in axes if not axis.points]
    own = prod(axis.common for axis in batch)
    for axis in transformed:
        held, computed = axis.held, axis.computed
        if real == "held":
            computed = 2 * computed - axis.common
        elif real == "computed":
            held = 2 * held - axis.common
        own *= max(0, held + computed - axis.points)
    wanted = prod(axis.computed for axis in transformed)
    if real == "held":
        wanted = 2 * wanted - prod(axis.common for axis in transformed)
    return max(0, prod(axis.computed for axis in batch) * wanted - own)


def mirrored(part: range, points: int) -> int:
    """Return the number of bins k of a part for which the bin -k is in the part as well."""
    low = max(part.start, 1, points - part.stop + 1)
    high = min(part.stop, points - part.start + 1)
    return int(0 in part) + max(0, high - low)


def lower_bound(problem: Problem, result: Parts) -> LowerBound | None:
    """Return the bound of a transform along several dimensions, for the rank with most bytes.

    No bound is known for zero-padded or truncated operands, nor for real spectra: None.
    """
    operand = problem.operand
    if problem.kind == "irfftn" and problem.real:
        return None
    lengths = dict(zip(problem.dims, problem.sizes, strict=True))
    spectrum = operand if problem.kind == "irfftn" else result
    signal = result if problem.kind == "irfftn" else operand
    for dim, points in lengths.items():
        half = problem.kind in ("rfftn", "irfftn") and dim == problem.dims[-1]
        bins = points // 2 + 1 if half else points
        if signal.shape[dim] != points or spectrum.shape[dim] != bins:
            return None
    real = "computed" if problem.kind == "irfftn" else "held" if problem.real else None
    itemsize = min(operand.itemsize, result.itemsize)
    most = 0
    for rank in coordinates(operand.grid):
        ranges = enumerate(zip(operand.ranges(rank), result.ranges(rank), strict=True))
        axes = []
        for dim, (held, computed) in ranges:
            if dim in lengths:
                spectral = held if problem.kind == "irfftn" else computed
                common = mirrored(spectral, lengths[dim])
            else:
                common = len(range(max(held.start, computed.start), min(held.stop, computed.stop)))
            axes.append(Axis(lengths.get(dim, 0), len(held), len(computed), common))
        most = max(most, least_received(axes, real) * itemsize)
    return LowerBound(most, NAME)
