"""Compiled passes over rows: the bits of NumPy's way over float32, for every class of number."""

import sys

import ml_dtypes
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nkisim.dtypes import (
    BFLOAT16_OPERATIONS,
    bfloat16,
    combine_rows,
    compiled_operations,
    encode,
    exponential_rows,
    float8_e4m3,
    float8_e4m3fn,
    float8_e5m2,
    row_deviations,
    row_extremes,
    row_sums,
    rows,
    transpose_rows,
)
from nkisim.dtypes.rows import compiled_exponential

BF16 = ml_dtypes.bfloat16
F32 = np.float32
WIDTHS = [*range(1, 41), 2047, 2048, 2049]
SPECIAL = [0, 1, 0x007F_FFFF, 0x3F80_0000, 0x7F7F_FFFF, 0x7F80_0000, 0x7F80_0001, 0x7FC1_2345]
pytestmark = pytest.mark.usefixtures("as_in_a_run")


@pytest.fixture
def as_in_a_run(monkeypatch):
    """numba loaded, every tile large enough, NumPy's floating-point warnings off."""
    monkeypatch.setitem(sys.modules, "numba", numba)
    monkeypatch.setattr("nkisim.dtypes.convert.NUMBA_ELEMENTS", 1)
    with np.errstate(all="ignore"):
        yield


def patterns(rng, shape):
    """Float32 of random patterns; half of them subnormal, special or close to each other."""
    bits = rng.integers(0, 1 << 32, shape, dtype=np.uint32)
    special = np.array(SPECIAL, np.uint32)
    chosen = rng.choice(np.concatenate([special, special | np.uint32(1 << 31)]), shape)
    return np.where(rng.random(shape) < 0.5, bits, chosen).view(F32)


def apart(values):
    """The same values in rows that have other elements between them."""
    wide = np.zeros((len(values), values.shape[1] + 5), values.dtype)
    wide[:, 2:-3] = values
    return wide[:, 2:-3]


def as_numpy(out_type, x, steps):
    """The definition: widen, compute each step in float32, round once; and where that is free.

    Which of two NaNs a sum, difference or product becomes depends in NumPy on the position.
    """
    value, free = x.astype(F32), np.zeros(x.shape, bool)
    for name, operand, exchanged in steps:
        other = operand.astype(F32)
        free |= np.isnan(value) & np.isnan(other)
        value = getattr(np, name)(other, value) if exchanged else getattr(np, name)(value, other)
    return value.astype(out_type), free


def same_bits(a, b):
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


def assert_as_numpy(out, x, steps):
    want, free = as_numpy(out.dtype, x, steps)
    assert same_bits(out[~free], want[~free])
    assert np.isnan(out[free].astype(F32)).all()


def test_every_operation_is_compiled_here():
    assert compiled_operations() == set(BFLOAT16_OPERATIONS)


@pytest.mark.parametrize("name", BFLOAT16_OPERATIONS)
@pytest.mark.parametrize("shift", [0, 1, 64, 127, 4099, 32640, 32704, 32768])
@pytest.mark.parametrize("exchanged", [False, True])
def test_every_bfloat16_pattern_meets_another(name, shift, exchanged):
    every = np.arange(65536, dtype=np.uint16).view(BF16).reshape(16, -1)
    other = np.roll(every.reshape(-1), shift).reshape(every.shape)
    out = np.empty_like(every)
    combine_rows(out, every, [(name, other, exchanged)])
    assert_as_numpy(out, every, [(name, other, exchanged)])


def test_every_bfloat16_pattern_is_widened_and_comes_back_quiet():
    every = np.arange(65536, dtype=np.uint16).view(BF16).reshape(16, -1)
    wide = np.empty(every.shape, F32)
    combine_rows(wide, every)
    assert same_bits(wide, every.astype(F32))
    back = np.empty_like(every)
    combine_rows(back, wide)
    assert same_bits(back, wide.astype(BF16))


