"""Ranges of predicted times and of differences, by hand and by their laws."""

import random

import pytest

from nkisim.profiling.model.assumptions import ASSUMPTIONS, assumed, defaults
from nkisim.profiling.model.ranges import (
    Difference,
    alternatives_of,
    difference,
    spanned,
)
from nkisim.profiling.result import Doubt
from nkisim.profiling.text import range_text
from nkisim.versions import VERSIONS


def test_a_range_is_the_root_of_two_squares_on_each_side():
    assert spanned(100.0, [], 0.1) == pytest.approx((90.0, 110.0))
    # 30 below by an alternative and 40 by the error; 9 and 40 above.
    assert spanned(100.0, [70.0, 80.0, 109.0], 0.4) == pytest.approx((50.0, 141.0))


def test_a_range_contains_every_alternative_and_the_error():
    rng = random.Random(0)
    for _ in range(100):
        us, error = rng.uniform(1, 1000), rng.uniform(0, 0.5)
        others = [us * rng.uniform(0.5, 2) for _ in range(rng.randrange(4))]
        low, high = spanned(us, others, error)
        inside = [us * (1 - error), us, us * (1 + error), *others]
        assert low <= min(inside) * (1 + 1e-12)
        assert high >= max(inside) * (1 - 1e-12)


def test_what_two_predictions_share_does_not_widen_their_difference():
    shared = {("fixed_us", 11.2): 1.8, ("exposed_latency", 0.5): 300.0}
    one = {key: 100.0 + more for key, more in shared.items()}
    other = {key: 90.0 + more for key, more in shared.items()}
    assert difference(100.0, one, 90.0, other, 0.0)[:2] == pytest.approx((10.0, 10.0))
    assert difference(100.0, one, 90.0, other, 0.0).widest == ""
    assert difference(100.0, one, 90.0, other, 0.04)[:2] == pytest.approx((6.0, 14.0))


def test_an_assumption_of_one_of_two_predictions_counts_for_it_alone():
    one = {("row_tiles", "in turn"): 160.0}
    assert difference(100.0, one, 90.0, {}, 0.0) == pytest.approx((10.0, 70.0, "row_tiles"))
    assert difference(90.0, {}, 100.0, one, 0.0) == pytest.approx((-70.0, -10.0, "row_tiles"))


def test_a_difference_is_separable_if_its_range_does_not_contain_0():
    assert Difference(0.1, 5.0, "a").separable
    assert Difference(-5.0, -0.1, "a").separable
    assert Difference(0.1, 5.0, "a").doubt == ""
    assert not Difference(-0.1, 5.0, "a").separable
    assert Difference(-0.1, 5.0, "a").doubt == "the range of the difference contains 0, most by a"
    assert Difference(0.0, 5.0).doubt == "the range of the difference contains 0"


def test_advice_and_tuning_give_one_reason_for_what_is_not_separable():
    found = difference(100.0, {("a", 1): 120.0}, 95.0, {})
    assert found.doubt
    assert range_text(found).endswith(f" us, not separable: {found.doubt}")
    assert range_text(found).startswith("-")
    assert range_text(Difference(1.0, 5.0, "a")) == "1.00 us to 5.00 us"
    assert range_text(None) == ""


def test_alternatives_of_assumptions_have_their_names():
    doubts = [Doubt("a", 1, {2: 5.0, 3: 6.0}), Doubt("b", "x", {"y": 7.0})]
    assert alternatives_of(doubts) == {("a", 2): 5.0, ("a", 3): 6.0, ("b", "y"): 7.0}


def test_defaults_change_with_the_nki_version_and_stay_in_the_range():
    changed = {
        name: [defaults(version)[name] for version in VERSIONS]
        for name in ASSUMPTIONS
        if len({defaults(version)[name] for version in VERSIONS}) > 1
    }
    assert changed == {
        "exposed_latency": [0.25, 0.25, 0.25, 0.25, 0.0],
        "software_descriptors": ["fixed", "fixed", "fixed", "by rows", "fixed"],
        "fixed_us": [9.4, 9.4, 9.4, 9.4, 11.2],
    }
    for name, values in changed.items():
        assert set(values) <= set(ASSUMPTIONS[name].values)
    assert assumed({"fixed_us": 5.0}, "0.7.0") == defaults("0.7.0") | {"fixed_us": 5.0}
