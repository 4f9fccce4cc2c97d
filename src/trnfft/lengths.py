"""Lengths that transforms are quick at."""

from __future__ import annotations

from functools import lru_cache

from trnsci.core.arguments import whole
from trnsci.core.errors import ShapeError
from trnsci.core.interop import constant_to_compile

__all__ = ["next_fast_len"]

_FACTORS = {False: (2, 3, 5, 7, 11), True: (2, 3, 5)}


def next_fast_len(target: int, real: bool = False) -> int:
    """Return the least length from ``target`` on with small prime factors alone.

    A signal padded with zeros to this length is transformed quickly; a kernel takes it by factors.

    Args:
        target: Least length.
        real: Whether the transform is one of real points: then factors up to 5 count as small, else
            up to 11. These are the lengths of ``scipy.fft.next_fast_len``.

    Raises:
        ShapeError: target is below one.
        DTypeError: target is no integer.

    Example:
        >>> trnfft.next_fast_len(1021)
        1024
        >>> trnfft.next_fast_len(11), trnfft.next_fast_len(11, real=True)
        (11, 12)
    """
    target = whole("next_fast_len", "target", target)
    if target < 1:
        raise ShapeError(f"next_fast_len: target must be at least 1, got {target}")
    return _kept(target, bool(real))


@constant_to_compile
def _kept(target: int, real: bool) -> int:
    return _found(target, real)


@lru_cache(maxsize=4096)
def _found(target: int, real: bool) -> int:
    """Return the least product of small factors that is not below ``target``."""
    *others, last = _FACTORS[real]
    best = 1 << (target - 1).bit_length()  # a power of two
    # All products of the larger factors below the best; the power of two then follows.
    products = [1]
    for factor in (*others[1:], last):
        products = [p * factor**k for p in products for k in range(_powers(best // p, factor) + 1)]
    for product in products:
        rest = -(-target // product)
        best = min(best, product << (rest - 1).bit_length())
    return best


def _powers(limit: int, factor: int) -> int:
    """Return the largest k for which ``factor ** k`` is at most ``limit``."""
    k = 0
    while limit >= factor:
        limit //= factor
        k += 1
    return k
