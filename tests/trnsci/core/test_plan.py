import pytest

from trnsci.core.plan import Cost, Plan


class Doubling(Plan):
    cost = Cost(flops=100, hbm_bytes=800)

    def describe(self):
        return "doubling\n  one pass"


def test_a_plan_prints_its_description():
    assert str(Doubling()) == "doubling\n  one pass"


def test_a_plan_must_say_its_cost_and_its_description():
    with pytest.raises(TypeError, match="abstract"):
        type("Empty", (Plan,), {})()


def test_intensity_is_work_for_each_byte():
    assert Cost(flops=100, hbm_bytes=800).intensity == 0.125
    assert Cost(flops=1, hbm_bytes=0).intensity == float("inf")
    assert Cost(flops=1, hbm_bytes=1).launches == 1
