"""When compiled loops are used: at once where numba is loaded, else when it is worth loading."""

import sys

import pytest

from nkisim import compiled


@pytest.fixture
def unloaded(monkeypatch):
    """A process that has numba installed but not loaded, and has worked on nothing yet."""
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr(compiled._Work, "elements", 0)
    loads = []
    monkeypatch.setattr(compiled, "load_numba", lambda: loads.append(1) or True)
    monkeypatch.setattr(compiled, "find_spec", lambda name: object())
    return loads


def test_numba_is_loaded_after_as_much_work_as_repays_it(unloaded):
    share = compiled._WORTH_LOADING // 4
    assert [compiled.repays(share) for _ in range(4)] == [False, False, False, True]
    assert unloaded == [1]


def test_where_numba_is_missing_work_goes_on_without(unloaded, monkeypatch):
    monkeypatch.setattr(compiled, "find_spec", lambda name: None)
    assert not any(compiled.repays(compiled._WORTH_LOADING) for _ in range(3))
    assert unloaded == []


def test_a_loaded_numba_is_used_at_once(unloaded, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", object())
    assert compiled.repays(1)
    assert unloaded == []


def test_asking_for_fast_without_numba_says_how_to_get_it(monkeypatch):
    import numpy as np

    import nkisim

    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[fast\]'"):
        nkisim.simulate(lambda x: x, fast=True)(np.ones((2, 2), np.float32))