def test_every_upper_half_is_rounded_around_its_ties():
    upper = np.arange(65536, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    values = (upper | lower[:, None]).view(F32)
    out = np.empty(values.shape, BF16)
    combine_rows(out, values)
    assert same_bits(out, values.astype(BF16))
    assert same_bits(encode(values, bfloat16), out)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("out_type", [F32, BF16])
def test_mixtures_of_types_operands_and_orders(width, out_type):
    rng = np.random.default_rng(width)
    kinds = {
        "tile": lambda: apart(patterns(rng, (5, width))),
        "narrow tile": lambda: apart(patterns(rng, (5, width)).astype(BF16)),
        "column": lambda: apart(patterns(rng, (5, 1))),
        "number": lambda: patterns(rng, (1,))[0],
    }
    for _ in range(12):
        x = patterns(rng, (5, width)).astype(rng.choice([F32, BF16]))
        steps = [
            (str(rng.choice(BFLOAT16_OPERATIONS)), kinds[kind](), bool(rng.integers(2)))
            for kind in rng.choice(list(kinds), rng.integers(1, 3))
        ]
        out = apart(np.empty((5, width), out_type))
        around = out.base.copy()
        combine_rows(out, apart(x), steps)
        assert_as_numpy(out, x, steps)
        around[:, 2:-3] = out
        assert same_bits(out.base, around)


@pytest.mark.parametrize("loaded", [numba, None])
@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("position", range(3))
def test_the_result_may_be_an_operand(dtype, position, loaded, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", loaded)
    rng = np.random.default_rng(position)
    tiles = [rng.standard_normal((40, 2049)).astype(dtype) for _ in range(3)]
    x, a, b = tiles
    steps = [("subtract", a, False), ("multiply", b, True)]
    want, _ = as_numpy(dtype, x, steps)
    combine_rows(tiles[position], x, steps)
    assert same_bits(tiles[position], want)


def test_without_numba_the_bits_are_the_same(monkeypatch):
    rng = np.random.default_rng(7)
    for x_type, out_type in [(F32, F32), (F32, BF16), (BF16, F32), (BF16, BF16)]:
        x = patterns(rng, (70, 1031)).astype(x_type)
        numbers = rng.standard_normal((70, 1)).astype(F32)
        steps = [("multiply", numbers, False), ("add", F32(0.5), True)]
        out, other = np.empty((2, *x.shape), out_type)
        combine_rows(out, x, steps)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "numba", None)
            combine_rows(other, x, steps)
        assert same_bits(out, other)


def test_a_numba_that_computes_otherwise_is_not_used(monkeypatch):
    def wrong(*arguments):
        raise AssertionError("not to be called")

    monkeypatch.setattr(rows, "compiled_operations", lambda: frozenset(["add"]))
    monkeypatch.setattr(rows, "_combine_compiled", wrong)
    x, out = np.full((32, 64), 3, F32), np.empty((32, 64), F32)
    combine_rows(out, x, [("multiply", F32(2), False)])
    np.testing.assert_array_equal(out, 6)
    with pytest.raises(AssertionError, match="not to be called"):
        combine_rows(out, x, [("add", F32(2), False)])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("largest", [False, True])
def test_extremes_of_every_class_of_number(width, largest):
    rng = np.random.default_rng(width)
    reduce = np.maximum.reduce if largest else np.minimum.reduce
    anything = patterns(rng, (60, width))
    numbers = np.where(np.isnan(anything), F32(1), anything)
    zeros = np.where(rng.random((60, width)) < 0.5, F32(0), F32(-0.0))
    for values in (anything, numbers, zeros, np.abs(numbers), -np.abs(numbers)):
        for dtype in (F32, BF16):
            x = apart(values.astype(dtype))
            found = row_extremes(x, largest=largest)
            assert same_bits(found, reduce(x.astype(F32), axis=-1).reshape(-1, 1))


@settings(deadline=None, max_examples=60)
@given(arrays(np.uint16, st.tuples(st.just(8), st.integers(1, 200))), st.booleans())
def test_extremes_of_any_patterns(bits, largest):
    x = bits.view(BF16)
    reduce = np.maximum.reduce if largest else np.minimum.reduce
    with np.errstate(all="ignore"):
        found = row_extremes(x, largest=largest)
        assert same_bits(found, reduce(x.astype(F32), axis=-1).reshape(-1, 1))


@pytest.mark.parametrize("width", [*WIDTHS, 120, 128, 136, 248, 256, 264, 1000, 4096, 5000, 32768])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_sums_are_added_in_the_order_of_numpy(width, dtype):
    rng = np.random.default_rng(width)
    # Over 12 decades nearly every order gives bits of its own.
    values = rng.standard_normal((40, width)) * 10.0 ** rng.integers(-6, 6, (40, width))
    values[0], values[1, 0], values[2] = -0.0, np.inf, patterns(rng, (width,))
    x = apart(values.astype(dtype))
    assert same_bits(row_sums(x), np.add.reduce(x.astype(F32), axis=-1))


@pytest.mark.parametrize("width", range(16, 513, 16))
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_deviations_are_those_of_numpy(width, dtype):
    rng = np.random.default_rng(width)
    values = rng.standard_normal((30, width)) * 10.0 ** rng.integers(-3, 3, (30, width))
    values[0] = -0.0
    x = apart(values.astype(dtype))
    found = row_deviations(x)
    if width > 256 and width % 32:
        assert found is None
        return
    for parity in range(2):
        part = x[:, parity::2].astype(np.float64)
        mean = part.mean(axis=1)
        assert same_bits(found[:, 2 * parity].copy(), mean)
        spread = np.square(part - mean[:, None]).sum(axis=1)
        assert same_bits(found[:, 2 * parity + 1].copy(), spread)


def test_deviations_that_are_not_finite_or_of_odd_widths_are_left_to_numpy():
    x = np.ones((4, 64), F32)
    assert row_deviations(x[:, :63]) is None
    x[2, 5] = np.nan
    assert row_deviations(x) is None
    assert row_deviations(np.ones((4, 1024), F32)) is None


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (16, 16), (17, 33), (40, 7), (128, 127)])
def test_transposes_of_every_size_keep_every_bit(bits, shape):
    rng = np.random.default_rng(bits)
    x = apart(rng.integers(0, 1 << bits, shape, dtype=np.dtype(f"uint{bits}")))
    out = apart(np.zeros(shape[::-1], x.dtype))
    around = out.base.copy()
    transpose_rows(out, x)
    np.testing.assert_array_equal(out, x.T)
    around[:, 2:-3] = x.T
    np.testing.assert_array_equal(out.base, around)


