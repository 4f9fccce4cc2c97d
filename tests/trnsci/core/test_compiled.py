"""Compiled loops: right, kept where that is possible, and numba only for who asks."""

from __future__ import annotations

import sys

import numba
import numpy as np
import pytest

from fresh_process import printed_by
from trnsci.core import compiled


def running_sum(values, out):
    total = 0.0
    for i in range(values.size):
        total += values[i]
        out[i] = total


def test_a_loop_computes_what_the_function_says():
    values, out = np.arange(5.0), np.empty(5)
    compiled.compiled_loop(running_sum)(values, out)
    np.testing.assert_array_equal(out, [0, 1, 3, 6, 10])


def test_a_folder_that_cannot_be_written_to_costs_the_cache_alone(monkeypatch):
    asked = []

    def njit(signature, cache, nogil):
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function 'f': no locator available")
        return lambda function: function

    monkeypatch.setattr(numba, "njit", njit)
    assert compiled.compiled_loop(running_sum) is running_sum
    assert asked == [True, False]


def test_other_errors_of_numba_are_not_hidden(monkeypatch):
    def njit(signature, cache, nogil):
        raise RuntimeError("no LLVM")

    monkeypatch.setattr(numba, "njit", njit)
    with pytest.raises(RuntimeError, match="no LLVM"):
        compiled.compiled_loop(running_sum)


def test_whether_numba_is_loaded_is_asked_each_time(monkeypatch):
    assert compiled.numba_loaded()
    monkeypatch.delitem(sys.modules, "numba")
    assert not compiled.numba_loaded()


def test_asking_does_not_import_numba():
    code = (
        "import sys; from trnsci.core.compiled import numba_installed, numba_loaded\n"
        "print(json.dumps([numba_installed(), numba_loaded(), 'numba' in sys.modules]))"
    )
    assert printed_by(code) == [True, False, False]
