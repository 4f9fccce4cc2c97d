from itertools import combinations, product

import pytest

from pairwise import in_turn, pairwise


@pytest.mark.parametrize("axes", [("ab", "cde"), ("abc", "de", "fg", "hij"), ("abcd",) * 3])
def test_any_two_values_meet(axes):
    cases = pairwise(*axes)
    for one, other in combinations(range(len(axes)), 2):
        met = {(case[one], case[other]) for case in cases}
        assert met == set(product(axes[one], axes[other]))
    assert len(cases) <= len(list(product(*axes)))
    assert pairwise(*axes) == cases


def test_three_axes_of_two_values_need_four_cases():
    assert len(pairwise("ab", "cd", "ef")) == 4


def test_combinations_take_turns():
    assert in_turn("abcd", (1, 2), (3,)) == [("a", 1, 3), ("b", 2, 3), ("c", 1, 3), ("d", 2, 3)]
