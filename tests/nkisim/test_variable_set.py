"""Environment variables that are set for a while, and restored."""

import os

import pytest

from each_case import each_case
from nkisim.options import variable_set

NAME = "NKISIM_TEST_OF_VARIABLES"


@each_case("earlier", [None, "", "old"])
def test_a_variable_is_restored(monkeypatch, earlier):
    monkeypatch.delenv(NAME, raising=False)
    if earlier is not None:
        monkeypatch.setenv(NAME, earlier)
    with variable_set(NAME, "new"), variable_set(NAME, "newer"):
        assert os.environ[NAME] == "newer"
    assert os.environ.get(NAME) == earlier


def test_a_variable_is_restored_after_an_error_and_after_it_was_deleted(monkeypatch):
    monkeypatch.delenv(NAME, raising=False)
    with pytest.raises(KeyError), variable_set(NAME, "new"):
        raise KeyError
    with variable_set(NAME, "new"):
        del os.environ[NAME]
    assert NAME not in os.environ
