"""The list of what the contract of public functions leaves out."""

import inspect
import runpy

import pytest

from public_calls import function_of
from trnsci.core.testing.exempt import EXEMPT, GUARANTEES


def test_every_exception_has_a_reason_and_a_known_guarantee():
    for key, reason in EXEMPT.items():
        assert reason
        guarantee, _, argument = key.partition(": ")[2].partition(", ")
        assert guarantee in ("", *GUARANTEES)
        if argument:
            function = function_of(key.partition(":")[0])
            assert argument.removesuffix("=") in inspect.signature(function).parameters


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
def test_the_list_is_printed(capsys):
    runpy.run_module("trnsci.core.testing.exempt", run_name="__main__")
    printed = capsys.readouterr().out
    assert all(key in printed and reason in printed for key, reason in EXEMPT.items())
