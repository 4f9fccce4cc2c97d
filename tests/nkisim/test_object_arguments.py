"""Objects that go into a kernel and come out: their arrays become tensors, the rest is untouched.

Annotations are postponed in this file, as they are in many users' files.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from tiles import hbm, loaded, stored

if TYPE_CHECKING:
    from somewhere import Absent


class Colour(enum.Enum):
    RED = 1
    PAIR = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


class Flags(enum.Flag):
    A = 1
    B = 2


TYPES = (
    np.float32,
    ml_dtypes.bfloat16,
    np.dtype(np.int8),
    nl.bfloat16,
    nl.float8_e4m3fn_x4,
    np.float32(1.5),
    ml_dtypes.bfloat16(2.0),
    float,
    Colour,
    Colour.PAIR,
    Level.LOW,
    Flags.A | Flags.B,
)


@dataclass
class Plain:
    a: np.ndarray
    other: Absent = TYPES


@dataclass(frozen=True)
class Frozen:
    a: np.ndarray
    other: Any = TYPES


@dataclass(slots=True)
class Slots:
    a: np.ndarray
    other: Any = TYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenSlots:
    a: np.ndarray
    other: Any = TYPES


class Pair(NamedTuple):
    a: np.ndarray
    other: Any = TYPES


class Bare(nl.NKIObject):
    a: Absent
    other: Any = TYPES


@dataclass
class Data(nl.NKIObject):
    a: np.ndarray
    other: Any = TYPES


@dataclass(frozen=True, slots=True)
class DataSlots(nl.NKIObject):
    a: np.ndarray
    other: Any = TYPES


KINDS = [Plain, Frozen, Slots, FrozenSlots, Pair, Bare, Data, DataSlots]
each_kind = each_case("kind", KINDS)


@nkisim.jit
def of_object(given: Absent, kind: type) -> Absent:
    assert type(given) is kind
    assert given.a.buffer == nl.hbm
    assert given.other is TYPES
    return stored(loaded(given.a))


@each_kind
def test_arrays_in_objects_become_tensors_and_the_rest_is_untouched(kind):
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = kind(a=data)
    np.testing.assert_array_equal(nkisim.simulate(of_object)(given, kind), data)
    assert given.a is data


@nkisim.jit
def of_nested(given):
    deep = given.a["here"][1].a
    assert deep.buffer == nl.hbm
    assert "given" in deep.name
    assert "here" in deep.name
    return stored(loaded(deep))


@each_kind
def test_objects_inside_objects(kind):
    data = np.ones((2, 3), np.float32)
    given = kind(a={"here": (None, kind(a=data))})
    np.testing.assert_array_equal(nkisim.simulate(of_nested)(given), data)
    assert given.a["here"][1].a is data


@nkisim.jit
def of_types(source, types):
    assert type(types) is tuple
    assert all(a is b for a, b in zip(types, TYPES, strict=True))
    return stored(loaded(source))


def test_types_scalars_and_enum_members_pass_untouched():
    data = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(nkisim.simulate(of_types)(data, TYPES), data)


@nkisim.jit
def returns(given, kind):
    return kind(a=stored(loaded(given.a)), other=(given.other, stored(loaded(given.a))))


@each_kind
def test_results_come_back_in_the_kernels_own_object(kind):
    data = np.ones((2, 3), np.float32)
    report = nkisim.check(returns)(kind(a=data), kind)
    got = report.outputs
    assert type(got) is kind
    assert type(got.a) is np.ndarray
    np.testing.assert_array_equal(got.a, data)
    assert got.other[0] is TYPES
    np.testing.assert_array_equal(got.other[1], data)
    assert "L060" in report.codes  # frameworks rebuild flat tuples only


@nkisim.jit
def returns_unwritten(source):
    stored(loaded(source))
    return Plain(nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm))


def test_an_unwritten_result_is_found_inside_an_object():
    report = nkisim.check(returns_unwritten)(np.ones((2, 3), np.float32))
    (finding,) = (f for f in report.findings if f.rule.id == "M006")
    assert "output 0.a" in finding.message


@nkisim.jit
def writes(given, source):
    nl.store(given.a, nl.load(source))
    return given.a


@each_kind
def test_an_array_in_an_object_is_updated_in_place(kind):
    data, new = np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)
    given = kind(a=data)
    got = nkisim.simulate(writes)(given, new)
    np.testing.assert_array_equal(got, new)
    np.testing.assert_array_equal(data, new)
    assert given.a is data


def test_torch_tensors_in_objects():
    torch = pytest.importorskip("torch", reason="torch is optional for nkisim")
    got = nkisim.simulate(of_object)(Frozen(torch.ones((2, 3), dtype=torch.bfloat16)), Frozen)
    assert got.dtype == torch.bfloat16
    assert torch.equal(got, torch.ones((2, 3), dtype=torch.bfloat16))
    size = torch.Size((2, 3))  # a tuple that is not made like one
    assert nkisim.check(of_tuple)(torch.ones(size), size).ok


@nkisim.jit
def of_tuple(source, given):
    assert type(given) is not tuple
    assert tuple(given) == source.shape
    return stored(loaded(source))


@nkisim.jit
def changes(source, numbers, table):
    numbers.append(4)
    table["new"] = table.pop("old")
    assert type(table) is OrderedDict
    return stored(loaded(table["new"]))


def test_what_a_kernel_does_to_a_list_or_dict_stays_in_the_kernel():
    data = np.ones((2, 3), np.float32)
    numbers, table = [1, 2], OrderedDict(old=data)
    assert nkisim.check(changes)(data, numbers, table).outputs is not None
    assert numbers == [1, 2]
    assert list(table) == ["old"]


class Counter(nl.NKIObject):
    rows: int = 0
    seen: Any = None

    def next(self) -> int:
        self.rows += 1
        self.seen.append(self.rows)
        return self.rows


@nkisim.jit
def counts(source, counter):
    out = hbm(source.shape)
    core, cores = nl.program_id(0), nl.num_programs(0)
    for row in range(core, source.shape[0], cores):
        tile = loaded(source[row : row + 1])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=float(counter.next()))
        nisa.dma_copy(dst=out[row : row + 1], src=tile)
    assert len(counter.seen) == counter.rows == source.shape[0] // cores
    return out


@pytest.mark.parametrize("cores", [1, 2])
def test_what_a_kernel_does_to_an_object_is_seen_by_no_other_core_and_no_later_launch(cores):
    data, counter = np.ones((4, 3), np.float32), Counter(seen=[])
    want = np.repeat(np.arange(1, 1 + 4 // cores), cores)
    for _ in range(2):
        got = nkisim.simulate(counts[cores])(data, counter)
        np.testing.assert_array_equal(got[:, 0], want)
    assert (counter.rows, counter.seen) == (0, [])


class Node(nl.NKIObject):
    a: Any
    other: Any = None


@nkisim.jit
def of_one_object(first, second, third):
    assert first is second.other
    assert first is third[0]
    assert first.other is second
    second.a = 5
    assert first.other.a == 5
    return stored(loaded(third[0].a))


@pytest.mark.parametrize("cores", [1, 2])
def test_an_object_that_is_met_twice_stays_one(cores):
    data = np.ones((2, 3), np.float32)
    first = Node(a=data)
    first.other = second = Node(a=4, other=first)  # a circle
    report = nkisim.check(of_one_object[cores])(first, second, third=[first])
    np.testing.assert_array_equal(report.outputs, data)
    assert (first.a is data, second.a) == (True, 4)


class Key:
    """One of several keys that look alike."""

    def __repr__(self) -> str:
        return "key"


@nkisim.jit
def of_keys(given):
    assert len(given) == 2
    return tuple(stored(loaded(part)) for part in given.values())


def test_keys_that_look_alike_are_two():
    data = [np.full((2, 3), value, np.float32) for value in (1, 2)]
    got = nkisim.simulate(of_keys)({Key(): data[0], Key(): data[1]})
    np.testing.assert_array_equal(got, data)


@dataclass
class Late:
    a: np.ndarray
    kept: ClassVar[int] = 3
    made: Absent = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.extra = self.a


@nkisim.jit
def of_late(given):
    assert given.kept == 3
    assert not hasattr(given, "made")
    assert given.extra.buffer == nl.hbm
    return stored(loaded(given.extra))


def test_fields_that_are_unset_or_were_added_later():
    data = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(nkisim.simulate(of_late)(Late(data)), data)
