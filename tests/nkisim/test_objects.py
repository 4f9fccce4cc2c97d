"""``NKIObject``: objects are made the way the compiler makes them, dataclass or not."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl


class Unannotated(nl.NKIObject):
    a = 1
    b = None


@dataclass
class UnannotatedDataclass(nl.NKIObject):
    a = 1
    b = None


class Bare(nl.NKIObject):
    x: int
    y: bool = False

    def toggle(self):
        self.y = not self.y


@dataclass
class Ordered(nl.NKIObject):
    x: int
    y: bool = False
    z: list = field(default_factory=list)

    def __post_init__(self):
        self.total = (self.x or 0) + 1


@dataclass(frozen=True)
class Frozen(nl.NKIObject):
    x: int
    y: int = 2


class Written(nl.NKIObject):
    x: int = 1

    def __init__(self, x):
        self.x = 10 * x


def test_every_annotated_or_assigned_name_is_a_field():
    for cls in (Unannotated, UnannotatedDataclass):
        assert (cls().a, cls().b) == (1, None)
        assert (cls(b=5).a, cls(b=5).b) == (1, 5)
        assert (cls(7, 8).a, cls(7, 8).b) == (7, 8)
    assert (Bare().x, Bare().y) == (None, False)
    item = Bare(3)
    item.toggle()
    assert (item.x, item.y) == (3, True)
    assert Bare().y is False


def test_dataclasses_take_missing_fields_and_run_post_init():
    assert (Ordered().x, Ordered().y, Ordered().z) == (None, False, [])
    assert Ordered(4).total == 5
    first, second = Ordered(1), Ordered(1)
    first.z.append(1)
    assert second.z == []
    assert Frozen(1).y == 2
    assert Frozen(y=3).x is None
    with pytest.raises(AttributeError):
        Frozen(1).x = 2


class Constants(nl.NKIObject):
    size: ClassVar[int] = 4
    name: "ClassVar[str]" = "constant"
    x: int = 1


def test_a_class_variable_is_no_field():
    for cls in (Constants, dataclass(Constants)):
        assert (cls(7).x, cls(7).size, cls(7).name) == (7, 4, "constant")
        with pytest.raises(TypeError, match="size"):
            cls(size=3)


def test_an_initialiser_of_its_own_stands():
    assert Written(2).x == 20
    with pytest.raises(TypeError):
        Bare(1, 2, 3)
    with pytest.raises(TypeError, match="nothing"):
        Bare(nothing=1)


@nkisim.jit
def uses_objects(source, config):
    inner_config = Bare(y=True)
    assert inner_config.x is None
    inner_config.toggle()
    assert inner_config.y is False
    assert isinstance(config, Frozen)
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=float(config.y))
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_objects_are_built_in_and_passed_to_kernels():
    source = np.ones((2, 2), np.float32)
    np.testing.assert_array_equal(nkisim.check(uses_objects)(source, Frozen(0, 6)).outputs, 6)
