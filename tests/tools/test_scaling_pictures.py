"""The picture of predicted scaling: today's plans, and what scaling cannot be."""

import re
from pathlib import Path

import pytest

from scripts import loaded

ROOT = Path(__file__).parents[2]
PICTURE = (ROOT / "docs/pictures/scaling.svg").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tool():
    return loaded(ROOT / "tools/scaling_pictures.py")


@pytest.fixture
def few_ranks(tool, monkeypatch):
    """Plans of up to 64 ranks: the time of a plan grows with its ranks."""
    monkeypatch.setattr(tool, "RANKS", tool.RANKS[:7])


def curves(text):
    """Return the points of each curve."""
    return [points.split() for points in re.findall(r'<polyline points="([^"]+)"', text)]


def test_the_picture_begins_as_todays_plans(tool, few_ranks):
    drawn = curves(PICTURE)
    assert {len(points) for points in drawn} == {10}
    assert curves(tool.picture()) == [points[:7] for points in drawn]


@pytest.mark.slow
def test_the_picture_is_that_of_todays_plans(tool):
    assert tool.picture() == PICTURE


def check_efficiency(tool):
    for problem in tool.PROBLEMS:
        assert all(value <= ranks for ranks, value in tool.strong(problem))
        # The order of the products is rounded to a multiple of 128: 1 % of the work at most.
        assert all(value <= 1.01 for _, value in tool.weak(problem))


def test_no_problem_scales_better_than_its_ranks(tool, few_ranks):
    check_efficiency(tool)


@pytest.mark.slow
def test_no_problem_scales_better_than_512_ranks(tool):
    check_efficiency(tool)
