"""The picture of predicted scaling: today's plans, and what scaling cannot be."""

from pathlib import Path

import pytest

from scripts import loaded

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool():
    return loaded(ROOT / "tools/scaling_pictures.py")


def test_the_picture_is_that_of_todays_plans(tool):
    assert (ROOT / "docs/pictures/scaling.svg").read_text(encoding="utf-8") == tool.picture()


def test_no_problem_scales_better_than_its_ranks(tool):
    for problem in tool.PROBLEMS:
        assert all(value <= ranks for ranks, value in tool.strong(problem))
        # The order of the products is rounded to a multiple of 128: 1 % of the work at most.
        assert all(value <= 1.01 for _, value in tool.weak(problem))
