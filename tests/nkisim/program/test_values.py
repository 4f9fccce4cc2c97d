"""Values of programs: each comes back from JSON as it was, whatever kind it is."""

import json
from enum import IntEnum
from math import inf, nan

import ml_dtypes
import numpy as np
import pytest

from nkisim.collectives.groups import ReplicaGroup, rg_partition_op
from nkisim.dtypes import DTYPES
from nkisim.memory import DynSlice, MemoryRegion
from nkisim.program.values import ProgramError, decoded, encoded, malformed
from nkisim.spec import enums
from nkisim.spec.ops import OPS
from nkisim.typing import TensorSpec

OBJECT = object()
PLAIN = [None, True, False, 0, -3, 2**70, 0.5, -0.0, 1e308, inf, -inf, nan, "", "r", "text é"]
ARRAYS = [
    np.zeros((0, 3), np.float32),
    np.arange(6, dtype=np.int64).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array([True, False]),
    np.arange(3, dtype=">i4"),
    np.array(2.5, np.float16),
    np.float32(nan),
    np.int64(-(2**63)),
    np.bool_(True),
    *(np.zeros(2, dtype.numpy) for dtype in DTYPES.values()),
]
MEMBERS = [
    member
    for kind in (*vars(enums).values(), MemoryRegion, rg_partition_op)
    if isinstance(kind, type) and issubclass(kind, enums.Enum) and kind is not enums.Enum
    for member in kind
]
DTYPE_FORMS = [
    form
    for dtype in DTYPES.values()
    for form in (dtype, np.dtype(dtype.numpy), np.dtype(dtype.numpy).type)
]
OTHERS = [
    *(slice(None), slice(1, None, -2), slice(OBJECT, None), range(3, 11, 4)),
    *(DynSlice(3, 4), DynSlice(OBJECT, 8), Ellipsis, np.add, np.maximum),
    *(ReplicaGroup([[0, 1], [2, 3]]), TensorSpec((128, 512), DTYPES["float32"])),
    *((), (1,), [], [(1, [2, ()])], {"a": [1], 2: (None,)}, {}),
]
VALUES = [*PLAIN, *ARRAYS, *MEMBERS, *DTYPE_FORMS, *OPS.values(), *OTHERS, OBJECT]


def same(one, other):
    """Whether two values are of one type and equal, NaN to itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (np.ndarray, np.generic)):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and one.tobytes() == other.tobytes()
        )
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, slice):
        return same((one.start, one.stop, one.step), (other.start, other.stop, other.step))
    if isinstance(one, dict):
        return same([*one.items()], [*other.items()])
    if isinstance(one, DynSlice):
        return same((one.start, one.size), (other.start, other.size))
    if isinstance(one, ReplicaGroup):
        return same(one.groups, other.groups)
    return one is other or one == other or repr(one) == repr(other) == "nan"


def through_json(value):
    data = encoded(value, lambda part: 7 if part is OBJECT else None)
    return decoded(json.loads(json.dumps(data)), {7: OBJECT}, {})


@pytest.mark.parametrize("kind", ["alone", "in a tuple", "in a mapping"])
def test_a_value_comes_back(kind):
    for value in VALUES:
        whole = {"alone": value, "in a tuple": (value, [value]), "in a mapping": {"key": value}}
        assert same(through_json(whole[kind]), whole[kind]), value


class Mode(IntEnum):
    FAST = 3


def test_what_is_plain_in_disguise_becomes_plain():
    """Members of an enum, texts and lists of the kernel's own classes."""
    text, pair, row = type("Text", (str,), {}), type("Pair", (tuple,), {}), type("Row", (list,), {})
    assert same(through_json((Mode.FAST, text("a"))), (3, "a"))
    assert same(through_json((pair((1, 2)), row([3]))), ((1, 2), [3]))


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        1j,
        np.array(["a"]),
        np.array([None]),
        np.zeros(2, ml_dtypes.int4),
        print,
        np.load,
        Mode,
    ],
)
def test_other_values_have_no_form(value):
    for whole in (value, [value], {"key": value}):
        with pytest.raises(ProgramError, match="not one of NKI's"):
            encoded(whole, lambda part: None)


def test_integers_follow_the_index_of_a_loop():
    assert [decoded(["x", 4, 3, -2], {}, {4: turn}) for turn in range(3)] == [3, 1, -1]
    for part in (1.0, True, "1", ["t"], None):
        for place in (2, 3):
            data = ["x", 4, 3, -2]
            data[place] = part
            with pytest.raises(ProgramError, match="only integers"):
                decoded(data, {}, {4: 1})


@pytest.mark.parametrize(
    "data",
    [
        {},
        ["?"],
        ["d", "complex64"],
        ["d", ["t"]],
        ["o", "eval"],
        ["u", "ndarray"],
        ["u", "load"],
        ["e", "engine", "nobody"],
        ["e", "Enum", "name"],
        ["f", "1.0"],
        ["a", "object", ["l", 1], "AAAAAAAAAAA=", False],
        ["a", "float32", ["t", 1], "AAAAAA==", False],
        ["a", 4, ["l", 1], "AAAAAA==", False],
        ["a", "float32", ["l", 1], "AAAA*AA==", False],
        ["a", "float32", ["l", 1], None, False],
        ["t", ["t", ["t", {}]]],
    ],
    ids=str,
)
def test_data_of_no_value_is_refused(data):
    with pytest.raises(ProgramError), malformed():
        decoded(data, {}, {})
