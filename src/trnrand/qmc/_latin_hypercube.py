"""Latin hypercube samples: one point in each of n equal intervals of every dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from trnrand._library import no_kernel
from trnrand.errors import FlagError
from trnrand.qmc._arguments import MAX_DIMS, floating, given_once, whole
from trnrand.qmc._rounding import one_up, rounded_down
from trnrand.qmc._seeding import random_numbers, random_permutations, seed_from

if TYPE_CHECKING:
    from trnrand.generator import Generator

# ``purpose`` in random_numbers(); Sobol' points use 1 to 3, Halton points 4.
_ORDER, _PLACE = 5, 6
# Interval number plus place inside it must be exact in float64, with bits to spare: after the
# division, places next to an end of the interval must differ from the end.
_EXACT_BITS = 51
_PLACE_BITS = 32
# Dimensions are computed in groups with up to this number of coordinates, at least one each.
_BLOCK = 1 << 15


def latin_hypercube(
    n_points: SupportsIndex | None = None,
    n_dims: SupportsIndex | None = None,
    dtype: torch.dtype = torch.float32,
    generator: torch.Generator | Generator | None = None,
    seed: SupportsIndex | None = None,
    *,
    centered: bool = False,
    device: torch.device | str | None = None,
    n: SupportsIndex | None = None,
    d: SupportsIndex | None = None,
) -> Tensor:
    """Return a Latin hypercube sample in [0, 1) as an (n_points, n_dims) tensor.

    In every dimension each interval [k/n, (k+1)/n) contains exactly one point, if the dtype has a
    value in each: up to 2**24 points in float32, 2**11 in float16, 2**8 in bfloat16. With more,
    coordinates are rounded down.

    Args:
        n_points: Number of points, up to 2**32.
        n_dims: Number of dimensions, from 1 to 21201.
        dtype: float64, float32, float16 or bfloat16.
        generator: A torch.Generator or a trnrand.Generator that draws the seed; None is the
            default generator unless ``seed`` is given.
        seed: From 0 to 2**64 - 1, instead of a generator.
        centered: Whether points are in the middle of their intervals, not at random places.
        device: Device of the result.
        n: Alias of n_points.
        d: Alias of n_dims.

    Raises:
        ParameterError: An argument is out of range.

    Example:
        >>> sample = latin_hypercube(100, 3, seed=7)
        >>> (sample * 100).floor().sort(0).values[:, 1].tolist() == list(range(100))
        True
    """
    no_kernel("latin_hypercube")
    function = "latin_hypercube"
    count = whole(
        function, "n_points", given_once(function, "n_points", n_points, "n", n), 0, 2**32
    )
    dims = whole(function, "n_dims", given_once(function, "n_dims", n_dims, "d", d), 1, MAX_DIMS)
    if not isinstance(centered, bool):
        raise FlagError(f"{function}: centered must be True or False, got {centered!r}")
    precision = floating(function, dtype)
    key = seed_from(function, seed, generator)
    points = torch.empty((count, dims), dtype=dtype)
    group = max(1, _BLOCK // max(count, 1))
    for left in range(0, dims if count else 0, group):
        streams = np.arange(left, min(left + group, dims))
        columns = points[:, left : left + group]
        columns.copy_(_coordinates(key, streams, count, centered, dtype, precision).mT)
    return points if device is None else points.to(device)


def _coordinates(
    seed: int, dims: np.ndarray, count: int, centered: bool, dtype: torch.dtype, precision: int
) -> Tensor:
    """Return the coordinates of all points in some dimensions, one dimension per row."""
    order = random_permutations(random_numbers(seed, _ORDER, dims, count))
    places: np.ndarray | float = 0.5
    if not centered:
        bits = min(_PLACE_BITS, _EXACT_BITS - count.bit_length())
        random = random_numbers(seed, _PLACE, dims, count) >> np.uint64(64 - bits)
        # The middle of a step is inside the interval, not on its end.
        places = (random.view(np.int64) + 0.5) * 2.0**-bits
    rounded = rounded_down(torch.from_numpy((order + places) / count), dtype)
    if dtype is not torch.float64 and count <= 1 << precision:
        # A coordinate that was rounded to a value below its interval becomes the next larger float.
        # The product with ``count`` is exact, so the comparison is, too.
        below = rounded.to(torch.float64) * count < torch.from_numpy(order)
        rounded = one_up(rounded, below)
    return rounded
