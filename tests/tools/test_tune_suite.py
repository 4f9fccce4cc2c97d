"""Choices of formulas are compared with their legal alternatives."""

from pathlib import Path

import pytest

from scripts import loaded

tune_suite = loaded(Path(__file__).parents[2] / "tools" / "tune_suite.py")
Choice, Comparison = tune_suite.Choice, tune_suite.Comparison
compared, factors = tune_suite.compared, tune_suite.factors


def test_a_choice_is_compared_with_its_legal_alternatives():
    problem = factors.cholesky(100)
    # With panels of 25 columns a product has 625 moving columns, which gen3 refuses.
    panels = {"8 columns": 8, "25 columns": 25}
    choice = Choice(problem, "trnsolver._kernels.elimination.PANEL", panels)
    found = compared(choice, "gen3")
    assert (found.tried, found.alternative) == (1, "8 columns")
    assert found.formula == problem.profile("gen3").latency_us  # the choice is as before
    assert found.fastest != found.formula


def test_the_gain_is_relative_to_the_fastest_alternative():
    assert Comparison(110.0, 100.0, "other", 3).gain == pytest.approx(0.1)
    assert Comparison(90.0, 100.0, "other", 3).gain == pytest.approx(-0.1)
