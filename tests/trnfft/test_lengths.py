"""Lengths with small prime factors, by trial division."""

import numpy as np
import pytest
import scipy.fft

from each_case import each_case
from trnfft import next_fast_len
from trnsci.core.errors import DTypeError, ShapeError


def is_smooth(n, largest):
    for factor in range(2, largest + 1):
        while n % factor == 0:
            n //= factor
    return n == 1


@pytest.mark.parametrize(("real", "largest"), [(False, 11), (True, 5)])
def test_least_smooth_length(real, largest):
    for target in range(1, 700):
        wanted = next(n for n in range(target, 2 * target + 1) if is_smooth(n, largest))
        assert next_fast_len(target, real) == wanted


@each_case("target", [10**6 + 3, 2**20, 2**20 + 1, 3**12 + 1, 10**9 + 7, 2**31 - 1])
def test_long_lengths_are_those_of_scipy(target):
    for real in (False, True):
        assert next_fast_len(target, real) == scipy.fft.next_fast_len(target, real)


def test_arguments():
    assert next_fast_len(np.int64(13)) == 14
    with pytest.raises(ShapeError, match="next_fast_len: target must be at least 1, got 0"):
        next_fast_len(0)
    with pytest.raises(DTypeError, match="next_fast_len: target must be an integer"):
        next_fast_len(2.5)
