"""Transform lengths with small prime factors, for fast transforms."""

from __future__ import annotations

from functools import lru_cache

from trnsci.core.arguments import whole
from trnsci.core.errors import ShapeError
from trnsci.core.interop import constant_to_compile

__all__ = ["next_fast_len"]

_FACTORS = {False: (2, 3, 5, 7, 11), True: (2, 3, 5)}


def next_fast_len(target: int, real: bool = False) -> int:
    """Return the smallest length of at least ``target`` whose prime factors are all small.

    Zero-padding a signal to this length makes its transform fast; kernels transform it by factors.

    Args:
        target: Minimum length.
        real: Whether the input is real. The largest factor is 5 for real and 11 for complex input,
            as in ``scipy.fft.next_fast_len``.

    Raises:
        ShapeError: target is below one.
        DTypeError: target is not an integer.

    Example:
        >>> trnfft.next_fast_len(1021)
        1024
        >>> trnfft.next_fast_len(11), trnfft.next_fast_len(11, real=True)
        (11, 12)
    """
    target = whole("next_fast_len", "target", target)
    if target < 1:
        raise ShapeError(f"next_fast_len: target must be at least 1, got {target}")
    return _constant(target, bool(real))


@constant_to_compile
def _constant(target: int, real: bool) -> int:
    return _search(target, real)


@lru_cache(maxsize=4096)
def _search(target: int, real: bool) -> int:
    """Return the least product of small factors that is not below ``target``."""
    *others, last = _FACTORS[real]
    best = 1 << (target - 1).bit_length()  # a power of two
    # All products of the odd factors up to best; the smallest sufficient power of two is added.
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
