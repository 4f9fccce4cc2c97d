"""Random numbers of point sets: a 64-bit seed, expanded by SplitMix64.

A number is a function of (seed, purpose, stream, index), so any part can be computed without the
rest, and is the same integer on every machine.
"""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np
import torch

from trnrand.defaults import get_default_generator
from trnrand.distributions.discrete import integers
from trnrand.errors import DTypeError, FlagError
from trnrand.generator import Generator
from trnrand.qmc._arguments import whole

# G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
_GAMMA = 0x9E3779B97F4A7C15
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def _mixed(values: np.ndarray) -> np.ndarray:
    """Apply the SplitMix64 bijection to uint64 numbers in place, and return them."""
    for shift, factor in _STEPS:
        values ^= values >> np.uint64(shift)
        values *= np.uint64(factor)
    values ^= values >> np.uint64(31)
    return values


def random_numbers(seed: int, purpose: int, streams: np.ndarray, count: int) -> np.ndarray:
    """Return ``count`` uint64 numbers of each stream, one stream per row.

    Args:
        seed: From 0 to 2**64 - 1.
        purpose: Separates different uses of one seed.
        streams: Indices of the streams, 1-D.
        count: Number of random numbers of each stream.
    """
    root = _mixed(np.array([seed], np.uint64)) + np.uint64(purpose)
    keys = _mixed(_mixed(root) + (streams.astype(np.uint64) + np.uint64(1)) * np.uint64(_GAMMA))
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GAMMA)
    return _mixed(keys[:, None] + steps)


def random_permutations(random: np.ndarray) -> np.ndarray:
    """Return the order of the random numbers in each row, as indices."""
    # Indices are packed into the low bits, since sorting is several times as fast as argsort. At
    # least 32 random bits remain above them, as no row is longer than 2**32.
    low = np.uint64((1 << (random.shape[1] - 1).bit_length()) - 1)
    numbers = random & ~low | np.arange(random.shape[1], dtype=np.uint64)
    numbers.sort(axis=1)
    numbers &= low
    return numbers.view(np.int64)


def checked_seed(function: str, seed: SupportsIndex) -> int:
    """Return a validated seed."""
    return whole(function, "seed", seed, 0, 2**64 - 1)


def seed_from(
    function: str,
    seed: SupportsIndex | None,
    generator: torch.Generator | Generator | None,
) -> int:
    """Return the seed, or one drawn from the generator, by default the default generator."""
    if seed is not None:
        if generator is not None:
            raise FlagError(f"{function}: give either seed or generator, got both")
        return checked_seed(function, seed)
    if generator is None:
        generator = get_default_generator()
    if isinstance(generator, torch.Generator):
        halves = torch.randint(2**32, (2,), generator=generator, device=generator.device)
    else:
        if not isinstance(generator, Generator):
            raise DTypeError(
                f"{function}: generator must be a torch.Generator or a trnrand.Generator, "
                f"got {type(generator).__name__}"
            )
        halves = integers(2, low=0, high=2**32, generator=generator)
    low, high = halves.tolist()
    return int(low) | int(high) << 32
