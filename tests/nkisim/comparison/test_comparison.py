"""Comparison of outputs: equal bits, largest differences, roundings of a reference."""

import math

import numpy as np
import pytest

from nkisim.trials.arguments import Arguments
from nkisim.trials.comparison import Expected
from nkisim.trials.references import Reference
from nkisim.trials.running import arrays_of, differences, relative_change


def test_the_largest_difference_counts_elements_and_ignores_equal_nan():
    a = np.array([1.0, np.nan, -0.0, 3.0], np.float32)
    b = np.array([1.0, np.nan, 0.0, 3.5], np.float32)
    assert differences([a], [a.copy()]) == ""
    text = differences([a], [b])
    assert text == "output 0: largest difference 0.5, 2 of 4 elements"
    assert "float32 (4,) and float64 (4,)" in differences([a], [a.astype(float)])
    assert differences([a], []) == "1 and 0 outputs"


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ([1.0, -4.0], [1.0, -4.0], 0.0),
        ([1.0, -4.0], [1.5, -4.0], 0.125),
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([2.0, np.inf], [1.0, np.inf], 0.5),
        ([1.0, np.nan], [1.0, 2.0], np.inf),
        ([1.0, 2.0], [1.0, np.nan], np.inf),
        ([0.0, 0.0], [0.0, 1e-30], np.inf),
        ([1.0, 2.0], [1.0], np.inf),
    ],
)
def test_the_change_is_relative_to_the_largest_element(old, new, change):
    assert relative_change([np.array(old)], [np.array(new)]) == change


def test_arrays_are_found_in_containers_in_order():
    parts = {"a": (np.ones(1), [np.ones(2), None]), "b": np.ones(3)}
    assert [a.size for a in arrays_of(parts)] == [1, 2, 3]


def erf_gelu(x):
    """The formula of gelu, which cancels to 0 from about -8.3 on in float64."""
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def erfc_gelu(x):
    return x * 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2))


def test_roundings_of_the_reference_are_not_errors():
    x = np.array([-9.0, -8.5, -1.0, 0.5, 9.0], np.float32)
    expected = Expected(Reference(erf_gelu), Arguments((x,), {}))
    exact = erfc_gelu(x.astype(np.float64)).astype(np.float32)
    assert expected.results[0][0] == 0 != exact[0]
    found = expected.compared([exact])
    assert found.passed
    assert found.ulps < 1
    wrong = exact + np.float32([1e-13, 0, 0, 0, 0])
    assert not expected.compared([wrong]).passed
