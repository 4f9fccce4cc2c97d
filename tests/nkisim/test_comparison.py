"""Comparison of outputs: equal bits, the largest difference, the change in units of the largest."""

import numpy as np
import pytest

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