@pytest.mark.parametrize("dtype", [float8_e4m3, float8_e4m3fn, float8_e5m2], ids=str)
def test_float8_is_rounded_as_without_numba(dtype, monkeypatch):
    rng = np.random.default_rng(3)
    upper = np.arange(65536, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    values = (upper | lower[:, None]).view(F32)
    for x in (values, apart(patterns(rng, (33, 77))), values.T):
        compiled = encode(x, dtype)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "numba", None)
            assert same_bits(compiled, encode(x, dtype))


# exponentials


@pytest.fixture
def exponential():
    if not compiled_exponential():
        pytest.skip("NumPy computes exp in another way on this processor")


def assert_exponentials(x, out_type, scale=1, bias=0):
    out, sums = apart(np.zeros(x.shape, out_type)), np.zeros(len(x), F32)
    assert exponential_rows(out, apart(x), scale, bias, sums)
    want = np.exp(x.astype(F32) * F32(scale) + F32(bias))
    assert sums.tobytes() == np.add.reduce(want, axis=1).tobytes()
    assert out.tobytes() == (want if out_type is F32 else encode(want, bfloat16)).tobytes()


@pytest.mark.usefixtures("exponential")
@pytest.mark.parametrize("width", [16, 48, 64, 80, 128, 144, 272, 2000, 2048])
@pytest.mark.parametrize("types", [(F32, F32), (F32, BF16), (BF16, F32), (BF16, BF16)])
def test_exponentials_and_their_sums_have_the_bits_of_numpy(width, types):
    rng = np.random.default_rng(width)
    x = (20 * rng.standard_normal((9, width))).astype(types[0])
    column = rng.standard_normal((9, 3), F32)[:, 1:2]  # whose rows are apart
    assert_exponentials(x, types[1])
    assert_exponentials(x, types[1], F32(0.125), column)
    assert_exponentials(x, types[1], column, F32(-3))


@pytest.mark.usefixtures("exponential")
def test_exponentials_of_every_class_of_number_have_the_bits_of_numpy():
    x = patterns(np.random.default_rng(5), (64, 256))
    for out_type in (F32, BF16):
        assert_exponentials(x, out_type)
    # Around where it becomes 0, subnormal, or infinite.
    for edge in (-104, -87.3, 88.7, 0):
        assert_exponentials(np.linspace(edge - 1, edge + 1, 4096, dtype=F32).reshape(2, -1), F32)


@pytest.mark.usefixtures("exponential")
def test_exponentials_in_place():
    x = np.random.default_rng(6).standard_normal((5, 80), F32)
    want = np.exp(2 * x)
    assert exponential_rows(x, x, 2)
    assert x.tobytes() == want.tobytes()


def test_exponentials_of_other_widths_are_not_touched():
    x = np.zeros((4, 24), F32)
    assert not exponential_rows(x, x)
    assert not x.any()


@pytest.mark.slow
@pytest.mark.usefixtures("exponential")
@pytest.mark.parametrize("part", range(8))
def test_exponentials_of_many_patterns_have_the_bits_of_numpy(part):
    bits = np.arange(part << 29, (part + 1) << 29, 61, dtype=np.uint64).astype(np.uint32)
    x = bits[: bits.size // 2048 * 2048].view(F32).reshape(-1, 2048)
    out = np.empty_like(x)
    assert exponential_rows(out, x)
    assert out.tobytes() == np.exp(x).tobytes()
