"""Variables are read at each use, and only values with a meaning are accepted."""

import os

import pytest

from trnsci.core.backend.environment import library_switch

OWN, UMBRELLA = "TRNTOY_USE_SIMULATOR", "TRNSCI_USE_SIMULATOR"


@pytest.fixture
def switch(monkeypatch):
    monkeypatch.delenv(OWN, raising=False)
    monkeypatch.delenv(UMBRELLA, raising=False)
    return library_switch("trntoy", "USE_SIMULATOR")


@pytest.mark.parametrize("value", ["1", "true", "TRUE", "Yes", "oN", " 1 "])
def test_values_that_mean_on(switch, monkeypatch, value):
    monkeypatch.setenv(OWN, value)
    assert switch.is_on() is True


@pytest.mark.parametrize("value", ["0", "false", "False", "NO", "off", "", " "])
def test_values_that_mean_off(switch, monkeypatch, value):
    monkeypatch.setenv(OWN, value)
    assert switch.is_on() is False


def test_a_variable_that_is_not_set_is_off(switch):
    assert switch.is_on() is False


@pytest.mark.parametrize("name", [OWN, UMBRELLA])
@pytest.mark.parametrize("value", ["2", "maybe", "y", "enabled"])
def test_any_other_value_is_refused_with_the_variable_and_what_is_accepted(
    switch, monkeypatch, name, value
):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=rf"^{name}: got '{value}', accepted: 1, true, yes, on; "):
        switch.is_on()


def test_each_use_reads_the_variable_again(switch, monkeypatch):
    seen = []
    for value in ("1", "0", "yes"):
        monkeypatch.setenv(OWN, value)
        seen.append(switch.is_on())
    monkeypatch.delenv(OWN)
    seen.append(switch.is_on())
    assert seen == [True, False, True, False]


@pytest.mark.parametrize(
    ("own", "umbrella", "on"),
    [(None, "1", True), ("0", "1", False), ("", "1", False), ("1", "0", True), (None, "0", False)],
)
def test_the_librarys_own_variable_wins_where_it_is_set(switch, monkeypatch, own, umbrella, on):
    if own is not None:
        monkeypatch.setenv(OWN, own)
    monkeypatch.setenv(UMBRELLA, umbrella)
    assert switch.is_on() is on


@pytest.mark.parametrize(
    ("variables", "on"), [({OWN: "1"}, True), ({UMBRELLA: "1"}, True), ({}, False)]
)
def test_a_mapping_put_in_the_place_of_the_environment_is_obeyed(
    switch, monkeypatch, variables, on
):
    monkeypatch.setenv(OWN, "0" if on else "1")
    monkeypatch.setattr(os, "environ", variables)
    assert switch.is_on() is on


def test_the_names_are_made_from_the_librarys():
    switch = library_switch("trnblas", "REQUIRE_NKI")
    assert (switch.name, switch.umbrella) == ("TRNBLAS_REQUIRE_NKI", "TRNSCI_REQUIRE_NKI")


def test_a_longer_name_is_another_variable(switch, monkeypatch):
    monkeypatch.setenv("TRNTOY_USE_SIMULATORS", "1")
    assert switch.is_on() is False
