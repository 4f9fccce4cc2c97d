"""Transform lengths with small prime factors, for fast transforms."""

from __future__ import annotations

from trnsci.core.arguments import whole
from trnsci.core.errors import ShapeError
from trnsci.core.interop import constant_to_compile

__all__ = ["next_fast_len"]


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
    from scipy.fft import next_fast_len  # at the first use

    found: int = next_fast_len(target, real)
    return found
