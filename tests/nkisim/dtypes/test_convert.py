"""Casts against exact arithmetic, pattern by pattern."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_case import each_case
from nkisim import dtypes
from nkisim.dtypes import DTYPES, decode, encode
from oracles import formats as oracle

EIGHT_BIT = ["float8_e4m3", "float8_e4m3fn", "float8_e5m2"]
SIXTEEN_BIT = ["float16", "bfloat16"]
NARROW = EIGHT_BIT + SIXTEEN_BIT
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]
PACKED = ["float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"]
UNPACKED = [name for name in DTYPES if name not in PACKED]

SIGN = 0x8000_0000
# Quiet and signalling NaNs, with the smallest, the largest and a middling payload.
NANS = [0x7F80_0001, 0x7F80_2000, 0x7FBF_FFFF, 0x7FC0_0000, 0x7FC1_2345, 0x7FFF_FFFF]
SPECIAL = [0, 1, 0x007F_FFFF, 0x0080_0000, 0x7F7F_FFFF, 0x7F80_0000, *NANS]
SPECIAL += [SIGN | bits for bits in SPECIAL]


@pytest.fixture(scope="module", autouse=True)
def _numpy():
    """NumPy's conversions; the compiled ones are compared with them elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NKISIM_FAST", "0")
        yield


bit_patterns = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=200)


def float32s(bits: list[int]) -> np.ndarray:
    return np.array(bits, np.uint32).view(np.float32)


def unsigned(stored: np.ndarray) -> np.ndarray:
    return stored.view(f"u{stored.dtype.itemsize}")


def stored_pattern(name: str, pattern: int) -> int:
    """The stored bits of an oracle pattern: tfloat32 sits in the upper 19 bits of its word."""
    return pattern << 13 if name == "tfloat32" else pattern


def assert_encodes_like_the_oracle(name: str, bits: list[int]) -> None:
    got = unsigned(encode(float32s(bits), DTYPES[name]))
    want = [stored_pattern(name, oracle.FORMATS[name].from_float32(b)) for b in bits]
    wrong = np.flatnonzero(got != np.array(want, got.dtype))
    assert not wrong.size, [(hex(bits[i]), hex(got[i]), hex(want[i])) for i in wrong[:5]]


def some(patterns: range, every: int) -> list[int]:
    """One in so many patterns, and all among the 64 at either end."""
    return sorted({*patterns[:64], *patterns[::every], *patterns[-64:]})


def roundings(name: str, every: int = 1) -> list[int]:
    """Float32 patterns where rounding can go wrong: values, midpoints and their neighbours.

    Of one in so many values, and of all among the 64 at either end.
    """
    fmt = oracle.FORMATS[name]
    beyond = fmt.beyond
    low = some(range(fmt.end - 1), every)
    pairs = [(fmt.magnitude(p), fmt.magnitude(p + 1)) for p in low]
    pairs.append((fmt.max_finite, beyond))
    bits = [oracle.float32_pattern(x) for x, _ in pairs]
    for low, high in pairs:
        middle = oracle.float32_pattern((low + high) / 2)
        bits += [middle - 1, middle, middle + 1]
    # Past the end: the overflow threshold was the last midpoint.
    if beyond <= oracle.FLOAT32.value(0x7F7F_FFFF):
        top = oracle.float32_pattern(beyond)
        bits += [top - 1, top, top + 1]
    return bits


# Odd numbers, so that values of every last bits are among the fast ones.
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NARROW)
def test_every_pattern_decodes_to_its_value(name, every):
    fmt, dtype = oracle.FORMATS[name], DTYPES[name]
    patterns = np.array(some(range(2 * fmt.sign_bit), every), dtype=f"u{dtype.itemsize}")
    got = decode(patterns.view(dtype.numpy), dtype).view(np.uint32)
    want = np.array([fmt.to_float32(int(p)) for p in patterns], np.uint32)
    nan = np.array([fmt.kind(int(p)) == "nan" for p in patterns])
    assert np.array_equal(got[~nan], want[~nan])
    # A NaN may carry any payload, but it is a NaN of the same sign.
    assert np.isnan(got[nan].view(np.float32)).all()
    assert np.array_equal(got[nan] & SIGN, want[nan] & SIGN)


