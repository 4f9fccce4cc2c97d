"""Names, sizes, recognition and promotion of number formats."""

from __future__ import annotations

import copy
import itertools
import pickle

import ml_dtypes
import numpy as np
import pytest

from each_case import each_case
from fresh_process import printed_by
from nkisim import dtypes
from nkisim.dtypes import DTYPES, DType, as_dtype, promote
from oracles import formats as oracle

# name, kind, bytes on the device, storage: NKI's list of dtypes, of which 0.5.0 added e8m0fnu.
TABLE = [
    ("bool", "bool", 1, np.uint8),
    ("int8", "int", 1, np.int8),
    ("uint8", "uint", 1, np.uint8),
    ("int16", "int", 2, np.int16),
    ("uint16", "uint", 2, np.uint16),
    ("int32", "int", 4, np.int32),
    ("uint32", "uint", 4, np.uint32),
    ("int64", "int", 8, np.int64),
    ("float8_e4m3", "float", 1, ml_dtypes.float8_e4m3),
    ("float8_e4m3fn", "float", 1, ml_dtypes.float8_e4m3fn),
    ("float8_e5m2", "float", 1, ml_dtypes.float8_e5m2),
    ("float8_e8m0fnu", "float", 1, ml_dtypes.float8_e8m0fnu),
    ("float16", "float", 2, np.float16),
    ("bfloat16", "float", 2, ml_dtypes.bfloat16),
    ("tfloat32", "float", 4, np.float32),
    ("float32", "float", 4, np.float32),
    ("float8_e4m3fn_x4", "packed", 4, np.uint32),
    ("float8_e5m2_x4", "packed", 4, np.uint32),
    ("float4_e2m1fn_x4", "packed", 2, np.uint16),
]
NAMES = [row[0] for row in TABLE]
TAGGED = ["tfloat32", "float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"]
UNPACKED = [d for d in DTYPES.values() if d.kind != "packed"]


def test_the_formats_are_those_of_the_table():
    assert list(DTYPES) == NAMES
    for name, dtype in DTYPES.items():
        assert getattr(dtypes, "bool_" if name == "bool" else name) is dtype


@each_case(("name", "kind", "itemsize", "storage"), TABLE)
def test_a_format_knows_its_size_and_storage(name, kind, itemsize, storage):
    dtype = DTYPES[name]
    assert dtype.kind == kind
    assert dtype.itemsize == itemsize
    assert dtype.bits == 8 * itemsize
    assert dtype.numpy == np.dtype(storage)
    assert dtype.numpy.itemsize == itemsize
    assert dtype.numpy.metadata is None
    assert dtype.is_float == (kind == "float")
    assert dtype.is_integer == (kind in ("int", "uint"))


@each_case("name", NAMES)
def test_largest_finite_value_is_the_oracles(name):
    if name == "float32":
        expected = float(np.finfo(np.float32).max)
    elif name == "float8_e8m0fnu":
        expected = 2.0**127
    elif name in oracle.FORMATS:
        expected = float(oracle.FORMATS[name].max_finite)
    else:
        expected = None
    assert DTYPES[name].max_finite == expected


@each_case("name", NAMES)
def test_a_format_is_its_name(name):
    dtype = DTYPES[name]
    assert isinstance(dtype, str)
    assert dtype == name
    assert hash(dtype) == hash(name)
    assert str(dtype) == name
    assert repr(dtype) == repr(name)
    assert f"{dtype}" == name
    assert {name: 1}[dtype] == 1


@each_case("name", NAMES)
def test_copies_are_the_same_object(name):
    dtype = DTYPES[name]
    assert copy.copy(dtype) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype


@each_case("name", NAMES)
def test_numpy_takes_a_format_as_a_dtype(name):
    dtype = DTYPES[name]
    array = np.zeros((2, 3), dtype)
    assert array.dtype.itemsize == dtype.itemsize
    assert as_dtype(array.dtype) is dtype
    assert as_dtype(array) is dtype
    assert as_dtype(np.dtype(name)) is dtype
    assert as_dtype(np.dtype(dtype)) is dtype


@each_case("name", TAGGED)
@each_case(
    "derive",
    [
        lambda a: a[1:, ::2],
        lambda a: a.copy(),
        lambda a: a.T,
        lambda a: a.reshape(-1),
        np.empty_like,
        np.ascontiguousarray,
        lambda a: a.view(a.dtype.str).view(a.dtype),
        lambda a: np.broadcast_to(a[0], (4, 3)),
    ],
)
def test_a_tagged_array_is_recognised_after_being_rearranged(name, derive):
    assert as_dtype(derive(np.zeros((2, 3), DTYPES[name]))) is DTYPES[name]


@pytest.mark.parametrize("name", TAGGED)
def test_storage_of_a_tagged_format_is_not_mistaken_for_it(name):
    storage = DTYPES[name].numpy
    assert as_dtype(storage) is DTYPES[storage.name]
    assert as_dtype(np.zeros(3, storage.name)) is DTYPES[storage.name]
    assert as_dtype(np.zeros(3, DTYPES[name]).view(storage)) is DTYPES[storage.name]


class Carrier:
    """Anything with a dtype: a tile, a tensor of another library."""

    def __init__(self, dtype: object) -> None:
        self.dtype = dtype


