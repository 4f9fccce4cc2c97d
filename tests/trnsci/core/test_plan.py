import pytest

from trnsci.core.backend.plan import Cost, Plan, forget_plans, planned


class Doubling(Plan):
    cost = Cost(flops=100, hbm_bytes=800)

    def decisions(self):
        return [("product", "2 x"), ("passes", "one")]

    def execute(self, x):
        return 2 * x


def test_a_plan_prints_its_decisions_as_a_table():
    assert str(Doubling()) == "product     2 x\npasses      one"
    assert Doubling().execute(4) == 8


def test_equal_calls_have_one_plan_until_the_library_forgets():
    made = []

    def make(size):
        made.append(size)
        return Doubling()

    make.__module__ = "trntoy.plans"
    plan = planned(make)
    assert plan(3) is plan(3)
    forget_plans("trnother")
    first = plan(3)
    forget_plans("trntoy")
    assert plan(3) is not first
    assert made == [3, 3]


def test_the_last_64_plans_are_kept():
    made = []
    plan = planned(lambda size: made.append(size))
    for size in (*range(64), *range(64)):
        plan(size)
    assert made == list(range(64))
    plan(64)  # for which the oldest goes
    plan(1)
    assert made == [*range(64), 64]
    plan(0)
    assert made == [*range(64), 64, 0]


def test_a_plan_must_say_its_cost_and_its_description():
    with pytest.raises(TypeError, match="abstract"):
        type("Empty", (Plan,), {})()


def test_intensity_is_work_for_each_byte():
    assert Cost(flops=100, hbm_bytes=800).intensity == 0.125
    assert Cost(flops=1, hbm_bytes=0).intensity == float("inf")
    assert Cost(flops=1, hbm_bytes=1).launches == 1
