"""Names that tensors do not have: findings at the line that asks, in every way to run a kernel."""

import numpy as np
import pytest

import nkisim
import nkisim.language as nl
from each_case import each_case
from nkisim.intents import METHODS
from nkisim.language import NkiTensor
from nkisim.memory.tensor.refused import _METHODS
from nkisim.removed import NkiRemovedError

X = np.ones((4, 4), np.float32)


def asking(name):
    """A kernel that asks a tile for a name, in the third turn of a loop."""

    def kernel(x):
        tile = nl.load(x)
        for turn in range(4):
            if turn == 2:
                getattr(tile, name)
        return x

    return kernel


@each_case("name", [*METHODS, *_METHODS, "fraction", "shapes"])
def test_a_missing_name_is_a_finding_with_its_line_and_loop(name):
    kernel = asking(name)
    report = nkisim.check(kernel)(X)
    (finding,) = [f for f in report.findings if f.rule.id == "A025"]
    assert finding.message == f"NkiTensor.{name} does not exist in NKI 0.3.0"
    assert finding.place.line == kernel.__code__.co_firstlineno + 4
    assert finding.place.loops == (("turn", 2),)
    assert finding.fix.startswith(("write ", "use ", "look ", "copy ", "index ", "return "))
    with pytest.raises(NkiRemovedError) as caught:
        nkisim.simulate(kernel)(X)
    assert isinstance(caught.value, AttributeError)


@pytest.mark.parametrize("name", ["T", "expand_dim", "fraction"])
def test_kernels_may_ask_whether_there_is_a_name(name):
    def kernel(x):
        tile = nl.load(x)
        assert not hasattr(tile, name)
        assert getattr(tile, name, None) is None
        try:
            getattr(tile, name)
        except AttributeError:
            return x

    assert "A025" not in {finding.rule.id for finding in nkisim.check(kernel)(X).findings}


def test_names_of_other_objects_are_pythons():
    def kernel(x):
        return x.shape.fraction

    with pytest.raises(
        AttributeError, match="'tuple' object has no attribute 'fraction'"
    ) as caught:
        nkisim.simulate(kernel)(X)
    assert not isinstance(caught.value, NkiRemovedError)


def test_tensors_list_what_they_have():
    listed = []

    def kernel(x):
        listed.extend(dir(x))
        return x

    nkisim.simulate(kernel)(X)
    assert {"shape", "ap", "reshape", "get_pattern"} <= set(listed)
    assert not {*METHODS, *_METHODS} & set(listed)


def test_attributes_of_tensors_are_looked_up_the_short_way():
    """With a ``__getattr__`` every attribute of a tensor takes four times as long."""
    assert not hasattr(NkiTensor, "__getattr__")
    assert NkiTensor.__getattribute__ is object.__getattribute__
