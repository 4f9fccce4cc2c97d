"""The x4 packs: every pattern in every place, rounding, and what the kernel boundary sees."""

from __future__ import annotations

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_case import each_case
from nkisim.dtypes import DTYPES, as_dtype
from nkisim.dtypes.packed import ELEMENT_TYPES, pack, unpack, unpack_planes
from oracles import formats, mx

PACKS = list(mx.ELEMENTS)
FLOAT8_PACKS = ["float8_e4m3fn_x4", "float8_e5m2_x4"]
FLOAT4_PACK = "float4_e2m1fn_x4"
each_pack = pytest.mark.parametrize("name", PACKS)


def words_of(name: str, count: int) -> np.ndarray:
    """Random words, and words that hold every pattern of an element in every place."""
    bits = mx.element_bits(mx.ELEMENTS[name])
    places = [p << (i * bits) for i in range(4) for p in range(1 << bits)]
    drawn = np.random.default_rng(0).integers(0, 1 << 4 * bits, count)
    return np.array([*places, *drawn], DTYPES[name].numpy)


def float32_of(name: str, pattern: int) -> np.float32:
    """The value of a pattern, from the definition."""
    return np.uint32(mx.ELEMENTS[name].to_float32(pattern)).view(np.float32)


@each_pack
def test_unpack_gives_the_four_patterns_of_a_word(name):
    words = words_of(name, 500)
    elements = unpack(words, name)
    assert elements.dtype == ELEMENT_TYPES[DTYPES[name]]
    want = [p for word in words for p in mx.patterns_of(int(word), mx.ELEMENTS[name])]
    assert elements.view(np.uint8).tolist() == want


@each_pack
def test_pack_gives_the_word_of_four_patterns(name):
    words = words_of(name, 500)
    patterns = [mx.patterns_of(int(word), mx.ELEMENTS[name]) for word in words]
    elements = np.array(patterns, np.uint8).view(ELEMENT_TYPES[DTYPES[name]])
    packed = pack(elements, name)
    assert packed.shape == (len(words), 1)
    assert packed.view(words.dtype)[:, 0].tolist() == words.tolist()


@each_pack
def test_planes_are_the_values_by_element(name):
    words = words_of(name, 64)
    planes = unpack_planes(words.reshape(2, -1), DTYPES[name])
    assert planes.dtype == np.float32
    assert planes.shape == (4, 2, len(words) // 2)
    patterns = [mx.patterns_of(int(word), mx.ELEMENTS[name]) for word in words]
    want = np.array([[float32_of(name, p) for p in four] for four in patterns]).T
    np.testing.assert_array_equal(planes.reshape(4, -1), want)
    number = ~np.isnan(want)
    assert (np.signbit(planes.reshape(4, -1)) == np.signbit(want))[number].all()


@each_pack
@each_case("shape", [(4,), (3, 8), (2, 3, 16), (0, 4), (3, 0)])
def test_shapes(name, shape):
    packed = pack(np.zeros(shape, np.float32), name)
    assert packed.shape == (*shape[:-1], shape[-1] // 4)
    assert unpack(packed).shape == shape
    assert unpack_planes(packed, DTYPES[name]).shape == (4, *packed.shape)


@each_pack
def test_words_keep_their_type_and_are_seen_as_a_pack(name):
    packed = pack(np.ones((2, 8), np.float32), name)
    assert as_dtype(packed) is DTYPES[name]
    assert packed.dtype == np.dtype(name)
    assert unpack(packed).astype(np.float32).tolist() == np.ones((2, 8)).tolist()


@each_pack
def test_strided_arrays(name):
    values = np.arange(64, dtype=np.float32).reshape(8, 8) % 5
    strided = values[::2, ::-1]
    packed = pack(strided, name)
    np.testing.assert_array_equal(unpack(packed).astype(np.float32), strided)
    rows = packed[::2]
    np.testing.assert_array_equal(unpack(rows).astype(np.float32), strided[::2])
    columns = packed[:, 1:]
    np.testing.assert_array_equal(
        unpack_planes(columns, DTYPES[name]), np.moveaxis(strided.reshape(4, 2, 4), 2, 0)[:, :, 1:]
    )


@pytest.mark.parametrize("carrier", [np.uint8, np.uint16])
def test_bytes_of_another_type_unpack_alike(carrier):
    for name in PACKS:
        words = words_of(name, 32).reshape(4, -1)
        want = unpack(words, name).view(np.uint8)
        assert np.array_equal(unpack(words.view(carrier), name).view(np.uint8), want)


@pytest.mark.parametrize("name", FLOAT8_PACKS)
@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4))
def test_float32_is_rounded_to_float8(name, bits):
    packed = pack(np.array(bits, np.uint32).view(np.float32), name)
    want = [mx.ELEMENTS[name].from_float32(b) for b in bits]
    assert mx.patterns_of(int(packed.view(np.uint32)[0]), mx.ELEMENTS[name]) == want