@each_case(
    ("obj", "name"),
    [
        ("float8e4", "float8_e4m3"),
        ("float8e5", "float8_e5m2"),
        ("bool_", "bool"),
        ("bool", "bool"),
        (bool, "bool"),
        (np.bool_, "bool"),
        (np.dtype(bool), "bool"),
        (np.float32, "float32"),
        (np.float16, "float16"),
        (np.int32, "int32"),
        (np.uint8, "uint8"),
        (np.dtype("int16"), "int16"),
        (np.dtype("<u4"), "uint32"),
        (np.float32(1.5), "float32"),
        (np.zeros(3, np.uint16), "uint16"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (ml_dtypes.bfloat16(1), "bfloat16"),
        (np.dtype(ml_dtypes.float8_e4m3), "float8_e4m3"),
        (ml_dtypes.float8_e4m3fn, "float8_e4m3fn"),
        (ml_dtypes.float8_e5m2, "float8_e5m2"),
        (Carrier(np.dtype("float32")), "float32"),
        (Carrier("bfloat16"), "bfloat16"),
        (Carrier(Carrier(np.int8)), "int8"),
    ],
)
def test_ways_to_name_a_format(obj, name):
    assert as_dtype(obj) is DTYPES[name]


class OwnDtype:
    """A dtype of another library that calls itself its dtype."""

    @property
    def dtype(self) -> OwnDtype:
        return self


@each_case(
    "obj",
    [
        np.uint64,
        np.float64,
        np.dtype("complex64"),
        np.dtype(">f4"),
        np.dtype("U3"),
        np.dtype([("a", np.float32)]),
        np.zeros(3),
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.int4,
        "float64",
        "float",
        "",
        int,
        float,
        list,
        None,
        3,
        2.5,
        [1],
        {},
        OwnDtype(),
    ],
)
def test_what_is_no_format_is_none(obj):
    assert as_dtype(obj) is None


# The pairs that the NKI documentation spells out.
DOCUMENTED = [
    ("int32", "float16", "float16"),
    ("uint16", "tfloat32", "tfloat32"),
    ("float32", "tfloat32", "float32"),
    ("float32", "bfloat16", "float32"),
    ("float16", "bfloat16", "float32"),
    ("float8_e4m3", "float16", "float16"),
    ("float8_e4m3", "bfloat16", "bfloat16"),
    ("float8_e4m3", "float8_e5m2", "bfloat16"),
    ("int16", "int32", "int32"),
    ("uint8", "uint16", "uint16"),
    ("uint16", "int32", "int32"),
    ("int8", "uint8", "int16"),
    ("int8", "uint16", "int32"),
    ("int32", "uint32", "float32"),
]


@each_case(("a", "b", "result"), DOCUMENTED)
def test_documented_promotions(a, b, result):
    assert promote(DTYPES[a], DTYPES[b]) is DTYPES[result]


@each_case(
    ("a", "b", "result"),
    [
        ("bool", "int8", "int8"),
        ("bool", "float8_e5m2", "float8_e5m2"),
        ("bool", "bool", "bool"),
        ("float8_e4m3", "float8_e4m3fn", "bfloat16"),
        ("float16", "tfloat32", "tfloat32"),
        ("int8", "uint32", "float32"),
        ("int16", "uint32", "float32"),
        ("uint8", "int16", "int16"),
    ],
)
def test_promotions_that_follow_from_the_rules(a, b, result):
    assert promote(DTYPES[a], DTYPES[b]) is DTYPES[result]


@each_case(("a", "b"), list(itertools.product(UNPACKED, UNPACKED)))
def test_promotion_is_symmetric_and_stays_among_the_formats(a, b):
    result = promote(a, b)
    assert isinstance(result, DType)
    assert promote(b, a) is result
    assert result.bits >= max(a.bits, b.bits) or a.is_float != b.is_float
    assert promote(a, result) is result


@each_case(
    ("a", "b"), [(a, b) for a in UNPACKED for b in UNPACKED if a.is_integer and b.is_integer]
)
def test_promoted_integers_hold_both_ranges(a, b):
    result = promote(a, b)
    if result.is_float:
        assert {a.kind, b.kind} == {"int", "uint"}
        return
    info, one, other = (np.iinfo(d.numpy) for d in (result, a, b))
    assert info.min <= min(one.min, other.min)
    assert info.max >= max(one.max, other.max)


def holds(fmt, other):
    """Whether a format has every finite value of another: its bits, its steps and its range."""
    finer = fmt.magnitude(1) <= other.magnitude(1)  # both are powers of two
    return finer and fmt.mantissa_bits >= other.mantissa_bits and fmt.max_finite >= other.max_finite


@each_case(
    ("a", "b"),
    [(a, b) for a in oracle.FORMATS for b in oracle.FORMATS if DTYPES[a].bits <= 16],
)
def test_promoted_floats_hold_the_values_of_both(a, b):
    # float8_e4m3fn's NaN-only top and float32's own list are not needed: finite values decide.
    result = promote(DTYPES[a], DTYPES[b])
    if result == "float32":
        return
    assert holds(oracle.FORMATS[str(result)], oracle.FORMATS[a])


def test_packs_promote_only_with_themselves():
    pack = dtypes.float8_e4m3fn_x4
    assert promote(pack, pack) is pack
    for other in (dtypes.float8_e5m2_x4, dtypes.uint32, dtypes.bool_):
        with pytest.raises(TypeError, match="float8_e4m3fn_x4"):
            promote(pack, other)
        with pytest.raises(TypeError, match="float8_e4m3fn_x4"):
            promote(other, pack)


def test_importing_the_formats_does_not_import_torch():
    assert "torch" not in printed_by(
        "import sys, nkisim.dtypes; print(json.dumps(list(sys.modules)))"
    )
