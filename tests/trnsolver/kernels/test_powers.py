"""The kernel of powers: exponents of every kind of binary digits, orders around a tile."""

import numpy as np
import pytest

from trnsolver._kernels.limits import POWER_ORDER
from trnsolver._kernels.powers import matrix_power

from .harness_solver import EPS, GENERATIONS, run


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    ("n", "exponent"), [(1, 3), (2, 5), (5, 1), (5, 2), (5, 7), (127, 2), (128, 3), (129, 6)]
)
def test_powers(n, exponent, generation):
    """Each product of an entry has n roundings, relative to the product of the moduli."""
    a = np.random.default_rng(n).standard_normal((2, n, n)).astype(np.float32)
    wide = a.astype(np.float64)
    bound = np.linalg.matrix_power(abs(wide), exponent) * (n + 1) * exponent * EPS / 2
    found = run(matrix_power, generation, a, exponent)
    assert (abs(found - np.linalg.matrix_power(wide, exponent)) <= bound).all()


def test_small_integers_are_exact():
    a = np.random.default_rng(0).integers(-2, 3, (3, 6, 6)).astype(np.float32)
    found = run(matrix_power, "gen3", a, 5)
    assert np.array_equal(found, np.linalg.matrix_power(a.astype(np.int64), 5))


def test_the_first_refused_order():
    a = np.zeros((1, POWER_ORDER + 1, POWER_ORDER + 1), np.float32)
    with pytest.raises(AssertionError, match="order at most 1024, got 1025"):
        run(matrix_power, "gen3", a, 2)