@pytest.mark.parametrize("every", [33, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NARROW)
def test_every_value_midpoint_and_neighbour_rounds_to_nearest_even(name, every):
    bits = roundings(name, every)
    assert_encodes_like_the_oracle(name, bits)
    # The other half of the line is its mirror image.
    fmt, dtype = oracle.FORMATS[name], DTYPES[name]
    mirrored = unsigned(encode(float32s([SIGN | b for b in bits]), dtype))
    assert np.array_equal(mirrored, unsigned(encode(float32s(bits), dtype)) | fmt.sign_bit)


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", EIGHT_BIT)
@pytest.mark.parametrize("lower", [0x0000, 0x0001, 0x8000])
def test_every_upper_half_of_a_float32_rounds_to_8_bits(name, lower, every):
    assert_encodes_like_the_oracle(name, [upper << 16 | lower for upper in range(0, 0x8000, every)])


@pytest.mark.parametrize("name", [*NARROW, "tfloat32"])
def test_zeros_subnormals_infinities_and_nans_are_rounded(name):
    assert_encodes_like_the_oracle(name, SPECIAL)


@pytest.mark.parametrize("name", ["bfloat16", "tfloat32"])
def test_overflow_of_a_format_with_the_range_of_float32_is_infinite(name):
    largest = oracle.float32_pattern(oracle.FORMATS[name].max_finite)
    half_step = 1 << (22 - oracle.FORMATS[name].mantissa_bits)
    threshold = largest + half_step
    bits = [threshold - 1, threshold, threshold + 1]
    assert np.isinf(decode(encode(float32s(bits), DTYPES[name]), DTYPES[name])).tolist() == [
        False,
        True,
        True,
    ]
    assert_encodes_like_the_oracle(name, bits)


def test_tfloat32_rounds_to_10_fraction_bits():
    # One binade of every value, midpoint and neighbour, at the ends of the range and in the middle.
    bits = []
    for exponent in (0, 1, 127, 254):
        for fraction in range(0, 1 << 10):
            middle = exponent << 23 | fraction << 13 | 0x1000
            bits += [middle & ~0x1FFF, middle - 1, middle, middle + 1]
    assert_encodes_like_the_oracle("tfloat32", bits)


@given(bits=bit_patterns)
@pytest.mark.parametrize("name", [*NARROW, "tfloat32"])
def test_any_float32_rounds_like_the_oracle(name, bits):
    assert_encodes_like_the_oracle(name, bits)


@pytest.mark.parametrize("name", NARROW)
def test_encode_undoes_decode(name):
    fmt, dtype = oracle.FORMATS[name], DTYPES[name]
    patterns = np.arange(2 * fmt.sign_bit, dtype=f"u{dtype.itemsize}")
    finite = np.array([fmt.kind(int(p)) != "nan" for p in patterns])
    again = unsigned(encode(decode(patterns.view(dtype.numpy), dtype), dtype))
    assert np.array_equal(again[finite], patterns[finite])


def integer_cases(low: int, high: int) -> list[int]:
    """Float32 patterns around the halves, the ends of the range and the end of exact integers."""
    points = [Fraction(n, 2) for n in range(9)]
    points += [Fraction(abs(end) * 2 + d, 2) for end in (low, high) for d in (-2, -1, 0, 1, 2)]
    points += [Fraction(2**24 + n) for n in (-1, 0, 2)]
    centres = []
    for x in points:
        # Ends such as 2^31 - 1 are no float32; their float32 neighbours are what matters.
        centres.append(int(np.float32(max(0.0, float(x))).view(np.uint32)))
    around = [b + d for b in centres for d in (-1, 0, 1) if b + d >= 0]
    around += [int(np.float32(x).view(np.uint32)) for x in (1e10, 1e20, 3.4e38)]
    return around + [SIGN | b for b in around] + SPECIAL


@each_case("name", INTEGERS)
def test_integers_round_to_even_then_saturate(name):
    info = np.iinfo(DTYPES[name].numpy)
    bits = integer_cases(int(info.min), int(info.max))
    want = [oracle.integer_from_float32(b, int(info.min), int(info.max)) for b in bits]
    assert encode(float32s(bits), DTYPES[name]).tolist() == want
    # Each element alone as well: an array takes other branches when something in it saturates.
    for b, w in zip(bits, want, strict=True):
        assert encode(float32s([b]), DTYPES[name]).tolist() == [w]


@given(bits=bit_patterns)
@pytest.mark.parametrize("name", INTEGERS)
def test_any_float32_becomes_the_oracles_integer(name, bits):
    info = np.iinfo(DTYPES[name].numpy)
    want = [oracle.integer_from_float32(b, int(info.min), int(info.max)) for b in bits]
    assert encode(float32s(bits), DTYPES[name]).tolist() == want


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16"])
def test_every_narrow_integer_survives_float32(name):
    dtype = DTYPES[name]
    info = np.iinfo(dtype.numpy)
    stored = np.arange(info.min, info.max + 1).astype(dtype.numpy)
    assert np.array_equal(decode(stored, dtype), stored)
    assert np.array_equal(encode(decode(stored, dtype), dtype), stored)


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        (2**24, 2**24),
        (2**24 + 1, 2**24),
        (2**24 + 3, 2**24 + 4),
        (0x7FFF_FFFF, 2**31),
        (-(2**24) - 1, -(2**24)),
    ],
)
def test_int32_above_2_to_the_24_rounds_on_the_way_in(stored, value):
    assert decode(np.array([stored], np.int32), dtypes.int32).tolist() == [value]


