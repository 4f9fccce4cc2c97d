import copy
import pickle

import torch

from trnsci.core.iterations import Eigenpair, IterationInfo, Solution, plot_residuals

INFO = IterationInfo(True, "converged", (1.0, 0.1, 0.0), matvecs=2)


def test_solution_unpacks_as_three_values_and_names_them():
    solution = Solution(torch.ones(2), 2, 1e-7, INFO)
    x, iterations, residual = solution
    assert x is solution.x
    assert (iterations, residual) == (2, 1e-7) == (solution.iterations, solution.residual)
    assert solution.converged
    assert repr(solution) == "Solution(x of shape (2,), iterations=2, residual=1e-07, converged)"


def test_eigenpair_unpacks_as_three_values_and_names_them():
    pair = Eigenpair(-2.0, torch.ones(1), 7, IterationInfo(False, "limit"))
    value, vector, iterations = pair
    assert (value, iterations) == (-2.0, 7) == (pair.value, pair.iterations)
    assert vector is pair.vector
    assert not pair.converged

    assert repr(pair) == "Eigenpair(value=-2, vector of shape (1,), iterations=7, limit)"


def test_what_is_not_said_of_a_run():
    info = IterationInfo(False, "limit")
    assert (info.residuals, info.matvecs, info.details) == ((), 0, {})
    assert info.details is not IterationInfo(False, "limit").details


def test_copies_and_pickles_keep_the_info():
    solution = Solution(torch.ones(2), 2, 1e-7, INFO)
    for again in (copy.deepcopy(solution), pickle.loads(pickle.dumps(solution))):
        assert type(again) is Solution
        assert again.info == INFO
        assert torch.equal(again.x, solution.x)
    pair = copy.copy(Eigenpair(-2.0, torch.ones(1), 7, INFO))
    assert (type(pair), pair.value, pair.iterations, pair.info) == (Eigenpair, -2.0, 7, INFO)


def test_plot_draws_one_curve_for_each_run_and_skips_exact_zeros():
    ax = plot_residuals({"cg": INFO, "": INFO})
    assert ax.get_lines()[0].get_label() == "cg"
    drawn = ax.get_lines()[0].get_ydata()
    assert list(drawn[:2]) == [1.0, 0.1]
    assert drawn[2] != drawn[2]
    assert INFO.plot(ax, "again") is ax
    assert len(ax.get_lines()) == 3
    assert list(ax.get_lines()[0].get_xdata()) == [0, 1, 2]
    assert (ax.get_yscale(), ax.get_xlabel()) == ("log", "iteration")


def test_curves_with_a_name_are_in_the_legend():
    named = plot_residuals({"cg": INFO, "": INFO, "gmres": INFO}).get_legend()
    assert [text.get_text() for text in named.get_texts()] == ["cg", "gmres"]
    assert plot_residuals({"": INFO}).get_legend() is None
    assert INFO.plot().get_legend() is None
    assert INFO.plot(label="cg").get_legend() is not None
