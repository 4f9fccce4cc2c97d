import os

import pytest

from each_case import each_case, refuse_shared_folder


def test_every_case_runs_and_those_that_fail_are_named():
    seen = []

    @each_case("x, y", [(1, 2), (3, 4), pytest.param(5, 6, id="last")])
    @each_case("z", "ab", ids=str.upper)
    def check(x, y, z):
        seen.append((x, y, z))
        assert x < 3 or z == "b"

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases failed") as caught:
        check()
    assert seen == [(x, x + 1, z) for x in (1, 3, 5) for z in "ab"]
    assert [group.__notes__ for group in caught.value.exceptions] == [
        ["case: x, y = 3, 4"],
        ["case: x, y = last"],
    ]
    (error,) = caught.value.exceptions[1].exceptions
    assert error.__notes__ == ["case: z = A"]


@pytest.mark.parametrize("fixed", [1, 2])
@each_case("x", [10, 20])
def test_other_parameters_and_fixtures_are_given_to_every_case(x, fixed, monkeypatch):
    assert "EARLIER" not in os.environ or x == 20
    monkeypatch.setenv("EARLIER", "a case")
    assert fixed in (1, 2)


@each_case("x", [10, 20])
@each_case("y", [1, 2])
def test_every_case_has_a_folder_of_its_own(x, y, tmp_path):
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "left").touch()


def test_a_fixture_made_of_the_one_folder_is_refused():
    @each_case("x", [1, 2])
    def cases(x, made):
        pass

    refuse_shared_folder(cases, "made", ("monkeypatch",))
    refuse_shared_folder(lambda x: None, "made", ("tmp_path",))
    with pytest.raises(pytest.fail.Exception, match="cases share the tmp_path of made"):
        refuse_shared_folder(cases, "made", ("tmp_path",))


def test_a_test_is_skipped_where_all_of_its_cases_are():
    @each_case("x", [1, 2])
    def check(x, enough):
        if x < enough:
            pytest.skip("too small")

    check(enough=2)
    with pytest.raises(pytest.skip.Exception):
        check(enough=3)


def test_marks_and_unknown_arguments_are_refused():
    with pytest.raises(AssertionError, match="a mark can only be"):
        each_case("x", [pytest.param(1, marks=pytest.mark.slow)])
    with pytest.raises(AssertionError, match="arguments are not"):
        each_case("y", [1])(lambda x: None)


def test_a_group_holds_its_cases_alone():
    seen = []

    @each_case("x", range(5), group=lambda x: x % 2)
    def check(x):
        seen.append(x)

    check(group=1)
    assert seen == [1, 3]
    assert check.pytestmark[0].args == ("group", [0, 1])


def test_a_case_is_selected_by_a_part_of_its_name(monkeypatch):
    monkeypatch.setattr("each_case.SELECTED", "one")
    seen = []

    @each_case("x", [1, 2, 3], ids=["one", "two", "one more"])
    def check(x):
        seen.append(x)

    check()
    assert seen == [1, 3]
    monkeypatch.setattr("each_case.SELECTED", "four")
    with pytest.raises(pytest.skip.Exception, match="no case with 'four' in its name"):
        check()


def test_skipped_cases_of_a_test_that_runs_others_are_counted(monkeypatch):
    skipped = []
    monkeypatch.setattr("each_case.SKIPPED", skipped)

    @each_case("x", [1, 2, 3])
    def check(x):
        if x > 1:
            pytest.skip("too large")

    check()
    assert len(skipped) == 2
