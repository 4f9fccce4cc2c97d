"""Calls in the tables of the libraries' pages: what is keyword-only stands after a star."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from trnsci.validation import LIBRARIES

PAGES = Path(__file__).parents[2] / "docs/libraries"


@pytest.mark.parametrize("library", LIBRARIES)
def test_options_by_keyword_are_shown_as_such(library):
    module = importlib.import_module(library)
    shown, wrong = 0, []
    for name, text in re.findall(r"`(\w+)\(([^()`]*)\)`", (PAGES / f"{library}.md").read_text()):
        function = getattr(module, name, None)
        if not inspect.isfunction(function) or name == "randint":  # takes its bounds in both ways
            continue
        parameters, star = inspect.signature(function).parameters, False
        for argument in text.split(", "):
            star = star or argument.startswith("*") or "=" in argument
            parameter = parameters.get(argument)
            if parameter is not None:
                shown += 1
                if not star and parameter.kind is parameter.KEYWORD_ONLY:
                    wrong.append(f"{name}({text}): {argument}")
    assert shown
    assert not wrong, "\n".join(wrong)