def test_int32_reaches_bfloat16_in_two_roundings():
    # Just above the midpoint of two bfloat16 values, by less than float32 can tell: the first
    # rounding lands on the midpoint and the second goes to even, where one alone would go up.
    exact = 2**30 + 2**22 + 1
    values = decode(np.array([exact], np.int32), dtypes.int32)
    stored = encode(values, dtypes.bfloat16)
    assert decode(stored, dtypes.bfloat16).tolist() == [2**30]
    one_rounding = oracle.BFLOAT16.nearest(Fraction(exact), negative=False)
    assert oracle.BFLOAT16.value(one_rounding) == 2**30 + 2**23


def test_bool_is_one_for_anything_but_zero():
    stored = encode(float32s(SPECIAL), dtypes.bool_)
    assert stored.tolist() == [int(b & ~SIGN != 0) for b in SPECIAL]
    assert stored.dtype == np.uint8
    assert decode(stored, dtypes.bool_).tolist() == stored.tolist()


@pytest.mark.parametrize("name", ["float32", "tfloat32"])
def test_a_32_bit_float_decodes_to_the_array_itself(name):
    stored = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert decode(stored, DTYPES[name]) is stored


def test_float32_encodes_to_the_array_itself():
    values = float32s(SPECIAL)
    assert encode(values, dtypes.float32) is values


@pytest.mark.parametrize("name", PACKED)
def test_packs_have_no_value_without_a_scale(name):
    dtype = DTYPES[name]
    with pytest.raises(TypeError, match=name):
        decode(np.zeros(4, dtype.numpy), dtype)
    with pytest.raises(TypeError, match=name):
        encode(np.zeros(4, np.float32), dtype)


# Views of one 64 x 64 array: nothing, no axes, one element, and every kind of stride.
VIEWS = {
    "empty": lambda a: a[:0],
    "empty columns": lambda a: a[:, :0],
    "scalar": lambda a: a[3, 5, ...],
    "one": lambda a: a[3:4, 5:6],
    "row": lambda a: a[7],
    "column": lambda a: a[:, 7],
    "odd": lambda a: a[1::2, ::3],
    "backwards": lambda a: a[::-1, ::-1],
    "transposed": lambda a: a.T,
    "three axes": lambda a: a.reshape(8, 8, 64)[:, 2:5, ::2].swapaxes(0, 2),
    "broadcast": lambda a: np.broadcast_to(a[5], (3, 64)),
    "fortran": np.asfortranarray,
}


@each_case("view", VIEWS)
@each_case("name", UNPACKED)
def test_views_convert_like_their_elements(name, view):
    dtype = DTYPES[name]
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2**32, (64, 64), dtype=np.uint32).view(np.float32)
    stored = encode(values, dtype)
    part_values, part_stored = VIEWS[view](values), VIEWS[view](stored)
    encoded, decoded = encode(part_values, dtype), decode(part_stored, dtype)
    assert isinstance(encoded, np.ndarray)
    assert isinstance(decoded, np.ndarray)
    assert encoded.dtype == dtype.numpy
    assert decoded.dtype == np.float32
    assert encoded.shape == decoded.shape == part_values.shape
    assert encoded.tobytes() == part_stored.tobytes()
    assert decoded.tobytes() == VIEWS[view](decode(stored, dtype)).tobytes()


@each_case("name", UNPACKED)
def test_read_only_inputs_are_accepted_and_left_alone(name):
    dtype = DTYPES[name]
    values = float32s(SPECIAL * 1000)
    kept = values.tobytes()
    values.flags.writeable = False
    stored = encode(values, dtype).copy()
    kept_stored = stored.tobytes()
    stored.flags.writeable = False
    decode(stored, dtype)
    assert values.tobytes() == kept
    assert stored.tobytes() == kept_stored