def test_float32_is_rounded_to_float4_and_saturates():
    # Every float4 magnitude, the points midway between two, and their float32 neighbours.
    steps = [float(x) for x in mx.FLOAT4_E2M1FN.magnitudes]
    points = steps + [(a + b) / 2 for a, b in pairwise(steps)]
    near = np.float32([*points, 6.5, 7, 7.5, 1e30, np.inf])
    values = np.concatenate([near, np.nextafter(near, np.float32(0)), np.float32([0.1, 1e-40, 0])])
    values = np.concatenate([values, -values, np.zeros(-len(values) * 2 % 4, np.float32)])
    packed = pack(values, FLOAT4_PACK).view(np.uint16)
    got = [p for word in packed for p in mx.patterns_of(int(word), mx.FLOAT4_E2M1FN)]
    largest = mx.FLOAT4_E2M1FN.max_finite
    want = []
    for bits in values.view(np.uint32).tolist():
        infinite = formats.FLOAT32.kind(bits) == "inf"
        x = largest if infinite else min(abs(formats.FLOAT32.value(bits)), largest)
        want.append(mx.FLOAT4_E2M1FN.nearest(x, formats.FLOAT32.is_negative(bits)))
    assert got == want


@each_case("wide", [np.float16, ml_dtypes.bfloat16])
@each_pack
def test_sixteen_bit_floats_are_rounded_once(name, wide):
    values = np.random.default_rng(0).standard_normal(64).astype(wide)
    assert np.array_equal(pack(values, name), pack(values.astype(np.float32), name))


def test_what_cannot_be_packed():
    ones = np.ones(4, np.float32)
    with pytest.raises(TypeError, match=r"got float8_e4m3fn$"):
        pack(ones, "float8_e4m3fn")
    with pytest.raises(TypeError, match="got nonsense"):
        pack(ones, "nonsense")
    with pytest.raises(TypeError, match="got float64"):
        pack(ones.astype(np.float64), "float8_e4m3fn_x4")
    with pytest.raises(TypeError, match=r"got float8_e5m2$"):
        pack(ones.astype(ml_dtypes.float8_e5m2), "float8_e4m3fn_x4")
    with pytest.raises(ValueError, match=r"multiple of 4, got shape \(6,\)"):
        pack(np.ones(6, np.float32), "float8_e4m3fn_x4")
    with pytest.raises(ValueError, match=r"got shape \(\)"):
        pack(np.float32(1), "float8_e4m3fn_x4")
    with pytest.raises(ValueError, match="has no NaN"):
        pack(np.float32([1, np.nan, 1, 1]), FLOAT4_PACK)


def test_what_cannot_be_unpacked():
    with pytest.raises(TypeError, match="got uint32"):
        unpack(np.zeros(2, np.uint32))
    with pytest.raises(ValueError, match="whole float8_e5m2_x4 words"):
        unpack(np.zeros((2, 6), np.uint8), "float8_e5m2_x4")
    with pytest.raises(ValueError, match="whole float4_e2m1fn_x4 words"):
        unpack(np.uint16(1), FLOAT4_PACK)
