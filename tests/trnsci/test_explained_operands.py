"""``explain`` leaves operands as they are: the same call still works with them afterwards.

These are the special forms of calls; the first call of each function is in test_required.py.
"""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy

import pytest

from each_case import each_case
from required import on_simulator
from trnsci.core import explain
from trnsci.core.examples import examples_of, function_of

LIBRARIES = ("trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor")
CALLS = [(lib, name) for lib in LIBRARIES for name in examples_of(lib) if not name.isidentifier()]


@pytest.mark.filterwarnings("ignore")
@each_case("call", CALLS)
def test_a_call_works_after_its_explanation(call):
    library, name = call
    function, given = function_of(library, name), examples_of(library)[name]
    with on_simulator(library):
        operands = deepcopy(given)  # new ones, in which nothing is kept yet
        with suppress(Exception):  # what cannot be explained must not change operands either
            explain(function, *operands.args, **operands.options)
    function(*operands.args, **operands.options)
