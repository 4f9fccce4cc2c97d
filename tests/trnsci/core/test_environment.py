"""Variables are read once, when a library is made, and only values with a meaning are accepted."""

import os

import pytest

from trnsci.core.backend.environment import library_requirement, library_switch

OWN, UMBRELLA = "TRNTOY_USE_SIMULATOR", "TRNSCI_USE_SIMULATOR"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    monkeypatch.delenv(OWN, raising=False)
    monkeypatch.delenv(UMBRELLA, raising=False)


def read():
    return library_switch("trntoy", "USE_SIMULATOR")


@pytest.mark.parametrize("value", ["1", "true", "TRUE", "Yes", "oN", " 1 "])
def test_values_that_mean_on(monkeypatch, value):
    monkeypatch.setenv(OWN, value)
    assert read().value is True


@pytest.mark.parametrize("value", ["0", "false", "False", "NO", "off", "", " "])
def test_values_that_mean_off(monkeypatch, value):
    monkeypatch.setenv(OWN, value)
    assert read().value is False


def test_a_variable_that_is_not_set_is_off():
    assert read().value is False


@pytest.mark.parametrize("name", [OWN, UMBRELLA])
@pytest.mark.parametrize("value", ["2", "maybe", "y", "enabled"])
def test_any_other_value_is_an_error_with_the_variable_and_what_is_accepted(
    monkeypatch, name, value
):
    monkeypatch.setenv(name, value)
    found = read()
    assert found.value is False
    assert str(found.error) == (
        f"{name}: got '{value}', accepted: 1, true, yes, on; or 0, false, no, off, empty"
    )


def test_a_later_change_is_not_read(monkeypatch):
    monkeypatch.setenv(OWN, "1")
    switch = read()
    monkeypatch.setenv(OWN, "0")
    monkeypatch.setattr(os, "environ", {})
    assert switch.value is True


@pytest.mark.parametrize(
    ("own", "umbrella", "on"),
    [(None, "1", True), ("0", "1", False), ("", "1", False), ("1", "0", True), (None, "0", False)],
)
def test_the_librarys_own_variable_wins_where_it_is_set(monkeypatch, own, umbrella, on):
    if own is not None:
        monkeypatch.setenv(OWN, own)
    monkeypatch.setenv(UMBRELLA, umbrella)
    assert read().value is on


@pytest.mark.parametrize(
    ("text", "level"), [("1", "1"), (" ALL ", "all"), ("0", ""), ("", ""), (" ", "")]
)
def test_levels_of_a_requirement(monkeypatch, text, level):
    monkeypatch.setenv("TRNTOY_REQUIRE_NKI", text)
    found = library_requirement("trntoy")
    assert (found.value, found.error) == (level, None)


@pytest.mark.parametrize("text", ["2", "yes", "true", "every"])
def test_any_other_level_is_an_error(monkeypatch, text):
    monkeypatch.setenv("TRNTOY_REQUIRE_NKI", text)
    found = library_requirement("trntoy")
    assert str(found.error) == f"TRNTOY_REQUIRE_NKI: got '{text}', accepted: 1, all; or 0, empty"


def test_a_longer_name_is_another_variable(monkeypatch):
    monkeypatch.setenv(f"{OWN}S", "1")
    assert read().value is False
